//! Numbers that a walker in the kernel needs of a JVM: heaps, offsets in a blob, and how kinds of blobs are told apart.

use super::blob::{JavaBlobKind, JavaHeap, JavaPlace};
use super::interpreter::{METHOD_BELOW, SENDER_BELOW};
use super::layout::JavaLayout;
use super::tables::{JavaField, text_at};
use crate::runtimes::memory::TargetMemory;
use std::ops::Range;

/// Blobs looked at in each heap at most.
const MOST_BLOBS: usize = 4096;
/// Bytes of a segment map read at a time.
const MAP_STEP: u64 = 4096;
/// Different names looked at in each heap at most.
const MOST_NAMES: usize = 512;

/// Offset of a field of a blob, its width, and what its value is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JavaProbeField {
    pub(crate) offset: u32,
    pub(crate) width: u8,
    /// Whether the value counts from the start of the blob; otherwise it is what it says.
    pub(crate) is_from_blob: bool,
}

/// One JVM as a walker in the kernel must know it. All offsets are bytes from the start of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JavaProbe {
    pub(crate) heaps: Vec<JavaHeap>,
    /// Bytes between a block's first segment and its blob.
    pub(crate) block_header: u64,
    pub(crate) name: JavaProbeField,
    /// Bytes of the blob.
    pub(crate) size: JavaProbeField,
    /// Bytes of the head that all blobs have.
    pub(crate) base_bytes: u64,
    /// Words of the frame, return address included.
    pub(crate) frame_size: JavaProbeField,
    /// Bytes from the start of the code to where the frame is complete; signed.
    pub(crate) frame_complete: JavaProbeField,
    pub(crate) code_begin: JavaProbeField,
    pub(crate) compile_id: JavaProbeField,
    pub(crate) method: JavaProbeField,
    /// Return addresses that stand for a deoptimised frame.
    pub(crate) deopt: Vec<JavaProbeField>,
    /// Offset from sp of the return address that deoptimisation replaced; signed.
    pub(crate) original_pc: JavaProbeField,
    pub(crate) interpreter: Range<u64>,
    pub(crate) call_stub_return: u64,
    /// Bytes below rbp of the words of an interpreted frame.
    pub(crate) sender_below: u64,
    pub(crate) method_below: u64,
    pub(crate) bcp_below: u64,
    /// Offset of ConstMethod* in a Method.
    pub(crate) const_method: u32,
    /// Kinds by the value of a blob's name pointer. A blob with another one is a runtime stub if it has a frame size and
    /// stub routines otherwise.
    pub(crate) kinds: Vec<(u64, JavaBlobKind)>,
}

impl JavaProbe {
    /// Numbers of the JVM with this layout. A JVM that has compiled nothing yet has not all kinds of blobs; ask again later.
    pub(crate) fn of(memory: &impl TargetMemory, layout: &JavaLayout) -> Self {
        let blobs = &layout.blobs;
        let plain = |field: JavaField| JavaProbeField {
            offset: field.offset,
            width: field.width,
            is_from_blob: false,
        };
        let place = |place: JavaPlace| match place {
            JavaPlace::Address(field) => plain(field),
            JavaPlace::FromBlob(field) | JavaPlace::FromCode(field) => {
                JavaProbeField { is_from_blob: true, ..plain(field) }
            }
        };
        Self {
            heaps: layout.heaps.clone(),
            block_header: blobs.block_header,
            name: plain(blobs.name),
            size: plain(blobs.size),
            base_bytes: blobs.base_bytes as u64,
            frame_size: plain(blobs.frame_size),
            frame_complete: plain(blobs.frame_complete),
            code_begin: place(blobs.code_begin),
            compile_id: plain(blobs.compile_id),
            method: plain(blobs.method),
            deopt: blobs.deopt.into_iter().flatten().map(place).collect(),
            original_pc: plain(blobs.original_pc),
            interpreter: layout.interpreter.code.clone(),
            call_stub_return: layout.call_stub_return,
            sender_below: SENDER_BELOW,
            method_below: METHOD_BELOW,
            bcp_below: layout.interpreter.bcp_below,
            const_method: layout.methods.const_method.offset,
            kinds: kinds(memory, layout),
        }
    }
}

/// Kinds by name pointer, found by looking at the blobs that are there.
fn kinds(memory: &impl TargetMemory, layout: &JavaLayout) -> Vec<(u64, JavaBlobKind)> {
    let mut kinds: Vec<(u64, JavaBlobKind)> = Vec::new();
    for heap in &layout.heaps {
        let mut seen: Vec<u64> = Vec::new();
        for start in blob_starts(memory, heap).take(MOST_BLOBS) {
            let blob = start.saturating_add(layout.blobs.block_header);
            let Some(name) = memory.u64(blob.saturating_add(u64::from(layout.blobs.name.offset))) else {
                continue;
            };
            if seen.contains(&name) {
                continue;
            }
            if seen.len() >= MOST_NAMES {
                break;
            }
            seen.push(name);
            let Some(text) = text_at(memory, name, 128) else { continue };
            // A frame size of one makes all kinds that are told by their name differ from the rest.
            let kind = JavaBlobKind::of(&text, 1);
            if kind != JavaBlobKind::Runtime && !kinds.iter().any(|(known, _)| *known == name) {
                kinds.push((name, kind));
            }
        }
    }
    kinds
}

/// Addresses of the blocks in use, by the segment map.
fn blob_starts(memory: &impl TargetMemory, heap: &JavaHeap) -> impl Iterator<Item = u64> {
    let segments = heap.code.end.saturating_sub(heap.code.start) >> heap.segment_shift;
    let blocks = (0..segments).step_by(MAP_STEP as usize).map_while(move |first| {
        let size = MAP_STEP.min(segments - first);
        let bytes = memory.range(heap.segment_map.checked_add(first)?, size, MAP_STEP as usize)?;
        Some((first, bytes))
    });
    blocks.flat_map(move |(first, bytes)| {
        let starts = bytes.into_iter().enumerate().filter(|(_, hops)| *hops == 0);
        starts.map(move |(index, _)| heap.code.start + ((first + index as u64) << heap.segment_shift))
    })
}

#[cfg(test)]
mod tests {
    use super::super::fake::{FakeJvm, HEAP};
    use super::*;
    use crate::runtimes::RuntimeProblem;

    fn layout_of(jvm: &FakeJvm) -> Result<JavaLayout, RuntimeProblem> {
        JavaLayout::find(jvm, |name| jvm.symbol_address(name))
    }

    #[test]
    fn kinds_are_told_by_name_pointers() {
        let mut jvm = FakeJvm::new();
        jvm.nmethod(0x1000, &[0x90; 0x20], 4, 8, 1);
        jvm.blob(0x1800, "vtable chunks", 0x400, &[0x90; 8], 0);
        jvm.blob(0x1c00, "I2C/C2I adapters", 0x400, &[0x90; 8], 0);
        jvm.blob(0x2800, "RuntimeStub - new_instance Runtime1 stub", 0x400, &[0x90; 8], 12);
        let layout = layout_of(&jvm).unwrap();
        let probe = JavaProbe::of(&jvm, &layout);
        let kinds: Vec<_> = probe.kinds.iter().map(|(_, kind)| *kind).collect();
        let expected = [
            JavaBlobKind::Interpreter,
            JavaBlobKind::Compiled,
            JavaBlobKind::VtableChunk,
            JavaBlobKind::Adapter,
            JavaBlobKind::Stubs,
        ];
        assert_eq!(kinds, expected);
        let name = jvm.u64(HEAP + 0x1000 + probe.block_header + u64::from(probe.name.offset));
        assert_eq!(name, probe.kinds.get(1).map(|(name, _)| *name));
        assert!(probe.code_begin.is_from_blob);
        assert_eq!(JavaBlobKind::numbered(1), Some(JavaBlobKind::Compiled));
        assert_eq!(JavaBlobKind::numbered(9), None);
    }
}
