//! Why the stacks of a JVM cannot be read.

/// Sentence that gives state, cause and cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JavaProblem {
    pub(crate) text: String,
    /// True if a later attempt may succeed: the JVM may still be starting.
    pub(crate) is_temporary: bool,
}

impl JavaProblem {
    /// Problem that stays as long as the process runs this JVM.
    pub(crate) fn lasting(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_temporary: false }
    }

    /// Problem that may be gone a moment later.
    pub(crate) fn temporary(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_temporary: true }
    }
}
