//! The source of a name, and why debug information gives none.

use crate::base::memory_budget::Refused;

/// The best source of names that a module has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) enum NameSource {
    /// No source: everything was stripped.
    #[default]
    None,
    /// `.dynsym`: exported functions only.
    Dynsym,
    /// The packed table in `.gnu_debugdata`: all functions.
    Mini,
    /// `.symtab`: all functions.
    Symtab,
    /// DWARF: functions, inlined functions and lines.
    Dwarf,
}

/// Why existing DWARF was not, or not fully, used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum DebugProblem {
    /// The DWARF contradicts itself.
    Damaged,
    /// The DWARF is larger, or refers to itself more often, than [`NamingLimits`](crate::symbols::NamingLimits) allow.
    TooBig,
    /// There was no memory for the DWARF.
    NoMemory(Refused),
    /// Time ran out, or naming was asked to stop.
    TimeLimit,
    /// Function entries are in `.dwo` or `.dwp` files, some of which were not found.
    SplitDwarf,
    /// Names are in a file that several modules share (made by `dwz`), which was not found.
    SharedFile,
}

impl std::fmt::Display for DebugProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DebugProblem::Damaged => "debug information is damaged",
            DebugProblem::TooBig => "debug information is too big",
            DebugProblem::NoMemory(refused) => return write!(f, "debug information is {refused}"),
            DebugProblem::TimeLimit => "debug information took too long to search",
            DebugProblem::SplitDwarf => "part of the debug information is in .dwo files that were not found",
            DebugProblem::SharedFile => {
                "part of the debug information is in a shared file made by dwz that was not found"
            }
        })
    }
}
