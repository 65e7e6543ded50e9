//! Waits as the kernel side sent them → rows of the profile.

use super::kernel_facts::KernelFacts;
use super::open::OpenStack;
use super::reason;
use super::state::{EarlyStack, Late, WaitPart, Waits, WakerStack};
use crate::bpf::{SampleEvent, WaitEvent, WaitKind};
use crate::profile::{Outcome, Reason, Sample, Wait, Waker, WakerKind, counter};
use crate::record::collect::kernel_frames::KernelFrames;
use crate::record::collect::row_writer::RowWriter;

impl Waits {
    /// The kernel addresses of a sample of the sampler of waits, without those of the sampler and the scheduler.
    pub(crate) fn kernel_part(
        &mut self,
        addresses: &[u64],
        kind: WaitKind,
        kernel: &mut KernelFrames,
    ) -> Vec<u64> {
        let symbols = kernel.symbols();
        let facts = self.kernel_stacks.facts(addresses, symbols);
        let is_waker = kind == WaitKind::Waker;
        let own = if is_waker { facts.waking_own } else { facts.waiting_own };
        let scheduler = symbols.and_then(|symbols| symbols.scheduler_text()).unwrap_or(0..0);
        (addresses.iter().copied().skip(own))
            .filter(|address| is_waker || !scheduler.contains(address))
            .collect()
    }

    /// Whether a record is of a thread that woke no other thread itself: an interrupt came while it ran.
    pub(crate) fn is_interrupted_waker(&mut self, sample: &SampleEvent, kernel: &mut KernelFrames) -> bool {
        let Some(wait) = sample.wait.as_ref().filter(|wait| wait.kind == WaitKind::Waker) else {
            return false;
        };
        let facts = self.kernel_stacks.facts(&sample.kernel, kernel.symbols());
        waker_kind(&facts, wait) != WakerKind::Thread
    }

    /// Stores what a record of the ring of waits says, with what its stack says.
    pub(crate) fn store(
        &mut self,
        sample: &SampleEvent,
        wait: &WaitEvent,
        WaitPart { stack, outcome, labels }: WaitPart,
        rows: &mut RowWriter<'_>,
    ) {
        if let Some(late) = Late::of(sample) {
            self.late.remove(&late);
        }
        let facts = self.kernel_stacks.facts(&sample.kernel, rows.kernel.symbols());
        match wait.kind {
            WaitKind::Waker => {
                let kind = waker_kind(&facts, wait);
                let waker = WakerStack { stack, kind, is_timer: facts.is_timer };
                self.wakers.insert(wait.other_tid, wait.wake_ns, waker);
            }
            WaitKind::Stack => {
                let early = EarlyStack { stack, outcome, reason: facts.reason, labels };
                self.early.insert(sample.tid, wait.start_ns, early);
            }
            WaitKind::Still => {
                let reason = reason::refine(Reason::from_code(wait.reason), facts.reason);
                self.open.add(sample, wait, OpenStack { stack, outcome, reason, labels });
            }
            WaitKind::Ended | WaitKind::Open => {
                let last = EarlyStack { stack, outcome, reason: facts.reason, labels };
                self.store_ended(sample, wait, last, rows);
            }
        }
    }

    /// Stores a wait that is over. `last` is what its last record says, which has no stack if an earlier one has.
    fn store_ended(
        &mut self,
        sample: &SampleEvent,
        wait: &WaitEvent,
        last: EarlyStack,
        rows: &mut RowWriter<'_>,
    ) {
        let task = rows.task(sample.time_ns, (sample.tgid, sample.tid), &sample.comm);
        let known_waker = known_waker(wait, rows);
        self.open.remove(sample.tid, wait.start_ns);
        let early = self.early.take(sample.tid, wait.start_ns);
        if early.is_none() && last.outcome == Outcome::Unset {
            // It was sent before, and has had to make room, or was lost.
            rows.profile.count(counter::WAITS_UNMATCHED, 1);
        }
        // Which lock it was is known at the end, what a runtime says at the beginning.
        let labels = rows.profile.tables.join_labels(early.and_then(|early| early.labels), last.labels);
        let EarlyStack { stack, outcome, reason, .. } = early.unwrap_or(last);
        let (waker, is_timer) = match self.wakers.take(sample.tid, wait.wake_ns) {
            Some(WakerStack { stack, kind, is_timer }) => (Waker { stack, kind, ..known_waker }, is_timer),
            None => (known_waker, None),
        };
        let reason = reason::refine(Reason::from_code(wait.reason), reason);
        let reason = reason::by_its_end(reason, waker.kind, is_timer);
        let event = self.event;
        let start_ns = rows.start_ns;
        let cut_ns = self.cuts.take_start_of(sample.tid, wait.start_ns);
        let mut push = |from_ns: u64, to_ns: u64, weight: u64, reason, waker| {
            // Earlier windows have what was before.
            let (whole_ns, from_ns) = (to_ns.saturating_sub(from_ns), from_ns.max(cut_ns.min(to_ns)));
            let weight = part_of(weight, to_ns.saturating_sub(from_ns), whole_ns);
            if weight == 0 {
                return;
            }
            rows.totals.add(event, weight);
            if let Some(stack) = stack {
                *rows.totals.wait_stacks.entry(stack).or_default() += 1;
            }
            let duration_ns = to_ns.saturating_sub(from_ns);
            rows.profile.events[event.index()].push(Sample {
                time_ns: from_ns.saturating_sub(start_ns),
                task,
                stack,
                weight,
                cpu: sample.cpu as u16,
                outcome,
                wait: Some(Wait { duration_ns, reason, waker }),
                merged: None,
                block: None,
                labels,
            });
        };
        push(wait.start_ns, wait.wake_ns, wait.blocked_weight, reason, waker);
        if !self.futexes_only {
            push(wait.wake_ns, wait.end_ns, wait.no_cpu_weight, Reason::NoCpu, Waker::default());
        }
    }
}

/// The weight of `part_ns` of a wait of `whole_ns` that weighs `weight`.
fn part_of(weight: u64, part_ns: u64, whole_ns: u64) -> u64 {
    if part_ns >= whole_ns {
        return weight;
    }
    // Not more than the weight.
    (u128::from(weight) * u128::from(part_ns) / u128::from(whole_ns)) as u64
}

/// Who a waker is by the kernel functions that it is in. The kernel side knows some interrupts only.
fn waker_kind(facts: &KernelFacts, wait: &WaitEvent) -> WakerKind {
    facts.interrupt.unwrap_or(WakerKind::from_code(wait.waker))
}

/// Who ended a wait, as far as its last record says it.
fn known_waker(wait: &WaitEvent, rows: &mut RowWriter<'_>) -> Waker {
    match WakerKind::from_code(wait.waker) {
        WakerKind::None => Waker::default(),
        kind => {
            let task = match wait.other_tid {
                0 if rows.profile.meta.pid_namespace != 0 => rows.task_outside(&wait.other_comm),
                tid => rows.task(wait.wake_ns, (wait.other_tgid, tid), &wait.other_comm),
            };
            Waker { kind, task: Some(task), stack: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::{Account, Doing, OpenWait, REGISTERS, RescueEvent, ThreadTimeEvent, WatchedThreadEvent};
    use crate::profile::{EventKind, Meta, OUTSIDE, Profile};
    use crate::record::collect::collector::Collector;
    use crate::record::modules::ModuleFiles;
    use crate::record::waits::living::NewWait;

    fn collector() -> Collector {
        let (files, kernel) = (ModuleFiles::new(false), KernelFrames::new(false));
        let mut collector = Collector::new(Profile::new(Meta::default()), files, kernel);
        collector.add_waits(EventKind::OFF_CPU, "every wait".to_owned(), 0);
        collector
    }

    /// Record of one wait of a thread of this process, from 1000 to 3000 ns.
    fn record(kind: WaitKind, user: Vec<u64>) -> SampleEvent {
        let pid = std::process::id();
        let wait = WaitEvent {
            kind,
            other_tid: if kind == WaitKind::Waker { 7 } else { pid },
            other_tgid: pid,
            other_comm: b"waker".to_vec(),
            waker: WakerKind::Thread.code(),
            reason: Reason::Lock.code(),
            futex: None,
            start_ns: 1000,
            wake_ns: 2000,
            end_ns: 3000,
            blocked_weight: 1000,
            no_cpu_weight: 0,
            account: Account::default(),
        };
        SampleEvent {
            time_ns: 1000,
            tgid: pid,
            tid: if kind == WaitKind::Waker { pid } else { 7 },
            cpu: 0,
            event: 0,
            weight: 0,
            outcome: Outcome::Complete.code(),
            has_rescue: false,
            rescue_refused: false,
            comm: b"waiter".to_vec(),
            kernel: Vec::new(),
            user,
            left_out: 0,
            interpreter: Default::default(),
            goroutine: Default::default(),
            managed: Vec::new(),
            memory: Default::default(),
            system_call: None,
            wait: Some(Box::new(wait)),
            block: None,
        }
    }

    /// A thread of process 7 that was blocked from 1,000 ns until it was looked at.
    fn looked(tid: u32, to_ns: u64, open: Option<OpenWait>) -> WatchedThreadEvent {
        let time = ThreadTimeEvent {
            tgid: 7,
            tid,
            has_ended: false,
            from_ns: 1_000,
            to_ns,
            on_cpu_ns: 0,
            no_cpu_ns: 0,
            blocked_ns: to_ns - 1_000,
            switches: 1,
            comm: b"sleeper".to_vec(),
            short_waits: Default::default(),
        };
        WatchedThreadEvent { time, open, doing: Doing::Blocked }
    }

    /// A wait since 1,000 ns that goes on.
    fn open(reason: Reason, is_new: bool) -> OpenWait {
        OpenWait { start_ns: 1_000, wake_ns: None, factor: 1, reason: reason.code(), is_new }
    }

    fn rows(collector: &Collector) -> Vec<Sample> {
        collector.profile.events[0].samples().collect()
    }

    #[test]
    fn the_end_of_a_wait_has_the_stack_and_the_waker_that_came_before() {
        let mut collector = collector();
        collector.add(record(WaitKind::Stack, vec![0x1000, 0x2000]), None);
        collector.add(record(WaitKind::Waker, vec![0x3000]), None);
        collector.add(record(WaitKind::Ended, Vec::new()), None);
        let rows = rows(&collector);
        assert!(rows[0].stack.is_some() && rows[0].wait.unwrap().waker.stack.is_some(), "{rows:?}");
    }

    #[test]
    fn a_waker_outside_of_the_namespace_is_no_process() {
        let mut collector = collector();
        collector.profile.meta.pid_namespace = 4_026_532_211;
        collector.processes.is_system_wide = true;
        let mut waker = record(WaitKind::Waker, Vec::new());
        (waker.tgid, waker.tid) = (0, 0);
        collector.add(waker, None);
        assert!(collector.processes.get(0).is_none(), "it would be sent to the kernel side");
        let mut end = record(WaitKind::Ended, vec![0x1000]);
        let wait = end.wait.as_mut().unwrap();
        (wait.other_tgid, wait.other_tid) = (0, 0);
        collector.add(end, None);
        let task = rows(&collector)[0].wait.and_then(|wait| wait.waker.task).expect("it has a name");
        let (task, tables) = (collector.profile.tables.task(task), &collector.profile.tables);
        assert_eq!((task.pid, task.tid), (0, 0));
        assert_eq!((tables.string(task.comm), tables.string(task.process)), ("waker", OUTSIDE));
    }

    /// Of 1,000 threads that sleep, 62 s were in their accounts and in no row: the look had taken 60 ms.
    #[test]
    fn waits_that_go_on_are_as_long_as_the_accounts_of_their_threads() {
        let mut collector = collector();
        let open = open(Reason::Sleep, false);
        let looked = |tid, to_ns| looked(tid, to_ns, Some(open));
        collector.threads_are_watched(vec![looked(7, 5_000), looked(8, 9_000)]);
        let lengths: Vec<u64> = collector.open_waits().iter().map(|wait| wait.weight).collect();
        assert_eq!(lengths, [8_000, 8_000], "from 1,000 ns to the end of the look");
    }

    /// The row of such a wait was longer than its account by the time between the wait's end and the end of the look: 0.7
    /// ms on a crowded machine.
    #[test]
    fn a_wait_that_ends_during_the_look_is_no_longer_than_its_account() {
        let open = open(Reason::Lock, false);
        let mut collector = collector();
        collector.threads_are_watched(vec![looked(7, 1_500, Some(open)), looked(8, 9_000, None)]);
        // Woken at 2,000, on a CPU at 3,000.
        collector.note_end(&record(WaitKind::Ended, Vec::new()));
        let lengths = |collector: &mut Collector| -> Vec<u64> {
            collector.open_waits().iter().map(|wait| wait.weight).collect()
        };
        assert_eq!(lengths(&mut collector), [1_000, 1_000], "blocked, and ready without a CPU");

        // Nothing comes of its end, but it is seen to run.
        collector.threads_are_watched(vec![looked(7, 1_500, Some(open)), looked(8, 9_000, None)]);
        collector.note_end(&SampleEvent {
            time_ns: 4_000,
            wait: None,
            ..record(WaitKind::Ended, Vec::new())
        });
        assert_eq!(lengths(&mut collector), [500], "until it was looked at");
    }

    /// A new wait may be left out when it ends, so that its length would count twice: its own, and that of others that
    /// are weighted up for it.
    #[test]
    fn a_new_wait_has_no_row_and_its_thread_says_so() {
        let mut collector = collector();
        let threads = vec![
            looked(7, 5_000, Some(open(Reason::Sleep, true))),
            looked(8, 5_000, Some(open(Reason::Sleep, false))),
        ];
        collector.threads_are_watched(threads);
        assert_eq!(collector.open_waits().len(), 1);
        let living = collector.waits.as_mut().and_then(Waits::take_living).unwrap();
        let new_waits: Vec<_> = living.iter().map(|living| living.new_wait).collect();
        assert_eq!(new_waits, [Some(NewWait { start_ns: 1_000, wake_ns: None }), None]);
    }

    /// A wait that is over waits for the record of its waker: meanwhile it was in no row of the next picture.
    #[test]
    fn a_wait_that_is_over_keeps_its_row_until_its_end_is_stored() {
        let open = open(Reason::Lock, false);
        let mut collector = collector();
        collector.threads_are_watched(vec![looked(7, 1_500, Some(open))]);
        let end = record(WaitKind::Ended, vec![0x1000]);
        collector.note_end(&end);
        let lengths = |collector: &mut Collector| -> Vec<u64> {
            collector.open_waits().iter().map(|wait| wait.weight).collect()
        };
        collector.threads_are_watched(vec![looked(7, 9_000, None)]);
        assert_eq!(lengths(&mut collector), [1_000, 1_000], "blocked, and ready without a CPU");
        collector.note_end(&SampleEvent { time_ns: 4_000, wait: None, ..end.clone() });
        assert_eq!(lengths(&mut collector), [1_000, 1_000], "it ran later than that");
        collector.add(end, None);
        assert_eq!(lengths(&mut collector), [0; 0], "it has its own rows now");

        // The record of its end may be lost.
        collector.threads_are_watched(vec![looked(7, 1_500, Some(open))]);
        collector.note_end(&record(WaitKind::Ended, vec![0x1000]));
        for left in [2, 0] {
            collector.threads_are_watched(vec![looked(7, 9_000, None)]);
            assert_eq!(lengths(&mut collector).len(), left);
        }
    }

    /// Late records wait for a table, or for a copy of the stack, by which they come after what needs them.
    #[test]
    fn the_end_of_a_wait_is_held_back_for_a_late_stack_or_waker() {
        for late in [WaitKind::Stack, WaitKind::Waker] {
            let mut collector = collector();
            let other = if late == WaitKind::Stack { WaitKind::Waker } else { WaitKind::Stack };
            collector.add(record(other, vec![0x1000]), None);
            let late = record(late, vec![0x1000]);
            collector.note_late(&late);
            collector.add(record(WaitKind::Ended, Vec::new()), None);
            collector.release_held();
            assert_eq!(rows(&collector), [], "its stack or waker has not come yet");
            collector.add(late, None);
            collector.release_held();
            let rows = rows(&collector);
            assert_eq!(rows.len(), 1);
            assert!(rows[0].stack.is_some() && rows[0].wait.unwrap().waker.stack.is_some(), "{rows:?}");
        }
    }

    /// The wait's own stack was tried only when its waker had come: up to 121 of 3,388 ms of a database's waits were in
    /// no row.
    #[test]
    fn the_end_of_a_wait_that_was_held_back_and_lacks_a_table_is_stored_at_the_end() {
        let mut collector = collector();
        collector.files = ModuleFiles::new(true);
        let waker = record(WaitKind::Waker, vec![0x1000]);
        collector.note_late(&waker);
        let mut registers = [0; REGISTERS];
        registers[REGISTERS - 1] = looked as *const () as u64;
        let rescue = RescueEvent {
            time_ns: 1000,
            cpu: 0,
            tgid: std::process::id(),
            frames_before: 0,
            all_registers: true,
            is_return: false,
            registers,
            start: 0u64.wrapping_sub(128),
            stack: vec![0; 64].into(),
            is_cut: false,
            missing_blocks: [0; 4],
            root: None,
        };
        let end = SampleEvent { has_rescue: true, ..record(WaitKind::Ended, Vec::new()) };
        collector.add(end, Some(rescue));
        collector.add(waker, None);
        collector.store_waiting();
        let rows = rows(&collector);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].outcome, Outcome::TableNotLoaded, "or it had nothing to wait for");
        assert!(rows[0].wait.unwrap().waker.stack.is_some());
    }

    /// Every waker record of ten seconds may be waiting for the same table.
    #[test]
    fn many_ends_of_waits_find_their_late_wakers() {
        let mut collector = collector();
        let at = |kind, number: u64| {
            let mut record = record(kind, vec![0x1000]);
            let wait = record.wait.as_mut().unwrap();
            wait.start_ns += 10_000 * number;
            wait.wake_ns += 10_000 * number;
            wait.end_ns += 10_000 * number;
            record
        };
        for number in 0..100 {
            let waker = at(WaitKind::Waker, number);
            collector.note_late(&waker);
            let mut end = at(WaitKind::Ended, number);
            end.rescue_refused = true;
            collector.add(end, None);
            collector.release_held();
        }
        (0..100).for_each(|number| collector.add(at(WaitKind::Waker, number), None));
        collector.release_held();
        let rows = rows(&collector);
        assert_eq!(rows.iter().filter(|row| row.wait.unwrap().waker.stack.is_some()).count(), 100);
        assert_eq!(collector.profile.counter(counter::RESCUE_REFUSED), 100, "each of them once");
    }
}
