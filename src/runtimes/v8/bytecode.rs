//! Bytecodes of a function and where in the source they come from.

use super::code::{V8Code, V8CodeKind};
use super::frame::V8FrameWords;
use super::layout::V8Layout;
use super::object::{address, array_length, byte_array, field, instance_type, of_type};
use super::positions::{V8PositionPacking, baseline_bytecode, position_at};
use crate::runtimes::TargetMemory;

/// Bytes of a table or of bytecodes, at most.
pub(super) const MOST_TABLE: usize = 1 << 20;
/// Objects between a function and its bytecodes, at most: code, then the data of the interpreter.
const MOST_LINKS: u32 = 3;

/// Array of the bytecodes of a function; `None` if it is not compiled or its bytecodes have been thrown away.
pub(super) fn bytecode_array(memory: &impl TargetMemory, layout: &V8Layout, shared: u64) -> Option<u64> {
    linked_bytecodes(memory, layout, field(memory, shared, layout.function.data)?)
}

/// Array of bytecodes that baseline code or the data of the interpreter leads to, or that `object` is.
pub(super) fn linked_bytecodes(memory: &impl TargetMemory, layout: &V8Layout, object: u64) -> Option<u64> {
    let mut object = object;
    for _ in 0..MOST_LINKS {
        let kind = instance_type(memory, layout, object)?;
        if kind == layout.types.bytecode_array {
            return Some(object);
        }
        let link = if kind == layout.types.code {
            layout.code.as_ref()?.deoptimization
        } else if Some(kind) == layout.types.interpreter_data {
            8
        } else {
            return None;
        };
        object = field(memory, object, link)?;
    }
    None
}

/// Bytes of the source positions of a bytecode array; `None` if V8 has omitted them so far.
pub(super) fn source_positions(
    memory: &impl TargetMemory,
    layout: &V8Layout,
    bytecodes: u64,
) -> Option<Vec<u8>> {
    let table = field(memory, bytecodes, layout.function.bytecode_positions)?;
    byte_array(memory, layout, table, MOST_TABLE).filter(|table| !table.is_empty())
}

/// Offset in the source of the bytecode at `offset` of a function.
pub(super) fn source_offset(
    memory: &impl TargetMemory,
    layout: &V8Layout,
    shared: u64,
    offset: u32,
) -> Option<u32> {
    let bytecodes = bytecode_array(memory, layout, shared)?;
    if offset >= array_length(memory, layout, bytecodes)? {
        return None;
    }
    let table = source_positions(memory, layout, bytecodes)?;
    let packing = V8PositionPacking::of_version(layout.version?)?;
    position_at(&table, packing, offset)?.1.offset
}

/// Offset of a bytecode from the word that a frame has of it, which counts from the tagged pointer.
pub(super) fn from_frame(layout: &V8Layout, raw: u32) -> Option<u32> {
    raw.checked_sub(u32::from(layout.function.bytecodes) - 1)
}

/// Offset of the bytecode of a function that its baseline code executes before the return address or at the
/// instruction `pc`; `None` also if the program has lost its table of bytecode sizes.
pub(super) fn baseline_offset(
    memory: &impl TargetMemory,
    layout: &V8Layout,
    shared: u64,
    code: &V8Code,
    pc: u64,
) -> Option<u32> {
    if code.kind != V8CodeKind::Baseline {
        return None;
    }
    let offsets = layout.code.as_ref()?;
    let bytecodes = bytecode_array(memory, layout, shared)?;
    let length = array_length(memory, layout, bytecodes)?;
    let start = address(bytecodes, layout.function.bytecodes)?;
    let bytes = memory.range(start, length.into(), MOST_TABLE)?;
    let table = byte_array(memory, layout, field(memory, code.object, offsets.positions)?, MOST_TABLE)?;
    baseline_bytecode(&table, &bytes, &layout.bytecode_sizes, pc.checked_sub(code.start)?)
}

impl V8FrameWords {
    /// Whether the bytecodes of the function are those that the interpreted frame at frame pointer `fp` runs, which are in
    /// the word after that of the bytecode offset.
    pub(crate) fn has_own_bytecodes(&self, memory: &impl TargetMemory, layout: &V8Layout, fp: u64) -> bool {
        let place = fp.wrapping_add_signed(i64::from(layout.frame.bytecode_offset) + 8);
        let of_frame =
            memory.u64(place).and_then(|word| of_type(memory, layout, word, layout.types.bytecode_array));
        of_frame.is_some() && bytecode_array(memory, layout, self.shared) == of_frame
    }
}
