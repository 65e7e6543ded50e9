//! What has to be known of the PHP of one process to read its stack: plain numbers, all checked at attach.

use std::fmt;

/// Most frames of a stack that are followed; a longer list, or a cycle, ends there.
pub(crate) const MOST_FRAMES: usize = 4096;

/// Size of the globals of the executor that is enough for every version: a function in there is the one that stands for
/// calls of methods that do not exist.
pub(crate) const GLOBALS_SIZE: u64 = 4096;

/// Bits of a code word that are the address of a function. The kernel side puts a part of a hash of where its name and file
/// are above, and marks below.
pub(crate) const CODE_ADDRESS: u64 = 0x0000_ffff_ffff_fff8;
/// Mark in a code word: the frame runs the code of a file outside all functions, and another frame called it.
pub(crate) const IS_INCLUDED: u64 = 1;

/// Bytes of an instruction, and the most instructions that a function is believed to have.
pub(super) const INSTRUCTION_BYTES: u64 = 32;
pub(super) const MOST_INSTRUCTIONS: u64 = 1 << 20;

/// Kind of a function, its first byte.
pub(crate) const INTERNAL_FUNCTION: u8 = 1;
/// A function of the program, or the code of a file outside all functions.
pub(crate) const USER_FUNCTION: u8 = 2;
/// Code that the program made of a string.
pub(crate) const EVALUATED_CODE: u8 = 4;

/// In a function: 32 bits of marks, and the mark of those that all requests share, which stay where they are.
pub(super) const FUNCTION_MARKS: u32 = 4;
pub(super) const IS_IMMUTABLE: u32 = 1 << 7;
/// Mark of a frame: it runs the code of a file outside all functions.
pub(crate) const CALL_CODE: u32 = 1 << 16;
/// Mark of a frame: it was called from C code. One of a function of the program has an interpreter loop of its own.
pub(crate) const CALL_TOP: u32 = 1 << 17;

/// Position of a frame at which a fiber begins: the frames after it are of the code that runs the fiber, on another stack.
pub(crate) const FIBER_POSITION: u32 = u32::MAX;

/// Version of PHP; it orders as released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PhpVersion {
    /// First number: 8 of 8.2.36.
    pub(crate) major: u8,
    /// Second number.
    pub(crate) minor: u8,
    /// Third number, where the process tells it.
    pub(crate) micro: Option<u16>,
}

impl PhpVersion {
    /// The language and its version without the last number, which changes nothing for readers: `php 8.2`.
    pub(crate) fn runtime(self) -> String {
        format!("php {}", PhpVersion { micro: None, ..self })
    }
}

impl fmt::Display for PhpVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)?;
        self.micro.map_or(Ok(()), |micro| write!(formatter, ".{micro}"))
    }
}

/// Offsets, in bytes, as the interpreter's own functions have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhpOffsets {
    /// In the executor's globals: pointer to the frame that runs.
    pub(crate) current_frame: u32,
    /// In the executor's globals: the instruction at which an exception was thrown that is being dealt with.
    pub(crate) thrown_at: u32,
    pub(crate) frame: PhpFrameOffsets,
    pub(crate) function: PhpFunctionOffsets,
    /// In a class: pointer to its name.
    pub(crate) class_name: u32,
    /// In an instruction: its line, 32 bits.
    pub(crate) line: u32,
    /// In a string: its length. Its characters follow.
    pub(crate) text_length: u32,
}

/// Offsets in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhpFrameOffsets {
    /// Pointer to the instruction, where it was last saved.
    pub(crate) instruction: u32,
    /// Pointer to the function; 0 in frames that only join two others.
    pub(crate) function: u32,
    /// 32 bits of marks.
    pub(crate) marks: u32,
    /// The caller's frame; 0 ends the list.
    pub(crate) previous: u32,
}

impl PhpFrameOffsets {
    /// Number of bytes from the frame's address that hold all fields.
    pub(crate) fn size(&self) -> u32 {
        let ends = [self.instruction + 8, self.function + 8, self.marks + 4, self.previous + 8];
        ends.into_iter().max().unwrap_or(0)
    }
}

/// Offsets in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhpFunctionOffsets {
    /// Pointer to the name; 0 for code outside all functions.
    pub(crate) name: u32,
    /// Pointer to the class; 0 for a function of none.
    pub(crate) class: u32,
    /// Pointer to the name of the file. First and last line follow, 32 bits each. Not in internal functions.
    pub(crate) file: u32,
    /// Pointer to the first instruction, from 8.0 on. Not in internal functions.
    pub(crate) instructions: Option<u32>,
}

/// Which functions of the program stay where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PhpKept {
    /// None: each request makes its own, in memory that the next one uses again.
    None,
    /// Those that are marked as shared by all requests.
    Immutable,
    /// All with a name: there are no requests.
    All,
}

/// Layout of PHP in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PhpLayout {
    pub(crate) version: PhpVersion,
    /// Sentence of where the offsets come from and what confirmed them, for reports on the target.
    pub(crate) source: String,
    /// Process address of the executor's globals.
    pub(crate) globals: u64,
    pub(crate) offsets: PhpOffsets,
    pub(crate) kept: PhpKept,
}

/// The address `offset` bytes after `base`; `None` where that is none.
pub(crate) fn field(base: u64, offset: u32) -> Option<u64> {
    base.checked_add(offset.into())
}
