//! Code heaps and the blob that owns an address: nmethods, the interpreter, stubs, adapters.

use super::tables::{JavaField, JavaTables, text_at};
use crate::runtimes::RuntimeProblem;
use crate::runtimes::memory::TargetMemory;
use std::ops::Range;

/// Code heaps at most; HotSpot makes one or three, GC-specific builds a few more.
const MOST_HEAPS: u64 = 16;
/// Steps through the segment map at most: a blob of 4 MiB has fewer.
const MOST_HOPS: usize = 128;
/// Bytes read of a blob's header: an nmethod has 224 to 400.
const HEADER: usize = 512;
/// Bytes of a blob at most.
const LARGEST_BLOB: u64 = 1 << 28;
/// Bytes of a blob's name at most.
const LONGEST_NAME: u64 = 128;

/// What a blob of generated code is; the numbers are those that a walker in the kernel writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JavaBlobKind {
    /// Method compiled by C1, C2 or another compiler.
    Compiled = 1,
    /// Wrapper that calls a native method.
    NativeWrapper = 2,
    /// Template interpreter.
    Interpreter = 3,
    /// Stub routines: call stub, copies, intrinsics; some have a frame by rbp, some none.
    Stubs = 4,
    /// Stubs of virtual and interface calls: no frame, they only jump.
    VtableChunk = 5,
    /// Adapters between interpreted and compiled calls.
    Adapter = 6,
    /// Method handle linkers: no frame, they only jump.
    MethodHandles = 7,
    /// Runtime stub with a frame of fixed size: safepoints, deoptimisation, exceptions, allocation.
    Runtime = 8,
}

impl JavaBlobKind {
    /// Kind with the number `number`.
    pub(crate) fn numbered(number: u8) -> Option<Self> {
        let all = [
            Self::Compiled,
            Self::NativeWrapper,
            Self::Interpreter,
            Self::Stubs,
            Self::VtableChunk,
            Self::Adapter,
            Self::MethodHandles,
            Self::Runtime,
        ];
        all.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Kind of a blob by its name and the words in its frame.
    pub(crate) fn of(name: &str, frame_words: i64) -> Self {
        match name {
            "nmethod" => Self::Compiled,
            "native nmethod" => Self::NativeWrapper,
            "Interpreter" => Self::Interpreter,
            "vtable chunks" => Self::VtableChunk,
            "MethodHandles adapters" => Self::MethodHandles,
            _ if name.contains("I2C/C2I") || name == "adapters" => Self::Adapter,
            _ if name.starts_with("StubRoutines") || frame_words <= 0 => Self::Stubs,
            _ => Self::Runtime,
        }
    }
}

/// Part of the address space that holds generated code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JavaHeap {
    pub(crate) code: Range<u64>,
    /// Address of the segment map, one byte a segment.
    pub(crate) segment_map: u64,
    /// Binary logarithm of the bytes in a segment.
    pub(crate) segment_shift: u32,
}

/// Blob of generated code as it was when it was read.
#[derive(Clone, Debug)]
pub(crate) struct JavaBlob {
    pub(crate) start: u64,
    pub(crate) kind: JavaBlobKind,
    pub(crate) name: String,
    /// Instructions with their stubs.
    pub(crate) code: Range<u64>,
    /// Bytes of a complete frame, return address included; 0 if the blob has no frame of fixed size.
    pub(crate) frame_bytes: u64,
    /// Address from which on the frame is complete; the start of the code if that is unknown.
    pub(crate) complete: u64,
    /// Number of the compilation; 0 except for nmethods.
    pub(crate) compile_id: u32,
    /// Compiler: 1 to 3 for C1, 4 for C2; 0 for native wrappers and other blobs.
    pub(crate) level: u8,
    /// Method* of an nmethod, otherwise 0.
    pub(crate) method: u64,
    /// Entry for callers that know the receiver's class; 0 if unknown.
    pub(crate) entry: u64,
    /// Entry for on-stack replacement; 0 if there is none.
    pub(crate) osr_entry: u64,
    /// Return addresses that stand for the deoptimisation of a frame; 0 if there are none.
    pub(crate) deopt: [u64; 2],
    /// Offset from sp to the return address that deoptimisation has replaced.
    pub(crate) original_pc: u64,
    /// First bytes of the blob, for fields that only naming needs.
    pub(crate) header: Vec<u8>,
}

/// Offsets of the code heaps and blobs of one JVM.
#[derive(Clone, Debug)]
pub(crate) struct JavaBlobLayout {
    pub(crate) block_header: u64,
    pub(crate) block_used: Option<JavaField>,
    pub(crate) name: JavaField,
    pub(crate) size: JavaField,
    pub(crate) frame_size: JavaField,
    pub(crate) frame_complete: JavaField,
    pub(crate) code_begin: JavaPlace,
    code_end: JavaPlace,
    pub(crate) compile_id: JavaField,
    pub(crate) level: Option<JavaField>,
    pub(crate) method: JavaField,
    entry: Option<JavaPlace>,
    osr_entry: Option<JavaPlace>,
    pub(crate) deopt: [Option<JavaPlace>; 2],
    pub(crate) original_pc: JavaField,
    pub(crate) header_bytes: usize,
    pub(crate) base_bytes: usize,
}

/// Field that holds an address, or an offset from the start of the blob or of its code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JavaPlace {
    Address(JavaField),
    FromBlob(JavaField),
    FromCode(JavaField),
}

impl JavaPlace {
    /// Place in the blob at `blob` whose code starts at `code`; `None` for an offset below zero.
    fn of(self, header: &[u8], blob: u64, code: u64) -> Option<u64> {
        let (field, base) = match self {
            Self::Address(field) => return field.of(header),
            Self::FromBlob(field) => (field, blob),
            Self::FromCode(field) => (field, code),
        };
        let offset =
            if field.width < 4 { field.of(header) } else { u64::try_from(field.signed(header)?).ok() };
        base.checked_add(offset?)
    }
}

impl JavaBlobLayout {
    /// Offsets as `tables` give them; a sentence if one is missing.
    pub(crate) fn of(tables: &JavaTables) -> Result<Self, RuntimeProblem> {
        let blob = |name| tables.field("CodeBlob", name);
        let nmethod = |name| tables.field("nmethod", name).or_else(|| tables.field("CompiledMethod", name));
        let address = |name| nmethod(name).map(JavaPlace::Address);
        let offset = |name| nmethod(name).map(JavaPlace::FromBlob);
        let code_offset = tables.need(&[("CodeBlob", "_code_begin"), ("CodeBlob", "_code_offset")]);
        let data_offset = tables.need(&[("CodeBlob", "_code_end"), ("CodeBlob", "_data_offset")]);
        let in_code = |name| nmethod(name).map(JavaPlace::FromCode);
        Ok(Self {
            block_header: tables.size("HeapBlock")?,
            block_used: tables.field("HeapBlock::Header", "_used"),
            name: tables.need(&[("CodeBlob", "_name")])?,
            size: tables.need(&[("CodeBlob", "_size")])?,
            frame_size: tables.need(&[("CodeBlob", "_frame_size")])?,
            frame_complete: tables.need(&[("CodeBlob", "_frame_complete_offset")])?,
            code_begin: match blob("_code_begin") {
                Some(field) => JavaPlace::Address(field),
                None => JavaPlace::FromBlob(code_offset?),
            },
            code_end: match blob("_code_end") {
                Some(field) => JavaPlace::Address(field),
                None => JavaPlace::FromBlob(data_offset?),
            },
            compile_id: tables.need(&[("nmethod", "_compile_id")])?,
            level: nmethod("_comp_level").map(|field| JavaField { width: 1, ..field }),
            method: tables.need(&[("nmethod", "_method"), ("CompiledMethod", "_method")])?,
            entry: address("_verified_entry_point").or_else(|| in_code("_verified_entry_offset")),
            osr_entry: address("_osr_entry_point"),
            deopt: [
                address("_deopt_handler_begin")
                    .or_else(|| offset("_deopt_handler_offset"))
                    .or_else(|| offset("_deopt_handler_entry_offset"))
                    .or_else(|| offset("_deoptimize_offset")),
                address("_deopt_mh_handler_begin")
                    .or_else(|| offset("_deopt_mh_handler_offset"))
                    .or_else(|| offset("_deoptimize_mh_offset")),
            ],
            original_pc: tables.need(&[("nmethod", "_orig_pc_offset")])?,
            header_bytes: usize::try_from(tables.size("nmethod")?).unwrap_or(HEADER).min(HEADER),
            base_bytes: usize::try_from(tables.size("CodeBlob")?).unwrap_or(HEADER).min(HEADER),
        })
    }

    /// Blob at `start`, if it is one and `pc` lies in its code.
    pub(crate) fn blob(&self, memory: &impl TargetMemory, start: u64, pc: u64) -> Option<JavaBlob> {
        let mut header = vec![0; self.header_bytes.max(self.base_bytes)];
        if !memory.read(start, &mut header) {
            header.truncate(self.base_bytes);
            if !memory.read(start, &mut header) {
                return None;
            }
        }
        let bytes = header.as_slice();
        let size = self.size.of(bytes)?;
        let begin = self.code_begin.of(bytes, start, 0)?;
        let end = self.code_end.of(bytes, start, begin)?;
        let limit = start.checked_add(size).filter(|_| size <= LARGEST_BLOB)?;
        if begin < start || end > limit || !(begin..end).contains(&pc) {
            return None;
        }
        let frame_words = self.frame_size.signed(bytes)?;
        let name = text_at(memory, self.name.of(bytes)?, LONGEST_NAME)?;
        let complete = u64::try_from(self.frame_complete.signed(bytes)?).unwrap_or(0);
        let mut blob = JavaBlob {
            start,
            kind: JavaBlobKind::of(&name, frame_words),
            name,
            code: begin..end,
            frame_bytes: u64::try_from(frame_words)
                .unwrap_or(0)
                .checked_mul(8)
                .filter(|&size| size < 1 << 24)?,
            complete: begin.checked_add(complete)?,
            compile_id: 0,
            level: 0,
            method: 0,
            entry: 0,
            osr_entry: 0,
            deopt: [0; 2],
            original_pc: 0,
            header: Vec::new(),
        };
        if matches!(blob.kind, JavaBlobKind::Compiled | JavaBlobKind::NativeWrapper) {
            self.complete_nmethod(&mut blob, bytes)?;
            blob.header = header;
        }
        Some(blob)
    }

    /// Fields that only nmethods have.
    fn complete_nmethod(&self, blob: &mut JavaBlob, header: &[u8]) -> Option<()> {
        let place = |place: Option<JavaPlace>| {
            place.and_then(|place| place.of(header, blob.start, blob.code.start)).unwrap_or(0)
        };
        blob.entry = place(self.entry);
        blob.osr_entry = place(self.osr_entry);
        blob.deopt = self.deopt.map(place);
        blob.compile_id = u32::try_from(self.compile_id.of(header)?).ok()?;
        let level = self.level.and_then(|level| level.of(header)).unwrap_or(0);
        blob.level = u8::try_from(level).ok().filter(|level| (1..=4).contains(level)).unwrap_or(0);
        blob.method = self.method.of(header)?;
        blob.original_pc = u64::try_from(self.original_pc.signed(header)?).unwrap_or(0);
        Some(())
    }
}

/// Code heaps of the JVM; a sentence if they cannot be read.
pub(crate) fn code_heaps(
    memory: &impl TargetMemory,
    tables: &JavaTables,
) -> Result<Vec<JavaHeap>, RuntimeProblem> {
    let fields = HeapFields::of(tables)?;
    let heaps: Vec<JavaHeap> = fields
        .addresses(memory, tables)?
        .into_iter()
        .filter_map(|address| fields.heap(memory, address))
        .collect();
    if heaps.is_empty() {
        return Err(RuntimeProblem::temporary(
            "java: no names: the code heaps are not set up yet; attach again once the JVM has started",
        ));
    }
    Ok(heaps)
}

struct HeapFields {
    memory: JavaField,
    segment_map: JavaField,
    shift: JavaField,
    low: JavaField,
    reserved_low: JavaField,
    reserved_high: JavaField,
}

impl HeapFields {
    fn of(tables: &JavaTables) -> Result<Self, RuntimeProblem> {
        Ok(Self {
            memory: tables.need(&[("CodeHeap", "_memory")])?,
            segment_map: tables.need(&[("CodeHeap", "_segmap")])?,
            shift: tables.need(&[("CodeHeap", "_log2_segment_size")])?,
            low: tables.need(&[("VirtualSpace", "_low")])?,
            reserved_low: tables.need(&[("VirtualSpace", "_low_boundary")])?,
            reserved_high: tables.need(&[("VirtualSpace", "_high_boundary")])?,
        })
    }

    /// Addresses of the CodeHeap objects: a list from JDK 9 on, one object before.
    fn addresses(&self, memory: &impl TargetMemory, tables: &JavaTables) -> Result<Vec<u64>, RuntimeProblem> {
        if let Some(heap) = tables.address("CodeCache", "_heap") {
            return Ok(memory.u64(heap).into_iter().collect());
        }
        let length = tables.need(&[("GrowableArrayBase", "_len"), ("GenericGrowableArray", "_len")])?;
        let data = tables.need(&[("GrowableArray<int>", "_data")])?;
        let list = tables.address("CodeCache", "_heaps").and_then(|list| memory.u64(list)).unwrap_or(0);
        let length = memory.u32(list.saturating_add(u64::from(length.offset))).unwrap_or(0);
        let data = memory.u64(list.saturating_add(u64::from(data.offset))).unwrap_or(0);
        let count = u64::from(length).min(MOST_HEAPS);
        Ok((0..count).filter_map(|index| memory.u64(data.checked_add(8 * index)?)).collect())
    }

    fn heap(&self, memory: &impl TargetMemory, address: u64) -> Option<JavaHeap> {
        let word = |outer: JavaField, inner: JavaField| {
            let offset = u64::from(outer.offset) + u64::from(inner.offset);
            memory.u64(address.checked_add(offset)?)
        };
        let low = word(self.memory, self.reserved_low)?;
        let high = word(self.memory, self.reserved_high)?;
        let shift = memory.u32(address.checked_add(u64::from(self.shift.offset))?)?;
        let heap = JavaHeap {
            code: low..high,
            segment_map: word(self.segment_map, self.low)?,
            segment_shift: shift,
        };
        let sane = low != 0 && low < high && high - low <= 1 << 32 && (4..=16).contains(&shift);
        sane.then_some(heap)
    }
}

impl JavaHeap {
    /// Address of the blob that owns the segment of `pc`; `None` if the segment is free.
    pub(crate) fn blob_start(
        &self,
        memory: &impl TargetMemory,
        layout: &JavaBlobLayout,
        pc: u64,
    ) -> Option<u64> {
        let mut segment = pc.checked_sub(self.code.start)? >> self.segment_shift;
        for _ in 0..MOST_HOPS {
            match memory.u8(self.segment_map.checked_add(segment)?)? {
                0xff => return None,
                0 => {
                    let block = self.code.start.checked_add(segment << self.segment_shift)?;
                    let used = layout.block_used.is_none_or(|used| {
                        memory.u8(block.saturating_add(u64::from(used.offset))).is_some_and(|used| used != 0)
                    });
                    return block.checked_add(layout.block_header).filter(|_| used);
                }
                back => segment = segment.checked_sub(u64::from(back))?,
            }
        }
        None
    }
}
