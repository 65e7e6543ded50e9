//! Names of code that was generated while a program ran, from the maps and dumps that runtimes write for profilers.
//! These are foreign files, read line by line or record by record within limits. The process that a file belongs to,
//! and when it is read, is decided in `record::names`.

pub(crate) mod dump_piece;
mod dump_window;
pub(crate) mod dumped_code;
pub(crate) mod jit_dump;
pub(crate) mod perf_map;
