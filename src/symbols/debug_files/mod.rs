//! Where the debug information of a module is: files of their own, and files that these refer to. Finds, checks and opens
//! them; what is in them is read in `elf_names`.

pub(crate) mod bases;
mod checksum;
pub(crate) mod found;
mod links;
pub(crate) mod mini;
pub(crate) mod refusal;
pub(crate) mod search;
pub(crate) mod split_search;
