//! Sections of an ELF file, packed or not, of which only what is read is in memory.
//! Positions and bytes; no name and no address is understood here.

pub(crate) mod dwarf;
pub(crate) mod packed;
pub(crate) mod reader;
pub(crate) mod section;
