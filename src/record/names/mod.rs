//! Names of frames: from symbols, debug information, maps and dumps of generated code, looked up on separate threads
//! and within the memory budget. The names go to the file or to the live view; nothing here decides what is recorded.

pub(crate) mod code;
pub(crate) mod complete;
pub(crate) mod dump_of;
mod dump_reading;
pub(crate) mod dumps;
pub(crate) mod file_names;
pub(crate) mod jit_names;
mod known_names;
pub(crate) mod look;
pub(crate) mod lookup;
pub(crate) mod naming;
pub(crate) mod sources;
pub(crate) mod symbolize;
