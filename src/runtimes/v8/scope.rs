//! ScopeInfo: name and place of a function that has been compiled.

use super::layout::V8Layout;
use super::object::{count, field, is_object, of_type, smi};
use super::text::text;
use crate::runtimes::TargetMemory;

/// Names of local variables are in the object itself below this number, in a table of their own from it on.
const MOST_INLINED_NAMES: u32 = 75;
/// Number of local variables in the context, at most; V8 has the same limit.
const MOST_LOCALS: u32 = 0xffff;

/// Bits of the flags that say which optional parts follow; the same in V8 10 to 14.
const HAS_SAVED_CLASS_VARIABLE: u32 = 1 << 10;
const FUNCTION_VARIABLE: u32 = 3 << 12;
const HAS_INFERRED_NAME: u32 = 1 << 14;
const FUNCTION_KIND_SHIFT: u32 = 17;
const FUNCTION_KIND_MASK: u32 = 0x1f;
/// Kinds of functions that are the code of a module.
const MODULE_KINDS: [u32; 2] = [1, 2];

/// What a ScopeInfo says of its function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct V8Scope {
    /// Name of the function, or the name it got from where it was assigned; empty if there is none.
    pub(super) name: String,
    /// Where its text begins and ends in the source, in UTF-16 units.
    pub(super) start: u32,
    pub(super) end: u32,
}

/// Reads a ScopeInfo; `None` unless all of its parts have the form expected.
pub(super) fn scope(memory: &impl TargetMemory, layout: &V8Layout, scope_info: u64) -> Option<V8Scope> {
    of_type(memory, layout, scope_info, layout.types.scope_info)?;
    let word = |index: u32| field(memory, scope_info, u16::try_from(8 * index).ok()?);
    // Newer versions keep the flags as a plain number.
    let flag_word = word(1)?;
    let flags = if flag_word & 0xffff_ffff == 0 { flag_word >> 32 } else { flag_word } as u32;
    let locals = count(word(3)?).filter(|&locals| locals <= MOST_LOCALS)?;
    let first = u32::from(layout.function.scope_first) + 1;
    let mut next = first;
    if MODULE_KINDS.contains(&(flags >> FUNCTION_KIND_SHIFT & FUNCTION_KIND_MASK)) {
        count(word(next)?)?;
        next += 1;
    }
    next += if locals < MOST_INLINED_NAMES { locals } else { 1 } + locals;
    if flags & HAS_SAVED_CLASS_VARIABLE != 0 {
        next += 1;
    }
    let mut names = [None, None];
    if flags & FUNCTION_VARIABLE != 0 {
        names[0] = Some(word(next)?);
        smi(word(next + 1)?)?;
        next += 2;
    }
    if flags & HAS_INFERRED_NAME != 0 {
        names[1] = Some(word(next)?);
        next += 1;
    }
    let place = if first > 4 { 4 } else { next };
    let (start, end) = (count(word(place)?)?, count(word(place + 1)?)?);
    if start > end {
        return None;
    }
    let mut name = String::new();
    for candidate in names.into_iter().flatten() {
        if name.is_empty() {
            name = optional_text(memory, layout, candidate)?;
        }
    }
    Some(V8Scope { name, start, end })
}

/// Text of a string, empty for zero or an object that says there is none; `None` if the string is damaged.
fn optional_text(memory: &impl TargetMemory, layout: &V8Layout, word: u64) -> Option<String> {
    if smi(word) == Some(0) {
        return Some(String::new());
    }
    let kind = super::object::instance_type(memory, layout, word).filter(|_| is_object(word))?;
    if kind >= layout.strings.end { Some(String::new()) } else { text(memory, layout, word) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::v8::fake::FakeHeap;

    #[test]
    fn scope_of_a_named_function() {
        let heap = FakeHeap::with_function();
        let found = scope(&heap, &heap.layout(), heap.scope_info).unwrap();
        assert_eq!((found.name.as_str(), found.start, found.end), ("work", 6, 20));
    }

    #[test]
    fn damaged_scopes_give_nothing() {
        let mut heap = FakeHeap::with_function();
        let layout = heap.layout();
        heap.put(heap.scope_info - 1 + 24, 3_000_000_u64 << 32);
        assert_eq!(scope(&heap, &layout, heap.scope_info), None);
        heap.put(heap.scope_info - 1 + 24, 60_000_u64 << 32);
        assert_eq!(scope(&heap, &layout, heap.scope_info), None);
        assert_eq!(scope(&heap, &layout, heap.shared), None);
    }
}
