//! A language whose interpreter keeps frames in lists of its own, as all others of this room use it. A language is a file
//! of this folder, and a line of the table in `runtime_file`.

use super::function_names::RunFunction;
use super::merge::ListHabits;
use crate::bpf::{REGISTERS, number, prof_runtime};
use crate::elf::ElfImage;
use crate::runtimes::{RuntimeProblem, TargetMemory};
use std::fmt::{Debug, Display};
use std::ops::Range;
use std::sync::Arc;

/// Frames of a sample.
pub(super) const MOST_FRAMES: usize = number::PROF_MAX_RUNTIME_FRAMES as usize;

/// How the file of a language's runtime is recognized and searched.
#[derive(Debug)]
pub(super) struct LanguageFile {
    /// `enum prof_runtime_kind`.
    pub(super) kind: u64,
    /// Symbols that every such runtime exports, and nothing else does.
    pub(super) exports: &'static [&'static str],
    /// Where the interpreter's loop is.
    pub(super) loops: fn(&RuntimeCode<'_>) -> LoopCode,
    /// Looks for the interpreter in the memory of a process.
    pub(super) find: FindLanguage,
}

/// Finds an interpreter in the memory of a process that has mapped a runtime.
type FindLanguage = fn(&dyn TargetMemory, &RuntimeModule<'_>) -> Result<Arc<dyn Language>, RuntimeProblem>;

/// The problem of a layout whose numbers are larger than the kernel side has room for; `version` is that of `language`.
pub(super) fn no_room(language: &str, version: impl Display) -> RuntimeProblem {
    RuntimeProblem::lasting(format!("{language} {version}: offsets that the kernel side has no room for"))
}

/// The loop of an interpreter, by the module's own addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LoopCode {
    /// Functions by which C code enters the interpreter: each call of one of them is one native frame, and runs a group of
    /// the interpreter's frames.
    pub(super) entries: Vec<Range<u64>>,
    /// Functions that these call to run the group: native frames of their own.
    pub(super) inner: Vec<Range<u64>>,
}

/// The code of a file that may be a runtime. Addresses are the module's own.
#[derive(Debug)]
pub(super) struct RuntimeCode<'e> {
    pub(super) elf: &'e ElfImage,
    /// Functions that the unwind entries list: start and end, by start.
    pub(super) functions: &'e [(u64, u64)],
}

impl RuntimeCode<'_> {
    /// The function at an address.
    pub(super) fn function_at(&self, address: u64) -> Option<Range<u64>> {
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        let (start, end) = *self.functions.get(after.checked_sub(1)?)?;
        (address < end).then_some(start..end)
    }

    /// The function that is exported by this name.
    pub(super) fn exported_function(&self, name: &str) -> Option<Range<u64>> {
        let entry = self.elf.exported(name)?;
        // The size in the symbol table may be missing; that of the unwind entry is not.
        let by_symbol = entry.address..entry.address.saturating_add(entry.size);
        Some(self.function_at(entry.address).unwrap_or(by_symbol))
    }

    /// Bytes of the file at an address.
    pub(super) fn read(&self, address: u64, size: u64) -> Option<Vec<u8>> {
        self.elf.read_address(address, size).ok()
    }
}

/// The file of a runtime, mapped in a process.
#[derive(Debug)]
pub(super) struct RuntimeModule<'e> {
    /// Path of the file.
    pub(super) path: &'e str,
    pub(super) code: &'e RuntimeCode<'e>,
    /// From the module's own addresses to the process's.
    pub(super) bias: u64,
}

impl RuntimeModule<'_> {
    /// Process address of an exported symbol.
    pub(super) fn symbol(&self, name: &str) -> Option<u64> {
        Some(self.code.elf.exported(name)?.address.wrapping_add(self.bias))
    }
}

/// An interpreter in a process, of some language: how its memory is laid out.
pub(super) trait Language: Debug + Send + Sync {
    /// The language and its version, without what changes nothing for readers: `python 3.11`.
    fn runtime(&self) -> String;

    /// Version and source of its offsets, for reports on the target.
    fn source(&self) -> String;

    /// What the kernel side has to know.
    fn descriptor(&self) -> prof_runtime;

    /// How its frames may differ from calls of its loop.
    fn habits(&self) -> ListHabits {
        ListHabits::default()
    }

    /// Whether the frame with this position is no function but the place where another native stack begins: the frames
    /// after it are of what has started that.
    fn is_stack_start(&self, _position: u32) -> bool {
        false
    }

    /// The functions of the thread with this state, which is interrupted with these registers, by DWARF number and then the
    /// program counter: as the kernel side takes them.
    fn stack(&self, memory: &dyn TargetMemory, state: u64, registers: &[u64; REGISTERS]) -> SideStack;

    /// What tells the code object at an address from others, as the kernel side computes it; `None` if it is none.
    fn check(&self, memory: &dyn TargetMemory, code: u64) -> Option<u32>;

    /// Reads the code object at an address; `None` if it is none, or not readable as a whole.
    fn read(&self, memory: &dyn TargetMemory, code: u64) -> Option<ReadCode>;

    /// What is known of a code object that could not be read, by its address alone.
    fn unread(&self, _code: u64) -> Option<ReadCode> {
        None
    }
}

/// A frame of an interpreter, as `InterpreterFrame` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SideFrame {
    pub(super) code: u64,
    pub(super) position: u32,
    pub(super) is_entry: bool,
    /// Another code object may be there when the next sample is taken.
    pub(super) is_brief: bool,
}

/// The functions of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SideStack {
    /// The leaf first.
    pub(super) frames: Vec<SideFrame>,
    /// Frames next to the root are missing.
    pub(super) is_cut: bool,
    /// The thread holds the interpreter's lock; `None` where that is not known.
    pub(super) holds_lock: Option<bool>,
}

impl SideStack {
    /// Frames that a sample has room for, the leaf first, of a list that was read to its end or not; no lock is known.
    pub(super) fn of(frames: impl ExactSizeIterator<Item = SideFrame>, is_whole: bool) -> Self {
        let is_cut = !is_whole || frames.len() > MOST_FRAMES;
        SideStack { frames: frames.take(MOST_FRAMES).collect(), is_cut, holds_lock: None }
    }
}

/// A code object as it was when it was read.
#[derive(Debug, Clone)]
pub(super) struct ReadCode {
    pub(super) function: RunFunction,
    /// False for code that the interpreter makes for itself.
    pub(super) is_shown: bool,
    pub(super) lines: Arc<dyn CodeLines>,
}

/// Lines of a code object.
pub(super) trait CodeLines: Debug + Send + Sync {
    /// Line of a frame whose code object is at `code`, by the position that the kernel side has sent; 0 when not known.
    fn line(&self, code: u64, position: u32) -> u32;
}
