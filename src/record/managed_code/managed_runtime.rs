//! The runtime with managed code of one process, whichever it is.

use super::java_process::JavaMachine;
use super::native_place::{ManagedName, NativePlace};
use super::v8_process::V8Process;
use crate::bpf::{ManagedFrame, prof_managed};
use crate::record::interpreters::function_names::FunctionNames;
use crate::record::interpreters::known_code::RunPlace;
use crate::record::modules::FileId;
use crate::unwind::{FrameAddress, StackCopy};

/// The runtime with managed code of a process, as far as it is known.
#[derive(Debug, Default)]
pub(crate) enum ProcessManaged {
    /// The process has none.
    #[default]
    None,
    /// Its functions cannot be read; why, was said.
    Unknown {
        /// Its file.
        file: FileId,
        /// Why they cannot be read.
        why: String,
    },
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
    /// V8.
    V8(Box<V8Process>),
    /// HotSpot.
    Java(Box<JavaMachine>),
}

impl ProcessManaged {
    /// The same in a forked child, which has a copy of the memory.
    pub(crate) fn forked(&self) -> Self {
        match self {
            ProcessManaged::None => ProcessManaged::None,
            ProcessManaged::Unknown { file, why } => {
                ProcessManaged::Unknown { file: *file, why: why.clone() }
            }
            ProcessManaged::Pending { file, why, .. } => {
                ProcessManaged::Pending { file: *file, since_ns: 0, next_ns: 0, why: why.clone() }
            }
            ProcessManaged::V8(process) => ProcessManaged::V8(Box::new(process.forked())),
            ProcessManaged::Java(machine) => ProcessManaged::Java(Box::new(machine.forked())),
        }
    }

    /// What the kernel side has to know.
    pub(crate) fn descriptor(&self) -> prof_managed {
        match self {
            ProcessManaged::V8(process) => process.descriptor(),
            ProcessManaged::Java(machine) => machine.descriptor(),
            _ => prof_managed::default(),
        }
    }

    /// Returns the version of the runtime and the source of its offsets, or why its functions cannot be read; `None` where
    /// the process has no runtime.
    pub(crate) fn describe(&mut self, pid: u32) -> Option<Result<String, String>> {
        match self {
            ProcessManaged::None => None,
            ProcessManaged::Pending { why, .. } | ProcessManaged::Unknown { why, .. } => {
                Some(Err(why.clone()))
            }
            ProcessManaged::V8(process) => Some(Ok(process.describe(pid))),
            ProcessManaged::Java(machine) => Some(Ok(machine.describe())),
        }
    }

    /// The file of the runtime.
    pub(super) fn file(&self) -> Option<FileId> {
        match self {
            ProcessManaged::None => None,
            ProcessManaged::Pending { file, .. } | ProcessManaged::Unknown { file, .. } => Some(*file),
            ProcessManaged::V8(process) => Some(process.file()),
            ProcessManaged::Java(machine) => Some(machine.file()),
        }
    }

    /// Whether functions can be asked for.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self, ProcessManaged::V8(_) | ProcessManaged::Java(_))
    }

    /// Forgets functions, because they get new numbers.
    pub(crate) fn forget_functions(&mut self) {
        match self {
            ProcessManaged::V8(process) => process.forget_functions(),
            ProcessManaged::Java(machine) => machine.forget_functions(),
            ProcessManaged::None | ProcessManaged::Unknown { .. } | ProcessManaged::Pending { .. } => {}
        }
    }

    /// Name and version of the runtime.
    pub(super) fn runtime(&mut self, pid: u32) -> String {
        match self {
            ProcessManaged::V8(process) => process.runtime(pid).to_owned(),
            ProcessManaged::Java(machine) => machine.runtime(),
            _ => String::new(),
        }
    }

    /// What the runtime knows of a frame that was found in a copy of its stack, as the kernel side would have noted it had it
    /// come to that frame. `in_file` is the file that its code is from, with the bias of that; `None` for generated code.
    pub(crate) fn note(
        &self,
        in_file: Option<(FileId, u64)>,
        frame: &FrameAddress,
        stack: &StackCopy<'_>,
    ) -> Option<ManagedFrame> {
        match self {
            ProcessManaged::V8(process) => process.note(in_file, frame, stack),
            // The walk through a Java machine's code has made its notes.
            _ => None,
        }
    }

    /// Puts the functions of a native frame into `out`, innermost first. `note` is what the kernel side knew of it.
    pub(super) fn functions(
        &mut self,
        pid: u32,
        place: NativePlace,
        note: Option<&ManagedFrame>,
        names: &mut FunctionNames,
        out: &mut Vec<RunPlace>,
    ) -> ManagedName {
        match self {
            ProcessManaged::V8(process) => process.functions(pid, place, note, names, out),
            ProcessManaged::Java(machine) => machine.functions(pid, place.address, note, names, out),
            _ => ManagedName::Native,
        }
    }
}
