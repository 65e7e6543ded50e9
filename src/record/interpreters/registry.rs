//! The registry of the interpreters of all recorded processes, and the way of a sample's interpreter frames into its stack.

use super::function_names::{FunctionNames, FunctionNumber};
use super::interpreter::{Interpreter, ProcessInterpreter};
use super::language::{RuntimeCode, RuntimeModule};
use super::merge::{Fit, LoopPart, NativeFrame, RunFrame, WholeParts, fit_c_blocks, merge, with_calls};
use super::runtime_file::RuntimeFile;
use crate::bpf::{InterpreterFrames, NewCodeEvent};
use crate::profile::{
    FoundBy, Frame, FrameFlags, FrameId, Module, ModuleKind, Outcome, Profile, Tables, UNPLACED, counter,
};
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::modules::{FileId, ModuleFiles};
use crate::record::process::mappings::Process;
use crate::record::runtime_search::{RuntimeProblems, next_attempt_ns};
use crate::runtimes::RuntimeProblem;
use crate::symbols::ResolvedLocation;
use rustc_hash::FxHashMap;

/// Note on processes that had no interpreter when the recording began.
const STARTED_LATE: &str = "a recorded process has begun to run an interpreter, whose functions are not in this recording: to \
                            have them, start the recording now";
/// Name of a function that could not be read.
const UNREAD_FUNCTION: &str = "[function not read]";

/// Interpreters of recorded processes.
#[derive(Debug, Default)]
pub(crate) struct Interpreters {
    /// Frames of interpreters are to be recorded.
    pub(crate) is_wanted: bool,
    /// Those that the kernel side reads, since a target has one, or one may come: a bit for each `enum prof_runtime_kind`.
    pub(crate) loaded: u32,
    /// They are read in user space, in those samples whose thread was held up for as long as that takes.
    pub(crate) is_read_outside: bool,
    files: FxHashMap<FileId, Option<RuntimeFile>>,
    /// Functions of all runtimes, those of managed code too.
    pub(in crate::record) names: FunctionNames,
    problems: RuntimeProblems,
    native: Vec<NativeFrame<FrameId>>,
    run: Vec<RunFrame<FrameId>>,
    /// Frames of what has started the native stack, which is that of a fiber.
    starters: Vec<FrameId>,
}

impl Interpreters {
    /// The runtime that a file is, if it is one.
    fn runtime(&mut self, id: FileId, files: &ModuleFiles) -> Option<&RuntimeFile> {
        let file =
            self.files.entry(id).or_insert_with(|| RuntimeFile::of(files.get(id), || files.sections(id)));
        file.as_ref()
    }

    /// Forgets files that are closed.
    pub(crate) fn forget_closed(&mut self, files: &ModuleFiles) {
        self.files.retain(|id, _| files.is_open(*id));
    }

    /// The part of an interpreter's loop that one of the own addresses of a file is in.
    pub(crate) fn loop_part(&self, file: FileId, address: u64) -> Option<LoopPart> {
        self.files.get(&file)?.as_ref()?.loop_part(address)
    }

    /// The runtimes that a process has mapped, as in `loaded`.
    pub(crate) fn runtimes(&mut self, process: &Process, files: &ModuleFiles) -> u32 {
        let files =
            process.mappings().iter().filter_map(|mapping| Some(self.runtime(mapping.file, files)?.bit()));
        files.fold(0, |all, bit| all | bit)
    }

    /// Whether any of the files is a runtime.
    pub(crate) fn is_any_runtime(&mut self, files: &ModuleFiles) -> bool {
        files.iter().any(|(id, _)| self.runtime(id, files).is_some())
    }

    /// Looks for the interpreter of a process, unless it is known. Returns whether it is to be looked for again soon.
    pub(crate) fn look(&mut self, pid: u32, process: &mut Process, files: &ModuleFiles) -> bool {
        if !self.is_wanted || process.has_ended {
            return false;
        }
        let is_pending = matches!(process.interpreter(), ProcessInterpreter::Pending { .. });
        if !is_pending && process.interpreter_sought_ns == Some(process.changed_ns()) {
            return false;
        }
        process.interpreter_sought_ns = Some(process.changed_ns());
        let mapped = (process.mappings().iter()).find_map(|mapping| {
            self.runtime(mapping.file, files).map(|runtime| (mapping.file, mapping.bias, runtime.bit()))
        });
        let Some((file, bias, bit)) = mapped else {
            process.set_interpreter(ProcessInterpreter::None);
            return false;
        };
        if self.loaded & bit == 0 {
            self.problems.note(STARTED_LATE);
            return false;
        }
        let now_ns = monotonic_ns();
        let (since_ns, next_ns) = match process.interpreter() {
            ProcessInterpreter::Pending { file: known, since_ns, next_ns, .. } if *known == file => {
                (if *since_ns == 0 { now_ns } else { *since_ns }, *next_ns)
            }
            known if known.file() == Some(file) => return false,
            _ => (now_ns, 0),
        };
        if now_ns < next_ns {
            return true;
        }
        let found = self.find(pid, (file, bias), files);
        let (next, is_pending) = match found {
            Ok(interpreter) => (ProcessInterpreter::Ready(Box::new(interpreter)), false),
            Err(problem) => {
                let why = problem.to_string();
                match next_attempt_ns(now_ns, since_ns).filter(|_| problem.is_temporary()) {
                    Some(next_ns) => (ProcessInterpreter::Pending { file, since_ns, next_ns, why }, true),
                    None => {
                        self.problems.note(&why);
                        (ProcessInterpreter::Unknown { file, why }, false)
                    }
                }
            }
        };
        process.set_interpreter(next);
        is_pending
    }

    /// Looks for the interpreter in the memory of a process, which has mapped `file` with a bias.
    fn find(
        &mut self,
        pid: u32,
        (file, bias): (FileId, u64),
        files: &ModuleFiles,
    ) -> Result<Interpreter, RuntimeProblem> {
        let module = files.get(file);
        let known = self.runtime(file, files);
        let (Some(runtime), Some(elf)) = (known, module.elf.as_deref()) else {
            return Err(RuntimeProblem::lasting(format!("`{}` cannot be read as a runtime", module.path)));
        };
        let code = RuntimeCode { elf, functions: runtime.functions() };
        let module = RuntimeModule { path: &module.path, code: &code, bias };
        Interpreter::find(pid, file, runtime.language, &module)
    }

    /// Takes the sentences about interpreters whose stacks cannot be read, each once.
    pub(crate) fn take_problems(&mut self) -> Vec<String> {
        self.problems.take()
    }

    /// Takes a code object that samples of the process will have.
    pub(crate) fn add_code(&mut self, process: &mut Process, code: &NewCodeEvent) {
        if let ProcessInterpreter::Ready(interpreter) = process.interpreter_mut() {
            interpreter.codes.add(code, &*interpreter.language, &mut self.names);
        }
    }

    /// Puts the frames of the interpreter of a sample into `path`, the native frames of its user stack, leaf first. They
    /// are those of the whole stack, unless the walk had another `outcome`.
    pub(crate) fn merge(
        &mut self,
        pid: u32,
        process: &mut Process,
        sample: &InterpreterFrames,
        outcome: Outcome,
        profile: &mut Profile,
        path: &mut Vec<FrameId>,
    ) {
        let ProcessInterpreter::Ready(interpreter) = process.interpreter_mut() else { return };
        if !sample.has_state() {
            return;
        }
        profile.count(counter::INTERPRETER_SAMPLES, 1);
        self.take_frames(pid, interpreter, sample, profile);
        self.take_native(profile, path);
        let habits = interpreter.language.habits();
        let apart = match outcome {
            Outcome::Complete if habits.enters_by_c_blocks && !sample.is_cut() => {
                fit_c_blocks(&mut self.native, &mut self.run)
            }
            _ => Vec::new(),
        };
        let whole = WholeParts {
            native: outcome == Outcome::Complete,
            run: !sample.is_cut() || !self.starters.is_empty(),
        };
        path.clear();
        path.extend(apart.iter().map(|frame| frame.frame));
        let fit = merge(&self.native, &self.run, whole, habits, path);
        if fit == Fit::Mismatch {
            profile.count(counter::INTERPRETER_MISMATCHES, 1);
            profile.count(counter::INTERPRETER_CUT, u64::from(sample.is_cut()));
            self.run.extend(self.starters.drain(..).map(|frame| RunFrame { frame, is_entry: false }));
            self.place_apart(profile, path);
        } else {
            path.append(&mut self.starters);
        }
    }

    /// Puts into `path`, the native frames of a user stack, leaf first, a function that was not read in front of each loop of an
    /// interpreter: what that ran could not be read at the time of the sample.
    pub(crate) fn place_unread(&mut self, process: &Process, profile: &mut Profile, path: &mut Vec<FrameId>) {
        let ProcessInterpreter::Ready(interpreter) = process.interpreter() else { return };
        self.take_native(profile, path);
        if !self.native.iter().any(|native| native.is_loop) {
            return;
        }
        profile.count(counter::INTERPRETER_SAMPLES_UNREAD, 1);
        let module = runtime_module(interpreter, &mut profile.tables);
        let flags = FrameFlags { found_by: FoundBy::Cfi, ..FrameFlags::default() };
        let address = FunctionNumber::UNREAD.address(0);
        let unread = profile.tables.intern_frame(Frame { module, address, flags });
        path.clear();
        for native in &self.native {
            path.extend(native.is_loop.then_some(unread));
            path.push(native.frame);
        }
    }

    /// Puts the native frames of a user stack into `self.native`.
    fn take_native(&mut self, profile: &Profile, path: &[FrameId]) {
        let part_of = |frame: FrameId| {
            let flags = profile.tables.frame(frame).flags;
            let part = if flags.is_inner_loop { LoopPart::Inner } else { LoopPart::Entry };
            flags.is_interpreter.then_some(part)
        };
        with_calls(path.iter().map(|&frame| (frame, part_of(frame))), &mut self.native);
    }

    /// Puts the frames of the interpreter into `self.run`.
    fn take_frames(
        &mut self,
        pid: u32,
        interpreter: &mut Interpreter,
        sample: &InterpreterFrames,
        profile: &mut Profile,
    ) {
        self.run.clear();
        self.starters.clear();
        let mut is_started = false;
        let mut unread = 0;
        let mut module = None;
        for &frame in &sample.frames {
            let key = (frame.code, frame.check, frame.position);
            // What was seen before is looked at again when the kernel side has looked.
            let place = interpreter.place(pid, frame, &mut self.names);
            let is_unread = place.is_some_and(|place| place.function == FunctionNumber::UNREAD);
            unread += u64::from(is_unread);
            let known = interpreter.frames.get(&key).copied();
            let id = known.unwrap_or_else(|| {
                let id = place.map(|place| {
                    let tables = &mut profile.tables;
                    let module = *module.get_or_insert_with(|| runtime_module(interpreter, tables));
                    let address = place.function.address(place.line);
                    let flags = FrameFlags { found_by: FoundBy::Cfi, ..FrameFlags::default() };
                    tables.intern_frame(Frame { module, address, flags })
                });
                // Its description may come later.
                if !is_unread {
                    interpreter.remember(key, id);
                }
                id
            });
            is_started |= interpreter.language.is_stack_start(frame.position);
            match id {
                Some(id) if is_started => self.starters.push(id),
                None if is_started => {}
                Some(id) => self.run.push(RunFrame { frame: id, is_entry: frame.is_entry }),
                // The next one towards the leaf stays the outermost of the group.
                None if frame.is_entry => {
                    if let Some(last) = self.run.last_mut() {
                        last.is_entry = true;
                    }
                }
                None => {}
            }
        }
        profile.count(counter::INTERPRETER_FRAMES, sample.frames.len() as u64);
        profile.count(counter::INTERPRETER_FRAMES_UNREAD, unread);
        let uncertain = interpreter.codes.seen.take_uncertain();
        profile.count(counter::INTERPRETER_FRAMES_UNCERTAIN, uncertain);
    }

    /// The frames of an interpreter that do not fit the native ones come together, called by a frame that says so, in
    /// front of the loop next to the leaf. The native stack stays as whole as it is.
    fn place_apart(&self, profile: &mut Profile, path: &mut Vec<FrameId>) {
        let has_loop = |native: &NativeFrame<FrameId>| native.is_loop;
        let inner = self.native.iter().position(has_loop).unwrap_or(self.native.len());
        let (inner, outer) = self.native.split_at(inner);
        path.extend(inner.iter().map(|native| native.frame));
        if !self.run.is_empty() {
            path.extend(self.run.iter().map(|run| run.frame));
            path.push(profile.marker_frame(UNPLACED));
        }
        path.extend(outer.iter().map(|native| native.frame));
    }

    /// The function and line of a frame, if it is one of an interpreter.
    pub(crate) fn name(&self, frame: &Frame, tables: &Tables) -> Option<ResolvedLocation> {
        if tables.module(frame.module).kind != ModuleKind::Runtime {
            return None;
        }
        Some(match self.names.of_frame(frame) {
            Some((function, line)) => ResolvedLocation {
                name: function.name.clone(),
                raw_name: function.name.clone(),
                file: Some(function.file.clone()).filter(|file| !file.is_empty()),
                line,
                is_inlined: function.is_inlined,
            },
            None => ResolvedLocation {
                name: UNREAD_FUNCTION.to_owned(),
                raw_name: String::new(),
                file: None,
                line: 0,
                is_inlined: false,
            },
        })
    }
}

/// The row of the runtime of an interpreter.
fn runtime_module(interpreter: &Interpreter, tables: &mut Tables) -> crate::profile::ModuleId {
    let path = tables.intern_string(&interpreter.language.runtime());
    tables.intern_module(Module { path, kind: ModuleKind::Runtime, ..Module::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Meta;

    #[test]
    fn what_does_not_fit_stands_together_in_a_native_stack_that_stays_whole() {
        let mut profile = Profile::new(Meta::default());
        profile.tables.intern_module(Module::default());
        let mut frame = |address| profile.tables.intern_frame(Frame { address, ..Frame::default() });
        let native = [(1, false), (2, true), (3, false), (4, true), (5, false)];
        let native = native.map(|(address, is_loop)| NativeFrame { frame: frame(address), is_loop });
        let run = [11, 12].map(|address| RunFrame { frame: frame(address), is_entry: false });
        let mut interpreters = Interpreters { native: native.to_vec(), ..Interpreters::default() };
        let apart = |interpreters: &Interpreters, profile: &mut Profile| {
            let mut path = Vec::new();
            interpreters.place_apart(profile, &mut path);
            path.into_iter().map(|id| profile.tables.frame(id).address).collect::<Vec<_>>()
        };
        assert_eq!(apart(&interpreters, &mut profile), [1, 2, 3, 4, 5]);
        interpreters.run = run.to_vec();
        // The frame that says so has the address 0.
        assert_eq!(apart(&interpreters, &mut profile), [1, 11, 12, 0, 2, 3, 4, 5]);
    }
}
