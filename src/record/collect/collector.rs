//! Samples as the kernel sent them → rows of the profile: addresses become frames of modules.
//!
//! Mappings are looked up as they were at the sample's time. What cannot be resolved is kept, marked and
//! counted, never dropped.

use super::call_check::{CallChecks, CallPlace};
use super::deferred_walks;
use super::deferred_walks::WaitingRescues;
use super::kernel_frames::KernelFrames;
use super::rescue::{self, Rescued};
use super::stack_copies::{StackCopies, Walked};
use super::totals::{CollectedTotals, EventTotals};
use crate::base::safe_text;
use crate::bpf::{LEAF_FRAMES, MAX_USER_FRAMES, MarkedAddress, RescueEvent, SampleEvent, WaitKind, outcome};
use crate::profile::{
    EventId, EventInfo, EventKind, FoundBy, Frame, FrameFlags, FrameId, FrameSpace, Module, ModuleKind,
    OUTSIDE, Outcome, Profile, Sample, StackId, Tables, Task, TaskId, counter,
};
use crate::record::modules::ModuleFiles;
use crate::record::names::dumps::JitDumps;
use crate::record::process::mappings::{Mapped, Process, is_vsyscall};
use crate::record::process::table::Processes;
use crate::record::process::{mappings, title};
use crate::record::waits::kernel_facts::KnownKernelStacks;
use crate::record::waits::state::Waits;
use crate::symbols::PerfMapSource;
use crate::unwind::StackEnds;
use crate::unwind::rule::RuleKind;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Mark of the leaf in the keys of the frame cache; an unused bit of marked addresses.
const LEAF: u64 = 1 << 61;
/// A process is read again after an unknown address, but not more often than this, ns.
const REREAD_INTERVAL_NS: u64 = 100_000_000;
/// Names of threads outside of the PID namespace that are distinguished.
const MOST_OUTSIDE: usize = 4096;

/// What is left of the user part of a stack once its frames were looked at.
struct Trusted {
    /// How the walk ended, as far as it can be believed.
    outcome: Outcome,
    /// Some frames were found by frame pointers.
    by_frame_pointer: bool,
    /// Addresses of the sample that were looked at, from the leaf on.
    count: usize,
    /// Frames left out of the middle of these.
    left_out: u32,
}

/// Turns samples into rows of a profile.
#[derive(Debug)]
pub(crate) struct Collector {
    /// What is being filled.
    pub(crate) profile: Profile,
    /// The processes seen.
    pub(crate) processes: Processes,
    /// The files seen.
    pub(crate) files: ModuleFiles,
    /// The kernel's frames.
    pub(crate) kernel: KernelFrames,
    /// What the kernel's part of the stacks of waits says.
    pub(crate) kernel_stacks: KnownKernelStacks,
    /// Sums so far.
    pub(crate) totals: CollectedTotals,
    /// Where copies of every stack go, when asked for.
    pub(crate) copies: Option<StackCopies>,
    /// The event of running threads, and the weight of one sample, ns.
    on_cpu: Option<(EventId, u64)>,
    /// The events of counters.
    counters: Vec<EventId>,
    pub(crate) waits: Option<Waits>,
    pub(crate) start_ns: u64,
    waiting: WaitingRescues,
    /// Tables that had been compiled when the waiting rescues were tried last.
    tables_tried: u64,
    pub(crate) tasks: FxHashMap<(u32, u32, u32, Vec<u8>), TaskId>,
    /// Generations of threads that the PID namespace of this process does not have, by name.
    outside: FxHashMap<Vec<u8>, u32>,
    /// Titles of processes, by number and generation.
    titles: FxHashMap<(u32, u32), Option<String>>,
    calls: CallChecks,
    pub(crate) dumps: JitDumps,
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
            kernel_stacks: KnownKernelStacks::default(),
            totals: CollectedTotals::default(),
            copies: None,
            on_cpu: None,
            counters: Vec::new(),
            waits: None,
            start_ns,
            waiting: WaitingRescues::default(),
            tables_tried: 0,
            tasks: FxHashMap::default(),
            outside: FxHashMap::default(),
            titles: FxHashMap::default(),
            calls: CallChecks::default(),
            dumps: JitDumps::default(),
            path: Vec::new(),
        }
    }

    /// Running threads are sampled: each sample is weighted as `period_ns`.
    pub(crate) fn add_samples(&mut self, sampling: String, period_ns: u64) {
        let event =
            self.profile.add_event(EventInfo { kind: EventKind::ON_CPU, sampling, period: period_ns });
        self.on_cpu = Some((event, period_ns));
    }

    /// A counter is sampled by `rule`: each sample says its weight, unless that is always `period`.
    pub(crate) fn add_counter(&mut self, kind: EventKind, rule: String, period: Option<u64>) {
        let info = EventInfo { kind, sampling: rule, period: period.unwrap_or(0) };
        self.counters.push(self.profile.add_event(info));
    }

    /// The event that a sample is of, and its weight.
    fn event_of(&self, sample: &SampleEvent) -> Option<(EventId, u64)> {
        match usize::from(sample.event).checked_sub(1) {
            None => self.on_cpu,
            Some(counter) => self.counters.get(counter).map(|event| (*event, sample.weight)),
        }
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
        match self.hold(sample, rescue) {
            Some(free) => (sample, rescue) = free,
            None => return,
        }
        if sample.rescue_refused {
            self.profile.count(counter::RESCUE_REFUSED, 1);
        }
        // Number 0 is the idle task's, and in a PID namespace that of all who are outside of it: nothing is known of those.
        if sample.tgid == 0 || self.is_interrupted_waker(&sample) {
            self.store(&SampleEvent { user: Vec::new(), ..sample }, Outcome::NoUserStack, false);
            return;
        }
        // Read the process if it is new, and again if it has mapped what was not heard of.
        let is_new = self.processes.at(sample.tgid, sample.time_ns).is_none();
        let is_system_wide = self.processes.is_system_wide;
        let process = self.processes.at_or_read(sample.tgid, sample.time_ns, &mut self.files);
        if is_new && !is_system_wide && sample.wait.as_ref().is_some_and(|wait| wait.kind == WaitKind::Waker)
        {
            // It has woken a recorded thread: that makes it no target.
            process.is_target = false;
        }
        if needs_reread(process, &sample) {
            process.reread_ns = sample.time_ns;
            // What is found now was mapped before the sample: that is why it had it.
            mappings::read_mappings(sample.tgid, process, sample.time_ns, &mut self.files);
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
            self.is_late(&sample);
            self.waiting.keep(sample, rescue);
            return;
        }
        self.profile.count(counter::RESCUED, 1);
        self.profile.count(counter::RESCUE_BYTES, rescue.stack.len() as u64);
        continue_stack(&mut sample, rescue.frames_before, &walk);
        self.store(&sample, walk.outcome, true);
    }

    /// Interns the stack and stores the sample. `is_rescued`: user space took part in the walk.
    fn store(&mut self, sample: &SampleEvent, outcome: Outcome, is_rescued: bool) {
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        let trusted = self.resolve_user(sample, outcome, &mut path);
        self.copy(sample, &trusted, path.len(), is_rescued);
        path.reverse();
        self.resolve_kernel(sample, &mut path);
        let stack = self.profile.tables.intern_stack_of(path.iter().copied());
        match &sample.wait {
            Some(wait) => self.store_wait(sample, wait, stack, trusted.outcome),
            None => self.count(sample, &trusted, stack, path.last().copied()),
        }
        self.path = path;
    }

    /// Puts the user frames of a sample into `path`, leaf first, as far as they can be trusted.
    fn resolve_user(
        &mut self,
        sample: &SampleEvent,
        mut outcome: Outcome,
        path: &mut Vec<FrameId>,
    ) -> Trusted {
        let (mut count, mut left_out) = (sample.user.len(), sample.left_out);
        if outcome == Outcome::TooDeep && left_out > 0 {
            // What was seen last is next to nothing that anybody knows.
            (count, left_out) = (LEAF_FRAMES.min(count), 0);
        }
        let user = &sample.user[..count];
        let (mut by_frame_pointer, mut callee_is_generated) = (false, false);
        for (index, &raw) in user.iter().enumerate() {
            if index == LEAF_FRAMES && left_out > 0 {
                path.push(self.left_out_frame(left_out));
                callee_is_generated = false;
                if outcome == Outcome::Complete {
                    outcome = Outcome::MiddleLeftOut;
                }
            }
            let (is_leaf, is_by_fp) = (index == 0, MarkedAddress(raw).is_by_frame_pointer());
            by_frame_pointer |= is_by_fp;
            let (frame, is_known) = self.user_frame(sample, raw, is_leaf);
            if !is_known && index + 1 == count && !is_leaf {
                // An address outside all code is no caller: the step that led here was wrong.
                outcome = match (outcome, is_by_fp) {
                    (_, true) => Outcome::NoUnwindInfo,
                    (Outcome::UnknownMapping, false) => Outcome::BadUnwindInfo,
                    (other, false) => other,
                };
                continue;
            }
            let is_wrong = |collector: &mut Self| {
                (callee_is_generated && collector.lacks_frame_pointers(sample))
                    || callee_of(user, index, left_out)
                        .is_some_and(|callee| !collector.call_agrees(sample, callee, raw))
            };
            if is_by_fp && is_wrong(self) {
                // rbp belongs to some frame further up: those between would be left out.
                outcome = if callee_is_generated { Outcome::JitEnd } else { Outcome::NoUnwindInfo };
                break;
            }
            let tables = &self.profile.tables;
            callee_is_generated = tables.module(tables.frame(frame).module).kind == ModuleKind::Jit;
            path.push(frame);
        }
        Trusted { outcome, by_frame_pointer, count, left_out }
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
            Some(wait) => self.waiting_kernel(&sample.kernel, wait.kind),
            None => sample.kernel.clone(),
        };
        // A thread that waits has called the scheduler.
        let is_waiting = sample.wait.is_some();
        // The kernel's own walk takes the vsyscall page for kernel code; it is among the user frames.
        for (index, &address) in kernel.iter().filter(|&&address| !is_vsyscall(address)).enumerate() {
            path.push(self.kernel.frame(address, index > 0 || is_waiting, &mut self.profile.tables));
        }
        path[from..].reverse();
    }

    /// Adds a sample that is no wait to its event, and to the sums.
    fn count(
        &mut self,
        sample: &SampleEvent,
        trusted: &Trusted,
        stack: Option<StackId>,
        leaf: Option<FrameId>,
    ) {
        let Some((event, weight)) = self.event_of(sample) else { return };
        let task = self.task(sample);
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
        });
    }

    /// The frame in place of `count` frames left out; its address is their number.
    fn left_out_frame(&mut self, count: u32) -> FrameId {
        let profile = &mut self.profile;
        profile.count(counter::STACKS_CUT, 1);
        profile.count(counter::FRAMES_LEFT_OUT, u64::from(count));
        profile.frame_left_out(count)
    }

    /// Whether the call before the return address in the frame `caller` may have led to the frame `callee`.
    fn call_agrees(&mut self, sample: &SampleEvent, callee: u64, caller: u64) -> bool {
        let Some(process) = self.processes.at(sample.tgid, sample.time_ns) else { return true };
        if !self.files.wants_tables() {
            return true;
        }
        let place = |raw: u64| {
            let marked = MarkedAddress(raw);
            let mapped = process.find(marked.lookup(), sample.time_ns)?;
            Some(CallPlace { file: mapped.file, address: marked.address().wrapping_sub(mapped.bias) })
        };
        let (Some(callee), Some(caller)) = (place(callee), place(caller)) else { return true };
        self.calls.agrees(callee, caller, &self.files)
    }

    fn lacks_frame_pointers(&self, sample: &SampleEvent) -> bool {
        let process = self.processes.at(sample.tgid, sample.time_ns);
        process.is_some_and(|process| process.lacks_frame_pointers)
    }

    /// The frame of a marked user address, and whether it lies in known code.
    fn user_frame(&mut self, sample: &SampleEvent, raw: u64, is_leaf: bool) -> (FrameId, bool) {
        let key = if is_leaf { raw | LEAF } else { raw };
        let marked = MarkedAddress(raw);
        let (address, lookup, is_return_address) = (marked.address(), marked.lookup(), marked.is_return());
        let flags = FrameFlags {
            is_return_address,
            space: FrameSpace::User,
            found_by: match (is_leaf, marked.is_by_frame_pointer()) {
                (true, _) => FoundBy::Leaf,
                (false, true) => FoundBy::FramePointer,
                (false, false) => FoundBy::Cfi,
            },
        };
        let tables = &mut self.profile.tables;
        let process = self.processes.at_or_read(sample.tgid, sample.time_ns, &mut self.files);
        let is_present = process.is_present(sample.time_ns);
        if is_present && let Some(&(frame, file)) = process.frames.get(&key) {
            self.files.hit(file, sample.time_ns);
            return (frame, true);
        }
        let Some(&mapped) = process.find(lookup, sample.time_ns) else {
            let is_known = is_vsyscall(lookup);
            return (unmapped_frame(tables, sample.tgid, is_known, address, flags), is_known);
        };
        let is_generated = self.files.is_generated(mapped.file);
        // Names of generated code are by its addresses.
        let address = if is_generated { address } else { address.wrapping_sub(mapped.bias) };
        // A signal handler returns to the first instruction of the code that ends it: nothing called that.
        let is_signal_return = is_return_address
            && !is_generated
            && (self.files.get(mapped.file).table.table())
                .is_some_and(|table| table.lookup(address.wrapping_sub(1)).kind == RuleKind::Signal);
        let flags = FrameFlags { is_return_address: is_return_address && !is_signal_return, ..flags };
        let module = self.files.profile_module(mapped.file, sample.tgid, tables);
        let frame = Frame { module, address, flags };
        self.files.hit(mapped.file, sample.time_ns);
        if is_generated {
            note_generated_code(process, sample.tgid, &mut self.files);
            if let Some(frame) = self.dumped_frame(sample, lookup, frame) {
                // What is there may be other code the next time.
                return (frame, true);
            }
        }
        let frame = self.profile.tables.intern_frame(frame);
        if is_present && let Some(process) = self.processes.at_mut(sample.tgid, sample.time_ns) {
            process.frames.insert(key, (frame, mapped.file));
        }
        (frame, true)
    }

    pub(crate) fn task(&mut self, sample: &SampleEvent) -> TaskId {
        self.task_at(sample.time_ns, sample.tgid, sample.tid, &sample.comm)
    }

    /// A thread that the PID namespace of this process does not have. It has no numbers here: those of one name are one,
    /// and are distinguished from others by their generation.
    pub(crate) fn task_outside(&mut self, comm: &[u8]) -> TaskId {
        let is_new = !self.outside.contains_key(comm);
        let comm = if is_new && self.outside.len() >= MOST_OUTSIDE { &b"others"[..] } else { comm };
        let next = self.outside.len() as u32;
        let generation = *self.outside.entry(comm.to_vec()).or_insert(next);
        let tables = &mut self.profile.tables;
        let comm = tables.intern_string(&safe_text::from_bytes(comm));
        let process = tables.intern_string(OUTSIDE);
        tables.intern_task(Task { comm, process, generation, ..Task::default() })
    }

    /// Looks at the title of a process again: many set it only once they have begun. The next row of its first thread, called
    /// `comm`, has it.
    pub(crate) fn renew_title(&mut self, time_ns: u64, tgid: u32, comm: &[u8]) {
        let generation = self.processes.at(tgid, time_ns).map_or(0, |process| process.generation);
        let title = title::of(tgid, &safe_text::from_bytes(comm));
        let known = self.titles.entry((tgid, generation)).or_default();
        if title.is_some() && *known != title {
            *known = title;
            self.tasks.remove(&(tgid, tgid, generation, comm.to_vec()));
        }
    }

    /// The thread that had these numbers and this name at `time_ns`.
    pub(crate) fn task_at(&mut self, time_ns: u64, tgid: u32, tid: u32, comm: &[u8]) -> TaskId {
        let process = self.processes.at(tgid, time_ns);
        let generation = process.map_or(0, |process| process.generation);
        let key = (tgid, tid, generation, comm.to_vec());
        if let Some(&task) = self.tasks.get(&key) {
            return task;
        }
        let has_ended = process.is_some_and(|process| process.has_ended);
        let comm = safe_text::from_bytes(comm);
        let process_name = match process {
            Some(process) if tid != tgid && !process.comm.is_empty() => process.comm.clone(),
            _ => comm.clone(),
        };
        let find_title = || if has_ended { None } else { title::of(tgid, &process_name) };
        let title = self.titles.entry((tgid, generation)).or_insert_with(find_title);
        let process_name = title.clone().unwrap_or(process_name);
        let tables = &mut self.profile.tables;
        let comm = tables.intern_string(&comm);
        let process = tables.intern_string(&process_name);
        let task = tables.intern_task(Task { pid: tgid, tid, generation, comm, process });
        self.tasks.insert(key, task);
        task
    }
}

/// Replaces what a sample has from frame `frames_before` on by the frames of a rescue.
fn continue_stack(sample: &mut SampleEvent, frames_before: usize, walk: &Rescued) {
    let mut ends = StackEnds::new(MAX_USER_FRAMES);
    let left_out = sample.left_out as usize;
    let (leaf_end, root_end) = sample.user.split_at(LEAF_FRAMES.min(sample.user.len()));
    leaf_end.iter().take(frames_before).for_each(|&raw| ends.push(raw));
    if let Some(frames_before) = frames_before.checked_sub(LEAF_FRAMES) {
        ends.skip(left_out.min(frames_before));
        root_end.iter().take(frames_before.saturating_sub(left_out)).for_each(|&raw| ends.push(raw));
    }
    let (leaf_end, root_end) = walk.frames.split_at(LEAF_FRAMES.min(walk.frames.len()));
    leaf_end.iter().for_each(|&raw| ends.push(raw));
    ends.skip(walk.left_out);
    root_end.iter().for_each(|&raw| ends.push(raw));
    let (user, left_out) = ends.into_parts();
    sample.user = user;
    sample.left_out = u32::try_from(left_out).unwrap_or(u32::MAX);
}

/// Whether a sample has an address that no known mapping holds, and the process may be looked at again.
fn needs_reread(process: &Process, sample: &SampleEvent) -> bool {
    if process.has_ended {
        return false; // its number may be another's by now
    }
    let is_due = sample.time_ns.saturating_sub(process.reread_ns) >= REREAD_INTERVAL_NS;
    // What is mapped now says nothing about a program that exec has replaced.
    if !is_due
        || sample.time_ns < process.exec_ns
        || (process.mappings().is_empty() && sample.user.is_empty())
    {
        return false;
    }
    let is_unknown = |raw: u64| {
        let lookup = MarkedAddress(raw).lookup();
        process.find(lookup, sample.time_ns).is_none() && !is_vsyscall(lookup)
    };
    match sample.outcome {
        outcome::UNKNOWN_MAPPING => sample.user.last().is_some_and(|&raw| is_unknown(raw)),
        _ => sample.user.first().is_some_and(|&raw| is_unknown(raw)),
    }
}

/// The frame that the one at `index` has called; `None` for the leaf, and where frames are left out between.
fn callee_of(user: &[u64], index: usize, left_out: u32) -> Option<u64> {
    let is_behind_gap = index == LEAF_FRAMES && left_out > 0;
    index.checked_sub(1).filter(|_| !is_behind_gap).and_then(|callee| user.get(callee).copied())
}

/// A frame at an address where nothing is mapped that is known; `is_vsyscall`: the kernel's page of system calls.
fn unmapped_frame(
    tables: &mut Tables,
    pid: u32,
    is_vsyscall: bool,
    address: u64,
    flags: FrameFlags,
) -> FrameId {
    let path = tables.intern_string(if is_vsyscall { "[vsyscall]" } else { "[unknown]" });
    let kind = ModuleKind::Unknown;
    let module = tables.intern_module(Module { path, kind, instance: pid, ..Module::default() });
    let address = if is_vsyscall { address & 0xfff } else { address };
    tables.intern_frame(Frame { module, address, flags })
}

/// What there is to know of a process that runs generated code, the first time that it does.
fn note_generated_code(process: &mut Process, pid: u32, files: &mut ModuleFiles) {
    if process.perf_map.is_none() {
        process.perf_map = PerfMapSource::of(pid).ok().map(Arc::new);
        let is_java = |mapping: &Mapped| files.get(mapping.file).path.ends_with("/libjvm.so");
        process.lacks_frame_pointers =
            process.mappings().iter().any(is_java) && files.java_lacks_frame_pointers(pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample whose walk stopped in frame `depth - 1`; the addresses are the numbers of the frames.
    fn stopped_at(depth: u64) -> SampleEvent {
        let mut ends = StackEnds::new(MAX_USER_FRAMES);
        (0..depth).for_each(|frame| ends.push(frame));
        let (user, left_out) = ends.into_parts();
        SampleEvent {
            time_ns: 0,
            tgid: 1,
            tid: 1,
            cpu: 0,
            event: 0,
            weight: 0,
            outcome: outcome::TABLE_NOT_LOADED,
            has_rescue: true,
            rescue_refused: false,
            comm: Vec::new(),
            kernel: Vec::new(),
            user,
            left_out: left_out as u32,
            wait: None,
        }
    }

    #[test]
    fn threads_outside_of_the_namespace_are_told_apart_by_name_and_bounded() {
        let (files, kernel) = (ModuleFiles::new(false), KernelFrames::new(false));
        let mut collector = Collector::new(Profile::default(), files, kernel);
        let mut generation = |name: String| {
            let task = collector.task_outside(name.as_bytes());
            let row = *collector.profile.tables.task(task);
            assert_eq!((row.pid, row.tid), (0, 0));
            row.generation
        };
        assert_eq!(["sshd", "bash", "sshd"].map(|name| generation(name.to_owned())), [0, 1, 0]);
        let most = (0..2 * MOST_OUTSIDE).map(|number| generation(format!("worker/{number}"))).max();
        assert_eq!(most, Some(MOST_OUTSIDE as u32), "the last one is all others");
        assert_eq!(generation("bash".to_owned()), 1);
    }

    #[test]
    fn the_frame_behind_a_gap_has_not_called_the_one_before_it() {
        let sample = stopped_at(5000);
        assert!(sample.left_out > 0);
        let callee = |index| callee_of(&sample.user, index, sample.left_out);
        assert_eq!((callee(0), callee(1)), (None, Some(sample.user[0])));
        assert_eq!(callee(LEAF_FRAMES), None);
        assert_eq!(callee(LEAF_FRAMES + 1), Some(sample.user[LEAF_FRAMES]));
        assert_eq!(callee_of(&sample.user, LEAF_FRAMES, 0), Some(sample.user[LEAF_FRAMES - 1]));
    }

    /// The frames from number `first` to the root, as a rescue gives them.
    fn rescued(first: u64, depth: u64) -> Rescued {
        let mut ends = StackEnds::new(MAX_USER_FRAMES);
        (first..depth).for_each(|frame| ends.push(frame));
        let (frames, left_out) = ends.into_parts();
        Rescued { frames, left_out, outcome: Outcome::Complete, missed_a_table: false }
    }

    #[test]
    fn a_rescue_continues_a_stack_at_any_depth() {
        let max = MAX_USER_FRAMES as u64;
        for stopped in [1, 5, max / 2, max / 2 + 1, max, max + 1, 3 * max] {
            for depth in [stopped, stopped + 1, stopped + max - 1, stopped + max, stopped + 5 * max] {
                for first in [0, stopped - 1] {
                    let mut sample = stopped_at(stopped);
                    continue_stack(&mut sample, first as usize, &rescued(first, depth));
                    let whole = stopped_at(depth);
                    assert_eq!(sample.user[..], whole.user[..], "{first} {stopped} {depth}");
                    assert_eq!(sample.left_out, whole.left_out, "{first} {stopped} {depth}");
                }
            }
        }
    }
}
