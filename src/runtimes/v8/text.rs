//! Strings of V8: short ones whole, long ones in pieces, without ever joining them.

use super::layout::V8Layout;
use super::object::{address, count, field, instance_type};
use crate::runtimes::TargetMemory;

/// Longest name or file read, in UTF-16 units.
const MOST_UNITS: u32 = 4096;
/// Number of strings that one string may be joined of, at most.
const MOST_PARTS: usize = 4096;
/// Bit of the type of external strings that do not cache where their units are.
const UNCACHED: u16 = 0x10;
/// Units read at once of a long string.
const PIECE: u32 = 16 * 1024;

/// Part of a string: which units of which string.
struct V8TextPart {
    string: u64,
    from: u32,
    to: u32,
}

/// What one string is made of.
enum V8TextShape {
    /// Bytes or 16-bit units at an address.
    Flat { one_byte: bool, address: u64 },
    /// Two parts of which the first has that many units.
    Joined { first: u64, second: u64, length: u32 },
    /// Units from an offset on of another string.
    Within { parent: u64, offset: u32 },
}

/// Number of UTF-16 units of the string at `string`; `None` if that is no string.
pub(super) fn text_length(memory: &impl TargetMemory, layout: &V8Layout, string: u64) -> Option<u32> {
    let kind = instance_type(memory, layout, string)?;
    let length = || memory.u32(address(string, layout.strings.length)?);
    (kind < layout.strings.end).then(length).flatten()
}

/// Text of a short string; `None` if it is no string, is too long or is damaged.
pub(super) fn text(memory: &impl TargetMemory, layout: &V8Layout, string: u64) -> Option<String> {
    let length = text_length(memory, layout, string).filter(|&length| length <= MOST_UNITS)?;
    let mut units = Vec::new();
    visit_units(memory, layout, string, length, &mut |piece| units.extend_from_slice(piece))?;
    let text = String::from_utf16_lossy(&units);
    (!text.contains('\0')).then_some(text)
}

/// Calls `visit` with the first `length` units of a string, in order and in pieces.
pub(super) fn visit_units(
    memory: &impl TargetMemory,
    layout: &V8Layout,
    string: u64,
    length: u32,
    visit: &mut impl FnMut(&[u16]),
) -> Option<()> {
    let mut left = vec![V8TextPart { string, from: 0, to: length }];
    for _ in 0..MOST_PARTS {
        let Some(part) = left.pop() else { return Some(()) };
        if text_length(memory, layout, part.string)? < part.to {
            return None;
        }
        match shape(memory, layout, part.string)? {
            V8TextShape::Flat { one_byte, address } => flat(memory, address, one_byte, &part, visit)?,
            V8TextShape::Within { parent, offset } => {
                let (from, to) = (part.from.checked_add(offset)?, part.to.checked_add(offset)?);
                left.push(V8TextPart { string: parent, from, to });
            }
            V8TextShape::Joined { first, second, length } => {
                if part.to > length {
                    let from = part.from.saturating_sub(length);
                    left.push(V8TextPart { string: second, from, to: part.to - length });
                }
                if part.from < length {
                    left.push(V8TextPart { string: first, from: part.from, to: part.to.min(length) });
                }
            }
        }
    }
    None
}

fn shape(memory: &impl TargetMemory, layout: &V8Layout, string: u64) -> Option<V8TextShape> {
    let strings = &layout.strings;
    let kind = instance_type(memory, layout, string).filter(|&kind| kind < strings.end)?;
    let one_byte = kind & strings.encoding_mask == strings.one_byte;
    let part = |offset| field(memory, string, offset);
    let shape = kind & strings.shape_mask;
    Some(if shape == strings.sequential {
        let chars = if one_byte { strings.one_byte_chars } else { strings.two_byte_chars };
        V8TextShape::Flat { one_byte, address: address(string, chars)? }
    } else if shape == strings.cons {
        let first = part(strings.first)?;
        V8TextShape::Joined {
            first,
            second: part(strings.second)?,
            length: text_length(memory, layout, first)?,
        }
    } else if shape == strings.sliced {
        V8TextShape::Within { parent: part(strings.parent)?, offset: count(part(strings.offset)?)? }
    } else if shape == strings.thin {
        V8TextShape::Within { parent: part(strings.actual)?, offset: 0 }
    } else if shape == strings.external {
        // The address of the units is cached after the resource that owns them, unless the string has no room for it.
        let cached = (kind & UNCACHED == 0).then_some(strings.resource + 8)?;
        V8TextShape::Flat { one_byte, address: part(cached)? }
    } else {
        return None;
    })
}

fn flat(
    memory: &impl TargetMemory,
    start: u64,
    one_byte: bool,
    part: &V8TextPart,
    visit: &mut impl FnMut(&[u16]),
) -> Option<()> {
    let width = if one_byte { 1 } else { 2 };
    let mut from = part.from;
    while from < part.to {
        let to = part.to.min(from.saturating_add(PIECE));
        let size = u64::from(to - from) * width;
        let bytes = memory.range(start.checked_add(u64::from(from) * width)?, size, 2 * PIECE as usize)?;
        let units: Vec<u16> = if one_byte {
            bytes.into_iter().map(u16::from).collect()
        } else {
            bytes.as_chunks::<2>().0.iter().map(|&unit| u16::from_ne_bytes(unit)).collect()
        };
        visit(&units);
        from = to;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::v8::fake::FakeHeap;

    fn read(heap: &FakeHeap, string: u64) -> Option<String> {
        text(heap, &heap.layout(), string)
    }

    #[test]
    fn every_shape_is_read() {
        let mut heap = FakeHeap::with_function();
        let (a, b) = (heap.one_byte("caf\u{e9}"), heap.two_byte("漢字"));
        let joined = heap.cons(a, b, 6);
        assert_eq!(read(&heap, joined).as_deref(), Some("café漢字"));
        let slice = heap.sliced(joined, 3, 2);
        assert_eq!(read(&heap, slice).as_deref(), Some("é漢"));
        let thin = heap.thin(slice, 2);
        assert_eq!(read(&heap, thin).as_deref(), Some("é漢"));
        let external = heap.external("outside");
        assert_eq!(read(&heap, external).as_deref(), Some("outside"));
        let uncached = heap.object(58, &[7 << 32, 0, 0]);
        assert_eq!(read(&heap, uncached), None);
    }

    #[test]
    fn cycles_and_huge_lengths_end() {
        let mut heap = FakeHeap::with_function();
        let a = heap.one_byte("a");
        let cycle = heap.cons(a, a, 2000);
        heap.put(cycle - 1 + 16, cycle);
        heap.put(cycle - 1 + 24, cycle);
        assert_eq!(read(&heap, cycle), None);
        let huge = heap.one_byte("x");
        heap.put_u32(huge - 1 + 12, 1 << 30);
        assert_eq!(read(&heap, huge), None);
        let short = heap.sliced(a, 5, 3);
        assert_eq!(read(&heap, short), None);
        assert_eq!(read(&heap, 0xdead_0001), None);
        assert_eq!(read(&heap, heap.shared), None);
    }
}
