//! What has to be known of one interpreter in one process to read its stacks: plain numbers, all checked at attach.

use std::fmt;

use crate::runtimes::memory::TargetMemory;

/// Most steps taken along any list of the interpreter; a longer list, or a cycle, ends there.
pub(crate) const MOST_STEPS: usize = 4096;

/// Version of CPython; it orders as released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PythonVersion {
    /// Second number: 11 of 3.11.2.
    pub(crate) minor: u8,
    /// Third number, where the process tells it.
    pub(crate) micro: Option<u8>,
    /// True for builds without a global interpreter lock.
    pub(crate) is_free_threaded: bool,
}

impl PythonVersion {
    /// The language and its version without the last number, which changes nothing for readers: `python 3.11`.
    pub(crate) fn runtime(self) -> String {
        format!("python {}", PythonVersion { micro: None, ..self })
    }
}

impl fmt::Display for PythonVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "3.{}", self.minor)?;
        if let Some(micro) = self.micro {
            write!(formatter, ".{micro}")?;
        }
        formatter.write_str(if self.is_free_threaded { "t" } else { "" })
    }
}

/// Place of the pointer to a thread's state, as seen from its thread pointer (`fs` base).
///
/// It is the pointer that survives while the thread waits without the interpreter lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PythonLocator {
    /// Word at the thread pointer plus `offset`: thread-local storage of fixed place.
    Fixed { offset: i64 },
    /// Word at `*(*(thread pointer + 8) + 16 * module) + offset`: thread-local storage of a loaded library.
    Dynamic { module: u64, offset: u64 },
    /// Word at the thread pointer plus `slot`: value of pthread key `key` in glibc's block of the first 32 keys.
    Key { key: u32, slot: u32 },
}

impl PythonLocator {
    /// Address of the state of the thread with this thread pointer; `None` if it has none.
    pub(crate) fn thread_state(self, memory: &impl TargetMemory, thread_pointer: u64) -> Option<u64> {
        let place = match self {
            Self::Fixed { offset } => thread_pointer.checked_add_signed(offset)?,
            Self::Key { slot, .. } => thread_pointer.checked_add(u64::from(slot))?,
            Self::Dynamic { module, offset } => {
                let vector = memory.u64(thread_pointer.checked_add(8)?)?;
                let block = memory.u64(vector.checked_add(module.checked_mul(16)?)?)?;
                block.checked_add(offset)?
            }
        };
        memory.u64(place).filter(|&state| state != 0)
    }
}

/// Meaning of the position word of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PythonPosition {
    /// 32-bit number of bytes from the first instruction.
    Bytes,
    /// 32-bit number of instructions of two bytes.
    Instructions,
    /// 64-bit address of an instruction.
    Pointer,
}

/// Sign of a frame that was entered from C, that is by a new call of the interpreter loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PythonEntry {
    /// Every frame was.
    Every,
    /// Frames whose byte at `offset` is not 0.
    Flag { offset: u32 },
    /// The frame just before (towards the leaf) one whose byte at `offset` is `least` or more. Such a frame is a
    /// shim of the loop: no function of the program, to be left out.
    Shim { offset: u32, least: u8 },
}

/// Offsets in an interpreter frame, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PythonFrameLayout {
    /// Number of bytes from the frame's address that hold all fields below.
    pub(crate) size: u32,
    pub(crate) code: u32,
    /// Bits of the code word that are the address; the others are a tag.
    pub(crate) code_mask: u64,
    /// The caller's frame; 0 ends the list.
    pub(crate) previous: u32,
    pub(crate) position: u32,
    pub(crate) position_kind: PythonPosition,
    pub(crate) entry: PythonEntry,
}

/// Form of the table that gives lines to positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PythonLineTable {
    /// Up to 3.9: pairs of unsigned address and signed line increments.
    Increments,
    /// 3.10 (PEP 626): pairs of range length and signed line increment, -128 for "no line".
    Ranges,
    /// From 3.11 on (PEP 657): entries of a start byte and variable-length numbers.
    Locations,
}

/// Offsets in a code object, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PythonCodeLayout {
    pub(crate) file: u32,
    pub(crate) name: u32,
    /// Name with the names of the classes and functions around it; from 3.11 on.
    pub(crate) qualified_name: Option<u32>,
    pub(crate) first_line: u32,
    pub(crate) line_table: u32,
    pub(crate) line_table_kind: PythonLineTable,
    /// First instruction, from 3.11 on.
    pub(crate) instructions: Option<u32>,
    /// Pointer to the copies of the instructions that single threads run, in free-threaded builds.
    pub(crate) thread_instructions: Option<u32>,
}

impl PythonCodeLayout {
    /// Offsets of words that tell a code object from others: of its name, its file, and its lines.
    pub(crate) fn identity(&self) -> [u32; 3] {
        [self.qualified_name.unwrap_or(self.name), self.file, self.line_table]
    }
}

/// What objects have in common, and the layout of strings and byte strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PythonObjectLayout {
    /// Size of the header every object begins with; the type is its last word, and a length follows it.
    pub(crate) header: u32,
    /// Size of the header of an ASCII string, which its characters follow.
    pub(crate) ascii_size: u32,
    /// Offset of the string's state bits.
    pub(crate) text_state: u32,
    /// Number of bits in the state before the width of characters.
    pub(crate) text_state_shift: u32,
    /// Process address of the type of code objects (`PyCode_Type`).
    pub(crate) code_type: u64,
    /// Process address of the type of strings (`PyUnicode_Type`).
    pub(crate) text_type: u64,
    /// Process address of the type of byte strings (`PyBytes_Type`).
    pub(crate) bytes_type: u64,
}

impl PythonObjectLayout {
    /// Offset of the type word.
    pub(crate) fn type_offset(&self) -> u32 {
        self.header.saturating_sub(8)
    }

    /// Offset of the length of an object of variable size, and of a string.
    pub(crate) fn length_offset(&self) -> u32 {
        self.header
    }
}

/// Where the lists of interpreters and threads begin and how they go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PythonLists {
    /// Process address of the pointer to the newest interpreter.
    pub(crate) interpreters: u64,
    pub(crate) next_interpreter: u32,
    /// Pointer to the newest thread, in an interpreter.
    pub(crate) threads: u32,
    pub(crate) next_thread: u32,
    /// Identifier of the thread, in a thread state: what `pthread_self` returns, equal to the thread pointer.
    pub(crate) thread_id: u32,
}

/// Where to read which thread holds the global interpreter lock. Process addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PythonGil {
    /// Word with the thread state of the holder, 0 if there is none.
    Current { state: u64 },
    /// Word with the thread state of the last holder, which holds it still if the 32-bit number at `locked` is 1.
    Lock { holder: u64, locked: u64 },
    /// There is no such lock in this build, or it was not found.
    Absent,
}

#[cfg(test)]
impl PythonGil {
    /// State of the thread that holds the lock; `None` if none does.
    pub(crate) fn holder(self, memory: &impl TargetMemory) -> Option<u64> {
        match self {
            Self::Current { state } => memory.u64(state),
            Self::Lock { holder, locked } => (memory.u32(locked)? == 1).then(|| memory.u64(holder))?,
            Self::Absent => None,
        }
        .filter(|&state| state != 0)
    }
}

/// Layout of one interpreter in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PythonLayout {
    pub(crate) version: PythonVersion,
    /// Sentence of where the offsets come from and what confirmed them, for reports on the target.
    pub(crate) source: String,
    pub(crate) locator: PythonLocator,
    /// Offset of the leaf frame's pointer in a thread state; of the pointer to the C frame if `c_frame` is given.
    pub(crate) state_frame: u32,
    /// Offset of the leaf frame's pointer in the C frame.
    pub(crate) c_frame: Option<u32>,
    /// Offset in the C frame of the pointer to that of the call of the interpreter loop before. During the first
    /// instructions of a call the leaf's pointer in the newest C frame is not set; the one before has the leaf then.
    pub(crate) previous_c_frame: Option<u32>,
    pub(crate) frame: PythonFrameLayout,
    pub(crate) code: PythonCodeLayout,
    pub(crate) object: PythonObjectLayout,
    pub(crate) lists: PythonLists,
    pub(crate) gil: PythonGil,
}

/// Offsets as a table or the interpreter itself gives them, before any check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PythonOffsets {
    /// Name of the source, for reports on the target.
    pub(crate) source: &'static str,
    /// Size of `_PyRuntime` in bytes.
    pub(crate) runtime_size: u64,
    /// Offset in `_PyRuntime` of the pointer to the newest interpreter.
    pub(crate) interpreters: u32,
    /// Offset in `_PyRuntime` of the pthread key of thread states (its `Py_tss_t`).
    pub(crate) key: Option<u32>,
    /// Offset in `_PyRuntime` of the state of the thread that holds the interpreter lock.
    pub(crate) current_state: Option<u32>,
    /// Offset in an interpreter of the pointer to its lock, then offsets in the lock of last holder and locked.
    pub(crate) lock: Option<(u32, u32, u32)>,
    pub(crate) state_frame: u32,
    pub(crate) c_frame: Option<u32>,
    pub(crate) previous_c_frame: Option<u32>,
    pub(crate) frame: PythonFrameLayout,
    pub(crate) code: PythonCodeLayout,
    /// Layout of objects, the addresses of the types still 0.
    pub(crate) object: PythonObjectLayout,
    /// Lists, the address of the first still 0.
    pub(crate) lists: PythonLists,
}
