//! The terminal interface: a flame graph and tables of a profile, of a file or live.
//!
//! Key ─► [`action::Action`] ─► [`app::App::update`] ─► [`screen::draw`]. What is drawn is a [`picture::Picture`] that a
//! thread of its own computes from the recording with the words of `report`; the screen shows the last one and never waits.

pub mod action;
pub mod app;
mod behind_list;
mod callers_draw;
pub mod callers_view;
mod events;
mod export;
mod feed;
pub mod flame_details;
pub mod flame_view;
pub mod help;
pub mod key;
mod last_lines;
pub mod line;
pub mod list;
mod palette;
pub mod picture;
pub mod query;
mod refusal;
mod renaming;
pub mod screen;
pub mod search;
mod session;
pub mod spot;
mod suspend;
pub mod table;
pub mod terminal;
pub mod theme;
pub mod threads_view;
pub mod time_axis;
mod time_draw;
pub mod time_view;
pub mod top_view;
pub mod translator;
pub mod tty;
mod update;
mod update_live;
pub mod worker;

#[cfg(test)]
mod callers_tests;
#[cfg(test)]
mod export_tests;
#[cfg(test)]
mod flame_tests;
#[cfg(test)]
mod key_tests;
#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod one_model_tests;
#[cfg(test)]
mod renaming_tests;
#[cfg(test)]
mod test_screen;
#[cfg(test)]
mod test_session;
#[cfg(test)]
mod threads_tests;
#[cfg(test)]
mod time_tests;
#[cfg(test)]
mod top_tests;
#[cfg(test)]
mod update_tests;
#[cfg(test)]
mod view_tests;
#[cfg(test)]
mod worker_tests;

pub use action::{Feed, LiveCommand, LiveCommands, LiveStatus, Seen};
pub use feed::{FeedReceiver, FeedSender, feed};
pub use session::{Source, run_source};

use crate::base::failure::Failure;
use crate::report::{ColorWhen, CommonOptions, Recording};
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::sync::Arc;

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

/// `prof tui FILE`; returns the exit status.
///
/// # Errors
///
/// When there is no terminal, the profile cannot be read, or it holds nothing to show.
pub fn run(options: &TuiOptions) -> anyhow::Result<u8> {
    require_terminal()?;
    let recording = Arc::new(Recording::load_quietly(&options.common.input)?);
    recording.shown(options.common.metric)?;
    run_source(options, Source::File(recording))
}

/// Refuses to draw into a file, a pipe, or a terminal that says that it cannot be drawn on.
///
/// # Errors
///
/// A usage failure that names the command for that.
pub fn require_terminal() -> Result<(), Failure> {
    refuse(std::io::stdout().is_terminal(), std::env::var_os("TERM").as_deref())
}

/// A terminal without a name may be any: what is sent is ANSI's, which all but the dumb ones know.
fn refuse(is_terminal: bool, term: Option<&OsStr>) -> Result<(), Failure> {
    let why = match term {
        _ if !is_terminal => "standard output is not a terminal",
        Some(term) if term == "dumb" => "this terminal cannot be drawn on (TERM=dumb)",
        _ => return Ok(()),
    };
    Err(Failure::usage(why).hint("for text:  use prof report"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_terminals_that_can_be_drawn_on_are_taken() {
        let refused = |is_terminal, term: Option<&str>| refuse(is_terminal, term.map(OsStr::new)).err();
        for (is_terminal, term) in [(false, None), (false, Some("xterm")), (true, Some("dumb"))] {
            let failure = refused(is_terminal, term).unwrap();
            assert_eq!(failure.status, 2, "{term:?}");
            assert!(failure.hints[0].contains("prof report"), "{term:?}");
        }
        for term in [None, Some(""), Some("xterm-256color"), Some("linux")] {
            assert_eq!(refused(true, term), None, "{term:?}");
        }
    }
}
