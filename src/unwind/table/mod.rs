//! The unwind table of a module: from call frame information and from code to sorted rows and the rules that they name, and
//! as bytes. It is made once per file; no stack and no process is known here.

pub(crate) mod bytes;
pub(crate) mod cfi;
pub(crate) mod cfi_entry;
pub(crate) mod cfi_row;
pub(crate) mod cfi_rule;
pub(crate) mod compile;
pub(crate) mod rows;
pub(crate) mod sequence;
pub(crate) mod span;
