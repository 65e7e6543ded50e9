//! What is known of waits that are not over.

use crate::bpf::{OpenWait, SampleEvent, WaitEvent};
use crate::profile::{Outcome, Reason, StackId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Most waits that are kept; the kernel side sends the stack of one only once.
const MOST: usize = 1 << 16;

/// What the stack of a thread that waits says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStack {
    pub(crate) stack: Option<StackId>,
    pub(crate) outcome: Outcome,
    pub(crate) reason: Reason,
}

/// What is known of a wait from its first look on.
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
    /// When it was looked at, CLOCK_MONOTONIC, ns.
    pub(super) looked_ns: u64,
}

/// All waits that are not over.
#[derive(Debug, Default)]
pub(crate) struct OpenWaits {
    /// By thread and start. Those of the last look, and those whose record has come late.
    pub(super) known: FxHashMap<(u32, u64), Known>,
    /// Those of the last look, by thread and start.
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

    /// Their stacks.
    pub(crate) fn stacks(&mut self) -> impl Iterator<Item = &mut Option<StackId>> {
        self.known.values_mut().map(|known| &mut known.what.stack)
    }

    pub(super) fn look(&mut self, found: BTreeMap<(u32, u64), Found>) {
        self.known.retain(|key, _| found.contains_key(key));
        self.found = found;
    }
}
