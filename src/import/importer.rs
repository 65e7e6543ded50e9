//! The interface of an import format.

use super::error::ImportError;
use super::intake::Intake;
use super::source::ImportSource;
use std::fmt::Debug;

/// Unit of the weights of folded stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FoldedUnit {
    /// Number of samples.
    #[default]
    Samples,
    /// Running time.
    Time {
        /// Length of the unit, ns.
        unit_ns: u64,
    },
    /// The values are bytes.
    Bytes,
}

/// Meaning of the first element of a folded stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FirstElement {
    /// Name of the thread.
    #[default]
    Thread,
    /// Outermost function.
    Function,
}

/// Facts that a file does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ImportOptions {
    /// Unit of folded stacks.
    pub(crate) unit: FoldedUnit,
    /// Meaning of the first element of folded stacks.
    pub(crate) first: FirstElement,
}

/// An import format.
pub(super) trait Importer: Debug + Sync {
    /// Name on the command line.
    fn name(&self) -> &'static str;

    /// Name in messages.
    fn title(&self) -> &'static str;

    /// Whether a file that begins with `head` is in this format.
    fn recognises(&self, head: &[u8]) -> bool;

    /// Reads the whole `source`. If the file is truncated, a note says what is missing.
    ///
    /// # Errors
    ///
    /// Fails when the source is not in the format, or it cannot be read.
    fn read(
        &self,
        source: ImportSource,
        intake: &mut Intake<'_>,
        options: &ImportOptions,
    ) -> Result<(), ImportError>;
}
