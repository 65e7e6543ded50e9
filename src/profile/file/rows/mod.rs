//! From rows of the profile to the fields of chunks: the messages of a file and how their columns are coded, columns of samples and
//! names, and rows that are messages of their own.
//! Here are the fields of one row or column; which rows a chunk has is for the writer and the decoder to say.

pub(super) mod code_rows;
pub(super) mod coding;
pub(super) mod columns;
pub(super) mod module_notes;
pub(super) mod old_words;
mod records;
pub(super) mod schema;
