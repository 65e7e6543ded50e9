//! Names of code that was generated while a program ran, from the maps and dumps that runtimes write for profilers.
//! Foreign files, read line by line or record by record within limits.

mod dump_window;
pub(crate) mod dumped_code;
pub(crate) mod jit_dump;
pub(crate) mod perf_map;
