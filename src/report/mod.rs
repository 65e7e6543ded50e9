//! Reading a profile and showing it: load, select, count, one view.
//!
//! [`Selection`] filters the samples and names their frames; tables and trees are built from it; views
//! are drawn from those and never write back. Everything works on any event of a profile.

mod advice;
mod call_tree;
mod export;
mod filter;
mod function_table;
mod info;
mod json;
mod label;
mod name;
mod options;
mod output;
mod peek;
mod quality;
mod selection;
mod terminal;
mod text;
mod threads;
mod tsv;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod view_tests;

pub use call_tree::{CallTree, Direction, Node, NodeId};
pub use export::{export, folded};
pub use function_table::{FunctionTable, Row};
pub use info::info;
pub use label::{Label, LabelId, LabelKind, Labels, Place, PlaceId, Source, Step};
pub use name::{module_file, module_stem, short};
pub use options::{
    ColorWhen, CommonOptions, DEFAULT_FILE, Destination, ExportFormat, ExportOptions, FilterOptions, Format,
    Grouping, InfoOptions, Input, NameStyle, ReportOptions, SortKey, Space, TimeRange, View,
};
pub use peek::{Peek, peek};
pub use quality::{Quality, WorstModule};
pub use selection::{Amount, Group, Selection};
pub use terminal::Screen;
pub use text::Page;
pub use threads::{ThreadRow, threads};

use crate::failure::{Failure, status};
use crate::profile::{self, Event, Integrity, Profile};
use crate::safe_text;
use crate::units;
use anyhow::Context;
use std::io::Write as _;
use std::path::Path;

/// The event that is shown when a profile holds several.
const DEFAULT_EVENT: &str = "on-cpu";

/// A profile as it was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// What was recorded.
    pub profile: Profile,
    /// How much of the file could be read.
    pub integrity: Integrity,
}

impl Recording {
    /// Reads the profile.
    ///
    /// # Errors
    ///
    /// When it cannot be read; says what to do when the file is missing.
    pub fn load(input: &Input) -> anyhow::Result<Self> {
        let (profile, integrity) = match input {
            Input::Stdin => {
                profile::read(std::io::stdin().lock()).context("cannot read a profile from standard input")?
            }
            Input::File(path) => match profile::read_path(path) {
                Ok(read) => read,
                Err(profile::ReadError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(missing(path).into());
                }
                Err(error) => {
                    let message = format!("cannot read `{}`: {error}", path.display());
                    let failure = Failure::new(status::FAILED, message);
                    return Err(match error.hint() {
                        Some(hint) => failure.hint(hint),
                        None => failure,
                    }
                    .into());
                }
            },
        };
        let recording = Recording { profile, integrity };
        recording.warn_if_cut(input);
        Ok(recording)
    }

    /// Says on standard error that the file is not whole: a script that reads standard output must not take
    /// a part for all.
    fn warn_if_cut(&self, input: &Input) {
        if let Some(problem) = advice::missing_part(&self.profile, &self.integrity) {
            let name = match input {
                Input::Stdin => "standard input".to_owned(),
                Input::File(path) => format!("`{}`", path.display()),
            };
            let line = format!("warning: {name} is not whole: {problem}; showing what could be read");
            // With standard error closed there is nobody to warn.
            let _ = writeln!(std::io::stderr().lock(), "{}", safe_text::message(&line));
        }
    }

    /// The event that is shown.
    ///
    /// # Errors
    ///
    /// Status 3 when the profile has no events.
    pub fn event(&self) -> Result<&Event, Failure> {
        (self.profile.event_named(DEFAULT_EVENT).or(self.profile.events.first())).ok_or_else(|| {
            Failure::new(status::NO_MATCH, "the recording holds no samples: it ended before the first one")
                .hint("to record again:  prof record -d 10s -p PID")
        })
    }

    /// The samples that pass the filters.
    ///
    /// # Errors
    ///
    /// A usage failure for a bad pattern; status 3 when no sample passes.
    pub fn select(&self, options: &CommonOptions) -> Result<Selection<'_>, Failure> {
        let selection = Selection::new(&self.profile, self.event()?, options)?;
        if selection.total.samples > 0 {
            return Ok(selection);
        }
        let whole = units::counted(selection.whole.samples, "sample");
        Err(match filter::description(&options.filter) {
            Some(words) => Failure::new(status::NO_MATCH, format!("none of {whole} matches {words}"))
                .hint("to see what there is:  prof report -n 0, prof report --threads"),
            None => Failure::new(status::NO_MATCH, "the recording holds no samples: the target did not run")
                .hint("a program that waits uses no CPU; record while it works"),
        })
    }
}

fn missing(path: &Path) -> Failure {
    let shown = path.display();
    let failure = Failure::new(status::FAILED, format!("cannot read `{shown}`: no such file"));
    if path == Path::new(DEFAULT_FILE) {
        failure.hint("record one first:  prof record -d 10s -p PID, or prof record CMD")
    } else {
        failure.hint("prof report reads what prof record wrote; without a name it reads `prof.data`")
    }
}

/// Renders a report of `recording` for `page`.
///
/// # Errors
///
/// A usage failure for a bad pattern; status 3 when nothing matches.
pub fn render(recording: &Recording, options: &ReportOptions, page: &Page) -> anyhow::Result<String> {
    let selection = recording.select(&options.common)?;
    Ok(match options.format {
        Format::Text => text::report(recording, &selection, options, page)?,
        Format::Json => json::report(recording, &selection, options)?,
        Format::Tsv => tsv::report(&selection, options)?,
    })
}

/// `prof report`: reads, renders and prints.
///
/// # Errors
///
/// When the profile cannot be read, nothing matches, or the output cannot be written.
pub fn report(options: &ReportOptions) -> anyhow::Result<()> {
    let recording = Recording::load(&options.common.input)?;
    let screen = Screen::new(options.color, options.pager && options.format == Format::Text);
    let page = match options.format {
        Format::Text => screen.page(options.common.names),
        Format::Json | Format::Tsv => Page::PLAIN,
    };
    screen.print(&render(&recording, options, &page)?)
}
