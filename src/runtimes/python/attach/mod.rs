//! Finding the layout of an interpreter in a process: by its version, by tables of offsets or those that it publishes, and
//! by the instructions of functions that it exports; and checking all of that before anything is read by it.

mod confirm;
pub(super) mod debug_offsets;
pub(super) mod disassembly;
mod find;
mod locator;
pub(super) mod tables;
mod version;

pub(crate) use disassembly::accesses as function_accesses;
