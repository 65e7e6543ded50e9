//! One thing that doctor looked at.

use serde::Serialize;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Works.
    Ok,
    /// Works, with something missing.
    Warn,
    /// Keeps `prof` from working.
    Fail,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Stable name of what was checked.
    pub name: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was seen.
    pub detail: String,
    /// A command or setting that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
    pub(super) fn new(name: &'static str, verdict: Verdict, detail: impl Into<String>) -> Self {
        Check { name, verdict, detail: detail.into(), fix: None }
    }

    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}
