//! The registry of the runtimes with managed code of all recorded processes, and the way of their functions into stacks.

use super::java_process::JavaMachine;
use super::managed_runtime::ProcessManaged;
use super::native_place::{ManagedName, NativePlace};
use super::placement::{ManagedNotes, address_of};
use super::v8_file::V8File;
use super::v8_process::V8Process;
use crate::bpf::{MarkedAddress, SampleEvent};
use crate::elf::ElfImage;
use crate::profile::{FoundBy, Frame, FrameFlags, FrameId, Module, ModuleId, ModuleKind, Profile, counter};
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::interpreters::function_names::FunctionNames;
use crate::record::interpreters::known_code::RunPlace;
use crate::record::modules::{FileId, ModuleFiles};
use crate::record::process::mappings::Process;
use crate::record::runtime_search::{RuntimeProblems, next_attempt_ns};
use crate::runtimes::RuntimeProblem;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Note on processes that had no runtime when the recording began.
const STARTED_LATE: &str = "a recorded process has begun to run a runtime whose functions are not in this recording: to have \
                            them, start the recording now";

/// Symbol that every HotSpot exports, and nothing else does.
const OF_JAVA: &str = "gHotSpotVMStructs";

/// A file that is a runtime with managed code.
#[derive(Debug)]
enum ManagedFile {
    V8(Arc<V8File>),
    Java,
}

impl ManagedFile {
    /// The runtime that a file is, if it is one.
    fn of(elf: &ElfImage) -> Option<Self> {
        if elf.exported(OF_JAVA).is_some() {
            return Some(ManagedFile::Java);
        }
        V8File::of(elf).map(|file| ManagedFile::V8(Arc::new(file)))
    }
}

/// Runtimes with managed code in recorded processes.
#[derive(Debug, Default)]
pub(crate) struct ManagedCode {
    /// Functions of managed code are to be recorded.
    pub(crate) is_wanted: bool,
    /// The kernel side notes them: a target has such a runtime, or one may come.
    pub(crate) is_loaded: bool,
    files: FxHashMap<FileId, Option<ManagedFile>>,
    /// Processes whose entry on the kernel side is to be renewed.
    outdated: Vec<u32>,
    problems: RuntimeProblems,
    native: Vec<FrameId>,
    functions: Vec<RunPlace>,
}

impl ManagedCode {
    /// The runtime that a file is, if it is one.
    fn runtime(&mut self, id: FileId, files: &ModuleFiles) -> Option<&ManagedFile> {
        let of_file = || ManagedFile::of(files.get(id).elf.as_deref()?);
        self.files.entry(id).or_insert_with(of_file).as_ref()
    }

    /// Forgets files that are closed.
    pub(crate) fn forget_closed(&mut self, files: &ModuleFiles) {
        self.files.retain(|id, _| files.is_open(*id));
    }

    /// Whether a process has mapped a runtime.
    pub(crate) fn has_runtime(&mut self, process: &Process, files: &ModuleFiles) -> bool {
        process.mappings().iter().any(|mapping| self.runtime(mapping.file, files).is_some())
    }

    /// Looks for the runtime of a process, unless it is known. Returns whether it is to be looked for again soon.
    pub(crate) fn look(&mut self, pid: u32, process: &mut Process, files: &ModuleFiles) -> bool {
        if let ProcessManaged::Java(machine) = process.managed_mut()
            && machine.renew(pid)
        {
            process.is_dirty = true;
            process.is_inherited = false;
        }
        let is_pending = matches!(process.managed(), ProcessManaged::Pending { .. });
        let is_sought = !is_pending && process.managed_sought_ns == Some(process.changed_ns());
        if !self.is_wanted || process.has_ended || is_sought {
            return false;
        }
        process.managed_sought_ns = Some(process.changed_ns());
        let mapped = (process.mappings().iter())
            .find(|mapping| self.runtime(mapping.file, files).is_some())
            .map(|mapping| (mapping.file, mapping.bias));
        let Some((file, bias)) = mapped else {
            process.set_managed(ProcessManaged::None);
            return false;
        };
        if process.managed().file() == Some(file) && !is_pending {
            return false;
        }
        if !self.is_loaded {
            self.problems.note(STARTED_LATE);
            return false;
        }
        let (since_ns, next_ns) = match process.managed() {
            ProcessManaged::Pending { since_ns, next_ns, .. } if *since_ns > 0 => (*since_ns, *next_ns),
            _ => (monotonic_ns(), 0),
        };
        if monotonic_ns() < next_ns {
            return true;
        }
        let managed = self.find(pid, (file, bias), since_ns, files);
        let is_pending = matches!(managed, ProcessManaged::Pending { .. });
        process.set_managed(managed);
        is_pending
    }

    /// Looks for the runtime in the memory of a process that has mapped `file` with a bias, and was first looked at at
    /// `since_ns`.
    fn find(
        &mut self,
        pid: u32,
        (file, bias): (FileId, u64),
        since_ns: u64,
        files: &ModuleFiles,
    ) -> ProcessManaged {
        let elf = files.get(file).elf.as_deref();
        let symbols = |name: &str| Some(elf?.exported(name)?.address.wrapping_add(bias));
        let found = match self.runtime(file, files) {
            Some(ManagedFile::V8(runtime)) => V8Process::find(pid, file, bias, runtime)
                .map(|found| ProcessManaged::V8(Box::new(found)))
                .map_err(RuntimeProblem::lasting),
            Some(ManagedFile::Java) => {
                JavaMachine::find(pid, file, &symbols).map(|machine| ProcessManaged::Java(Box::new(machine)))
            }
            None => Ok(ProcessManaged::None),
        };
        let problem = match found {
            Ok(found) => return found,
            Err(problem) => problem,
        };
        let why = problem.to_string();
        match next_attempt_ns(monotonic_ns(), since_ns).filter(|_| problem.is_temporary()) {
            Some(next_ns) => ProcessManaged::Pending { file, since_ns, next_ns, why },
            None => {
                self.problems.note(&why);
                ProcessManaged::Unknown { file, why }
            }
        }
    }

    /// Takes the processes that are to be looked at again.
    pub(crate) fn take_outdated(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.outdated)
    }

    /// Takes the sentences about runtimes whose functions cannot be read, each once.
    pub(crate) fn take_problems(&mut self) -> Vec<String> {
        self.problems.take()
    }

    /// Puts the functions of managed code of a sample into `path`, the frames of its user stack, leaf first, of which
    /// `left_out` are left out of the middle. Each function comes in front of (nearer to the leaf than) its native frame.
    pub(in crate::record) fn place(
        &mut self,
        sample: &SampleEvent,
        left_out: u32,
        process: &mut Process,
        names: &mut FunctionNames,
        profile: &mut Profile,
        path: &mut Vec<FrameId>,
    ) {
        if !process.managed().is_known() {
            return;
        }
        let mut managed = process.take_managed();
        let mut notes = ManagedNotes::new(&sample.managed);
        let mut module = None;
        std::mem::swap(&mut self.native, path);
        path.clear();
        for (index, &native) in self.native.iter().enumerate() {
            let place = address_of(index, left_out).and_then(|address| {
                let note = notes.of(address);
                let place = native_place(sample, address, note.is_some(), process, &managed)?;
                Some((place, note))
            });
            let Some((place, note)) = place else {
                path.push(native);
                continue;
            };
            self.functions.clear();
            let named = managed.functions(sample.tgid, place, note, names, &mut self.functions);
            if named != ManagedName::Functions {
                profile.count(counter::MANAGED_FRAMES_UNREAD, u64::from(named == ManagedName::Unread));
                profile.count(counter::MANAGED_FRAMES, u64::from(named == ManagedName::Unread));
                path.push(native);
                continue;
            }
            profile.count(counter::MANAGED_FRAMES, 1);
            let module =
                *module.get_or_insert_with(|| runtime_module(&managed.runtime(sample.tgid), profile));
            let flags = FrameFlags { found_by: FoundBy::Cfi, ..FrameFlags::default() };
            for function in &self.functions {
                let address = function.function.address(function.line);
                path.push(profile.tables.intern_frame(Frame { module, address, flags }));
            }
            path.push(carrier(native, profile));
        }
        if matches!(&managed, ProcessManaged::Java(machine) if machine.is_outdated())
            && !self.outdated.contains(&sample.tgid)
        {
            self.outdated.push(sample.tgid);
        }
        if let ProcessManaged::V8(v8) = &mut managed {
            profile.count(counter::MANAGED_FRAMES_UNCERTAIN, v8.take_uncertain());
        }
        process.restore_managed(managed);
    }
}

/// The place of the address at `index` of a sample, if a function of managed code may be there.
fn native_place(
    sample: &SampleEvent,
    index: usize,
    has_note: bool,
    process: &Process,
    managed: &ProcessManaged,
) -> Option<NativePlace> {
    let marked = MarkedAddress(*sample.user.get(index)?);
    // Word of the latest part of the code may still be on its way.
    let mapped = process.find(marked.lookup(), sample.time_ns);
    let is_generated = mapped.map_or(has_note, |mapped| mapped.file == ModuleFiles::GENERATED);
    if !is_generated && (mapped.is_none() || mapped.map(|mapped| mapped.file) != managed.file()) {
        return None;
    }
    let bias = mapped.map_or(0, |mapped| mapped.bias);
    let in_file = (!is_generated).then(|| marked.lookup().wrapping_sub(bias));
    let is_leaf = index == 0 && !marked.is_return();
    Some(NativePlace { address: marked.address(), in_file, is_leaf, time_ns: sample.time_ns })
}

/// The row of a runtime.
fn runtime_module(runtime: &str, profile: &mut Profile) -> ModuleId {
    let path = profile.tables.intern_string(runtime);
    profile.tables.intern_module(Module { path, kind: ModuleKind::Runtime, ..Module::default() })
}

/// A native frame whose functions come before it: it is shown where native frames alone are.
fn carrier(native: FrameId, profile: &mut Profile) -> FrameId {
    let frame = *profile.tables.frame(native);
    let flags = FrameFlags { is_interpreter: true, ..frame.flags };
    profile.tables.intern_frame(Frame { flags, ..frame })
}
