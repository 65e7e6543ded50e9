//! Why an ELF file is not read.

/// Why an ELF file, or a part of it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file could not be read, or is shorter than it was.
    #[error("cannot read the file")]
    Read(#[from] std::io::Error),
    /// The file does not start with an ELF header.
    #[error("not an ELF file")]
    NotElf,
    /// A 32-bit file, where code is wanted that runs here.
    #[error("a 32-bit file: only 64-bit code can be unwound")]
    Class32,
    /// A file for another processor; the number is ELF's `e_machine`.
    #[error("made for another processor (ELF machine {0})")]
    ForeignMachine(u16),
    /// A header or table contradicts itself or the file's size, or is of an unknown kind.
    #[error("malformed ELF file: {0}")]
    Malformed(&'static str),
    /// Something in the file is larger than the limits allow.
    #[error("refused: {what} of {size} is above the limit of {limit}")]
    TooLarge {
        /// Name of what is too large.
        what: &'static str,
        /// Number or size that the file has or claims.
        size: u64,
        /// Number or size that is allowed.
        limit: u64,
    },
}
