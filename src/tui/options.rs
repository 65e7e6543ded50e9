//! Options of `prof tui`.

use crate::report::{ColorWhen, CommonOptions, Input};
use crate::tui::app::action;
use std::path::PathBuf;

/// All options of `prof tui`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuiOptions {
    /// Which samples and frames of which profile.
    pub(crate) common: CommonOptions,
    /// The profile to compare with, if there is one.
    pub(crate) base: Option<Input>,
    /// Folders in which source files are looked for first.
    pub(crate) source_dirs: Vec<PathBuf>,
    /// The view that is opened first.
    pub(crate) tab: action::Tab,
    /// Whether to draw with ASCII characters only.
    pub(crate) ascii: bool,
    /// Whether to capture the mouse.
    pub(crate) mouse: bool,
    /// Whether to use colours.
    pub(crate) color: ColorWhen,
}

impl Default for TuiOptions {
    fn default() -> Self {
        TuiOptions {
            common: CommonOptions::default(),
            base: None,
            source_dirs: Vec::new(),
            tab: action::Tab::default(),
            ascii: false,
            mouse: true,
            color: ColorWhen::default(),
        }
    }
}
