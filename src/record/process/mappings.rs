//! A process that is recorded, and what code it has mapped, now and before.

use crate::bpf::{FRAME_ADDRESS, MAX_MAPPINGS, MarkedAddress, NO_START, prof_process};
use crate::profile::FrameId;
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::goroutines::program::ProcessGoroutines;
use crate::record::interpreters::interpreter::ProcessInterpreter;
use crate::record::kernel::sideband::CodeMapping;
use crate::record::managed_code::managed_runtime::ProcessManaged;
use crate::record::modules::{FileId, ModuleFiles};
use crate::record::names::dump_of::DumpOf;
use crate::symbols::PerfMapSource;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Code of one module in one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// First process address.
    pub(crate) start: u64,
    /// First process address after it.
    pub(crate) end: u64,
    /// Process address − module address.
    pub(crate) bias: u64,
    /// The file, or [`ModuleFiles::GENERATED`].
    pub(crate) file: FileId,
    /// Time of the mapping, CLOCK_MONOTONIC, ns; 0 when before the recording.
    pub(crate) since_ns: u64,
}

/// Addresses that show another file than the one published to the kernel side.
#[derive(Debug, Clone, Copy)]
struct Replaced {
    start: u64,
    end: u64,
    since_ns: u64,
    /// Time at which it was sent to the kernel side, ns; `u64::MAX` while it has not been.
    until_ns: u64,
}

/// Time after which the kernel side has heard of an interpreter for certain, ns.
const PUBLISHED_AFTER_NS: u64 = 10_000_000_000;

/// The vsyscall page of x86-64 as frames have it, and as registers do.
pub(super) const VSYSCALL_PAGES: [u64; 2] = [0xffff_ffff_ff60_0000 & FRAME_ADDRESS, 0xffff_ffff_ff60_0000];

/// Whether an address lies in the vsyscall page, which every process has and none maps.
pub(crate) fn is_vsyscall(address: u64) -> bool {
    VSYSCALL_PAGES.contains(&(address & !0xfff))
}

/// One process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// Name of the process.
    pub(crate) comm: String,
    /// Number of times that its process id was reused during the recording.
    pub(crate) generation: u32,
    /// exec calls seen; what the kernel side counts too.
    pub(crate) exec_seq: u32,
    /// Mappings by start, never overlapping.
    mappings: Vec<Mapped>,
    /// Mappings that are gone, with the time of their end.
    past: Vec<(Mapped, u64)>,
    replaced: Vec<Replaced>,
    /// Returns the time of the last change of the mappings, ns.
    changed_ns: u64,
    /// Frames of user addresses (with marks) and the file each is in, valid for the present mappings.
    pub(crate) frames: FxHashMap<u64, (FrameId, FileId)>,
    /// Source of the names of its generated code, once it has any.
    pub(crate) perf_map: Option<Arc<PerfMapSource>>,
    /// The dump that names its generated code by time, if there is one.
    pub(crate) jit_dump: Option<DumpOf>,
    /// Time at which the mappings had last changed when a dump was last looked for, ns.
    pub(crate) dump_sought_ns: Option<u64>,
    /// Time of its fork, ns, if that was seen.
    pub(crate) forked_ns: Option<u64>,
    /// Its interpreter of a language.
    interpreter: ProcessInterpreter,
    /// Time at which the mappings had last changed when an interpreter was last looked for, ns.
    pub(crate) interpreter_sought_ns: Option<u64>,
    /// Time at which the kernel side was last to hear of another interpreter, ns; 0 if never.
    interpreter_changed_ns: u64,
    /// Its Go program.
    goroutines: ProcessGoroutines,
    /// Time at which the mappings had last changed when a Go program was last looked for, ns.
    pub(crate) goroutines_sought_ns: Option<u64>,
    /// Its runtime with managed code.
    managed: ProcessManaged,
    /// Time at which the mappings had last changed when such a runtime was last looked for, ns.
    pub(crate) managed_sought_ns: Option<u64>,
    /// Whether the generated code uses rbp for other things than frame pointers: a Java machine's as a rule.
    pub(crate) lacks_frame_pointers: bool,
    /// Time of its last exec, ns.
    pub(crate) exec_ns: u64,
    /// Time of the last re-read after an unknown address, ns.
    pub(crate) reread_ns: u64,
    /// Since when the kernel side has counted other exec calls than user space has received, ns; 0 when both agree.
    pub(crate) mismatch_ns: u64,
    /// Inherited at fork and unchanged since: the kernel side has done the same, if it knew the parent.
    pub(crate) is_inherited: bool,
    /// Whether the process has ended.
    pub(crate) has_ended: bool,
    /// The kernel side needs to hear of its mappings.
    pub(crate) is_dirty: bool,
    /// Whether the process is among those that are looked at before anything is published to the kernel side.
    pub(super) is_touched: bool,
    /// The kernel side had no room for it.
    pub(super) is_refused: bool,
    /// Mappings of it that were not published to the kernel side: there are too many.
    pub(crate) cut: u64,
    /// Whether the kernel side shall know of it at all.
    pub(crate) is_target: bool,
}

/// Most mappings that are remembered after they are gone, per process.
const MAX_PAST: usize = 4096;

impl Process {
    /// A target of which no mapping is known yet.
    pub(crate) fn target(comm: String, generation: u32, exec_seq: u32) -> Process {
        Process { comm, generation, exec_seq, is_target: true, is_dirty: true, ..Process::default() }
    }

    /// Adds a mapping; what it covers of older ones is gone from then on.
    pub(crate) fn map(&mut self, new: Mapped) {
        if let Some(known) = self.known_as(&new) {
            // It was read from /proc before word of it came.
            known.since_ns = known.since_ns.min(new.since_ns);
            return;
        }
        self.note_replaced(&new);
        let mut kept = Vec::with_capacity(self.mappings.len() + 2);
        for old in self.mappings.drain(..) {
            if old.end <= new.start || new.end <= old.start {
                kept.push(old);
                continue;
            }
            self.past.push((old, new.since_ns));
            if old.start < new.start {
                kept.push(Mapped { end: new.start, ..old });
            }
            if new.end < old.end {
                kept.push(Mapped { start: new.end, ..old });
            }
        }
        kept.push(new);
        kept.sort_unstable_by_key(|mapping| mapping.start);
        self.mappings = kept;
        self.changed(new.since_ns);
    }

    /// The present mapping that is `new` but for its time.
    fn known_as(&mut self, new: &Mapped) -> Option<&mut Mapped> {
        self.mappings.iter_mut().find(|old| Mapped { since_ns: new.since_ns, ..**old } == *new)
    }

    /// Notes that the kernel side takes the addresses of `new` for those of another file until it receives the update.
    fn note_replaced(&mut self, new: &Mapped) {
        let is_stale = |old: &Mapped| {
            old.start < new.end && new.start < old.end && (old.file, old.bias) != (new.file, new.bias)
        };
        if !self.mappings.iter().any(is_stale) {
            return;
        }
        if self.replaced.len() >= MAX_PAST {
            self.replaced.drain(..MAX_PAST / 2);
        }
        let Mapped { start, end, since_ns, .. } = *new;
        self.replaced.push(Replaced { start, end, since_ns, until_ns: u64::MAX });
    }

    /// Notes that the present mappings were sent to the kernel side at `time_ns`.
    pub(crate) fn published(&mut self, time_ns: u64) {
        self.is_dirty = false;
        for replaced in self.replaced.iter_mut().rev().take_while(|replaced| replaced.until_ns == u64::MAX) {
            replaced.until_ns = time_ns;
        }
    }

    /// Returns how many of the frames (addresses with marks, leaf first) that the kernel side found at `time_ns` are right
    /// for certain, if not all: those up to the first in addresses of which it did not know yet that they show another
    /// file.
    pub(crate) fn frames_before_stale(&self, frames: &[u64], time_ns: u64) -> Option<usize> {
        let is_in_time = |replaced: &&Replaced| (replaced.since_ns..replaced.until_ns).contains(&time_ns);
        let stale: Vec<&Replaced> = self.replaced.iter().filter(is_in_time).collect();
        let is_stale = |&raw: &u64| {
            let address = MarkedAddress(raw).lookup();
            stale.iter().any(|replaced| (replaced.start..replaced.end).contains(&address))
        };
        if stale.is_empty() {
            return None;
        }
        frames.iter().position(is_stale).map(|index| index + 1)
    }

    /// A child that was forked at `time_ns`: it has what its parent had.
    pub(crate) fn forked(&self, generation: u32, time_ns: u64) -> Process {
        let inherit = |&mapping: &Mapped| Mapped { since_ns: time_ns.min(mapping.since_ns), ..mapping };
        Process {
            comm: self.comm.clone(),
            generation,
            exec_seq: self.exec_seq,
            mappings: self.mappings.iter().map(inherit).collect(),
            is_target: self.is_target,
            forked_ns: Some(time_ns),
            interpreter: self.interpreter.forked(),
            managed: self.managed.forked(),
            interpreter_changed_ns: self.interpreter_changed_ns,
            is_inherited: self.interpreter_changed_ns.saturating_add(PUBLISHED_AFTER_NS) < time_ns,
            is_dirty: true,
            ..Process::default()
        }
    }

    /// Forgets what no sample can need any more: all code. Its name, number and names of generated code stay.
    pub(super) fn forget_code(&mut self) {
        (self.mappings, self.past, self.replaced) = Default::default();
        self.frames = FxHashMap::default();
        self.interpreter = ProcessInterpreter::None;
        self.goroutines = ProcessGoroutines::None;
        self.managed = ProcessManaged::None;
    }

    /// Forgets frames and labels, which get new numbers.
    pub(super) fn forget_frames(&mut self) {
        self.frames = FxHashMap::default();
        self.interpreter.forget_frames();
        self.goroutines.forget_sets();
    }

    /// Forgets all mappings, as exec does.
    pub(crate) fn unmap_all(&mut self, time_ns: u64) {
        self.past.extend(self.mappings.drain(..).map(|mapping| (mapping, time_ns)));
        (self.jit_dump, self.forked_ns) = (None, None);
        self.interpreter = ProcessInterpreter::None;
        self.goroutines = ProcessGoroutines::None;
        self.managed = ProcessManaged::None;
        self.changed(time_ns);
    }

    fn changed(&mut self, time_ns: u64) {
        self.changed_ns = self.changed_ns.max(time_ns);
        if self.past.len() > MAX_PAST {
            self.past.drain(..MAX_PAST / 2);
        }
        self.frames.clear();
        self.is_dirty = true;
        self.is_inherited = false;
    }

    /// Replaces all mappings by what /proc says at `now_ns`, keeping the times of those that are unchanged; what is gone counts
    /// as gone since `time_ns`, unless it came after that.
    pub(crate) fn set_mappings(&mut self, mut now: Vec<Mapped>, time_ns: u64, now_ns: u64) {
        for mapping in &mut now {
            mapping.since_ns = self.known_as(mapping).map_or(mapping.since_ns, |old| old.since_ns);
        }
        if now == self.mappings {
            return;
        }
        let changed_ns = now.iter().map(|mapping| mapping.since_ns).fold(time_ns, u64::max);
        for new in &now {
            self.note_replaced(new);
        }
        let gone = self.mappings.iter().filter(|old| !now.contains(old));
        let is_later = |since_ns| self.exec_ns.max(self.forked_ns.unwrap_or(0)).max(since_ns) > time_ns;
        self.past.extend(gone.map(|old| (*old, if is_later(old.since_ns) { now_ns } else { time_ns })));
        self.mappings = now;
        self.changed(changed_ns);
    }

    /// Adds what /proc says now where nothing is known: code ran at `address` at `time_ns`, so what holds it was mapped by
    /// then. Of addresses that are known, /proc says nothing about the past: word of later mappings may be on its way.
    pub(crate) fn fill(&mut self, now: Vec<Mapped>, address: u64, time_ns: u64) {
        let mut changed_ns = None;
        for new in now {
            let overlaps = |old: &Mapped| old.start < new.end && new.start < old.end;
            // What a part of it held after that time would be hidden by it.
            let is_meant = (new.start..new.end).contains(&address)
                && !self.past.iter().any(|(old, until_ns)| overlaps(old) && *until_ns > time_ns);
            let since_ns = if is_meant { time_ns.min(new.since_ns) } else { new.since_ns };
            if let Some(known) = self.known_as(&new) {
                if since_ns < known.since_ns {
                    known.since_ns = since_ns;
                    changed_ns = changed_ns.max(Some(since_ns));
                }
            } else if !self.mappings.iter().any(overlaps) {
                self.mappings.push(Mapped { since_ns, ..new });
                changed_ns = changed_ns.max(Some(since_ns));
            }
        }
        if let Some(changed_ns) = changed_ns {
            self.mappings.sort_unstable_by_key(|mapping| mapping.start);
            self.changed(changed_ns);
        }
    }

    /// The mapping that `address` was in at `time_ns`.
    pub(crate) fn find(&self, address: u64, time_ns: u64) -> Option<&Mapped> {
        self.find_present(address, time_ns).or_else(|| self.find_past(address, time_ns))
    }

    /// The mapping that `address` is in, if it was there at `time_ns`: the same for all of its addresses.
    pub(crate) fn find_present(&self, address: u64, time_ns: u64) -> Option<&Mapped> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        self.mappings[..after].last().filter(|m| address < m.end && m.since_ns <= time_ns)
    }

    /// The mapping that `address` was in at `time_ns`, and is not any more.
    pub(crate) fn find_past(&self, address: u64, time_ns: u64) -> Option<&Mapped> {
        self.past
            .iter()
            .rev()
            .filter(|(m, until_ns)| m.since_ns <= time_ns && time_ns < *until_ns)
            .map(|(mapping, _)| mapping)
            .find(|m| m.start <= address && address < m.end)
    }

    /// Whether `time_ns` is within the time of the present mappings.
    pub(crate) fn is_present(&self, time_ns: u64) -> bool {
        time_ns >= self.changed_ns
    }

    /// Returns the time of the last change of the mappings, ns.
    pub(crate) fn changed_ns(&self) -> u64 {
        self.changed_ns
    }

    /// The present mappings, by start.
    pub(crate) fn mappings(&self) -> &[Mapped] {
        &self.mappings
    }

    /// Its interpreter of a language.
    pub(crate) fn interpreter(&self) -> &ProcessInterpreter {
        &self.interpreter
    }

    /// Its interpreter of a language, to change what is not published to the kernel side.
    pub(crate) fn interpreter_mut(&mut self) -> &mut ProcessInterpreter {
        &mut self.interpreter
    }

    /// Whether it had an interpreter at `time_ns` that was not found yet.
    pub(crate) fn awaits_interpreter(&self, time_ns: u64) -> bool {
        match self.interpreter {
            ProcessInterpreter::Pending { .. } => true,
            ProcessInterpreter::Ready(_) => time_ns < self.interpreter_changed_ns,
            ProcessInterpreter::None | ProcessInterpreter::Unknown { .. } => false,
        }
    }

    /// Sets its interpreter, which the kernel side is to hear of; frames that were interned before do not count any more.
    pub(crate) fn set_interpreter(&mut self, interpreter: ProcessInterpreter) {
        if interpreter.descriptor().kind != self.interpreter.descriptor().kind {
            self.is_dirty = true;
            self.is_inherited = false;
            self.frames.clear();
            self.interpreter_changed_ns = monotonic_ns();
        }
        self.interpreter = interpreter;
    }

    /// Its Go program.
    pub(crate) fn goroutines(&self) -> &ProcessGoroutines {
        &self.goroutines
    }

    /// Its Go program, to change what is not published to the kernel side.
    pub(crate) fn goroutines_mut(&mut self) -> &mut ProcessGoroutines {
        &mut self.goroutines
    }

    /// Sets its Go program, which the kernel side is to hear of.
    pub(crate) fn set_goroutines(&mut self, goroutines: ProcessGoroutines) {
        if goroutines.descriptor().is_known != self.goroutines.descriptor().is_known {
            self.is_dirty = true;
            self.is_inherited = false;
        }
        self.goroutines = goroutines;
    }

    /// Its runtime with managed code.
    pub(crate) fn managed(&self) -> &ProcessManaged {
        &self.managed
    }

    /// Sets its runtime with managed code, which the kernel side is to hear of.
    pub(crate) fn set_managed(&mut self, managed: ProcessManaged) {
        if managed.descriptor().kind != self.managed.descriptor().kind {
            self.is_dirty = true;
            self.is_inherited = false;
            self.interpreter_changed_ns = monotonic_ns();
        }
        self.managed = managed;
    }

    /// Its runtime with managed code, to change what is not published to the kernel side.
    pub(crate) fn managed_mut(&mut self) -> &mut ProcessManaged {
        &mut self.managed
    }

    /// Takes its runtime with managed code, to ask it for functions; it comes back by `restore_managed`.
    pub(crate) fn take_managed(&mut self) -> ProcessManaged {
        std::mem::take(&mut self.managed)
    }

    /// Gives back what `take_managed` took.
    pub(crate) fn restore_managed(&mut self, managed: ProcessManaged) {
        self.managed = managed;
    }

    /// The files of all mappings, past ones too.
    pub(crate) fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        self.mappings.iter().chain(self.past.iter().map(|(mapping, _)| mapping)).map(|mapping| mapping.file)
    }

    /// The kernel side's view of the mappings, under a stamp that no other entry has; the second value counts those that did not fit.
    pub(crate) fn kernel_entry(&self, stamp: u64, files: &ModuleFiles) -> (Box<prof_process>, usize) {
        let mut entry = empty_entry();
        entry.stamp = stamp;
        let mut count = 0;
        let mut cut = 0;
        for mapping in &self.mappings {
            let image = files.get(mapping.file).image;
            let previous = count - usize::from(count > 0);
            let last = &mut entry.mapping[previous];
            // Neighbours of one module, and generated code with gaps between, share an entry.
            if count > 0
                && last.image == image
                && last.bias == mapping.bias
                && (last.end == mapping.start || mapping.file == ModuleFiles::GENERATED)
            {
                last.end = mapping.end;
                continue;
            }
            if count == MAX_MAPPINGS {
                cut += 1;
                continue;
            }
            entry.start[count] = mapping.start;
            entry.mapping[count].end = mapping.end;
            entry.mapping[count].bias = mapping.bias;
            entry.mapping[count].image = image;
            count += 1;
        }
        entry.count = count as u32;
        entry.exec_seq = self.exec_seq;
        entry.runtime = self.interpreter.descriptor();
        entry.goroutine = self.goroutines.descriptor();
        entry.managed = self.managed.descriptor();
        (entry, cut)
    }
}

/// The kernel side's entry of a process about which nothing is known.
pub(crate) fn empty_entry() -> Box<prof_process> {
    Box::new(prof_process { start: [NO_START; MAX_MAPPINGS], ..prof_process::default() })
}

/// Reads what code a process has mapped now, as mapped since `time_ns`. A process that is gone keeps what was known.
pub(crate) fn read_mappings(pid: u32, process: &mut Process, time_ns: u64, files: &mut ModuleFiles) {
    let now = mappings_now(pid, time_ns, files);
    now.into_iter().for_each(|now| process.set_mappings(now, time_ns, time_ns));
}

/// Returns the code that a process has mapped now, as mapped since `since_ns`; `None` if it is gone or has begun to exit.
pub(crate) fn mappings_now(pid: u32, since_ns: u64, files: &mut ModuleFiles) -> Option<Vec<Mapped>> {
    let mappings = files.code_mappings(pid).filter(|mappings| !mappings.is_empty())?;
    let mapped_now = mappings.iter().filter_map(|mapping| {
        let file = files.file_of(pid, mapping)?;
        with_file(mapping, since_ns, file, files)
    });
    Some(mapped_now.collect())
}

/// What a process mapped at `time_ns`, with its module.
pub(crate) fn mapped(
    pid: u32,
    mapping: &CodeMapping,
    time_ns: u64,
    files: &mut ModuleFiles,
) -> Option<Mapped> {
    let file = files.file_mapped_at(pid, mapping, time_ns)?;
    with_file(mapping, time_ns, file, files)
}

fn with_file(mapping: &CodeMapping, time_ns: u64, file: FileId, files: &ModuleFiles) -> Option<Mapped> {
    let bias = match &files.get(file).elf {
        Some(elf) => elf.bias_of_mapping(mapping.start, mapping.end, mapping.file_offset)?,
        None if file == ModuleFiles::GENERATED => 0,
        None if files.is_generated(file) => mapping.start,
        // Not readable as ELF: offsets in the file are the best addresses there are.
        None => mapping.start.wrapping_sub(mapping.file_offset),
    };
    Some(Mapped { start: mapping.start, end: mapping.end, bias, file, since_ns: time_ns })
}

#[cfg(test)]
mod tests;
