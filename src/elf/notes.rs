//! Notes of an ELF file. Format: the System V gABI, "Note Section".

use super::fields::Fields;
use object::elf;

/// Bytes of notes that are looked at.
pub(super) const MAX_NOTE_BYTES: u64 = 1 << 20;
/// The longest build ID accepted, bytes (SHA-512; linkers write 8 to 20).
const MAX_BUILD_ID_BYTES: usize = 64;

/// Whether it can be a build ID.
pub(super) fn is_build_id(id: &[u8]) -> bool {
    (1..=MAX_BUILD_ID_BYTES).contains(&id.len())
}

/// The GNU build ID in the bytes of notes, each `{name size, desc size, type, name, desc}`, both padded to four bytes.
pub(super) fn build_id(notes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = notes;
    loop {
        let fields = Fields(rest);
        let (name_size, size, kind) = (fields.u32(0)? as usize, fields.u32(4)? as usize, fields.u32(8)?);
        let name = rest.get(12..12_usize.checked_add(name_size)?)?;
        let start = 12_usize.checked_add(name_size.checked_next_multiple_of(4)?)?;
        let end = start.checked_add(size)?;
        let content = rest.get(start..end)?;
        if kind == elf::NT_GNU_BUILD_ID.0 && name == b"GNU\0" {
            return (1..=MAX_BUILD_ID_BYTES).contains(&size).then(|| content.to_vec());
        }
        rest = rest.get(end.checked_next_multiple_of(4)?..)?;
    }
}
