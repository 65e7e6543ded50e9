//! Samples as the kernel sent them → rows of the profile: addresses become frames of modules.
//!
//! Mappings are looked up as they were at the sample's time. What cannot be resolved is kept, marked and
//! counted, never dropped.

use super::call_check::CallChecks;
use super::deferred_walks::{self, WaitingRescues};
use super::goroutine_rows::GoroutineRows;
use super::kernel_frames::KernelFrames;
use super::rescue;
use super::row_writer::RowWriter;
use super::stack_copies::{StackCopies, Walked};
use super::tasks::KnownTasks;
use super::totals::{CollectedTotals, EventTotals};
use super::user_stack::{Trusted, UserStack, unknown_address};
use crate::bpf::{
    LEAF_FRAMES, NewCodeEvent, RescueEvent, SampleEvent, ThreadTimeEvent, WaitKind, WatchedThreadEvent,
    outcome,
};
use crate::profile::{
    EventId, EventInfo, EventKind, FrameId, LabelSetId, Outcome, Profile, Sample, StackId, counter,
};
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::goroutines::{GoWaitEvents, GoWaits, Goroutines};
use crate::record::heap::{BlockPart, GoHeap, LiveBlocks};
use crate::record::interpreters::Interpreters;
use crate::record::managed_code::ManagedCode;
use crate::record::modules::ModuleFiles;
use crate::record::names::dumps::JitDumps;
use crate::record::process::identities::Identities;
use crate::record::process::mappings::{self, is_vsyscall};
use crate::record::process::table::Processes;
use crate::record::waits::state::{WaitPart, Waits};

/// Turns samples into rows of a profile.
#[derive(Debug)]
pub(crate) struct Collector {
    /// Profile that is being filled.
    pub(crate) profile: Profile,
    /// The processes seen.
    pub(crate) processes: Processes,
    /// The files seen.
    pub(crate) files: ModuleFiles,
    /// The kernel's frames.
    pub(crate) kernel: KernelFrames,
    /// Sums so far.
    pub(crate) totals: CollectedTotals,
    /// File for copies of every stack, when asked for.
    pub(crate) copies: Option<StackCopies>,
    /// The event of running threads, and the weight of one sample, ns.
    on_cpu: Option<(EventId, u64)>,
    /// The events of counters.
    counters: Vec<EventId>,
    /// State of the waits, where they are recorded.
    pub(crate) waits: Option<Waits>,
    /// Blocks of memory that are live, where they are sampled.
    pub(crate) blocks: Option<LiveBlocks>,
    /// Go programs whose blocks are.
    pub(crate) go_heap: GoHeap,
    /// Go programs whose waits are, and the events of these.
    pub(crate) go_waits: GoWaits,
    pub(in crate::record) go_wait_events: Option<GoWaitEvents>,
    pub(crate) start_ns: u64,
    waiting: WaitingRescues,
    /// Tables that had been compiled when the waiting rescues were tried last.
    tables_tried: u64,
    pub(super) tasks: KnownTasks,
    pub(super) calls: CallChecks,
    pub(crate) dumps: JitDumps,
    /// Interpreters of languages.
    pub(crate) interpreters: Interpreters,
    /// Goroutines of Go programs.
    pub(crate) goroutines: Goroutines,
    /// State of the goroutines that snapshots find, where they are recorded.
    pub(super) goroutine_rows: Option<GoroutineRows>,
    /// Runtimes with managed code.
    pub(crate) managed: ManagedCode,
    /// Labels of samples whose thread held its interpreter's lock, once there is one.
    pub(in crate::record) lock_held: Option<LabelSetId>,
    /// Labels of processes.
    pub(crate) identities: Identities,
    path: Vec<FrameId>,
}

impl Collector {
    /// A collector without events.
    pub(crate) fn new(profile: Profile, files: ModuleFiles, kernel: KernelFrames) -> Self {
        let start_ns = profile.meta.start_mono_ns;
        Collector {
            profile,
            processes: Processes::default(),
            files,
            kernel,
            totals: CollectedTotals::default(),
            copies: None,
            on_cpu: None,
            counters: Vec::new(),
            waits: None,
            blocks: None,
            go_heap: GoHeap::default(),
            go_waits: GoWaits::default(),
            go_wait_events: None,
            start_ns,
            waiting: WaitingRescues::default(),
            tables_tried: 0,
            tasks: KnownTasks::default(),
            calls: CallChecks::default(),
            dumps: JitDumps::default(),
            interpreters: Interpreters::default(),
            goroutines: Goroutines::default(),
            goroutine_rows: None,
            managed: ManagedCode::default(),
            lock_held: None,
            identities: Identities::default(),
            path: Vec::new(),
        }
    }

    /// Running threads are sampled: each sample is weighted as `period_ns`.
    pub(crate) fn add_samples(&mut self, sampling: String, period_ns: u64) {
        let info = EventInfo { kind: EventKind::ON_CPU, sampling, period: period_ns, ..EventInfo::default() };
        self.on_cpu = Some((self.profile.add_event(info), period_ns));
    }

    /// A counter is sampled by `rule`: each sample says its weight, unless that is always `period`.
    pub(crate) fn add_counter(&mut self, kind: EventKind, rule: String, period: Option<u64>) {
        let info = EventInfo { kind, sampling: rule, period: period.unwrap_or(0), ..EventInfo::default() };
        self.counters.push(self.profile.add_event(info));
    }

    /// Waits of `min_duration_ns` and more are recorded too; `sampling` says by which rule, for people.
    pub(crate) fn add_waits(&mut self, kind: EventKind, sampling: String, min_duration_ns: u64) {
        let info = EventInfo { kind, sampling, min_duration_ns, ..EventInfo::default() };
        let futexes_only = info.kind.is(&EventKind::LOCK);
        self.waits = Some(Waits::new(self.profile.add_event(info), futexes_only));
    }

    /// The event that a sample is of, and its weight.
    fn event_of(&self, sample: &SampleEvent) -> Option<(EventId, u64)> {
        match usize::from(sample.event).checked_sub(1) {
            None => self.on_cpu,
            Some(counter) => self.counters.get(counter).map(|event| (*event, sample.weight)),
        }
    }

    /// Whether a sample is a hit of a tracepoint.
    fn is_at_tracepoint(&self, sample: &SampleEvent) -> bool {
        let event = usize::from(sample.event).checked_sub(1).and_then(|number| self.counters.get(number));
        event.is_some_and(|event| self.profile.events[event.index()].kind().is_tracepoint())
    }

    /// Sums of the samples of running threads, if they are taken.
    pub(crate) fn running_totals(&self) -> Option<EventTotals> {
        self.on_cpu.map(|(event, _)| self.totals.of_event(event.index()))
    }

    /// Sets the time from which samples count, CLOCK_MONOTONIC, ns.
    pub(crate) fn set_start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// Adds a sample, with the stack copy that belongs to it.
    pub(crate) fn add(&mut self, mut sample: SampleEvent, mut rescue: Option<RescueEvent>) {
        if self.took_end_of_block(&sample) {
            return;
        }
        if let Some(waits) = &mut self.waits {
            match waits.hold(sample, rescue, &mut self.profile) {
                Some(free) => (sample, rescue) = free,
                None => return,
            }
        }
        if sample.rescue_refused {
            self.profile.count(counter::RESCUE_REFUSED, 1);
        }
        // Number 0 is the idle task's, and in a PID namespace that of all who are outside of it: nothing is known of those.
        if sample.tgid == 0 || self.is_interrupted_waker(&sample) {
            self.store(&SampleEvent { user: Vec::new(), ..sample }, Outcome::NoUserStack, false);
            return;
        }
        // Read the process if it is new, and again if it has new mappings that have not arrived.
        let is_new = self.processes.at(sample.tgid, sample.time_ns).is_none();
        let is_system_wide = self.processes.is_system_wide;
        let process = self.processes.at_or_read(sample.tgid, sample.time_ns, &mut self.files);
        if is_new && !is_system_wide && sample.wait.as_ref().is_some_and(|wait| wait.kind == WaitKind::Waker)
        {
            // It has woken a recorded thread: that makes it no target.
            process.is_target = false;
        }
        if let Some(address) = unknown_address(process, &sample) {
            process.reread_ns = sample.time_ns;
            if let Some(now) = mappings::mappings_now(sample.tgid, monotonic_ns(), &mut self.files) {
                process.fill(now, address, sample.time_ns);
            }
        }
        if let Some(known) = process.frames_before_stale(&sample.user, sample.time_ns)
            && rescue.as_ref().is_none_or(|rescue| rescue.frames_before >= known)
        {
            // From here on the kernel's walk went by the rules of a file that was no longer mapped there.
            self.profile.count(counter::STALE_MAPPING, 1);
            sample.user.truncate(known);
            sample.outcome = outcome::UNKNOWN_MAPPING;
            rescue = None;
        }
        match rescue {
            Some(rescue) => self.add_rescued(sample, rescue, true),
            None => {
                let outcome = Outcome::from_code(sample.outcome);
                self.store(&sample, outcome, false);
            }
        }
    }

    /// Tries the rescues again that wait for a table, if there are new ones. `now_ns` after all patience: for the last
    /// time.
    pub(crate) fn retry_waiting(&mut self, now_ns: u64) {
        let is_over =
            |sample: &SampleEvent| now_ns.saturating_sub(sample.time_ns) >= deferred_walks::PATIENCE_NS;
        let is_due = self.files.compiled > self.tables_tried || self.waiting.first().is_some_and(is_over);
        if !is_due {
            return;
        }
        self.tables_tried = self.files.compiled;
        for (sample, rescue) in self.waiting.take() {
            let may_wait = !is_over(&sample);
            self.add_rescued(sample, rescue, may_wait);
        }
    }

    /// Whether samples wait for tables.
    pub(crate) fn waits_for_tables(&self) -> bool {
        self.waiting.first().is_some()
    }

    fn add_rescued(&mut self, mut sample: SampleEvent, rescue: RescueEvent, may_wait: bool) {
        let Some(process) = self.processes.at(sample.tgid, sample.time_ns) else {
            // Its number belongs to another process by now.
            self.store(&sample, Outcome::from_code(sample.outcome), false);
            return;
        };
        let walk = rescue::finish(&rescue, process, sample.time_ns, &self.files);
        if walk.missed_a_table && may_wait && self.waiting.has_room() {
            self.note_late(&sample);
            self.waiting.keep(sample, rescue);
            return;
        }
        self.profile.count(counter::RESCUED, 1);
        self.profile.count(counter::RESCUE_BYTES, rescue.stack.len() as u64);
        rescue::continue_stack(&mut sample, rescue.frames_before, &walk);
        self.store(&sample, walk.outcome, true);
    }

    /// A record will be stored after records that are newer than it.
    pub(crate) fn note_late(&mut self, sample: &SampleEvent) {
        if let Some(waits) = &mut self.waits {
            waits.note_late(sample);
        }
    }

    /// Stores the ends of waits that lack nothing any more.
    pub(crate) fn release_held(&mut self) {
        let held = self.waits.as_mut().map(Waits::take_held).unwrap_or_default();
        for (sample, rescue) in held {
            self.add(sample, rescue);
        }
    }

    /// Stores all that still waits for others, for tables or for copies: none of them will come any more.
    pub(crate) fn store_waiting(&mut self) {
        self.retry_waiting(u64::MAX);
        if let Some(waits) = &mut self.waits {
            waits.expect_nothing();
        }
        self.release_held();
        // Of what was held back, some stacks were not tried before, and lack a table.
        self.retry_waiting(u64::MAX);
    }

    /// Stores the time of a thread that has ended, or is there at the end.
    pub(crate) fn add_thread_time(&mut self, time: &ThreadTimeEvent) {
        if time.tid == time.tgid && !time.has_ended {
            self.tasks.renew_title(&self.processes, time.to_ns, time.tgid, &time.comm);
        }
        // Next to some waits alone, the whole time of a thread would be a riddle.
        let is_left_out = self.identities.leaves_out_time_of(time.tgid, time.to_ns, &self.processes);
        if is_left_out || self.waits.as_ref().is_some_and(|waits| waits.futexes_only) {
            return;
        }
        let part = self.waits.as_mut().map(|waits| waits.cuts.part_of(time));
        let time = self.rows().thread_time(part.as_ref().unwrap_or(time));
        self.profile.thread_times.push(time);
    }

    /// A window ends with the last look at the threads: it has its part of what is not over.
    pub(crate) fn end_waits_of_window(&mut self) {
        self.with_waits(|waits, rows| waits.end_window(rows));
    }

    /// A look at the threads that live has found these.
    pub(crate) fn threads_are_watched(&mut self, mut threads: Vec<WatchedThreadEvent>) {
        let Collector { identities, processes, .. } = self;
        threads.retain(|WatchedThreadEvent { time, .. }| {
            !identities.leaves_out_time_of(time.tgid, time.to_ns, processes)
        });
        self.with_waits(|waits, rows| waits.look(threads, rows));
    }

    /// A record has come, and may have to wait for others: what it says of its thread's account is known now.
    pub(crate) fn note_end(&mut self, sample: &SampleEvent) {
        let start_ns = self.start_ns;
        if let Some(waits) = &mut self.waits {
            waits.note_end(sample, start_ns);
        }
    }

    /// The waits that are not over, as if they ended when they were last looked at.
    pub(crate) fn open_waits(&mut self) -> Vec<Sample> {
        self.with_waits(|waits, rows| waits.open_rows(rows))
    }

    /// Whether a record is of a thread that woke no other thread itself: an interrupt came while it ran.
    fn is_interrupted_waker(&mut self, sample: &SampleEvent) -> bool {
        self.with_waits(|waits, rows| waits.is_interrupted_waker(sample, rows.kernel))
    }

    /// Returns the state of the waits, and the writer of rows.
    fn parts(&mut self) -> (Option<&mut Waits>, RowWriter<'_>) {
        let rows = RowWriter {
            profile: &mut self.profile,
            totals: &mut self.totals,
            kernel: &mut self.kernel,
            tasks: &mut self.tasks,
            processes: &self.processes,
            start_ns: self.start_ns,
        };
        (self.waits.as_mut(), rows)
    }

    /// The writer of rows.
    pub(crate) fn rows(&mut self) -> RowWriter<'_> {
        self.parts().1
    }

    /// Has `work` done with the waits, if they are recorded.
    fn with_waits<T: Default>(&mut self, work: impl FnOnce(&mut Waits, &mut RowWriter<'_>) -> T) -> T {
        let (waits, mut rows) = self.parts();
        waits.map_or_else(T::default, |waits| work(waits, &mut rows))
    }

    /// The user part of the stack of a sample.
    pub(in crate::record) fn user_stack<'c>(&'c mut self, sample: &'c SampleEvent) -> UserStack<'c> {
        UserStack {
            sample,
            profile: &mut self.profile,
            processes: &mut self.processes,
            files: &mut self.files,
            calls: &mut self.calls,
            dumps: &mut self.dumps,
            interpreters: &self.interpreters,
        }
    }

    /// Interns the stack and stores the sample. `is_rescued`: user space took part in the walk.
    fn store(&mut self, sample: &SampleEvent, outcome: Outcome, is_rescued: bool) {
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        let trusted = self.user_stack(sample).resolve(outcome, &mut path);
        self.copy(sample, &trusted, path.len(), is_rescued);
        self.add_managed_functions(sample, trusted.left_out, &mut path);
        self.add_interpreter_frames(sample, trusted.outcome, &mut path);
        self.leave_sampler(sample, &mut path);
        path.reverse();
        self.resolve_kernel(sample, &mut path);
        let stack = self.profile.tables.intern_stack_of(path.iter().copied());
        let Some(labels) = self.all_labels_of(sample) else {
            self.path = path;
            return;
        };
        match &sample.wait {
            None if sample.block.is_some() => {
                self.store_block(sample, BlockPart { stack, outcome: trusted.outcome, labels });
            }
            Some(wait) => {
                let part = WaitPart { stack, outcome: trusted.outcome, labels };
                self.with_waits(|waits, rows| waits.store(sample, wait, part, rows));
            }
            None => self.count(sample, &trusted, (stack, labels), path.last().copied()),
        }
        self.path = path;
    }

    /// Takes a code object of an interpreter, whose samples follow.
    pub(crate) fn add_code(&mut self, code: &NewCodeEvent) {
        if let Some(process) = self.processes.at_mut(code.tgid, code.time_ns) {
            self.interpreters.add_code(process, code);
        }
    }

    /// Puts the functions of managed code where they belong among the native frames in `path`, leaf first.
    fn add_managed_functions(&mut self, sample: &SampleEvent, left_out: u32, path: &mut Vec<FrameId>) {
        let Collector { managed, interpreters, processes, profile, .. } = self;
        if managed.is_loaded
            && let Some(process) = processes.at_mut(sample.tgid, sample.time_ns)
        {
            managed.place(sample, left_out, process, &mut interpreters.names, profile, path);
        }
    }

    /// Puts the frames of an interpreter where they belong among the native ones in `path`, leaf first.
    fn add_interpreter_frames(&mut self, sample: &SampleEvent, outcome: Outcome, path: &mut Vec<FrameId>) {
        if self.interpreters.loaded == 0 {
            return;
        }
        let Some(process) = self.processes.at_mut(sample.tgid, sample.time_ns) else { return };
        if sample.interpreter.has_state() {
            let frames = &sample.interpreter;
            self.interpreters.merge(sample.tgid, process, frames, outcome, &mut self.profile, path);
        } else if process.awaits_interpreter(sample.time_ns) {
            self.profile.count(counter::INTERPRETER_SAMPLES_BEFORE, 1);
        } else if self.interpreters.is_read_outside && sample.wait.is_none() {
            self.interpreters.place_unread(process, &mut self.profile, path);
        }
    }

    /// Keeps what was walked of a sample, where copies of all stacks are kept for a second walk. `known` frames are in the
    /// path.
    fn copy(&mut self, sample: &SampleEvent, trusted: &Trusted, known: usize, is_rescued: bool) {
        let Some(copies) = self.copies.as_mut().filter(|_| sample.wait.is_none()) else { return };
        // Of a stack with a gap but without a root only the part before the gap can be compared.
        let frames = match (trusted.left_out, trusted.outcome) {
            (0, _) => known,
            (_, Outcome::MiddleLeftOut) => trusted.count,
            _ => LEAF_FRAMES,
        };
        let frames = sample.user[..trusted.count].iter().copied().take(frames).collect();
        copies.add(sample, Walked { frames, is_rescued, outcome: trusted.outcome });
    }

    /// Puts the kernel's frames of a sample after the others in `path`, which is root first.
    fn resolve_kernel(&mut self, sample: &SampleEvent, path: &mut Vec<FrameId>) {
        let from = path.len();
        let kernel = match &sample.wait {
            // They were taken to tell reasons and wakers.
            Some(_) if self.profile.meta.user_only => Vec::new(),
            Some(wait) => {
                self.with_waits(|waits, rows| waits.kernel_part(&sample.kernel, wait.kind, rows.kernel))
            }
            None if self.is_at_tracepoint(sample) => self.kernel.before_tracing(&sample.kernel).to_vec(),
            None => sample.kernel.clone(),
        };
        // A thread that waits has called the scheduler, one at a tracepoint what traces it.
        let has_called = sample.wait.is_some() || self.is_at_tracepoint(sample);
        // The kernel's own walk takes the vsyscall page for kernel code; it is among the user frames.
        for (index, &address) in kernel.iter().filter(|&&address| !is_vsyscall(address)).enumerate() {
            path.push(self.kernel.frame(address, index > 0 || has_called, &mut self.profile.tables));
        }
        path[from..].reverse();
    }

    /// Adds a sample that is no wait to its event, and to the sums.
    fn count(
        &mut self,
        sample: &SampleEvent,
        trusted: &Trusted,
        (stack, labels): (Option<StackId>, Option<LabelSetId>),
        leaf: Option<FrameId>,
    ) {
        let Some((event, weight)) = self.event_of(sample) else { return };
        let task = self.rows().task(sample.time_ns, (sample.tgid, sample.tid), &sample.comm);
        let totals = &mut self.totals;
        totals.add(event, weight);
        *totals.outcomes.entry(trusted.outcome).or_default() += 1;
        totals.by_frame_pointer += u64::from(trusted.by_frame_pointer);
        totals.threads.insert((sample.tgid, sample.tid));
        if let Some(leaf) = leaf.filter(|_| event.index() == 0) {
            let leaf = totals.leaves.entry(leaf).or_default();
            *leaf = leaf.saturating_add(weight);
        }
        if let Some(stack) = stack {
            *totals.stacks.entry(stack).or_default() += 1;
        }
        self.profile.events[event.index()].push(Sample {
            time_ns: sample.time_ns.saturating_sub(self.start_ns),
            task,
            stack,
            weight,
            cpu: sample.cpu as u16,
            outcome: trusted.outcome,
            wait: None,
            merged: None,
            block: None,
            labels,
        });
    }
}
