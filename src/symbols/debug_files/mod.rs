//! Finds, checks and opens the debug information of a module: separate files, and files that these refer to. The
//! contents are read in `elf_names`.

pub(crate) mod bases;
mod checksum;
pub(crate) mod found;
mod links;
pub(crate) mod mini;
pub(crate) mod refusal;
pub(crate) mod search;
pub(crate) mod split_search;
