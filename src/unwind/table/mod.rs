//! The unwind table of a module: from call frame information and from code to sorted rows and the rules that they name, and
//! as bytes. It is made once per file; no stack and no process is known here.

pub mod bytes;
pub mod cfi;
pub(crate) mod cfi_entry;
pub(crate) mod cfi_row;
pub(crate) mod cfi_rule;
pub mod compile;
pub mod rows;
pub(crate) mod sequence;
