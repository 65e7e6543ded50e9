//! What each format offers, and what can go wrong.

use super::error::ImportError;
use super::intake::Intake;
use super::source::ImportSource;
use std::fmt::Debug;

/// What the weights of folded stacks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FoldedUnit {
    /// Numbers of samples.
    #[default]
    Samples,
    /// Running time, in units of so many ns.
    Time {
        /// Length of the unit.
        unit_ns: u64,
    },
    /// Bytes.
    Bytes,
}

/// What the first element of a folded stack is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FirstElement {
    /// The name of the thread.
    #[default]
    Thread,
    /// The outermost function.
    Function,
}

/// What a file does not say about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ImportOptions {
    /// Of folded stacks.
    pub(crate) unit: FoldedUnit,
    /// Of folded stacks.
    pub(crate) first: FirstElement,
}

/// A format.
pub(super) trait Importer: Debug + Sync {
    /// What the command line calls it.
    fn name(&self) -> &'static str;

    /// What it is called in messages.
    fn title(&self) -> &'static str;

    /// Whether a file that begins with `head` is of this format.
    fn recognises(&self, head: &[u8]) -> bool;

    /// Reads all of `source`. What is missing of a file that is cut becomes a note.
    ///
    /// # Errors
    ///
    /// When nothing can be made of it, or it cannot be read.
    fn read(
        &self,
        source: ImportSource,
        intake: &mut Intake<'_>,
        options: &ImportOptions,
    ) -> Result<(), ImportError>;
}
