//! What has to be known of one interpreter in one process to read its stacks: plain numbers, all checked at attach.

use crate::runtimes::memory::TargetMemory;
use std::fmt;

/// Most frames of one stack; a longer list ends there.
pub(crate) const MOST_FRAMES: u64 = 1 << 20;
/// Offsets in an execution context.
const CONTEXT_STACK: u64 = 0;
/// Offset in a method definition of the name that it was given first.
pub(crate) const DEFINITION_NAME: u64 = 32;

/// Version of the interpreter; it orders as released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RubyVersion {
    /// First number: 3 of 3.1.2.
    pub(crate) major: u8,
    /// Second number.
    pub(crate) minor: u8,
    /// Third number.
    pub(crate) teeny: u8,
}

impl RubyVersion {
    /// The language and its version without the last number, which changes nothing for readers: `ruby 3.1`.
    pub(crate) fn runtime(self) -> String {
        format!("ruby {}.{}", self.major, self.minor)
    }
}

impl fmt::Display for RubyVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.teeny)
    }
}

/// Where a thread keeps the pointer from which its stack is found, as seen from its thread pointer (`fs` base).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RubyPlace {
    /// Word at the thread pointer plus `offset`.
    Fixed { offset: i64 },
    /// Word at `*(*(thread pointer + 8) + 16 * module) + offset`: thread-local storage of a loaded library.
    Dynamic { module: u64, offset: u64 },
}

/// The way from a thread to its execution context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RubyLocator {
    pub(crate) place: RubyPlace,
    /// Offset of the context in what the place points to; `None` where that is the context itself.
    pub(crate) context: Option<u32>,
}

impl RubyLocator {
    /// Address of the execution context of the thread with this thread pointer; `None` if it has none.
    pub(crate) fn context(self, memory: &impl TargetMemory, thread_pointer: u64) -> Option<u64> {
        let place = match self.place {
            RubyPlace::Fixed { offset } => thread_pointer.checked_add_signed(offset)?,
            RubyPlace::Dynamic { module, offset } => {
                let vector = memory.u64(thread_pointer.checked_add(8)?)?;
                let block = memory.u64(vector.checked_add(module.checked_mul(16)?)?)?;
                block.checked_add(offset)?
            }
        };
        let state = memory.u64(place).filter(|&state| state != 0)?;
        let context = match self.context {
            Some(offset) => memory.u64(state.checked_add(offset.into())?)?,
            None => state,
        };
        (context != 0).then_some(context)
    }
}

/// Offsets and sizes that differ by version, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RubyOffsets {
    /// Size of a control frame.
    pub(crate) frame_size: u32,
    /// In a thread: its execution context.
    pub(crate) thread_context: u32,
    /// In an execution context: its thread.
    pub(crate) context_thread: u32,
    /// In the body of a sequence of instructions: the table of lines.
    pub(crate) line_table: u32,
    /// Size of an entry of that table, which begins with a line.
    pub(crate) line_entry: u32,
    /// The first line is a tagged number, twice itself and one.
    pub(crate) is_first_line_tagged: bool,
    /// A string that holds its own bytes has its length in a word before them; else in its flags.
    pub(crate) has_length_word: bool,
}

/// How one interpreter lays out what `prof` reads of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RubyLayout {
    pub(crate) version: RubyVersion,
    /// Sentence of where the offsets come from, and what confirmed them.
    pub(crate) source: String,
    pub(crate) locator: RubyLocator,
    pub(crate) offsets: RubyOffsets,
    /// Address of the word that points to the names of methods and variables by number; `None` where it was not found, and
    /// methods written in C are left out.
    pub(crate) names: Option<u64>,
    /// First instruction of a function that is running: direct-threaded code, an address in the interpreter's loop.
    pub(crate) instruction: u64,
}

/// The stack of control frames of one execution context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RubyStackRange {
    /// Address of the newest frame.
    pub(crate) frame: u64,
    /// Address after the oldest frame.
    pub(crate) end: u64,
}

impl RubyStackRange {
    /// The frames of the execution context at `context`; `None` if these are no such thing.
    pub(crate) fn of(memory: &impl TargetMemory, offsets: &RubyOffsets, context: u64) -> Option<Self> {
        let words = memory.bytes::<24>(context.checked_add(CONTEXT_STACK)?)?;
        let [start, size, frame] = words_of(&words);
        let end = start.checked_add(size.checked_mul(8)?)?;
        let bytes = end.checked_sub(frame)?;
        let is_stack = start != 0
            && frame >= start
            && start.is_multiple_of(8)
            && bytes.is_multiple_of(offsets.frame_size.into())
            && bytes / u64::from(offsets.frame_size) <= MOST_FRAMES;
        is_stack.then_some(Self { frame, end })
    }
}

/// The words in `bytes`.
pub(crate) fn words_of<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}
