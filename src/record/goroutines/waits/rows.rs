//! What Go programs have counted of waits → rows of the profile, of two events of their own.

use super::tables::{GoWaitEvents, GoWaitStep, WaitSide};
use crate::bpf::{FRAME_RETURN, SampleEvent};
use crate::profile::{
    EventInfo, EventKind, FUTEX_LABEL, GOROUTINE_LOCK, Merged, Outcome, Reason, Sample, Wait,
};
use crate::record::collect::collector::Collector;
use rustc_hash::FxHashSet;

impl Collector {
    /// The events of both sides, which a recording has once a program has counted something.
    fn go_wait_events(&mut self) -> GoWaitEvents {
        if let Some(events) = self.go_wait_events {
            return events;
        }
        let mut add = |kind| {
            let sampling = "by Go's runtime".to_owned();
            self.profile.add_event(EventInfo { kind, sampling, ..EventInfo::default() })
        };
        let (waits, holders) = (add(EventKind::GOROUTINE_WAITS), add(EventKind::GOROUTINE_HOLDERS));
        *self.go_wait_events.insert(GoWaitEvents { waits, holders })
    }

    /// Stores what Go programs among the processes `roots` have counted of waits by now; unless `is_last`, only where that was not
    /// read a moment ago.
    pub(crate) fn look_at_go_waits(&mut self, now_ns: u64, is_last: bool, roots: &FxHashSet<u32>) {
        let look = (now_ns, is_last);
        for step in self.go_waits.look(look, roots, &mut self.goroutines, (&self.processes, &self.files)) {
            self.store_go_wait(&step);
        }
    }

    fn store_go_wait(&mut self, step: &GoWaitStep) {
        let events = self.go_wait_events();
        let until_ns = step.since_ns + step.span_ns;
        let Some(task) = self.goroutines_of(step.pid, until_ns) else { return };
        let sample = SampleEvent {
            user: step.stack.iter().map(|address| address | FRAME_RETURN).collect(),
            ..SampleEvent::of_process(step.pid, until_ns)
        };
        let mut path = Vec::new();
        let trusted = self.user_stack(&sample).resolve(Outcome::Complete, &mut path);
        path.reverse();
        let stack = self.profile.tables.intern_stack_of(path);
        let labels = self.profile.tables.intern_labels(&[(FUTEX_LABEL, GOROUTINE_LOCK)]);
        let weight = step.time_ns as u64;
        let (event, wait) = match step.side {
            WaitSide::Waiter => {
                let duration_ns = (step.time_ns / step.count) as u64;
                (events.waits, Some(Wait { duration_ns, reason: Reason::Lock, ..Wait::default() }))
            }
            WaitSide::Holder => (events.holders, None),
        };
        let samples = (step.count.round() as u64).max(1);
        self.totals.add_many(event, samples, weight);
        self.profile.events[event.index()].push(Sample {
            time_ns: step.since_ns.saturating_sub(self.start_ns),
            task,
            stack,
            weight,
            cpu: 0,
            outcome: trusted.outcome,
            wait,
            merged: Some(Merged {
                samples,
                count_thousandths: (step.count * 1000.0) as u64,
                variance_us2: (step.variance_ns2 / 1e6) as u64,
                span_ns: step.span_ns,
            }),
            block: None,
            labels: Some(labels),
        });
    }
}
