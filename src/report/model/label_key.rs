//! What makes two rows the same: name, kind, module, and the line where rows are lines.

use crate::profile::Reason;
use crate::report::model::label::Source;

/// What kind of thing a label names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LabelKind {
    /// Code of a program.
    Program,
    /// Code of a shared library.
    Library,
    /// Code of the kernel.
    Kernel,
    /// Code generated at run time.
    Jit,
    /// A thread or process.
    Task,
    /// The place where a stack ends although it should go on.
    Cut,
    /// A stack of which nothing can be shown.
    Nothing,
    /// Why a thread waited.
    Wait(Reason),
}

/// What a label is known by outside of its [`Labels`]: the same in every selection of every snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelKey {
    /// Name in full. Foreign text.
    pub name: String,
    /// Path of the module. Foreign text.
    pub module: String,
    /// Source line, for labels that stand for one.
    pub line: Option<Source>,
}
