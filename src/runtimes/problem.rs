//! Why the functions of a runtime cannot be read.

use std::fmt;

/// Reason why the functions of a runtime cannot be read: one sentence of state, cause and cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuntimeProblem {
    text: String,
    is_temporary: bool,
}

impl RuntimeProblem {
    /// Problem that stays as long as the process has this runtime.
    pub(crate) fn lasting(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_temporary: false }
    }

    /// Problem that may be gone a moment later, such as a runtime that is still starting.
    pub(crate) fn temporary(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_temporary: true }
    }

    /// True if a later attempt may succeed.
    pub(crate) fn is_temporary(&self) -> bool {
        self.is_temporary
    }
}

impl fmt::Display for RuntimeProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}
