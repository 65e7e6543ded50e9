//! The registry of the Go programs of all recorded processes, and the labels of samples by goroutine.

use super::go_file::GoFile;
use super::program::{GoProgram, ProcessGoroutines};
use super::snapshots::{SnapshotTarget, Snapshots, TakenSnapshot, function_around};
use crate::bpf::{GoroutineEvent, SampleGoroutine};
use crate::profile::{GOROUTINE_LABEL, LabelSetId, Profile, counter};
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::interpreters::process_memory::ProcessMemory;
use crate::record::modules::{FileId, ModuleFiles};
use crate::record::process::mappings::Process;
use crate::record::runtime_search::{RuntimeProblems, next_attempt_ns};
use crate::runtimes::go::{GoFunctions, GoLayout};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Sets of labels that a recording may have before goroutines have no number of their own any more, and before they have no
/// labels at all.
const MOST_NUMBERED: usize = 200_000;
const MOST_SETS: usize = 300_000;
/// Note on processes that ran no Go program when the recording began.
const STARTED_LATE: &str = "a recorded process has begun to run a Go program, whose goroutines are not in this recording: to \
                            have them, start the recording now";

/// Go programs of recorded processes.
#[derive(Debug, Default)]
pub(crate) struct Goroutines {
    /// Goroutines are to be recorded.
    pub(crate) is_wanted: bool,
    /// The kernel side reads them: a target is a Go program, or one may come.
    pub(crate) is_loaded: bool,
    files: FxHashMap<FileId, Option<GoFile>>,
    problems: RuntimeProblems,
    /// Where functions start is to be known, besides for snapshots.
    pub(crate) wants_functions: bool,
    /// Share of a CPU that snapshots of all goroutines may take, if they are to be taken, ppm.
    pub(crate) snapshot_overhead: Option<u32>,
    /// Programs whose goroutines are read once snapshots are taken.
    waiting: Vec<SnapshotTarget>,
    /// Processes that are in snapshots.
    read: FxHashSet<u32>,
    snapshots: Option<Snapshots>,
}

impl Goroutines {
    /// The Go program that a file is, if it is one.
    fn program(&mut self, id: FileId, files: &ModuleFiles) -> Option<&GoFile> {
        let has_stacks = self.snapshot_overhead.is_some() || self.wants_functions;
        let of = |elf| GoFile::of(elf, has_stacks);
        let file = self.files.entry(id).or_insert_with(|| files.get(id).elf.as_deref().and_then(of));
        file.as_ref()
    }

    /// Forgets files that are closed.
    pub(crate) fn forget_closed(&mut self, files: &ModuleFiles) {
        self.files.retain(|id, _| files.is_open(*id));
    }

    /// Whether a process has mapped a Go program.
    pub(crate) fn has_program(&mut self, process: &Process, files: &ModuleFiles) -> bool {
        process.mappings().iter().any(|mapping| self.program(mapping.file, files).is_some())
    }

    /// Whether a process runs one itself, and not only a library in Go.
    pub(crate) fn is_program(&mut self, process: &Process, files: &ModuleFiles) -> bool {
        // Programs are below all libraries.
        let first = process.mappings().first();
        first.is_some_and(|mapping| self.program(mapping.file, files).is_some())
    }

    /// What `work` makes of the functions of the Go program that a process has mapped, if it has: of its runtime, by name, and
    /// around an address.
    pub(crate) fn with_program<T>(
        &mut self,
        process: &Process,
        files: &ModuleFiles,
        work: impl FnOnce(GoFunctions<'_>, &dyn Fn(u64) -> Option<Range<u64>>) -> T,
    ) -> Option<T> {
        let mut mappings = process.mappings().iter();
        let mapping = mappings.find(|mapping| self.program(mapping.file, files).is_some())?;
        let (bias, program) = (mapping.bias, self.program(mapping.file, files)?);
        let by_name = |name: &str| program.function(name, bias);
        let around = |address: u64| function_around(&program.starts, bias, address);
        Some(work(&by_name, &around))
    }

    /// Looks at the Go program of a process, unless it is known. Returns whether it is to be looked at again soon.
    pub(crate) fn look(&mut self, pid: u32, process: &mut Process, files: &ModuleFiles) -> bool {
        if !self.is_wanted {
            return false;
        }
        if !matches!(process.goroutines(), ProcessGoroutines::Ready(_)) && self.read.remove(&pid) {
            self.remove_target(pid);
        }
        if process.has_ended {
            return false;
        }
        let is_pending = matches!(process.goroutines(), ProcessGoroutines::Pending { .. });
        if !is_pending && process.goroutines_sought_ns == Some(process.changed_ns()) {
            return false;
        }
        process.goroutines_sought_ns = Some(process.changed_ns());
        let mapped = (process.mappings().iter())
            .find(|mapping| self.program(mapping.file, files).is_some())
            .map(|mapping| (mapping.file, mapping.bias));
        let Some((file, bias)) = mapped else {
            process.set_goroutines(ProcessGoroutines::None);
            return false;
        };
        if !self.is_loaded {
            self.problems.note(STARTED_LATE);
            return false;
        }
        let now_ns = monotonic_ns();
        let (since_ns, next_ns) = match process.goroutines() {
            ProcessGoroutines::Pending { since_ns, next_ns, .. } => (*since_ns, *next_ns),
            ProcessGoroutines::Ready(program) if program.file == file => return false,
            ProcessGoroutines::Unknown(_) => return false,
            _ => (now_ns, 0),
        };
        if now_ns < next_ns {
            return true;
        }
        let (next, is_pending) = match self.find(pid, file, bias) {
            Ok(program) => {
                self.add_target(pid, &program, bias);
                (ProcessGoroutines::Ready(Box::new(program)), false)
            }
            Err((why, is_temporary)) => match next_attempt_ns(now_ns, since_ns).filter(|_| is_temporary) {
                Some(next_ns) => (ProcessGoroutines::Pending { since_ns, next_ns, why }, true),
                None => {
                    self.problems.note(&why);
                    (ProcessGoroutines::Unknown(why), false)
                }
            },
        };
        process.set_goroutines(next);
        is_pending
    }

    /// Looks for the goroutines in the memory of a process, which has mapped `file` with a bias. An error says why they
    /// cannot be read, and whether that may change soon.
    fn find(&self, pid: u32, file: FileId, bias: u64) -> Result<GoProgram, (String, bool)> {
        let memory = ProcessMemory::open(pid).map_err(|error| {
            let why = format!(
                "memory of pid {pid} cannot be read: {error}: its goroutines are not known; run prof as root or as the user \
                 of the process"
            );
            (why, true)
        })?;
        let known = self.files.get(&file).and_then(Option::as_ref);
        let function = |name: &str| known?.function(name, bias);
        let version = known.map_or(String::new(), |file| file.version.clone());
        let layout = GoLayout::find(&memory, &function)
            .map_err(|problem| (format!("go {version}: {problem}"), problem.is_temporary))?;
        GoProgram::new(memory, file, layout, version).map_err(|why| (why, false))
    }

    /// Has the goroutines of a program be in snapshots, if some are taken.
    fn add_target(&mut self, pid: u32, program: &GoProgram, bias: u64) {
        let known = self.files.get(&program.file).and_then(Option::as_ref);
        let (Some(known), Some(_)) = (known, self.snapshot_overhead) else { return };
        let Ok(memory) = ProcessMemory::open(pid) else { return };
        let (layout, starts) = (Arc::clone(&program.layout), Arc::clone(&known.starts));
        self.read.insert(pid);
        let target = SnapshotTarget { pid, memory, layout, starts, bias };
        match &self.snapshots {
            Some(snapshots) => snapshots.add(target),
            None => self.waiting.push(target),
        }
    }

    /// Has the goroutines of a process not be in snapshots any more.
    fn remove_target(&mut self, pid: u32) {
        self.waiting.retain(|target| target.pid != pid);
        if let Some(snapshots) = &self.snapshots {
            snapshots.remove(pid);
        }
    }

    /// Begins to take snapshots, if they are to be taken: from one time on, and up to another. CLOCK_MONOTONIC, ns.
    ///
    /// # Errors
    ///
    /// When the thread that takes them cannot be started.
    pub(crate) fn begin_snapshots(&mut self, start_ns: u64, end_ns: Option<u64>) -> io::Result<()> {
        let Some(overhead_ppm) = self.snapshot_overhead else { return Ok(()) };
        let snapshots = Snapshots::start(overhead_ppm, start_ns, end_ns)?;
        self.waiting.drain(..).for_each(|target| snapshots.add(target));
        self.snapshots = Some(snapshots);
        Ok(())
    }

    /// The snapshots that were taken meanwhile.
    pub(crate) fn take_snapshots(&mut self) -> Vec<TakenSnapshot> {
        self.snapshots.as_ref().map_or_else(Vec::new, Snapshots::take)
    }

    /// Takes no more snapshots: those that were taken can still be had.
    pub(crate) fn end_snapshots(&mut self) {
        if let Some(snapshots) = &mut self.snapshots {
            snapshots.stop();
        }
    }

    /// Takes the sentences about programs whose goroutines cannot be read, each once.
    pub(crate) fn take_problems(&mut self) -> Vec<String> {
        self.problems.take()
    }

    /// Reads the labels of a goroutine of the process, unless they are known.
    pub(crate) fn read_labels(&self, process: &mut Process, goroutine: &GoroutineEvent) {
        if let ProcessGoroutines::Ready(program) = process.goroutines_mut() {
            program.labels(goroutine);
        }
    }

    /// Counts the goroutine of a sample of the process, and returns the set of its labels: its number, and those that the
    /// program gave it.
    pub(crate) fn labels_of(
        &mut self,
        process: &mut Process,
        goroutine: &SampleGoroutine,
        profile: &mut Profile,
    ) -> Option<LabelSetId> {
        let goroutine = match goroutine {
            SampleGoroutine::None => return None,
            SampleGoroutine::Unread => {
                profile.count(counter::GOROUTINES_UNREAD, 1);
                return None;
            }
            SampleGoroutine::Known(goroutine) => goroutine,
        };
        let ProcessGoroutines::Ready(program) = process.goroutines_mut() else { return None };
        profile.count(counter::GOROUTINE_SAMPLES, 1);
        if let Some(known) = program.sets.get(goroutine) {
            return *known;
        }
        let labels = program.labels(goroutine);
        if labels.is_none() {
            profile.count(counter::GOROUTINE_LABELS_UNREAD, 1);
        }
        let number = goroutine.id.to_string();
        let labels_of_program = labels.as_deref().map_or(&[][..], Vec::as_slice);
        let set = label_set(profile, (GOROUTINE_LABEL, &number), labels_of_program);
        if set.is_some() && labels.is_some() {
            program.sets.insert(*goroutine, set);
        }
        set
    }
}

/// The set of the labels that a program gave a goroutine and of `own`, its number or state, as far as the recording has room
/// for it.
pub(crate) fn label_set(
    profile: &mut Profile,
    own: (&str, &str),
    labels: &[(String, String)],
) -> Option<LabelSetId> {
    let mut all: Vec<(&str, &str)> =
        labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let sets = profile.tables.label_sets().len();
    if sets < MOST_NUMBERED {
        all.push(own);
    } else {
        profile.count(counter::GOROUTINES_UNNUMBERED, 1);
    }
    (!all.is_empty() && sets < MOST_SETS).then(|| profile.tables.intern_labels(&all))
}
