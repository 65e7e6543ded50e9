//! One check of `prof doctor`.

use serde::Serialize;

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckVerdict {
    /// It works.
    Ok,
    /// It works, but something is missing.
    Warn,
    /// It keeps `prof` from working.
    Fail,
}

/// One check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// Stable name of the check.
    pub(crate) name: &'static str,
    /// How it came out.
    pub(crate) verdict: CheckVerdict,
    /// What the check found.
    pub(crate) detail: String,
    /// A command or setting that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

impl Check {
    pub(super) fn new(name: &'static str, verdict: CheckVerdict, detail: impl Into<String>) -> Self {
        Check { name, verdict, detail: detail.into(), fix: None }
    }

    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}
