//! Code objects: what a frame runs, read once and kept. A code object is a sequence of instructions, or the entry of a
//! method that is written in C.

use super::layout::{DEFINITION_NAME, RubyLayout, words_of};
use super::lines::{MOST_POSITIONS, RubyLines};
use super::names;
use super::object::{RubyBytes, RubyElements, RubyKind, read_text};
use crate::runtimes::memory::TargetMemory;

/// Offset of the body in a sequence of instructions.
pub(crate) const BODY: u64 = 16;
/// Offsets in the body: number of words, address of the first, file, name, first line.
const SIZE: u64 = 4;
const INSTRUCTIONS: u64 = 8;
const FILE: u64 = 64;
const LABEL: u64 = 80;
const FIRST_LINE: u64 = 88;
/// Words of the body that are looked at: up to the table of lines.
pub(crate) const BODY_WORDS: usize = 16;
/// Offset of the definition in the entry of a method.
const DEFINITION: u64 = 16;
/// Words of a name that count for the check.
pub(crate) const TEXT_WORDS: usize = 3;

/// Function, file and lines of one code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RubyCode {
    /// As the interpreter labels it: `run`, `block in run`, `<main>`.
    pub(crate) function: String,
    /// Empty for methods that are written in C.
    pub(crate) file: String,
    pub(crate) first_line: u32,
    /// Process address of the first instruction; 0 for methods that are written in C.
    instructions: u64,
    /// Words of instructions.
    size: u32,
    lines: RubyLines,
}

impl RubyCode {
    /// Reads the code object at `address`; `None` if it is none, or any part of it cannot be read or is not possible.
    pub(crate) fn read(memory: &impl TargetMemory, layout: &RubyLayout, address: u64) -> Option<Self> {
        match RubyKind::of(memory, address)? {
            RubyKind::Sequence => Self::of_sequence(memory, layout, address),
            RubyKind::Method => Self::of_method(memory, layout, address),
            RubyKind::Callback | RubyKind::Other => None,
        }
    }

    fn of_sequence(memory: &impl TargetMemory, layout: &RubyLayout, address: u64) -> Option<Self> {
        let body = memory.u64(address.checked_add(BODY)?)?;
        let field = |offset| body.checked_add(offset);
        let offsets = &layout.offsets;
        let size = memory.u32(field(SIZE)?).filter(|&size| size != 0 && size <= MOST_POSITIONS)?;
        let first = memory.u32(field(FIRST_LINE)?)?;
        Some(Self {
            function: read_text(memory, offsets, memory.u64(field(LABEL)?)?)?,
            file: read_file(memory, layout, memory.u64(field(FILE)?)?)?,
            first_line: line_number(if offsets.is_first_line_tagged { first >> 1 } else { first }),
            instructions: memory.u64(field(INSTRUCTIONS)?)?,
            size,
            lines: RubyLines::read(memory, offsets, body, size)?,
        })
    }

    fn of_method(memory: &impl TargetMemory, layout: &RubyLayout, address: u64) -> Option<Self> {
        let definition = memory.u64(address.checked_add(DEFINITION)?)?;
        let number = memory.u64(definition.checked_add(DEFINITION_NAME)?)?;
        Some(Self {
            function: names::name(memory, layout, number)?,
            file: String::new(),
            first_line: 0,
            instructions: 0,
            size: 0,
            lines: RubyLines::default(),
        })
    }

    /// Line of a frame whose code object is at `code`, by the low half of the distance from there to its next instruction.
    /// `None` if that instruction is not of this code, or has no line.
    pub(crate) fn line(&self, code: u64, distance: u32) -> Option<u32> {
        if self.instructions == 0 {
            return None;
        }
        let from_first = (code as u32).wrapping_add(distance).wrapping_sub(self.instructions as u32);
        let next = (from_first.is_multiple_of(8) && from_first / 8 <= self.size).then_some(from_first / 8)?;
        // A frame keeps the address after its current instruction; one that has not begun is at the first.
        self.lines.line(next.saturating_sub(1)).map(line_number).filter(|&line| line != 0)
    }

    /// First word of the instructions; `None` if there is none.
    pub(crate) fn first_instruction(&self, memory: &impl TargetMemory) -> Option<u64> {
        memory.u64(Some(self.instructions).filter(|&address| address != 0)?)
    }

    /// Words that change when the object at `address` becomes another code object; `None` if it is none.
    pub(crate) fn identity(
        memory: &impl TargetMemory,
        layout: &RubyLayout,
        address: u64,
    ) -> Option<RubyIdentity> {
        match RubyKind::of(memory, address)? {
            RubyKind::Sequence => RubyIdentity::of_sequence(memory, layout, address),
            RubyKind::Method => RubyIdentity::of_method(memory, address),
            RubyKind::Callback | RubyKind::Other => None,
        }
    }
}

/// What tells a code object from another one at its address: words, in the order in which the kernel side mixes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RubyIdentity {
    pub(crate) words: [u64; 7],
    /// Length and first words of the name, what is after its end as zeros. Only of a sequence of instructions, where it can
    /// be read.
    pub(crate) name: Option<(u64, [u64; TEXT_WORDS])>,
}

impl RubyIdentity {
    fn of_sequence(memory: &impl TargetMemory, layout: &RubyLayout, address: u64) -> Option<Self> {
        let body = memory.u64(address.checked_add(BODY)?)?;
        let words: [u64; BODY_WORDS] = words_of(&memory.bytes::<{ 8 * BODY_WORDS }>(body)?);
        let [kind_and_size, instructions, .., file, _, label, first, _, _, _, _] = words;
        let table = words.get(layout.offsets.line_table as usize / 8).copied()?;
        let name = RubyBytes::of(memory, &layout.offsets, label).map(|name| {
            let mut bytes = [0; 8 * TEXT_WORDS];
            let length = usize::try_from(name.length).unwrap_or(usize::MAX).min(bytes.len());
            let (text, _) = bytes.split_at_mut(length);
            if !memory.read(name.address, text) {
                text.fill(0);
            }
            (name.length, words_of(&bytes))
        });
        Some(Self {
            words: [body, kind_and_size, instructions, file, label, first & 0xffff_ffff, table],
            name,
        })
    }

    fn of_method(memory: &impl TargetMemory, address: u64) -> Option<Self> {
        let [class, definition, called, owner] = words_of(&memory.bytes::<32>(address.checked_add(8)?)?);
        let name = memory.u64(definition.checked_add(DEFINITION_NAME)?)?;
        Some(Self { words: [class, definition, called, owner, name, 0, 0], name: None })
    }
}

/// A line as it is shown: 0 for one that cannot be.
fn line_number(line: u32) -> u32 {
    if line > i32::MAX.cast_unsigned() { 0 } else { line }
}

/// Name of the file: the whole path where it is known, else what the program calls it.
fn read_file(memory: &impl TargetMemory, layout: &RubyLayout, address: u64) -> Option<String> {
    let Some(paths) = RubyElements::of(memory, address) else {
        return read_text(memory, &layout.offsets, address);
    };
    let text = |index| read_text(memory, &layout.offsets, paths.get(memory, index)?);
    text(1).or_else(|| text(0))
}
