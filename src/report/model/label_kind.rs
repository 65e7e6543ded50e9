//! What kind of code or place a row is.

use crate::profile::Reason;

/// Kind of thing that a label names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LabelKind {
    /// Code of a program.
    Program,
    /// Code of a shared library.
    Library,
    /// Code of the kernel.
    Kernel,
    /// Code generated at run time.
    Jit,
    /// A function that the interpreter of a language runs.
    Interpreted,
    /// A thread or process.
    Task,
    /// The place where a stack ends although it should go on.
    Cut,
    /// A stack of which nothing can be shown.
    Nothing,
    /// Why a thread waited.
    Wait(Reason),
}

impl LabelKind {
    /// The word for its colour.
    pub(crate) fn word(self) -> &'static str {
        match self {
            LabelKind::Program => "own",
            LabelKind::Library => "library",
            LabelKind::Kernel => "kernel",
            LabelKind::Jit => "JIT",
            LabelKind::Interpreted => "interpreted",
            LabelKind::Task => "thread",
            LabelKind::Cut => "cut",
            LabelKind::Nothing => "no stack",
            LabelKind::Wait(Reason::NoCpu) => "no CPU",
            LabelKind::Wait(Reason::Lock | Reason::Gil) => "lock",
            LabelKind::Wait(reason) if reason.is_io() => "I/O",
            LabelKind::Wait(_) => "wait",
        }
    }

    /// Whether it is code, that is, whether lines and instructions can be shown of it.
    pub(crate) fn is_code(self) -> bool {
        self.is_user_code() || self == LabelKind::Kernel
    }

    /// Whether it is code that runs outside of the kernel.
    pub(crate) fn is_user_code(self) -> bool {
        matches!(self, LabelKind::Program | LabelKind::Library | LabelKind::Jit | LabelKind::Interpreted)
    }
}
