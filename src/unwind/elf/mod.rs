//! The parts of an ELF file that unwinding needs, read by position from a file that may change, or from memory.
//! Within limits; nothing is believed without a check.

pub(crate) mod dynamic;
pub(crate) mod error;
pub(crate) mod fields;
pub mod image;
pub mod limits;
pub(crate) mod source;
