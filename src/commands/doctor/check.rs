//! One check of `prof doctor`.

use serde::Serialize;

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckVerdict {
    /// The check passed.
    Ok,
    /// The check passed, but something is missing.
    Warn,
    /// The check found what keeps `prof` from working.
    Fail,
}

/// One check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// Stable name of the check.
    pub(crate) name: &'static str,
    /// Verdict of the check.
    pub(crate) verdict: CheckVerdict,
    /// Finding of the check.
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
