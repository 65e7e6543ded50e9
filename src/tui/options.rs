//! Options of `prof tui`.

use crate::report::{ColorWhen, CommonOptions};
use crate::tui::app::action;

/// All options of `prof tui`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuiOptions {
    /// Which samples and frames of which profile.
    pub(crate) common: CommonOptions,
    /// The view that is opened first.
    pub(crate) tab: action::Tab,
    /// Only ASCII characters.
    pub(crate) ascii: bool,
    /// The mouse is ours.
    pub(crate) mouse: bool,
    /// When there are colours.
    pub(crate) color: ColorWhen,
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
