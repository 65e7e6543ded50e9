//! What the kernel side has to know of a Java machine to leave the frames of its code.

use crate::bpf::{number, prof_java, prof_java_field, prof_java_heap};
use crate::runtimes::java::{JavaProbe, JavaProbeField};

const HEAPS: usize = number::PROF_JAVA_HEAPS as usize;
const KINDS: usize = number::PROF_JAVA_KINDS as usize;

/// What the kernel side has to know; `None` if it has no room for a number.
pub(super) fn descriptor(probe: &JavaProbe) -> Option<prof_java> {
    // Heads are read from their blocks on.
    let field = |field: JavaProbeField| {
        let offset = u64::from(field.offset).checked_add(probe.block_header)?;
        let bits = 8 * field.width;
        let is_there = offset + 8 <= number::PROF_JAVA_HEAD_BYTES && matches!(bits, 16 | 32 | 64);
        is_there.then_some(prof_java_field { offset: offset as u16, bits, pad: 0 })
    };
    let first = *probe.deopt.first()?;
    let fields = [
        probe.name,
        probe.size,
        probe.frame_size,
        probe.frame_complete,
        probe.code_begin,
        probe.compile_id,
        probe.original_pc,
        first,
        probe.deopt.get(1).copied().unwrap_or(first),
    ];
    let [name, size, frame_size, frame_complete, code_begin, compile_id, original_pc, deopt, deopt_of_handle] =
        fields.map(field);
    let head_bytes = fields.iter().map(|field| u64::from(field.offset) + 8).max()? + probe.block_header;
    let shift = probe.heaps.first()?.segment_shift;
    if probe.heaps.iter().any(|heap| heap.segment_shift != shift) {
        return None;
    }
    let mut kind_name = [0; KINDS];
    let mut kind = [0; KINDS];
    for (index, (name, of_name)) in probe.kinds.iter().take(KINDS).enumerate() {
        (kind_name[index], kind[index]) = (*name, *of_name as u8);
    }
    Some(prof_java {
        heap: heaps(probe),
        interpreter: probe.interpreter.start,
        interpreter_bytes: probe.interpreter.end.saturating_sub(probe.interpreter.start),
        call_stub_return: probe.call_stub_return,
        kind_name,
        kind,
        name: name?,
        size: size?,
        frame_size: frame_size?,
        frame_complete: frame_complete?,
        code_begin: code_begin?,
        compile_id: compile_id?,
        original_pc: original_pc?,
        deopt: [deopt?, deopt_of_handle?],
        head_bytes: u16::try_from(head_bytes).ok()?,
        least_bytes: u16::try_from(probe.block_header + probe.base_bytes).ok()?,
        block_header: u16::try_from(probe.block_header).ok()?,
        bytecode_below: u16::try_from(probe.bcp_below).ok()?,
        const_method_off: u16::try_from(probe.const_method).ok()?,
        segment_shift: u8::try_from(shift).ok()?,
        ..prof_java::default()
    })
}

/// The heaps for code, as many as there is room for.
fn heaps(probe: &JavaProbe) -> [prof_java_heap; HEAPS] {
    let mut heap = [prof_java_heap::default(); HEAPS];
    for (slot, heap) in heap.iter_mut().zip(&probe.heaps) {
        let bytes = heap.code.end.saturating_sub(heap.code.start);
        *slot = prof_java_heap { start: heap.code.start, bytes, segment_map: heap.segment_map };
    }
    heap
}
