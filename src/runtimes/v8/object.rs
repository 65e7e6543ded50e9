//! Objects on the heap of V8: tagged words, small integers, fields and instance types.

use super::layout::V8Layout;
use crate::runtimes::TargetMemory;

/// Bits of a tagged word that say what it is.
const TAG_MASK: u64 = 3;
/// Tag of a strong pointer to an object of the heap.
const STRONG: u64 = 1;

/// True if `word` is a strong pointer to an object of the heap.
pub(super) fn is_object(word: u64) -> bool {
    word & TAG_MASK == STRONG && word > 0xffff
}

/// Value of `word` if that is a small integer: 32 bits above 32 zero bits.
pub(super) fn smi(word: u64) -> Option<i32> {
    let low = u32::try_from(word & 0xffff_ffff).ok()?;
    (low == 0).then_some(((word >> 32) as u32).cast_signed())
}

/// Value of `word` if that is a small integer and not negative.
pub(super) fn count(word: u64) -> Option<u32> {
    u32::try_from(smi(word)?).ok()
}

/// Address of the byte at `offset` in `object`.
pub(super) fn address(object: u64, offset: u16) -> Option<u64> {
    is_object(object).then(|| (object - STRONG).wrapping_add(u64::from(offset)))
}

/// Word at `offset` in `object`.
pub(super) fn field(memory: &impl TargetMemory, object: u64, offset: u16) -> Option<u64> {
    memory.u64(address(object, offset)?)
}

/// Instance type of `object`, from its map; the map must be a map itself.
pub(super) fn instance_type(memory: &impl TargetMemory, layout: &V8Layout, object: u64) -> Option<u16> {
    let map = field(memory, object, layout.map)?;
    let map_type = |of: u64| memory.u16(address(of, layout.instance_type)?);
    let meta = field(memory, map, layout.map)?;
    (map_type(meta)? == layout.types.map).then(|| map_type(map)).flatten()
}

/// `object` if it has this instance type.
pub(super) fn of_type(
    memory: &impl TargetMemory,
    layout: &V8Layout,
    object: u64,
    wanted: u16,
) -> Option<u64> {
    (instance_type(memory, layout, object)? == wanted).then_some(object)
}

/// Number of elements of an array object whose length is a small integer.
pub(super) fn array_length(memory: &impl TargetMemory, layout: &V8Layout, array: u64) -> Option<u32> {
    count(field(memory, array, layout.array_length)?)
}

/// Word at `index` of an array of tagged words; `None` past its end.
pub(super) fn element(memory: &impl TargetMemory, layout: &V8Layout, array: u64, index: u32) -> Option<u64> {
    let length = array_length(memory, layout, array)?;
    let start = address(array, layout.array_data)?;
    (index < length).then(|| memory.u64(start.wrapping_add(8 * u64::from(index)))).flatten()
}

/// Bytes of a byte array, at most `most`.
pub(super) fn byte_array(
    memory: &impl TargetMemory,
    layout: &V8Layout,
    array: u64,
    most: usize,
) -> Option<Vec<u8>> {
    let found = instance_type(memory, layout, array)?;
    if !layout.types.byte_arrays.contains(&found) {
        return None;
    }
    let length = array_length(memory, layout, array)?;
    memory.range(address(array, layout.array_data)?, length.into(), most)
}
