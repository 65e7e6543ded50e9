//! Scripts: their name, and the line and column of an offset in their source.

use super::layout::V8Layout;
use super::object::{array_length, count, element, field, instance_type, of_type, smi};
use super::text::{text, text_length, visit_units};
use crate::runtimes::TargetMemory;

/// Units of a source read to count its lines, at most.
const MOST_SOURCE: u32 = 16 << 20;
/// Number of lines of a script, at most.
const MOST_LINES: u32 = 16 << 20;
/// Words of a DebugInfo searched for its script.
const DEBUG_INFO_WORDS: u16 = 10;

/// Line and column of an offset in a source, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct V8Place {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Script of a function, from the word of its SharedFunctionInfo: the script itself, or the DebugInfo that has it.
pub(super) fn script_of(memory: &impl TargetMemory, layout: &V8Layout, word: u64) -> Option<u64> {
    let kind = instance_type(memory, layout, word)?;
    if kind == layout.types.script {
        return Some(word);
    }
    if Some(kind) != layout.types.debug_info {
        return None;
    }
    let words = (1..DEBUG_INFO_WORDS).filter_map(|index| field(memory, word, 8 * index));
    words.filter_map(|word| of_type(memory, layout, word, layout.types.script)).next()
}

/// Name of a script, a path or a URL; empty if it has none.
pub(super) fn script_name(memory: &impl TargetMemory, layout: &V8Layout, script: u64) -> Option<String> {
    let name = field(memory, script, layout.function.script_name)?;
    if smi(name).is_some() || instance_type(memory, layout, name)? >= layout.strings.end {
        return Some(String::new());
    }
    text(memory, layout, name)
}

/// Line and column of the unit at `offset` of the source of a script.
pub(super) fn place(
    memory: &impl TargetMemory,
    layout: &V8Layout,
    script: u64,
    offset: u32,
) -> Option<V8Place> {
    let ends = field(memory, script, layout.function.script_line_ends)?;
    let known = of_type(memory, layout, ends, layout.types.fixed_array);
    let lines = known.and_then(|ends| array_length(memory, layout, ends)).filter(|&lines| lines > 0);
    let (line, start) = match known.zip(lines) {
        Some((ends, lines)) => by_line_ends(memory, layout, ends, lines, offset)?,
        None => by_source(memory, layout, field(memory, script, layout.function.script_source)?, offset)?,
    };
    // The offsets of a script that is a part of a file follow its name.
    let shift = |index: u16| smi(field(memory, script, layout.function.script_name + 8 * index)?);
    let first_column = if line == 0 { shift(2)? } else { 0 };
    Some(V8Place {
        line: line.checked_add_signed(shift(1)?)?.checked_add(1)?,
        column: (offset - start).checked_add_signed(first_column)?.checked_add(1)?,
    })
}

/// Line of `offset`, from 0, and where that line starts, from the array of the ends of lines.
fn by_line_ends(
    memory: &impl TargetMemory,
    layout: &V8Layout,
    ends: u64,
    lines: u32,
    offset: u32,
) -> Option<(u32, u32)> {
    let end = |line: u32| count(element(memory, layout, ends, line)?);
    let (mut low, mut high) = (0, lines.min(MOST_LINES));
    while low < high {
        let middle = low + (high - low) / 2;
        if end(middle)? < offset { low = middle + 1 } else { high = middle }
    }
    let start = if low == 0 { 0 } else { end(low - 1)? + 1 };
    (low < lines && start <= offset).then_some((low, start))
}

/// Line of `offset`, from 0, and where that line starts, by counting the ends of lines before.
fn by_source(memory: &impl TargetMemory, layout: &V8Layout, source: u64, offset: u32) -> Option<(u32, u32)> {
    let length = text_length(memory, layout, source)?;
    if offset > MOST_SOURCE || offset > length {
        return None;
    }
    // The unit at `offset` itself says whether a carriage return before it ended a line.
    let read = length.min(offset + 1);
    let (mut line, mut start, mut at) = (0, 0, 0);
    let mut after_return = false;
    visit_units(memory, layout, source, read, &mut |units| {
        for &unit in units {
            // A carriage return ends a line unless a line feed does so after it.
            if after_return && unit != 0x0a {
                line += 1;
                start = at;
            }
            after_return = unit == 0x0d;
            at += 1;
            if at <= offset && matches!(unit, 0x0a | 0x2028 | 0x2029) {
                line += 1;
                start = at;
            }
        }
    })?;
    Some((line, start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::v8::fake::FakeHeap;

    fn at(heap: &FakeHeap, offset: u32) -> Option<(u32, u32)> {
        place(heap, &heap.layout(), heap.script, offset).map(|found| (found.line, found.column))
    }

    #[test]
    fn line_ends_and_source_agree() {
        let mut heap = FakeHeap::with_function();
        let counted: Vec<_> = (0..30).map(|offset| at(&heap, offset)).collect();
        assert_eq!(counted[6], Some((2, 1)));
        let ends = heap.fixed_array(&[5_u64 << 32, 12_u64 << 32, 29_u64 << 32]);
        heap.put(heap.script - 1 + 56, ends);
        let looked_up: Vec<_> = (0..30).map(|offset| at(&heap, offset)).collect();
        assert_eq!(counted, looked_up);
        assert_eq!(at(&heap, 31), None);
    }

    #[test]
    fn script_inside_a_file_is_shifted() {
        let mut heap = FakeHeap::with_function();
        heap.put(heap.script - 1 + 24, 10_u64 << 32);
        heap.put(heap.script - 1 + 32, 4_u64 << 32);
        assert_eq!(at(&heap, 2), Some((11, 7)));
        assert_eq!(at(&heap, 6), Some((12, 1)));
    }

    #[test]
    fn damaged_line_ends_give_no_place() {
        let mut heap = FakeHeap::with_function();
        let ends = heap.fixed_array(&[1]);
        heap.put(heap.script - 1 + 56, ends);
        assert_eq!(at(&heap, 3), None);
        heap.put(ends - 1 + 8, 0x7fff_ffff_u64 << 32);
        assert_eq!(at(&heap, 3), None);
    }
}
