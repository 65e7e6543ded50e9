//! Errors that leave a module or symbol list without any names.

use crate::base::memory_budget::Refused;
use crate::elf::ElfError;

/// Why a file or list cannot be used as a source of names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolError {
    /// The operating system returned an error.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The ELF file, or a table of it, cannot be used.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// A list is larger than [`super::limits::NamingLimits`] allow.
    #[error("{what} of {size} bytes or entries is over the limit of {limit}")]
    TooBig {
        /// Name of the list.
        what: &'static str,
        /// Size of the list.
        size: u64,
        /// Limit for that size.
        limit: u64,
    },
    /// A split DWARF file is from another build.
    #[error("it holds unit {found:016x}, not {wanted:016x}")]
    OtherUnit {
        /// DWO ID of the file's first unit.
        found: u64,
        /// DWO ID that the module names.
        wanted: u64,
    },
    /// There is not enough memory.
    #[error(transparent)]
    NoMemory(#[from] Refused),
    /// Time ran out, or the work was asked to stop.
    #[error("stopped before its names were read")]
    Stopped,
    /// All kernel addresses read as zero.
    #[error("kernel addresses are hidden")]
    KernelRestricted,
    /// The list of kernel symbols holds none.
    #[error("no kernel symbols (the kernel was built without CONFIG_KALLSYMS)")]
    NoKernelSymbols,
}
