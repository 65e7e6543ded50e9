//! Names of methods by the numbers that the interpreter gives them.

use super::layout::{RubyLayout, RubyOffsets};
use super::object::{RubyElements, read_text};
use crate::runtimes::memory::TargetMemory;

/// Names in one array of the array of arrays; each has two words, the string and the symbol.
const IN_ARRAY: u64 = 512;
/// Numbers below are operators; they have no bits that say what kind of name it is. Others begin far above.
const FIRST_NAME: u64 = 0x400;
const KIND_BITS: u32 = 4;
/// Number of the operator `+`, which has the name that is its character.
const PLUS: u64 = b'+' as u64;

/// Address of the string that is the name with this number; `None` if there is none.
fn name_at(memory: &impl TargetMemory, names: u64, number: u64) -> Option<u64> {
    let index = if number < FIRST_NAME { number } else { number >> KIND_BITS };
    let arrays = RubyElements::of(memory, memory.u64(names)?)?;
    let array = RubyElements::of(memory, arrays.get(memory, index / IN_ARRAY)?)?;
    array.get(memory, index % IN_ARRAY * 2)
}

/// Name with this number; `None` if it has none that can be read.
pub(crate) fn name(memory: &impl TargetMemory, layout: &RubyLayout, number: u64) -> Option<String> {
    read_text(memory, &layout.offsets, name_at(memory, layout.names?, number)?)
}

/// True if the word at `names` leads to names by number.
pub(crate) fn are_names(memory: &impl TargetMemory, offsets: &RubyOffsets, names: u64) -> bool {
    let name = |number| read_text(memory, offsets, name_at(memory, names, number)?);
    name(PLUS).as_deref() == Some("+")
}
