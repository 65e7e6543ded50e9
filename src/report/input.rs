//! Where a recording is read from: a file, a folder of windows, a part of either, standard input.

use super::clock::ClockSpan;
use std::path::{Path, PathBuf};

/// The file that `record` writes and every reader opens when none is named.
pub(crate) const DEFAULT_FILE: &str = "prof.data";

/// Source of the profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A file, or a folder of windows.
    File(PathBuf),
    /// The part of one that was recorded in a span of time by the clock.
    Span(PathBuf, ClockSpan),
    /// Standard input.
    Stdin,
}

impl Input {
    /// Name in messages. Foreign text.
    pub(crate) fn words(&self) -> String {
        match self {
            Input::File(path) | Input::Span(path, _) => path.display().to_string(),
            Input::Stdin => "standard input".to_owned(),
        }
    }

    /// What a word on the command line names: `FILE`, `DIR`, or a part of either, `DIR@14:00..14:10`.
    pub(crate) fn named(word: PathBuf) -> Self {
        let part = word.to_str().and_then(|text| {
            let (path, span) = text.rsplit_once('@')?;
            Some((PathBuf::from(path), ClockSpan::read(span)?.ok()?))
        });
        match part {
            Some((path, span)) => Input::Span(path, span),
            None => Input::File(word),
        }
    }

    /// The span of time by the clock that is read of it, if that is a part.
    pub(crate) fn span(&self) -> Option<ClockSpan> {
        match self {
            Input::Span(_, span) => Some(*span),
            Input::File(_) | Input::Stdin => None,
        }
    }

    /// The file, or the folder; `None` for standard input.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Input::File(path) | Input::Span(path, _) => Some(path),
            Input::Stdin => None,
        }
    }

    /// The part of it in a span of time by the clock. Standard input has no parts: all of it is read.
    pub(crate) fn within(self, span: Option<ClockSpan>) -> Self {
        match (self, span) {
            (Input::File(path) | Input::Span(path, _), Some(span)) => Input::Span(path, span),
            (input, _) => input,
        }
    }
}

impl Default for Input {
    fn default() -> Self {
        Input::File(PathBuf::from(DEFAULT_FILE))
    }
}
