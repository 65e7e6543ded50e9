//! Waits that are not over, of a recording that is watched: what is known of them, and rows of the profile as if they ended
//! with the last look at them. The recording itself gets each wait when it ends.

use super::living::{Living, WaitEnd};
use super::open::{Found, OpenStack};
use crate::bpf::{SampleEvent, ThreadTimeEvent, WaitKind, WatchedThreadEvent};
use crate::profile::{Outcome, Reason, Sample, Wait, Waker};
use crate::record::collect::collector::Collector;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

impl Collector {
    /// A look at the threads that live has found these.
    pub(crate) fn threads_are_watched(&mut self, threads: Vec<WatchedThreadEvent>) {
        let end_ns = threads.iter().map(|thread| thread.time.to_ns).max().unwrap_or(0);
        let mut found = BTreeMap::new();
        let mut living = Vec::with_capacity(threads.len());
        for WatchedThreadEvent { time, open, doing } in threads {
            living.push(Living { time: self.thread_time(&time), doing });
            let ThreadTimeEvent { tgid, tid, to_ns: looked_ns, comm, .. } = time;
            found.extend(open.map(|wait| ((tid, wait.start_ns), Found { tgid, comm, wait, looked_ns })));
        }
        // The accounts of threads that do not run go on until the end of the look: so do their waits.
        found.values_mut().for_each(|found: &mut Found| found.looked_ns = end_ns);
        if let Some(waits) = self.waits.as_mut() {
            waits.living = Some(living);
            waits.open.look(found);
        }
    }

    /// The threads that the last look has found, unless they were taken.
    pub(crate) fn take_living(&mut self) -> Option<Vec<Living>> {
        self.waits.as_mut()?.living.take()
    }

    /// A record has come, and may have to wait for others: what it says of its thread's account is known now.
    pub(crate) fn note_end(&mut self, sample: &SampleEvent) {
        let Some(wait) = sample.wait.as_ref().filter(|wait| wait.kind == WaitKind::Ended) else { return };
        let end_ns = wait.end_ns.saturating_sub(self.start_ns);
        let Some(waits) = self.waits.as_mut() else { return };
        let last = waits.ends.entry(sample.tid).or_insert(WaitEnd { end_ns, account: wait.account });
        if last.end_ns <= end_ns {
            *last = WaitEnd { end_ns, account: wait.account };
        }
    }

    /// The last end of a wait of each thread, by thread id, since this was asked for.
    pub(crate) fn take_ends(&mut self) -> FxHashMap<u32, WaitEnd> {
        self.waits.as_mut().map(|waits| std::mem::take(&mut waits.ends)).unwrap_or_default()
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
