//! What `prof tui` is told.

use crate::report::{ColorWhen, CommonOptions};
use crate::tui::app::action;

/// Everything that `prof tui` can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuiOptions {
    /// Which samples and frames of which profile.
    pub common: CommonOptions,
    /// The view that is opened first.
    pub tab: action::Tab,
    /// Only ASCII characters.
    pub ascii: bool,
    /// The mouse is ours.
    pub mouse: bool,
    /// When there are colours.
    pub color: ColorWhen,
}

impl Default for TuiOptions {
    fn default() -> Self {
        TuiOptions {
            common: CommonOptions::default(),
            tab: action::Tab::default(),
            ascii: false,
            mouse: true,
            color: ColorWhen::default(),
        }
    }
}
