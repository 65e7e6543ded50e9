//! Addresses to names.
//!
//! Pure functions over opened files and buffers: ELF symbol tables, DWARF lines and inline chains, the
//! kernel's symbol list, JIT maps and dumps, and demangling. Knows nothing of samples or profiles.
//!
//! Everything read here was written by a stranger. Sizes are checked before they are trusted, work is
//! bounded by [`Limits`], a deadline and a memory budget, and what cannot be named for sure is left unnamed: an address never gets
//! the name of the function beside it.

mod demangle;
mod elf_names;
mod error;
mod generated;
mod kernel;
mod limits;
mod lines;
mod sections;
mod sort;
#[cfg(test)]
mod tests;
mod work;

pub use demangle::demangle;
pub use elf_names::debug_file::find_debug_file;
pub use elf_names::problem::{DebugProblem, NameSource};
pub use elf_names::resolve::{ModuleNames, ResolvedLocation};
pub use error::SymbolError;
pub use generated::jit_dump::{JitDump, JitName};
pub use generated::perf_map::{Owner, PerfMap, PerfMapSource};
pub use kernel::{KernelSymbol, KernelSymbols};
pub use limits::Limits;
