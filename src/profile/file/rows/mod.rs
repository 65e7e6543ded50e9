//! Rows that are messages of their own, each with all its columns: code of functions, notes of modules.

pub(super) mod code_rows;
pub(super) mod module_notes;
