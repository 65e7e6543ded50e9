//! Waits that are not over, of a recording that is watched: what is known of them, and rows of the profile as if they ended
//! with the last look at them. The recording itself gets each wait when it ends.

use super::living::{Living, NewWait, WaitEnd};
use super::open::{Found, OpenStack};
use super::state::Waits;
use crate::bpf::{SampleEvent, ThreadTimeEvent, WaitKind, WatchedThreadEvent};
use crate::profile::{Outcome, Reason, Sample, Wait, Waker};
use crate::record::collect::row_writer::RowWriter;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

impl Waits {
    /// A look at the threads that live has found these.
    pub(crate) fn look(&mut self, threads: Vec<WatchedThreadEvent>, rows: &mut RowWriter<'_>) {
        let end_ns = threads.iter().map(|thread| thread.time.to_ns).max().unwrap_or(0);
        self.cuts.look(threads.iter().map(|thread| thread.time.clone()));
        let mut found = BTreeMap::new();
        let mut living = Vec::with_capacity(threads.len());
        for WatchedThreadEvent { time, open, doing } in threads {
            let since_start = |time_ns: u64| time_ns.saturating_sub(rows.start_ns);
            let new_wait = open.filter(|wait| wait.is_new).map(|wait| NewWait {
                start_ns: since_start(wait.start_ns),
                wake_ns: wait.wake_ns.map(since_start),
            });
            living.push(Living { time: rows.thread_time(&time), doing, new_wait });
            let ThreadTimeEvent { tgid, tid, to_ns: looked_ns, comm, .. } = time;
            // The accounts of threads that do not run go on until the end of the look: so do their waits.
            let found_now = |wait| Found { tgid, comm, wait, looked_ns, until_ns: end_ns, is_over: false };
            let old = open.filter(|wait| !wait.is_new);
            found.extend(old.map(|wait| ((tid, wait.start_ns), found_now(wait))));
        }
        self.living = Some(living);
        self.open.look(found);
    }

    /// The threads that the last look has found, unless they were taken.
    pub(crate) fn take_living(&mut self) -> Option<Vec<Living>> {
        self.living.take()
    }

    /// A record has come, and may have to wait for others: what it says of its thread's account is known now. Times of the
    /// profile begin at `start_ns`.
    pub(crate) fn note_end(&mut self, sample: &SampleEvent, start_ns: u64) {
        let Some(wait) = &sample.wait else {
            self.open.ran(sample.tid, sample.time_ns);
            return;
        };
        if wait.kind != WaitKind::Ended {
            return;
        }
        self.open.end(sample.tid, wait);
        let end_ns = wait.end_ns.saturating_sub(start_ns);
        let last = self.ends.entry(sample.tid).or_insert(WaitEnd { end_ns, account: wait.account });
        if last.end_ns <= end_ns {
            *last = WaitEnd { end_ns, account: wait.account };
        }
    }

    /// The last end of a wait of each thread, by thread id, since this was asked for.
    pub(crate) fn take_ends(&mut self) -> FxHashMap<u32, WaitEnd> {
        std::mem::take(&mut self.ends)
    }

    /// The waits that are not over, as if they ended when they were last looked at.
    pub(crate) fn open_rows(&self, rows: &mut RowWriter<'_>) -> Vec<Sample> {
        let mut samples = Vec::new();
        for (key, found) in &self.open.found {
            let Found { tgid, ref comm, wait, until_ns, .. } = *found;
            // Its stack is on its way, or waits for room.
            let to_come = OpenStack {
                stack: None,
                outcome: Outcome::Unset,
                reason: Reason::from_code(wait.reason),
                labels: None,
            };
            let known = self.open.known.get(key);
            let (what, cpu) = known.map_or((to_come, 0), |known| (known.what, known.cpu));
            let task = rows.task(until_ns, (tgid, key.0), comm);
            let start_ns = self.cuts.start_of(key.0, wait.start_ns);
            let until_ns = until_ns.max(start_ns);
            let wake_ns = wait.wake_ns.unwrap_or(until_ns).clamp(start_ns, until_ns);
            let mut push = |from_ns: u64, to_ns: u64, reason| {
                let duration_ns = to_ns - from_ns;
                if duration_ns > 0 {
                    samples.push(Sample {
                        time_ns: from_ns.saturating_sub(rows.start_ns),
                        task,
                        stack: what.stack,
                        weight: duration_ns.saturating_mul(wait.factor.into()),
                        cpu,
                        outcome: what.outcome,
                        wait: Some(Wait { duration_ns, reason, waker: Waker::default() }),
                        merged: None,
                        block: None,
                        labels: what.labels,
                    });
                }
            };
            push(start_ns, wake_ns, what.reason);
            push(wake_ns, until_ns, Reason::NoCpu);
        }
        samples
    }

    /// A window ends with the last look: it has the part of each wait that is not over, and of the time of each thread.
    pub(crate) fn end_window(&mut self, rows: &mut RowWriter<'_>) {
        for sample in self.open_rows(rows) {
            rows.totals.add(self.event, sample.weight);
            if let Some(stack) = sample.stack {
                *rows.totals.wait_stacks.entry(stack).or_default() += 1;
            }
            rows.profile.events[self.event.index()].push(sample);
        }
        // Those who watch take them.
        self.ends.clear();
        self.cuts.waits = (self.open.found.iter()).map(|(key, found)| (*key, found.until_ns)).collect();
        if !self.futexes_only {
            for time in self.cuts.cut_threads() {
                let time = rows.thread_time(&time);
                rows.profile.thread_times.push(time);
            }
        }
    }
}
