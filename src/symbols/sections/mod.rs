//! Sections of an ELF file, packed or not, of which only the parts that are read are in memory. Knows positions and
//! bytes, but neither names nor addresses.

pub(crate) mod dwarf;
pub(crate) mod packed;
pub(crate) mod reader;
pub(crate) mod section;
