//! Machine code and sources in a recording: which instruction an address is in, what it says, where its source text is, and
//! which function is meant. Nothing here counts samples or prints: `views::annotation` does the one, `print` the other.

pub(crate) mod annotate_options;
pub(crate) mod code_map;
pub(crate) mod disassembly;
pub(crate) mod source_files;
pub(crate) mod target;
