//! Why nothing at all could be said about a module.

use crate::base::memory_budget::Refused;
use crate::elf::ElfError;

/// Why a file or list could not be used as a source of names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The ELF file, or a table of it, cannot be used.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// A list is larger than [`super::limits::NamingLimits`] allow.
    #[error("{what} of {size} bytes or entries is over the limit of {limit}")]
    TooBig {
        /// The list.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// A file of split DWARF is of another build.
    #[error("it holds unit {found:016x}, not {wanted:016x}")]
    OtherUnit {
        /// The DWO ID of its first unit.
        found: u64,
        /// The one that the module names.
        wanted: u64,
    },
    /// There is no memory for it.
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
