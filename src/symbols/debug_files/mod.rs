//! Where the debug information of a module is: files of their own, and files that these refer to. Finds, checks and opens
//! them; what is in them is read in `elf_names`.

pub(crate) mod search;
