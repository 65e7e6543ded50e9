//! Go's own descriptions of types, which every program carries for its garbage collector and for reflection.
//!
//! The format is described in `src/internal/abi/type.go` of Go; it has been the same since Go 1.19. Descriptions are data
//! of the process, so each one is checked before it is believed.

use super::strings::word;
use crate::runtimes::TargetMemory;
use rustc_hash::FxHashMap;

/// Bytes of the part that all types have.
const HEADER_BYTES: u64 = 48;
/// Offset of the byte that tells the kind, and its bits that do.
const KIND: usize = 23;
const KIND_MASK: u8 = 0x1f;
/// Fields of a struct: offset of their list and bytes of each.
const FIELDS: u64 = HEADER_BYTES + 8;
const FIELD_BYTES: u64 = 24;
const MAX_FIELDS: u64 = 512;
/// Longest name of a field that is read, with the bytes before it.
const NAME_BYTES: usize = 80;
/// Largest type that can matter here, bytes.
const MAX_TYPE_BYTES: u64 = 1 << 20;

/// Kinds of types that matter here (`abi.Kind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoKind {
    Map,
    Pointer,
    Slice,
    String,
    Struct,
    Other,
}

/// A description of a type in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoType {
    /// Process address of the description.
    pub(crate) address: u64,
    pub(crate) kind: GoKind,
    /// Bytes of a value.
    pub(crate) size: u64,
}

/// A field of a struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoField {
    /// Bytes from the start of the struct.
    pub(crate) offset: u32,
    pub(crate) of_type: GoType,
}

impl GoType {
    /// Reads the description at `address`; `None` if there is none.
    pub(crate) fn read<M: TargetMemory>(memory: &M, address: u64) -> Option<Self> {
        let header = memory.bytes::<24>(address)?;
        let size = word(&header, 0)?;
        let kind = match header.get(KIND)? & KIND_MASK {
            0 | 27.. => return None,
            21 => GoKind::Map,
            22 => GoKind::Pointer,
            23 => GoKind::Slice,
            24 => GoKind::String,
            25 => GoKind::Struct,
            _ => GoKind::Other,
        };
        let pointer_bytes = word(&header, 8)?;
        (size <= MAX_TYPE_BYTES && pointer_bytes <= size).then_some(GoType { address, kind, size })
    }

    /// Type that a pointer or a slice is of, or the key of a map.
    pub(crate) fn element<M: TargetMemory>(&self, memory: &M) -> Option<Self> {
        match self.kind {
            GoKind::Map | GoKind::Pointer | GoKind::Slice => self.type_at(memory, HEADER_BYTES),
            _ => None,
        }
    }

    /// Type that an offset of the description refers to.
    pub(crate) fn type_at<M: TargetMemory>(&self, memory: &M, offset: u64) -> Option<Self> {
        Self::read(memory, memory.u64(self.address.checked_add(offset)?)?)
    }

    /// Fields of a struct by name; `None` for other types, damaged descriptions and structs of more than 512 fields.
    pub(crate) fn fields<M: TargetMemory>(&self, memory: &M) -> Option<FxHashMap<String, GoField>> {
        self.field_list(memory).map(|fields| fields.into_iter().collect())
    }

    /// Fields of a struct, in order.
    pub(crate) fn field_list<M: TargetMemory>(&self, memory: &M) -> Option<Vec<(String, GoField)>> {
        if self.kind != GoKind::Struct {
            return None;
        }
        let list = memory.bytes::<16>(self.address.checked_add(FIELDS)?)?;
        let (list, count) = (word(&list, 0)?, word(&list, 8)?);
        if count > MAX_FIELDS {
            return None;
        }
        let bytes = memory.range(list, count * FIELD_BYTES, (MAX_FIELDS * FIELD_BYTES) as usize)?;
        let fields = bytes.chunks_exact(FIELD_BYTES as usize).map(|field| self.field(memory, field));
        fields.collect()
    }

    fn field<M: TargetMemory>(&self, memory: &M, bytes: &[u8]) -> Option<(String, GoField)> {
        let name = field_name(memory, word(bytes, 0)?)?;
        let of_type = GoType::read(memory, word(bytes, 8)?)?;
        let offset = word(bytes, 16)?;
        let end = offset.checked_add(of_type.size)?;
        (end <= self.size).then_some(())?;
        Some((name, GoField { offset: u32::try_from(offset).ok()?, of_type }))
    }
}

/// Name of a field: a byte of flags, the length in groups of seven bits, the bytes.
fn field_name<M: TargetMemory>(memory: &M, address: u64) -> Option<String> {
    // A name at the end of a page must not fail for the bytes after it.
    let bytes = memory.bytes::<NAME_BYTES>(address).map(Vec::from).or_else(|| memory.range(address, 3, 3));
    let bytes = bytes?;
    let (&low, &high) = (bytes.get(1)?, bytes.get(2)?);
    let (length, start) = match low {
        0..=0x7f => (usize::from(low), 2),
        _ if high <= 0x7f => (usize::from(low & 0x7f) | usize::from(high) << 7, 3),
        _ => return None,
    };
    if length > NAME_BYTES - 3 {
        // No field that matters has such a name; it is still a field.
        return Some(String::new());
    }
    let name = match bytes.get(start..start + length) {
        Some(name) => name.to_vec(),
        None => memory.range(address.checked_add(start as u64)?, length as u64, NAME_BYTES)?,
    };
    String::from_utf8(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::go::tests::synthetic::{SyntheticMemory, TypeWriter};

    #[test]
    fn fields_of_a_struct_are_listed() {
        let mut memory = SyntheticMemory::default();
        let mut types = TypeWriter::new(0x10000);
        let word = types.plain(8);
        let inner = types.structure(16, &[("sp", 0, word), ("pc", 8, word)]);
        let outer = types.structure(32, &[("sched", 0, inner), ("goid", 24, word)]);
        types.write(&mut memory);
        let fields = GoType::read(&memory, outer).unwrap().fields(&memory).unwrap();
        assert_eq!(fields["goid"].offset, 24);
        assert_eq!(fields["sched"].of_type.fields(&memory).unwrap()["pc"].offset, 8);
        assert_eq!(GoType::read(&memory, word).unwrap().fields(&memory), None);
    }

    #[test]
    fn damaged_descriptions_are_refused() {
        let mut memory = SyntheticMemory::default();
        let mut types = TypeWriter::new(0x10000);
        let word = types.plain(8);
        let beyond = types.structure(16, &[("goid", 12, word)]);
        let wild = types.structure(16, &[("goid", 0, 0xdead_0000)]);
        types.write(&mut memory);
        for address in [beyond, wild] {
            assert_eq!(GoType::read(&memory, address).unwrap().fields(&memory), None);
        }
        let mut many = TypeWriter::new(0x40000);
        let list = many.structure(16, &[]);
        many.set_word(list + 64, 1 << 40);
        many.write(&mut memory);
        assert_eq!(GoType::read(&memory, list).unwrap().fields(&memory), None, "more fields than memory");
        assert_eq!(GoType::read(&memory, 0x7000_0000), None);
        memory.add(0x90000, vec![0xff; 256]);
        assert_eq!(GoType::read(&memory, 0x90000), None, "not a type");
    }
}
