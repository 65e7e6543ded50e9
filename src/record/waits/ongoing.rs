//! Waits that are not over, of a recording that is watched: what is known of them, and rows of the profile as if they ended
//! with the last look at them. The recording itself gets each wait when it ends.

use super::living::Living;
use crate::bpf::{OpenWait, SampleEvent, ThreadTimeEvent, WaitEvent, WatchedThreadEvent};
use crate::profile::{Outcome, Reason, Sample, StackId, Wait, Waker};
use crate::record::collect::collector::Collector;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Most waits that are kept; the kernel side sends the stack of one only once.
const MOST: usize = 1 << 16;

/// What the stack of a thread that waits says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStack {
    pub stack: Option<StackId>,
    pub outcome: Outcome,
    pub reason: Reason,
}

/// What is known of a wait from its first look on.
#[derive(Debug)]
struct Known {
    what: OpenStack,
    cpu: u16,
}

/// A wait that the last look has found.
#[derive(Debug)]
struct Found {
    tgid: u32,
    comm: Vec<u8>,
    wait: OpenWait,
    /// When it was looked at, CLOCK_MONOTONIC, ns.
    looked_ns: u64,
}

/// All waits that are not over.
#[derive(Debug, Default)]
pub(crate) struct OpenWaits {
    /// By thread and start. Those of the last look, and those whose record has come late.
    known: FxHashMap<(u32, u64), Known>,
    /// Those of the last look, by thread and start.
    found: BTreeMap<(u32, u64), Found>,
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

    fn look(&mut self, found: BTreeMap<(u32, u64), Found>) {
        self.known.retain(|key, _| found.contains_key(key));
        self.found = found;
    }
}

impl Collector {
    /// A look at the threads that live has found these.
    pub(crate) fn threads_are_watched(&mut self, threads: Vec<WatchedThreadEvent>) {
        let mut found = BTreeMap::new();
        let mut living = Vec::with_capacity(threads.len());
        for WatchedThreadEvent { time, open, doing } in threads {
            living.push(Living { time: self.thread_time(&time), doing });
            let ThreadTimeEvent { tgid, tid, to_ns: looked_ns, comm, .. } = time;
            found.extend(open.map(|wait| ((tid, wait.start_ns), Found { tgid, comm, wait, looked_ns })));
        }
        if let Some(waits) = self.waits.as_mut() {
            waits.living = Some(living);
            waits.open.look(found);
        }
    }

    /// The threads that the last look has found, unless they were taken.
    pub(crate) fn take_living(&mut self) -> Option<Vec<Living>> {
        self.waits.as_mut()?.living.take()
    }

    /// The waits that are not over, as if they ended when they were last looked at.
    pub(crate) fn open_waits(&mut self) -> Vec<Sample> {
        let Some(waits) = self.waits.as_mut() else { return Vec::new() };
        let open = std::mem::take(&mut waits.open);
        let mut samples = Vec::new();
        for (key, found) in &open.found {
            let Found { tgid, ref comm, wait, looked_ns } = *found;
            let tid = key.0;
            // Its stack is on its way, or waits for room.
            let to_come =
                OpenStack { stack: None, outcome: Outcome::Unset, reason: Reason::from_code(wait.reason) };
            let known = open.known.get(key);
            let (what, cpu) = known.map_or((to_come, 0), |known| (known.what, known.cpu));
            let task = self.task_at(looked_ns, tgid, tid, comm);
            let looked_ns = looked_ns.max(wait.start_ns);
            let wake_ns = wait.wake_ns.unwrap_or(looked_ns).clamp(wait.start_ns, looked_ns);
            let mut push = |from_ns: u64, to_ns: u64, reason| {
                let duration_ns = to_ns - from_ns;
                if duration_ns > 0 {
                    samples.push(Sample {
                        time_ns: from_ns.saturating_sub(self.start_ns),
                        task,
                        stack: what.stack,
                        weight: duration_ns.saturating_mul(wait.factor.into()),
                        cpu,
                        outcome: what.outcome,
                        wait: Some(Wait { duration_ns, reason, waker: Waker::default() }),
                        merged: None,
                    });
                }
            };
            push(wait.start_ns, wake_ns, what.reason);
            push(wake_ns, looked_ns, Reason::NoCpu);
        }
        if let Some(waits) = self.waits.as_mut() {
            waits.open = open;
        }
        samples
    }
}
