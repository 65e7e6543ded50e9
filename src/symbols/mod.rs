//! Addresses to names.
//!
//! Pure functions over opened files and buffers: ELF symbol tables, DWARF lines and inline chains, the
//! kernel's symbol list, JIT maps and dumps, and demangling. Knows nothing of samples or profiles.
//!
//! Everything read here was written by a stranger. Sizes are checked before they are trusted, work is
//! bounded by [`Limits`], a deadline and a memory budget, and what cannot be named for sure is left unnamed: an address never gets
//! the name of the function beside it.

mod debug_file;
mod demangle;
mod dwarf;
mod dwarf_sections;
mod elf;
mod error;
mod jit_dump;
mod kernel;
mod limits;
mod lines;
mod module_names;
mod packed;
mod perf_map;
mod plt;
mod reader;
mod section;
mod sort;
mod source;
mod survey;
mod symbol_table;
mod unit_context;
mod units;
mod work;

pub use debug_file::find_debug_file;
pub use demangle::demangle;
pub use error::SymbolError;
pub use jit_dump::{JitDump, JitName};
pub use kernel::{KernelSymbol, KernelSymbols};
pub use limits::Limits;
pub use module_names::{DebugProblem, ModuleNames, NameSource, ResolvedLocation};
pub use perf_map::{Owner, PerfMap, PerfMapSource};

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod memory_tests;
#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod test_program;
