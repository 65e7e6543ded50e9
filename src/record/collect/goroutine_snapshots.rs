//! Goroutines that snapshots have found → rows of the profile, of an event of their own.

use super::collector::Collector;
use super::goroutine_rows::GoroutineRows;
use crate::bpf::{FRAME_RETURN, SampleEvent};
use crate::profile::{
    EventInfo, EventKind, Merged, Outcome, STATE_LABEL, Sample, StackId, Task, TaskId, counter,
};
use crate::record::goroutines::{FoundGoroutines, SNAPSHOT_HZ, TakenSnapshot, label_set};
use crate::runtimes::go::GoStackEnd;

/// Name of the goroutines of a process where threads have theirs.
const GOROUTINES: &str = "goroutines";

impl Collector {
    /// Goroutines are recorded, by snapshots.
    pub(crate) fn add_goroutines(&mut self) {
        let event = self.profile.add_event(EventInfo {
            kind: EventKind::GOROUTINES,
            sampling: format!("snapshots at {SNAPSHOT_HZ} Hz"),
            ..EventInfo::default()
        });
        self.goroutine_rows = Some(GoroutineRows::new(event));
    }

    /// Stores the snapshots that were taken meanwhile.
    pub(crate) fn take_snapshots(&mut self) {
        let Some(mut rows) = self.goroutine_rows.take() else { return };
        for snapshot in self.goroutines.take_snapshots() {
            self.store_snapshot(&snapshot, &mut rows);
        }
        self.goroutine_rows = Some(rows);
    }

    fn store_snapshot(&mut self, snapshot: &TakenSnapshot, rows: &mut GoroutineRows) {
        for (name, number) in [
            (counter::GOROUTINE_SNAPSHOTS, 1),
            (counter::GOROUTINE_SNAPSHOTS_MISSED, snapshot.missed + snapshot.lost),
            (counter::GOROUTINE_SNAPSHOTS_CPU_NS, snapshot.cpu_ns),
            (counter::GOROUTINES_READ, snapshot.read),
            (counter::GOROUTINES_SKIPPED, snapshot.skipped),
            (counter::GOROUTINES_CHANGED, snapshot.changed),
            (counter::GOROUTINES_UNREADABLE, snapshot.unreadable),
            (counter::GOROUTINE_LABELS_UNREAD, snapshot.unlabelled),
        ] {
            self.profile.count(name, number);
        }
        let Some(task) = self.goroutines_of(snapshot.pid, snapshot.time_ns) else { return };
        for found in &snapshot.rows {
            self.store_found(found, snapshot, task, rows);
        }
        rows.begun.insert(task);
    }

    /// What stands for all goroutines of a process where threads are told apart.
    pub(crate) fn goroutines_of(&mut self, pid: u32, time_ns: u64) -> Option<TaskId> {
        let comm = self.processes.at_mut(pid, time_ns)?.comm.clone();
        let tables = &mut self.profile.tables;
        let (comm, process) = (tables.intern_string(GOROUTINES), tables.intern_string(&comm));
        Some(tables.intern_task(Task { pid, tid: 0, generation: 0, comm, process }))
    }

    fn store_found(
        &mut self,
        found: &FoundGoroutines,
        snapshot: &TakenSnapshot,
        task: TaskId,
        rows: &mut GoroutineRows,
    ) {
        let (stack, outcome) = self.stack_of(found, snapshot);
        let labels = label_set(&mut self.profile, (STATE_LABEL, &found.state), &found.labels);
        let slots = (snapshot.slot, snapshot.slot + snapshot.missed + 1);
        let variance = rows.variance((task, stack, labels), found.count, slots);
        let weight_us = snapshot.weight_ns as f64 / 1000.0;
        let thinning = snapshot.weight_ns as f64 / snapshot.span_ns.max(1) as f64;
        let weight = found.count.saturating_mul(snapshot.weight_ns);
        self.totals.add(rows.event, weight);
        self.profile.events[rows.event.index()].push(Sample {
            time_ns: snapshot.start_ns.saturating_sub(self.start_ns),
            task,
            stack,
            weight,
            cpu: 0,
            outcome,
            wait: None,
            merged: Some(Merged {
                samples: found.count,
                count_thousandths: (found.count as f64 * thinning * 1000.0) as u64,
                variance_us2: (variance * weight_us * weight_us) as u64,
                span_ns: snapshot.span_ns,
            }),
            block: None,
            labels,
        });
    }

    /// The stack of goroutines that were found, with their state in front of the leaf, and the outcome of its walk.
    fn stack_of(&mut self, found: &FoundGoroutines, snapshot: &TakenSnapshot) -> (Option<StackId>, Outcome) {
        let outcome = match found.end {
            GoStackEnd::Complete | GoStackEnd::Running => Outcome::Complete,
            GoStackEnd::Limit => Outcome::TooDeep,
            GoStackEnd::Broken => Outcome::StackUnreadable,
        };
        let mark = |(index, address): (usize, &u64)| {
            if index > 0 || found.is_in_call { address | FRAME_RETURN } else { *address }
        };
        let sample = SampleEvent {
            user: found.addresses.iter().enumerate().map(mark).collect(),
            ..SampleEvent::of_process(snapshot.pid, snapshot.time_ns)
        };
        let state = self.profile.marker_frame(&format!("[{}]", found.state));
        let mut path = vec![state];
        let trusted = self.user_stack(&sample).resolve(outcome, &mut path);
        path.reverse();
        (self.profile.tables.intern_stack_of(path), trusted.outcome)
    }
}
