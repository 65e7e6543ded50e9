//! What was asked for, as plain options, and what is said instead when that cannot be.

use crate::base::failure::Failure;
use crate::base::safe_text;
use crate::commands::agent::AgentOptions;
use crate::commands::bench::BenchOptions;
use crate::commands::doctor::DoctorOptions;
use crate::commands::import::ImportRequest;
use crate::commands::live::LiveOptions;
use crate::commands::symbolize::SymbolizeOptions;
use crate::diff::DiffOptions;
use crate::push::verb::PushOptions;
use crate::record::RecordOptions;
use crate::report::{AnnotateOptions, ExportRequest, InfoOptions, ReportOptions};
use crate::tui::options::TuiOptions;
use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::io::{IsTerminal, Write};

/// Layout of every help text: examples come before the options.
pub(crate) const HELP_TEMPLATE: &str =
    "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// A command line that does not say what to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choose {
    /// Words that were typed after the name of the program.
    pub(crate) typed: Vec<OsString>,
    /// Action where no one can be asked.
    pub(crate) instead: Instead,
}

/// Replacement of a question where there is no terminal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Instead {
    /// Print this text.
    Print(&'static str),
    /// Fail with this error.
    Refuse(Failure),
}

/// Request that was made on the command line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Request {
    /// `prof` alone, `prof live` and `prof top` without a target: what to do is asked in a terminal.
    Choose(Choose),
    /// `prof record`.
    Record(RecordOptions),
    /// `prof report`.
    Report(ReportOptions),
    /// `prof tui`.
    Tui(TuiOptions),
    /// `prof tui TARGET`, `prof live` and `prof top`.
    Live(Box<LiveOptions>),
    /// `prof annotate`.
    Annotate(AnnotateOptions),
    /// `prof export`.
    Export(ExportRequest),
    /// `prof import`.
    Import(ImportRequest),
    /// `prof push`.
    Push(Box<PushOptions>),
    /// `prof agent`.
    Agent(AgentOptions),
    /// `prof diff`.
    Diff(Box<DiffOptions>),
    /// `prof bench`.
    Bench(Box<BenchOptions>),
    /// `prof info`.
    Info(InfoOptions),
    /// `prof symbolize`.
    Symbolize(SymbolizeOptions),
    /// `prof doctor`.
    Doctor(DoctorOptions),
    /// `prof completions`: print this.
    Completions(String),
}

/// Why there is nothing to do.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The parser has something to show: help, the version, or what is wrong with the arguments.
    Shown(clap::Error),
    /// The arguments can be read but make no sense together.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

impl Stop {
    /// Prints what the parser has to show (help and version to standard output, errors to standard error);
    /// returns the exit status, or the failure that the caller has to explain.
    ///
    /// # Errors
    ///
    /// The failure, when it is not the parser's.
    pub(crate) fn show(self) -> Result<u8, Failure> {
        match self {
            Stop::Shown(error) => {
                let (is_stderr, text) = (error.use_stderr(), error.to_string());
                let is_terminal =
                    if is_stderr { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
                let shown = safe_text::for_locale(&text, is_terminal);
                // A closed pipe is no reason for another message.
                let _ = match shown {
                    Cow::Borrowed(_) => error.print(),
                    Cow::Owned(text) if is_stderr => io::stderr().lock().write_all(text.as_bytes()),
                    Cow::Owned(text) => io::stdout().lock().write_all(text.as_bytes()),
                };
                Ok(u8::try_from(error.exit_code()).unwrap_or(crate::base::failure::status::USAGE))
            }
            Stop::Failed(failure) => Err(failure),
        }
    }
}
