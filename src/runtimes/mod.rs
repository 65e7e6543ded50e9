//! Runtimes of languages, seen from outside: how the memory of a process that runs one is laid out, and what its
//! functions are called. Pure functions of bytes at addresses, which may be hostile. Not here: which process has which
//! runtime, how its frames are taken, and how they become a stack.

pub(crate) mod go;
pub(crate) mod java;
mod memory;
pub(crate) mod perl;
pub(crate) mod php;
mod problem;
pub(crate) mod python;
pub(crate) mod ruby;
pub(crate) mod v8;

pub(crate) use memory::TargetMemory;
pub(crate) use problem::RuntimeProblem;
