//! Which functions of a stack are the program's own, where the frames of a stack are at hand and no path of labels.

use crate::profile::{ModuleKind, Profile, StackId};
use crate::report::model::label_kind::LabelKind;
use crate::report::naming::code::{Code, is_own};
use crate::report::naming::machinery::is_interpreter_file;

/// The own code of one stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnCode {
    /// The stack has functions that an interpreter runs.
    has_run: bool,
}

impl OwnCode {
    /// Looks at the frames of a stack.
    pub(crate) fn of(profile: &Profile, stack: StackId) -> Self {
        let tables = &profile.tables;
        let mut kinds =
            tables.stack_frames(stack).map(|frame| tables.module(tables.frame(frame).module).kind);
        OwnCode { has_run: kinds.any(|kind| kind == ModuleKind::Runtime) }
    }

    /// Whether code of the stack is the program's own. Where the functions that an interpreter runs are known, its own are none of
    /// the program's, and generated code without a name is what these run in.
    pub(crate) fn has(self, code: Code<'_>) -> bool {
        let is_of_runtime =
            is_interpreter_file(code.module) || code.kind == LabelKind::Jit && code.name.is_empty();
        is_own(code) && !(self.has_run && is_of_runtime)
    }

    /// Whether code of the stack says more about it than the functions below: it is run by an interpreter, if there is such code.
    pub(crate) fn says_more(self, kind: LabelKind) -> bool {
        !self.has_run || kind == LabelKind::Interpreted
    }
}
