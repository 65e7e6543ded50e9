//! How function names are written.

/// How function names are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameStyle {
    /// The last two parts of the path; templates, generics and arguments folded.
    Short,
    /// As demangled.
    Full,
    /// As in the symbol table.
    Raw,
}
