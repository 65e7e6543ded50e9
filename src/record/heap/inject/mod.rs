//! The sampler in another process: `image` is the sampler as bytes, `patch` has functions of a process jump to it and gives
//! these their own instructions back, `patched_function` says which can. `stopped` is a process whose threads are stopped, in
//! which `stub` maps the sampler, where `memory_map` finds room and `seccomp` finds no filter that keeps it from that;
//! `prologue` moves the instructions in whose place a jump is. What of that understands bytes of the process is done by a
//! worker without rights, which `examiner` asks. `mapped_file` opens the sampler's file and no other. `refusal` knows which
//! processes are left alone. Which functions these are is decided outside: addresses are checked here, symbols are not read.

pub(crate) mod entry;
pub(crate) mod examiner;
pub(crate) mod image;
mod mapped_file;
mod memory_map;
pub(crate) mod patch;
mod patched_function;
mod prologue;
mod refusal;
mod registers;
mod seccomp;
mod stopped;
mod stub;
