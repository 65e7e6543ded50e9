//! Go's code: where its stacks end and change, where the runtime keeps the goroutine, and its own function table.
//! Everything that is true of Go alone.

pub(crate) mod lines;
pub(crate) mod patterns;
pub(crate) mod pclntab;
pub(crate) mod runtime;
