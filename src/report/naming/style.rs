//! How function names are written.

/// Style of function names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameStyle {
    /// The last two parts of the path; templates, generics and arguments folded.
    Short,
    /// Demangled name.
    Full,
    /// Name in the symbol table.
    Raw,
}
