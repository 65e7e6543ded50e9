//! Names of code that was generated while a program ran, from the maps and dumps that runtimes write for profilers.
//! Foreign files, read line by line or record by record within limits. Which process a file is of, and when it is read, is
//! decided in `record::names`.

mod dump_window;
pub(crate) mod dumped_code;
pub(crate) mod jit_dump;
pub(crate) mod perf_map;
