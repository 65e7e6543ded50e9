//! The terminal interface: a flame graph and tables of a profile, of a file or live. A key becomes an [`app::action::Action`],
//! [`app::state::App::update`] applies it, [`screen::draw`] draws. What is drawn is a [`compute::picture::Picture`], computed by
//! its own thread with the code of `report`; the screen never waits. [`start`] is the screen before there is a profile. Nothing
//! is recorded or added up here.
pub(crate) mod app;
pub(crate) mod compute;
pub(crate) mod options;
pub(crate) mod screen;
pub(crate) mod start;
pub(crate) mod terminal;
#[cfg(test)]
mod tests;
pub(crate) mod views;
pub(crate) mod widgets;
use crate::base::failure::Failure;
use crate::report::{Analysis, Seen};
pub(crate) use app::action::{LiveCommand, LiveStatus, LiveUpdate};
use app::diff_base::DiffBase;
pub(crate) use app::export::EXPORT_STEM;
pub(crate) use app::session::{LiveUpdates, SessionSource, run_source};
pub use options::TuiOptions;
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::sync::Arc;
pub(crate) use terminal::editor::edit_for;

/// `prof tui FILE`; returns the exit status.
///
/// # Errors
///
/// Fails when there is no terminal, the profile cannot be read, or it holds nothing to show.
pub(crate) fn run(options: &TuiOptions) -> anyhow::Result<u8> {
    require_terminal()?;
    let (recording, common) = options.common.of_waits(Analysis::load_quietly(&options.common.input)?)?;
    let (options, recording) = (&TuiOptions { common, ..options.clone() }, Arc::new(recording));
    let metric = recording.shown(options.common.metric)?.metric();
    let Some(input) = &options.base else { return show(options, recording) };
    let base = Arc::new(Analysis::load_quietly(input)?);
    // What is compared has to be in both.
    base.shown(Some(metric)).map_err(|failure| failure.in_file(&input.words()))?;
    let base = DiffBase::Recording(Seen(base), input.words());
    run_source(options, SessionSource::File(recording, Some(base)))
}

/// Shows a recording until the user quits; returns the exit status.
///
/// # Errors
///
/// Fails when the terminal cannot be used.
pub fn show(options: &TuiOptions, recording: Arc<Analysis>) -> anyhow::Result<u8> {
    run_source(options, SessionSource::File(recording, None))
}

/// Refuses to draw into a file, a pipe, or a terminal that cannot move the cursor.
///
/// # Errors
///
/// Returns a usage error that names the command to use instead.
pub(crate) fn require_terminal() -> Result<(), Failure> {
    refuse(std::io::stdout().is_terminal(), std::env::var_os("TERM").as_deref())
}

/// Accepts an unset TERM: the output is ANSI sequences, which all but dumb terminals understand.
fn refuse(is_terminal: bool, term: Option<&OsStr>) -> Result<(), Failure> {
    let why = match term {
        _ if !is_terminal => "standard output is not a terminal",
        Some(term) if term == "dumb" => "this terminal does not support drawing (TERM=dumb)",
        _ => return Ok(()),
    };
    Err(Failure::usage(why).hint("for text:  use prof report"))
}

#[cfg(test)]
mod refusal_tests {
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
