//! Offsets that CPython publishes about itself from 3.13 on, at the start of `_PyRuntime`, for debuggers.
//!
//! The words are the same numbers in another order from one minor version to the next; the version is in front.

use crate::runtimes::memory::TargetMemory;
use crate::runtimes::python::layout::{
    PythonCodeLayout, PythonEntry, PythonFrameLayout, PythonLineTable, PythonLists, PythonObjectLayout,
    PythonOffsets, PythonPosition,
};

/// Value of the first word: "xdebugpy".
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");
/// Number of words read: more than any known version uses here.
const WORDS: usize = 96;

/// Version word and build kind in front of the published offsets; `None` if there are none.
pub(crate) fn version(memory: &impl TargetMemory, runtime: u64) -> Option<(u32, bool)> {
    let words = words(memory, runtime, 3)?;
    let [cookie, version, free_threaded] = words[..] else { return None };
    let version = u32::try_from(version).ok().filter(|version| version >> 24 == 3)?;
    (cookie == COOKIE && free_threaded <= 1).then_some((version, free_threaded == 1))
}

/// Published offsets of version 3.`minor`; `None` if the order of that version is not known or a number is not
/// possible (an offset beyond the size published for its structure).
pub(crate) fn offsets(
    memory: &impl TargetMemory,
    runtime: u64,
    minor: u8,
    is_free_threaded: bool,
) -> Option<PythonOffsets> {
    let words = words(memory, runtime, WORDS)?;
    let sections = PublishedOrder::of(minor)?;
    let header: u32 = if is_free_threaded { 32 } else { 16 };
    let runtime_part = PublishedStructure::new(&words, sections.runtime, 1 << 26)?;
    let interpreter = PublishedStructure::new(&words, sections.interpreter, 1 << 26)?;
    let state = PublishedStructure::new(&words, sections.state, 1 << 16)?;
    let frame = PublishedStructure::new(&words, sections.frame, 512)?;
    let code = PublishedStructure::new(&words, sections.code, 1024)?;
    let text = PublishedStructure::new(&words, sections.text, 256)?;
    if !has_objects(&words, &sections, &text, header)? {
        return None;
    }
    let thread_instructions = match sections.thread_instructions {
        Some(index) if is_free_threaded => Some(code.at(index)?),
        _ => None,
    };
    let lock = sections.lock(&interpreter).filter(|_| !is_free_threaded);
    Some(PythonOffsets {
        source: "offsets published by the interpreter",
        runtime_size: runtime_part.size,
        interpreters: runtime_part.at(2)?,
        key: None,
        current_state: None,
        lock,
        state_frame: state.at(4)?,
        c_frame: None,
        previous_c_frame: None,
        frame: frame_layout(&frame, minor)?,
        code: code_layout(&code, thread_instructions)?,
        object: PythonObjectLayout {
            header,
            ascii_size: text.at(3)?,
            text_state: text.at(1)?,
            // A byte of its own in free-threaded 3.14, as threads change it while others read.
            text_state_shift: if is_free_threaded && minor >= 14 { 8 } else { 2 },
            code_type: 0,
            text_type: 0,
            bytes_type: 0,
        },
        lists: PythonLists {
            interpreters: 0,
            next_interpreter: interpreter.at(2)?,
            threads: interpreter.at(3)?,
            next_thread: state.at(2)?,
            thread_id: state.at(5)?,
        },
    })
}

/// True if the parts on objects, byte strings and strings say what a header of `header` bytes makes of them, which
/// they do in the order of this version only.
fn has_objects(
    words: &[u64],
    sections: &PublishedOrder,
    text: &PublishedStructure,
    header: u32,
) -> Option<bool> {
    let header_size = u64::from(header);
    let (object, bytes) = (words.get(sections.object..)?, words.get(sections.bytes..)?);
    Some(
        object.first() == Some(&header_size)
            && object.get(1) == Some(&(header_size - 8))
            && bytes.get(1) == Some(&header_size)
            && bytes.get(2) == Some(&(header_size + 16))
            && text.at(2)? == header,
    )
}

fn frame_layout(frame: &PublishedStructure, minor: u8) -> Option<PythonFrameLayout> {
    let (position, owner) = (frame.at(3)?, frame.at(5)?);
    Some(PythonFrameLayout {
        size: frame.at(2)?.max(frame.at(1)?).max(position).max(owner).saturating_add(8),
        code: frame.at(2)?,
        // From 3.14 on the lowest bits of the word tell how the reference is counted.
        code_mask: if minor >= 14 { !3 } else { u64::MAX },
        previous: frame.at(1)?,
        position,
        position_kind: PythonPosition::Pointer,
        entry: PythonEntry::Shim { offset: owner, least: 3 },
    })
}

fn code_layout(code: &PublishedStructure, thread_instructions: Option<u32>) -> Option<PythonCodeLayout> {
    Some(PythonCodeLayout {
        file: code.at(1)?,
        name: code.at(2)?,
        qualified_name: Some(code.at(3)?),
        first_line: code.at(5)?,
        line_table: code.at(4)?,
        line_table_kind: PythonLineTable::Locations,
        instructions: Some(code.at(9)?),
        thread_instructions,
    })
}

/// Number of the first word of each structure's part.
struct PublishedOrder {
    runtime: usize,
    interpreter: usize,
    /// Number in the interpreter's part of the word for the pointer to the lock.
    interpreter_lock: usize,
    state: usize,
    frame: usize,
    code: usize,
    /// Number in the code object's part of the word for the threads' copies of instructions.
    thread_instructions: Option<usize>,
    object: usize,
    bytes: usize,
    text: usize,
}

impl PublishedOrder {
    fn of(minor: u8) -> Option<Self> {
        // Sizes of the parts, in words: runtime 3, state 9, object 2, type 4, tuple, list 3, set 4, dictionary 3,
        // float 2, integer 3, bytes 3.
        Some(match minor {
            13 => Self {
                runtime: 3,
                interpreter: 6,
                interpreter_lock: 8,
                state: 19,
                frame: 28,
                code: 34,
                thread_instructions: None,
                object: 44,
                bytes: 64,
                text: 67,
            },
            14 => Self {
                runtime: 3,
                interpreter: 6,
                interpreter_lock: 9,
                state: 22,
                frame: 31,
                code: 39,
                thread_instructions: Some(10),
                object: 50,
                bytes: 74,
                text: 77,
            },
            _ => return None,
        })
    }

    /// Offsets of the lock's pointer in the interpreter and of last holder and locked in the lock.
    fn lock(&self, interpreter: &PublishedStructure) -> Option<(u32, u32, u32)> {
        // The lock of the main interpreter lies in it; only its place there is published.
        let inner = interpreter.at(self.interpreter_lock + 1)?;
        let locked = interpreter.at(self.interpreter_lock + 3)?.checked_sub(inner)?;
        let holder = interpreter.at(self.interpreter_lock + 4)?.checked_sub(inner)?;
        (locked < 256 && holder < 256).then_some((interpreter.at(self.interpreter_lock)?, holder, locked))
    }
}

/// Words of one structure: its size, then offsets in it.
struct PublishedStructure<'a> {
    words: &'a [u64],
    size: u64,
}

impl<'a> PublishedStructure<'a> {
    /// PublishedStructure that begins at word `first`; `None` if the size is 0 or more than `most` bytes.
    fn new(words: &'a [u64], first: usize, most: u64) -> Option<Self> {
        let words = words.get(first..)?;
        let size = *words.first()?;
        (size > 0 && size <= most).then_some(Self { words, size })
    }

    /// Offset in word `index` of the part; `None` if it lies outside the structure.
    fn at(&self, index: usize) -> Option<u32> {
        let offset = *self.words.get(index)?;
        u32::try_from(offset).ok().filter(|_| offset <= self.size)
    }
}

fn words(memory: &impl TargetMemory, address: u64, count: usize) -> Option<Vec<u64>> {
    let bytes = memory.range(address, u64::try_from(count * 8).ok()?, WORDS * 8)?;
    Some(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}
