//! One entry of call frame information.

use gimli::{BaseAddresses, EndianSlice, FrameDescriptionEntry, LittleEndian, UnwindOffset, UnwindSection};

/// Parses one FDE with its CIE.
pub(crate) fn parse_fde<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    offsets: EntryOffsets,
) -> gimli::Result<FrameDescriptionEntry<Bytes<'a>>> {
    section.fde_from_offset(bases, offsets.fde.into(), |section, bases, offset| {
        let offset: usize = UnwindOffset::into(offset);
        section.cie_from_offset(bases, offset.into())
    })
}

/// Bytes of an unwind section, read in place.
pub(crate) type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Which section an entry is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryIn {
    EhFrame,
    DebugFrame,
}

/// Place of one FDE, before it is parsed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryOffsets {
    pub(crate) fde: usize,
    pub(crate) cie: usize,
}
