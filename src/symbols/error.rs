//! Why nothing at all could be said about a module.

use crate::base::memory_budget::Refused;

/// Why a file or list could not be used as a source of names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file does not start as an ELF file does.
    #[error("not an ELF file")]
    NotElf,
    /// An ELF file of a kind that is not read: big-endian, or an unknown class.
    #[error("unsupported ELF file: {0}")]
    Unsupported(&'static str),
    /// A table of the file contradicts itself or lies outside of it.
    #[error("damaged ELF file: {0}")]
    Damaged(&'static str),
    /// A table is larger than [`super::limits::Limits`] allow.
    #[error("{what} of {size} bytes or entries is over the limit of {limit}")]
    TooBig {
        /// The table.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// There is no memory for it.
    #[error(transparent)]
    NoMemory(#[from] Refused),
    /// Time ran out, or the work was told to stop.
    #[error("stopped before its names were read")]
    Stopped,
    /// All kernel addresses read as zero.
    #[error("kernel addresses are hidden")]
    KernelRestricted,
    /// The list of kernel symbols holds none.
    #[error("no kernel symbols (the kernel was built without CONFIG_KALLSYMS)")]
    NoKernelSymbols,
}
