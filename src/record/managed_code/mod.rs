//! Functions of managed code in recorded processes: code that a runtime has generated, or whose interpreter has a frame on
//! the native stack for each function. Which process has such a runtime, what the kernel side has to know of it, and from
//! native frames, with what the kernel side noted beside them, to frames of functions. How a runtime lays out its memory
//! is in `runtimes`; interpreters that keep their frames elsewhere are in `interpreters`.

mod java_descriptor;
pub(crate) mod java_process;
pub(crate) mod managed_runtime;
mod native_place;
mod placement;
mod registry;
mod v8_code_cache;
mod v8_file;
mod v8_functions;
mod v8_process;

pub(crate) use registry::ManagedCode;
