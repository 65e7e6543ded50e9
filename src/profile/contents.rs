//! What a profile holds.

use super::code::function_code::FunctionCode;
use super::code::source_text::SourceText;
use super::event::{Event, EventId, EventInfo};
use super::kernel_addresses::AddressSettings;
use super::kind::EventKind;
use super::rows::{Frame, FrameFlags, FrameId, Module, ModuleId, ModuleNotes, Task, TaskId};
use super::runtime_frames::RuntimeFrames;
use super::symbols::{Function, Location, Symbols};
use super::table::Tables;
use super::wait::ThreadTime;
use crate::base::units::CpuShares;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// Everything a recording holds.
///
/// Invariant: ids inside refer to rows that exist (`Tables` only hands out ids of rows it holds, and the
/// reader stops at a row of a file that breaks this); a stack's parent has a smaller id than the stack.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    /// Facts about the recording that are known when it starts.
    pub meta: Meta,
    /// Interned rows that samples refer to.
    pub tables: Tables,
    /// One table of samples for each kind of event, e.g. `on-cpu`.
    pub events: Vec<Event>,
    /// Whole time of each thread by state, when the scheduler was watched: one row for each thread, added
    /// when it or the recording ends.
    pub thread_times: Vec<ThreadTime>,
    /// Names of frames, filled in when the recording ends.
    pub symbols: Symbols,
    /// Code of the functions that were sampled most, filled in when the recording ends.
    pub(crate) code: Vec<FunctionCode>,
    /// Lines of their sources, if they were asked for.
    pub(crate) sources: Vec<SourceText>,
    /// Sources of the names of modules: which files were read, and what was missing.
    pub(crate) module_notes: BTreeMap<ModuleId, ModuleNotes>,
    /// Everything lost, cut, guessed or unnamed, by name (see [`counter`]). Values only grow.
    pub counters: BTreeMap<String, u64>,
    /// Facts known when the recording has ended; `None` in a file whose recorder was killed.
    pub end: Option<End>,
}

/// Path of the module, and name, of the frames in place of others: for those of a stack's middle, when it has
/// more than are kept. Such a frame's address is their number.
pub(crate) const FRAMES_LEFT_OUT: &str = "[frames left out]";

/// Path of the module, and name, of the frame that calls the functions of an interpreter where it is not known which native
/// frames called which of them.
pub(crate) const UNPLACED: &str = "[frames of an interpreter, native callers not known]";

/// Name of the process of threads that the PID namespace of the recorder does not have: their numbers are 0.
pub const OUTSIDE: &str = "[outside this PID namespace]";
/// Path of the module of generated code without names, whose addresses mean nothing to anyone.
pub(crate) const UNNAMED_CODE: &str = "[jit] (no names)";

/// Names of the counters that `prof` itself writes. Readers show unknown names as they are.
pub(crate) mod counter {
    /// Samples of running threads that did not fit into a ring buffer.
    pub(crate) const LOST_RING_FULL: &str = "lost_ring_full";
    /// Samples of counters that did not fit into theirs.
    pub(crate) const LOST_COUNTS: &str = "lost_counts";
    /// Sampled blocks of memory that did not fit into their ring buffer.
    pub(crate) const LOST_BLOCKS: &str = "lost_blocks";
    /// Ends of sampled blocks that did not fit: these blocks look as if they had not been freed.
    pub(crate) const LOST_FREES: &str = "lost_frees";
    /// Sampled blocks that the sampler had no room to follow: the same holds of them.
    pub(crate) const BLOCKS_NOT_FOLLOWED: &str = "blocks_not_followed";
    /// Sampled blocks of which the end is not known, since another one was allocated at their address: they are not in the
    /// recording after that.
    pub(crate) const BLOCK_ENDS_MISSED: &str = "block_ends_missed";
    /// Growth of the target's memory without files while blocks were sampled, bytes.
    pub(crate) const RSS_GROWTH_BYTES: &str = "rss_growth_bytes";
    /// Waits that did not fit into their ring buffer.
    pub(crate) const LOST_WAITS: &str = "lost_waits";
    /// Weight of the waits in `lost_waits`, ns.
    pub(crate) const LOST_WAIT_NS: &str = "lost_wait_ns";
    /// Waits dropped by sampling, to stay within the overhead budget; the kept ones are weighted up.
    pub(crate) const WAITS_THINNED: &str = "waits_thinned";
    /// Stacks of waits and wakers of which the rest never came.
    pub(crate) const WAITS_UNMATCHED: &str = "waits_unmatched";
    /// Waits in a futex that do not say which lock it was, since there were too many different ones.
    pub(crate) const LOCKS_LEFT_OUT: &str = "locks_left_out";
    /// Windows before this one that were removed to keep limits, and those that could not be written.
    pub(crate) const WINDOWS_REMOVED: &str = "windows_removed";
    pub(crate) const WINDOWS_LOST: &str = "windows_lost";
    /// Processes that a rule leaves out; those of which too many had labels of their own; those whose own labels are malformed.
    pub(crate) const PROCESSES_LEFT_OUT: &str = "processes_left_out";
    pub(crate) const LABELS_MERGED: &str = "labels_merged";
    pub(crate) const LABELS_MALFORMED: &str = "labels_malformed";
    /// Processes of which nothing says where they ran, since they had ended before they were looked at; lists of pods that could not be
    /// read.
    pub(crate) const LABELS_OF_ENDED: &str = "labels_of_ended";
    pub(crate) const POD_LISTS_FAILED: &str = "pod_lists_failed";
    /// Samples and waits of processes that a rule leaves out.
    pub(crate) const SAMPLES_LEFT_OUT: &str = "samples_left_out";
    /// Threads of whose time nothing is known.
    pub(crate) const LOST_THREAD_TIMES: &str = "lost_thread_times";
    /// Threads that were there when the recording began, and of whose time nothing is known.
    pub(crate) const THREADS_UNACCOUNTED: &str = "threads_unaccounted";
    /// CPU time that the target used by the kernel's own books while it was recorded, and of which there is no sample, ns.
    pub(crate) const UNRECORDED_NS: &str = "unrecorded_ns";
    /// Ring-buffer records that could not be decoded.
    pub(crate) const LOST_BAD_RECORD: &str = "lost_bad_record";
    /// Side-band records that the kernel dropped (mappings may have been missed).
    pub(crate) const LOST_SIDEBAND: &str = "lost_sideband";
    /// Samples whose stack was finished in user space from a copy of the stack.
    pub(crate) const RESCUED: &str = "rescued";
    /// Samples that wanted a stack copy and got none (rate cap or ring full).
    pub(crate) const RESCUE_REFUSED: &str = "rescue_refused";
    /// Stacks cut where the kernel's walk took an address for code that was mapped there before.
    pub(crate) const STALE_MAPPING: &str = "stale_mapping";
    /// Frames of generated code without a name, because other code was at their address meanwhile.
    pub(crate) const JIT_NAME_UNCERTAIN: &str = "jit_name_uncertain";
    /// Bytes of stack copied for rescue.
    pub(crate) const RESCUE_BYTES: &str = "rescue_bytes";
    /// Samples of a process before its interpreter was found: they have native frames only.
    pub(crate) const INTERPRETER_SAMPLES_BEFORE: &str = "interpreter_samples_before";
    /// Samples of interpreted code whose functions could not be read, because their thread was not held up for long enough.
    pub(crate) const INTERPRETER_SAMPLES_UNREAD: &str = "interpreter_samples_unread";
    /// Samples of threads that an interpreter knows.
    pub(crate) const INTERPRETER_SAMPLES: &str = "interpreter_samples";
    /// Those whose interpreter frames fit the native ones in no way that is certain.
    pub(crate) const INTERPRETER_MISMATCHES: &str = "interpreter_mismatches";
    /// Of these, those whose list was read in part: it has too many frames, or is damaged.
    pub(crate) const INTERPRETER_CUT: &str = "interpreter_cut";
    /// Frames of interpreters in all samples.
    pub(crate) const INTERPRETER_FRAMES: &str = "interpreter_frames";
    /// Those whose function could not be read: it was gone, or damaged.
    pub(crate) const INTERPRETER_FRAMES_UNREAD: &str = "interpreter_frames_unread";
    /// Those that may have the name of a function whose memory they use.
    pub(crate) const INTERPRETER_FRAMES_UNCERTAIN: &str = "interpreter_frames_uncertain";
    /// Samples and waits of threads that worked for a goroutine.
    pub(crate) const GOROUTINE_SAMPLES: &str = "goroutine_samples";
    /// Those of threads that may have worked for one that could not be read.
    pub(crate) const GOROUTINES_UNREAD: &str = "goroutines_unread";
    /// Samples without the labels that the program gave their goroutine: they were gone before they could be read.
    pub(crate) const GOROUTINE_LABELS_UNREAD: &str = "goroutine_labels_unread";
    /// Samples of goroutines without their number, since there were too many of them.
    pub(crate) const GOROUTINES_UNNUMBERED: &str = "goroutines_unnumbered";
    /// Snapshots of all goroutines of a process.
    pub(crate) const GOROUTINE_SNAPSHOTS: &str = "goroutine_snapshots";
    /// Snapshots that were due and were not taken: one before took too long, or the machine was crowded.
    pub(crate) const GOROUTINE_SNAPSHOTS_MISSED: &str = "goroutine_snapshots_missed";
    /// CPU time that the thread that takes snapshots has used for them, ns.
    pub(crate) const GOROUTINE_SNAPSHOTS_CPU_NS: &str = "goroutine_snapshots_cpu_ns";
    /// Goroutines in snapshots.
    pub(crate) const GOROUTINES_READ: &str = "goroutines_read";
    /// Goroutines that snapshots have left out to keep to the cost: others are weighted up.
    pub(crate) const GOROUTINES_SKIPPED: &str = "goroutines_skipped";
    /// Goroutines that snapshots lack, since they ran while they were read.
    pub(crate) const GOROUTINES_CHANGED: &str = "goroutines_changed";
    /// Goroutines that snapshots lack, since they could not be read.
    pub(crate) const GOROUTINES_UNREADABLE: &str = "goroutines_unreadable";
    /// Frames of functions of managed code.
    pub(crate) const MANAGED_FRAMES: &str = "managed_frames";
    /// Those whose function could not be told.
    pub(crate) const MANAGED_FRAMES_UNREAD: &str = "managed_frames_unread";
    /// Those that may have the name of a function whose memory they use.
    pub(crate) const MANAGED_FRAMES_UNCERTAIN: &str = "managed_frames_uncertain";
    /// Modules whose unwind table was dropped to stay within the memory budget.
    pub(crate) const TABLES_EVICTED: &str = "tables_evicted";
    /// Modules whose unwind table could not be built (no CFI, damaged, too big).
    pub(crate) const TABLES_FAILED: &str = "tables_failed";
    /// Samples whose stack has more frames than are kept, so that those of its middle are left out.
    pub(crate) const STACKS_CUT: &str = "stacks_cut";
    /// Stacks of a live view of which only the ends are kept, since stacks hardly ever repeat.
    pub(crate) const STACKS_SHORTENED: &str = "stacks_shortened";
    /// Frames left out of the middle of stacks.
    pub(crate) const FRAMES_LEFT_OUT: &str = "frames_left_out";
    /// Old samples and waits that were dropped to keep memory bounded.
    pub(crate) const SAMPLES_DROPPED: &str = "samples_dropped";
    /// Weight of the samples and waits in `samples_dropped`, ns.
    pub(crate) const DROPPED_NS: &str = "samples_dropped_ns";
    /// Executable mappings that did not fit into the kernel's per-process list.
    pub(crate) const MAPPINGS_CUT: &str = "mappings_cut";
    /// Files of code that were not opened because too many files were open.
    pub(crate) const FILES_UNOPENED: &str = "files_unopened";
    /// Processes whose mappings the kernel side did not take at first, or never.
    pub(crate) const PROCESSES_REFUSED: &str = "processes_refused";
    /// Files that the kernel side did not take.
    pub(crate) const FILES_REFUSED: &str = "files_refused";
    /// Files with the names of generated code that were there and were not read, such as those of another user.
    pub(crate) const PERF_MAPS_REFUSED: &str = "perf_maps_refused";
    /// Functions that were sampled and whose code is not in the file, since it would grow too much.
    pub(crate) const CODE_LEFT_OUT: &str = "code_left_out";
    /// Source files that were to be kept in the file and could not be.
    pub(crate) const SOURCES_LEFT_OUT: &str = "sources_left_out";
}

/// Facts about the recording that are known when it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meta {
    /// Version of the `prof` that recorded.
    pub prof_version: String,
    /// The command line of the recorder, one string per argument.
    pub command: Vec<String>,
    /// Host name.
    pub hostname: String,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Machine architecture (`uname -m`).
    pub arch: String,
    /// CPUs that were online and sampled.
    pub cpus: u32,
    /// Wall-clock time of the start, ns since the Unix epoch.
    pub start_unix_ns: u64,
    /// CLOCK_MONOTONIC of the initial time namespace at the start, ns. Sample times are relative to this.
    pub start_mono_ns: u64,
    /// Description of what was recorded, for people: `ingest (pid 4312)`, `-a`, `ls -l`.
    pub target: String,
    /// Short name for titles: the comm of the target, or `all`.
    pub target_name: String,
    /// Process ids that were asked for (empty for `-a`).
    pub target_pids: Vec<u32>,
    /// Threads alive in the target when the recording started.
    pub threads_at_start: u32,
    /// Sampling rate that was asked for, Hz.
    pub requested_hz: u32,
    /// Sampling rate in force, Hz (clamped to the kernel's limit).
    pub effective_hz: u32,
    /// Event that drives the sampling, as perf calls it: `cpu-clock`.
    pub clock: String,
    /// Whether that is a timer, which interrupts at the instruction that is to run next, and no counter of the processor.
    pub clock_is_timer: bool,
    /// Whether kernel frames were left out.
    pub user_only: bool,
    /// Process id of the recorder.
    pub recorder_pid: u32,
    /// Who could see the kernel's addresses, if that is known.
    pub kernel_addresses: Option<AddressSettings>,
    /// Inode of the PID namespace whose numbers processes and threads have; 0 for the initial one.
    pub pid_namespace: u64,
    /// Whether the target is a command that was started for the recording.
    pub is_command: bool,
    /// Decisions made at the start that readers of the profile should know. Quotes foreign names.
    pub notices: Vec<String>,
    /// Why waits were not recorded although they were asked for, as in `notices`; empty otherwise. Quotes foreign names.
    pub why_no_waits: String,
    /// What reports show of interpreters, unless an option says otherwise.
    pub runtime: RuntimeFrames,
    /// The format that it was imported from, for people: `perf.data`; empty: `prof` recorded it.
    pub imported_from: String,
    /// The file that it was imported from, as the user named it; empty for standard input.
    pub source_file: String,
    /// Tool that recorded the imported file, as far as the file says: `perf 6.1.187`.
    pub source_tool: String,
    /// The imported file says how many samples were lost.
    pub losses_known: bool,
}

/// Facts known when the recording has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct End {
    /// Length of the recording, ns.
    pub duration_ns: u64,
    /// Why it ended: `interrupted`, `duration reached`, `target ended`, …
    pub reason: String,
    /// Whether it ended because the file could not be written on.
    pub writing_failed: bool,
    /// CPU time used by `prof` itself, user + system, ns: before, while and after it recorded.
    pub cpu_ns: u64,
    /// The part of `cpu_ns` that was used while it recorded; `None` in files of versions that did not tell them apart.
    pub recording_cpu_ns: Option<u64>,
    /// Run time of the BPF programs, ns; 0 when it could not be measured.
    pub bpf_ns: u64,
    /// Number of BPF program runs that `bpf_ns` is the time of.
    pub bpf_runs: u64,
    /// Peak resident memory of `prof`, bytes.
    pub max_rss_bytes: u64,
    /// Distinct threads that were seen running.
    pub threads: u32,
    /// Exit status of a launched command, as a shell would report it.
    pub command_status: Option<i32>,
    /// The signal that killed a launched command.
    pub command_signal: Option<i32>,
    /// Findings made at the end that readers of the profile should know. Quotes foreign names.
    pub notices: Vec<String>,
}

impl Meta {
    /// Whether another program recorded it: what that one did not keep is not known.
    pub(crate) fn is_imported(&self) -> bool {
        !self.imported_from.is_empty()
    }
}

impl End {
    /// Beginning of the reason where the file could not be written to its end.
    pub(crate) const WRITING_FAILED: &str = "writing the file failed";
    /// The reason where the time before sampling, `--delay`, was not over.
    pub(crate) const IN_DELAY: &str = "ended during the delay, before sampling began";
    /// The reason of a picture of a recording that goes on.
    pub(crate) const STILL_RECORDING: &str = "still recording";
    /// The reason where the launched command has ended, or the one that times the recording.
    pub(crate) const COMMAND_ENDED: &str = "command ended";
    /// The reason of a window of a recording that goes on in the next one.
    pub(crate) const WINDOW_OVER: &str = "window over";
    /// The reason where all that was to be recorded has ended.
    pub(crate) const TARGET_ENDED: &str = "target ended";
    /// The same before the first sample could be taken.
    pub(crate) const TARGET_GONE: &str = "target ended before the first sample";
    /// The reason where the duration that was asked for has passed.
    pub(crate) const DURATION_REACHED: &str = "duration reached";
    /// The reason after Ctrl-C.
    pub(crate) const INTERRUPTED: &str = "interrupted";
    /// The reason where the user of a live view ended it.
    pub(crate) const STOPPED: &str = "stopped";

    /// Whether it ended during the delay, before sampling began.
    pub(crate) fn is_in_delay(&self) -> bool {
        self.reason == Self::IN_DELAY
    }

    /// Whether the recording goes on, and this is of a picture of it.
    pub(crate) fn is_of_picture(&self) -> bool {
        self.reason == Self::STILL_RECORDING
    }

    /// Whether the command's end was the recording's.
    pub(crate) fn is_of_command(&self) -> bool {
        self.reason == Self::COMMAND_ENDED
    }

    /// Whether it ended with what was recorded, not before.
    pub(crate) fn is_of_whole_run(&self) -> bool {
        self.is_of_command() || self.reason == Self::TARGET_ENDED
    }

    /// Whether the target was gone before the first sample.
    pub(crate) fn is_before_first_sample(&self) -> bool {
        self.reason == Self::TARGET_GONE
    }

    /// Whether it ended as the user had asked for.
    pub(crate) fn is_as_asked(&self) -> bool {
        let asked = [
            Self::COMMAND_ENDED,
            Self::DURATION_REACHED,
            Self::INTERRUPTED,
            Self::STOPPED,
            Self::WINDOW_OVER,
        ];
        asked.contains(&self.reason.as_str())
    }

    /// Shares that `prof` used while it recorded; `None` where that is not known.
    pub(crate) fn while_recording(&self) -> Option<CpuShares> {
        CpuShares::of(self.recording_cpu_ns?, self.bpf_ns, self.duration_ns)
    }

    /// CPU time that `prof` used before it recorded and after that, ns; `None` where that is not known.
    pub(crate) fn before_after_ns(&self) -> Option<u64> {
        Some(self.cpu_ns.saturating_sub(self.recording_cpu_ns?))
    }
}

impl Profile {
    /// An empty profile with the given facts.
    pub fn new(meta: Meta) -> Self {
        Profile { meta, ..Profile::default() }
    }

    /// A frame that is no code and says something about its stack, by its `text`.
    pub(crate) fn marker_frame(&mut self, text: &str) -> FrameId {
        self.marker_at(text, 0)
    }

    /// The frame in place of `count` frames left out, or of some when that is 0; its address is their number.
    pub(crate) fn frame_left_out(&mut self, count: u32) -> FrameId {
        self.marker_at(FRAMES_LEFT_OUT, u64::from(count))
    }

    fn marker_at(&mut self, text: &str, address: u64) -> FrameId {
        let name = self.tables.intern_string(text);
        let module = self.tables.intern_module(Module { path: name, ..Module::default() });
        let frame = Frame { module, address, flags: FrameFlags::default() };
        let frame = self.tables.intern_frame(frame);
        if !self.symbols.is_named(frame) {
            let function = self.symbols.intern_function(Function { name, raw_name: name });
            let location = Location { function, ..Location::default() };
            self.symbols.set_locations(frame, vec![location]);
        }
        frame
    }

    /// Forgets all rows but modules and sets of labels, which keep their ids, with the samples and names that refer to them: a recorder that
    /// runs for days has handed them over. Returns the tables as they were. See [`super::Writer::reset`].
    pub(crate) fn reset(&mut self) -> Tables {
        // By modules, which stay.
        let notes = std::mem::take(&mut self.module_notes);
        let old = self.clear();
        self.module_notes = notes;
        for module in old.modules() {
            let path = self.tables.intern_string(old.string(module.path));
            self.tables.intern_module(Module { path, ..module.clone() });
        }
        self.tables.intern_label_sets_of(&old);
        old
    }

    /// Forgets all rows, with the samples and names that refer to them, for a file of its own; events keep their ids. Returns the tables
    /// as they were.
    pub(crate) fn clear(&mut self) -> Tables {
        self.events.iter_mut().for_each(Event::clear);
        self.thread_times.clear();
        self.symbols = Symbols::default();
        self.code.clear();
        self.sources.clear();
        self.module_notes.clear();
        std::mem::take(&mut self.tables)
    }

    /// Adds `n` to the counter `name`.
    pub fn count(&mut self, name: &str, n: u64) {
        if n > 0 {
            let value = self.counters.entry(name.to_owned()).or_default();
            *value = value.saturating_add(n);
        }
    }

    /// Takes `n` from the counter `name`: what it counted has turned up.
    pub(crate) fn uncount(&mut self, name: &str, n: u64) {
        if let Some(value) = self.counters.get_mut(name) {
            *value = value.saturating_sub(n);
        }
    }

    /// The value of the counter `name`, 0 when it was never counted.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// The tasks of processes that were recorded: others have only ended waits. Without accounts of threads, all tasks.
    pub(crate) fn recorded_tasks(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        let pid = |time: &ThreadTime| self.tables.task(time.task).pid;
        let processes: FxHashSet<u32> = self.thread_times.iter().map(pid).collect();
        let tasks = (0..).map(TaskId).zip(self.tables.tasks());
        tasks.filter(move |(_, task)| processes.is_empty() || processes.contains(&task.pid))
    }

    /// Samples of this kind, which are no waits, that were lost while it was recorded.
    pub(crate) fn lost_samples(&self, kind: &EventKind) -> u64 {
        let is_clock = kind.name == EventKind::ON_CPU.name;
        let full = match is_clock {
            true => counter::LOST_RING_FULL,
            false if kind.is(&EventKind::HEAP) => counter::LOST_BLOCKS,
            false if kind.is(&EventKind::LOCK) => counter::LOST_WAITS,
            // They come in no ring.
            false if kind.is_of_goroutines() => return 0,
            false => counter::LOST_COUNTS,
        };
        // Nothing is known of a record that could not be decoded.
        self.counter(full).saturating_add(self.counter(counter::LOST_BAD_RECORD))
    }

    /// Decisions and findings that readers of the profile should know. Quotes foreign names.
    pub(crate) fn notices(&self) -> impl Iterator<Item = &String> {
        self.meta.notices.iter().chain(self.end.iter().flat_map(|end| &end.notices))
    }

    /// Length of the recording in ns: from the end record, else the time of the last sample.
    pub fn duration_ns(&self) -> u64 {
        match &self.end {
            Some(end) => end.duration_ns,
            None => self.events.iter().filter_map(Event::last_time_ns).max().unwrap_or(0),
        }
    }

    /// [`Profile::duration_ns`]; `None` where what it was imported from does not say.
    pub(crate) fn known_duration_ns(&self) -> Option<u64> {
        Some(self.duration_ns()).filter(|duration_ns| *duration_ns > 0 || !self.meta.is_imported())
    }

    /// Whether the number of lost samples is one: what was imported may not tell it.
    pub(crate) fn losses_known(&self) -> bool {
        self.meta.losses_known || !self.meta.is_imported()
    }

    /// Adds an event table, e.g. `on-cpu`.
    pub fn add_event(&mut self, info: EventInfo) -> EventId {
        self.events.push(Event::new(info));
        EventId(self.events.len() as u32 - 1)
    }

    /// The event of a kind, if the recording has it.
    pub fn event_of(&self, kind: &EventKind) -> Option<&Event> {
        self.events.iter().find(|event| event.kind().is(kind))
    }
}
