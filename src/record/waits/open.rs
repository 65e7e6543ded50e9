//! What is known of waits that are not over.

use crate::bpf::{OpenWait, SampleEvent, WaitEvent};
use crate::profile::{LabelSetId, Outcome, Reason, StackId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Most waits that are kept; the kernel side sends the stack of one only once.
const MOST: usize = 1 << 16;

/// Facts that the stack of a thread that waits tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStack {
    pub(crate) stack: Option<StackId>,
    pub(crate) outcome: Outcome,
    pub(crate) reason: Reason,
    pub(crate) labels: Option<LabelSetId>,
}

/// Facts of a wait that are known from its first look on.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) what: OpenStack,
    pub(super) cpu: u16,
}

/// A wait that the last look has found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) tgid: u32,
    pub(super) comm: Vec<u8>,
    pub(super) wait: OpenWait,
    /// Time at which its thread was looked at, or its end arrived, CLOCK_MONOTONIC, ns.
    pub(super) looked_ns: u64,
    /// Until when it is known to have gone on, CLOCK_MONOTONIC, ns.
    pub(super) until_ns: u64,
    /// Whether the end is known and yet to be stored: the wait may lack the record of its waker.
    pub(super) is_over: bool,
}

/// All waits that are not over.
#[derive(Debug, Default)]
pub(crate) struct OpenWaits {
    /// Waits by thread and start: those of the last look, and those whose record has come late.
    pub(super) known: FxHashMap<(u32, u64), Known>,
    /// Waits of the last look and those that were over before it, by thread and start.
    pub(super) found: BTreeMap<(u32, u64), Found>,
}

impl OpenWaits {
    /// The record of a wait has come.
    pub(crate) fn add(&mut self, sample: &SampleEvent, wait: &WaitEvent, what: OpenStack) {
        if self.known.len() < MOST {
            let known = Known { what, cpu: sample.cpu as u16 };
            self.known.insert((sample.tid, wait.start_ns), known);
        }
    }

    /// A wait is over.
    pub(crate) fn remove(&mut self, tid: u32, start_ns: u64) {
        self.known.remove(&(tid, start_ns));
        self.found.remove(&(tid, start_ns));
    }

    /// A wait is over, and may not be stored yet: its row ends as its thread's account says from now on.
    pub(super) fn end(&mut self, tid: u32, wait: &WaitEvent) {
        if let Some(found) = self.found.get_mut(&(tid, wait.start_ns)) {
            found.wait.wake_ns = Some(wait.wake_ns);
            (found.until_ns, found.looked_ns) = (wait.end_ns, wait.end_ns);
            found.is_over = true;
        }
    }

    /// A thread ran at `time_ns`: what it waited for is over since an unknown time after the look at it.
    pub(super) fn ran(&mut self, tid: u32, time_ns: u64) {
        for (_, found) in self.found.range_mut((tid, 0)..=(tid, time_ns)) {
            if found.looked_ns < time_ns {
                found.until_ns = found.until_ns.min(found.looked_ns);
            }
        }
    }

    /// What is known of each.
    pub(crate) fn rows(&mut self) -> impl Iterator<Item = &mut OpenStack> {
        self.known.values_mut().map(|known| &mut known.what)
    }

    /// Takes the waits that the last look has found, and keeps those whose end is about to be stored: for one more look,
    /// since the end may be lost on its way.
    pub(super) fn look(&mut self, found: BTreeMap<(u32, u64), Found>) {
        let before = std::mem::replace(&mut self.found, found);
        for (key, wait) in before {
            if wait.is_over {
                self.found.entry(key).or_insert(Found { is_over: false, ..wait });
            }
        }
        self.known.retain(|key, _| self.found.contains_key(key));
    }
}
