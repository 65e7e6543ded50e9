//! Addresses to names, as functions of opened files and buffers: ELF symbol tables, DWARF lines and inline chains, the kernel's
//! symbol list, JIT maps and dumps, demangling. Everything read is untrusted: work is bounded by [`NamingLimits`], a deadline and
//! a memory budget, and an address that cannot be named for sure is left unnamed. Knows nothing of samples or profiles.

mod debug_files;
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
pub(crate) mod tests;
mod work;

pub(crate) use debug_files::bases::Bases;
pub(crate) use debug_files::found::{DebugFiles, FoundFile, check_build};
pub(crate) use debug_files::search::Searched;
pub use debug_files::search::find_debug_file;
pub(crate) use demangle::demangle;
#[cfg(test)]
pub(crate) use elf_names::problem::DebugProblem;
pub(crate) use elf_names::problem::NameSource;
pub use elf_names::resolve::ModuleNames;
pub(crate) use elf_names::resolve::ResolvedLocation;
pub(crate) use error::SymbolError;
pub(crate) use generated::dump_piece::{DumpPiece, DumpPosition};
pub(crate) use generated::dumped_code::JitName;
pub(crate) use generated::jit_dump::JitDump;
pub(crate) use generated::perf_map::{PerfMap, PerfMapSource};
pub(crate) use kernel::KernelSymbols;
pub use limits::NamingLimits;
