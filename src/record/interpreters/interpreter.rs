//! The interpreter of one process: how its memory is laid out, what the kernel side has to know of it, and which code it
//! has run.

use super::function_names::FunctionNames;
use super::known_code::{KnownCodes, RunPlace};
use super::language::{Language, LanguageFile, RuntimeModule};
use super::outside::OutsideReader;
use super::process_memory::ProcessMemory;
use crate::bpf::{InterpreterFrame, number, prof_runtime};
use crate::profile::FrameId;
use crate::record::kernel::perf::functions::FunctionReader;
use crate::record::modules::FileId;
use crate::runtimes::{RuntimeProblem, TargetMemory};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Frames that are remembered of a process.
const MOST_FRAMES: usize = 200_000;

/// Interpreter of a process, as far as it is known.
#[derive(Debug, Default)]
pub(crate) enum ProcessInterpreter {
    /// The process has none.
    #[default]
    None,
    /// Its file is mapped, but it has not begun yet.
    Pending {
        /// Its file.
        file: FileId,
        /// Time at which it was first looked for, ns.
        since_ns: u64,
        /// Time of the next attempt, ns.
        next_ns: u64,
        /// Why the last attempt failed.
        why: String,
    },
    /// Its stacks can be read.
    Ready(Box<Interpreter>),
    /// Its stacks cannot be read; why, was said.
    Unknown {
        /// Its file.
        file: FileId,
        /// Why they cannot be read.
        why: String,
    },
}

impl ProcessInterpreter {
    /// The same in a forked child, which has a copy of the memory.
    pub(crate) fn forked(&self) -> Self {
        match self {
            ProcessInterpreter::None => ProcessInterpreter::None,
            ProcessInterpreter::Pending { file, why, .. } => {
                ProcessInterpreter::Pending { file: *file, since_ns: 0, next_ns: 0, why: why.clone() }
            }
            ProcessInterpreter::Ready(interpreter) => {
                ProcessInterpreter::Ready(Box::new(interpreter.forked()))
            }
            ProcessInterpreter::Unknown { file, why } => {
                ProcessInterpreter::Unknown { file: *file, why: why.clone() }
            }
        }
    }

    /// What the kernel side has to know.
    pub(crate) fn descriptor(&self) -> prof_runtime {
        match self {
            ProcessInterpreter::Ready(interpreter) => interpreter.language.descriptor(),
            ProcessInterpreter::Pending { .. } => {
                prof_runtime { kind: number::PROF_RUNTIME_PENDING as u8, ..prof_runtime::default() }
            }
            ProcessInterpreter::None | ProcessInterpreter::Unknown { .. } => prof_runtime::default(),
        }
    }

    /// Returns the version of the runtime and the source of its offsets, or why its stacks cannot be read; `None` where the
    /// process has no runtime.
    pub(crate) fn describe(&self) -> Option<Result<String, String>> {
        match self {
            ProcessInterpreter::None => None,
            ProcessInterpreter::Ready(interpreter) => Some(Ok(interpreter.language.source())),
            ProcessInterpreter::Pending { why, .. } | ProcessInterpreter::Unknown { why, .. } => {
                Some(Err(why.clone()))
            }
        }
    }

    /// Who reads the functions of its threads in user space; `None` where its memory is not to be had.
    pub(crate) fn reader(&mut self, pid: u32) -> Option<Arc<dyn FunctionReader>> {
        let ProcessInterpreter::Ready(interpreter) = self else { return None };
        if interpreter.outside.is_none() {
            let memory = interpreter.own_memory(pid)?;
            interpreter.outside =
                Some(Arc::new(OutsideReader::new(pid, Arc::clone(&interpreter.language), memory)));
        }
        interpreter.outside.clone().map(|reader| reader as Arc<dyn FunctionReader>)
    }

    /// Forgets frames of the profile, because they get new numbers.
    pub(crate) fn forget_frames(&mut self) {
        if let ProcessInterpreter::Ready(interpreter) = self {
            interpreter.frames = FxHashMap::default();
        }
    }

    /// Forgets functions, because they get new numbers.
    pub(crate) fn forget_functions(&mut self) {
        if let ProcessInterpreter::Ready(interpreter) = self {
            interpreter.codes.forget();
        }
    }

    /// The file of the runtime.
    pub(super) fn file(&self) -> Option<FileId> {
        match self {
            ProcessInterpreter::None => None,
            ProcessInterpreter::Ready(interpreter) => Some(interpreter.file),
            ProcessInterpreter::Pending { file, .. } | ProcessInterpreter::Unknown { file, .. } => {
                Some(*file)
            }
        }
    }
}

/// An interpreter whose stacks can be read.
#[derive(Debug)]
pub(crate) struct Interpreter {
    pub(super) file: FileId,
    pub(super) language: Arc<dyn Language>,
    /// `None` until it is wanted, or where it cannot be opened.
    memory: Option<Arc<ProcessMemory>>,
    /// Memory of the process that has forked this one, which may end before it is read.
    of_parent: Option<Arc<ProcessMemory>>,
    /// Who reads its threads' functions in user space, where that is done.
    outside: Option<Arc<OutsideReader>>,
    pub(super) codes: KnownCodes,
    /// Frames of the profile, by code object, check and position; `None` for frames that are not shown.
    pub(super) frames: FxHashMap<(u64, u32, u32), Option<FrameId>>,
}

impl Interpreter {
    /// Looks for the interpreter in the memory of a process, which has mapped `module`, a runtime of the language.
    pub(super) fn find(
        pid: u32,
        file: FileId,
        language: &LanguageFile,
        module: &RuntimeModule<'_>,
    ) -> Result<Self, RuntimeProblem> {
        let memory = ProcessMemory::open(pid).map_err(|error| {
            RuntimeProblem::temporary(format!(
                "memory of pid {pid} cannot be read: {error}: functions of its interpreter are not known; run prof as root \
                 or as the user of the process"
            ))
        })?;
        Ok(Interpreter {
            file,
            language: (language.find)(&memory, module)?,
            memory: Some(Arc::new(memory)),
            of_parent: None,
            outside: None,
            codes: KnownCodes::default(),
            frames: FxHashMap::default(),
        })
    }

    fn forked(&self) -> Self {
        Interpreter {
            file: self.file,
            language: Arc::clone(&self.language),
            memory: None,
            of_parent: self.memory.clone().or_else(|| self.of_parent.clone()),
            outside: None,
            codes: self.codes.forked(),
            frames: FxHashMap::default(),
        }
    }

    /// The function and line of a frame; `None` for code that the interpreter makes for itself.
    pub(super) fn place(
        &mut self,
        pid: u32,
        frame: InterpreterFrame,
        names: &mut FunctionNames,
    ) -> Option<RunPlace> {
        if !self.codes.lacks(frame) {
            return self.codes.place(frame, &*self.language, &[], names);
        }
        self.own_memory(pid);
        let memories = [&self.memory, &self.of_parent].into_iter().flatten();
        let memories: Vec<&dyn TargetMemory> =
            memories.map(|memory| &**memory as &dyn TargetMemory).collect();
        self.codes.place(frame, &*self.language, &memories, names)
    }

    /// The memory of the process itself, whose number is `pid`.
    fn own_memory(&mut self, pid: u32) -> Option<Arc<ProcessMemory>> {
        if self.memory.is_none() {
            self.memory = ProcessMemory::open(pid).ok().map(Arc::new);
        }
        self.memory.clone()
    }

    /// Remembers the frame of the profile that a frame is.
    pub(super) fn remember(&mut self, key: (u64, u32, u32), frame: Option<FrameId>) {
        if self.frames.len() >= MOST_FRAMES {
            self.frames.clear();
        }
        self.frames.insert(key, frame);
    }
}
