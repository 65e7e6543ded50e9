//! Reports for people: 80 columns, more where the terminal has them.
//!
//! Every foreign name passes [`Page::name`] or [`safe_text`]; colour comes only from [`Page::styled`].

mod column;
mod flat;
mod header;
mod paths;
mod peek;
mod thread_times;
mod threads;
mod totals;
mod tree;
mod waits;

pub use header::event_title;
pub(super) use peek::no_match;
pub(super) use totals::totals_text;

use crate::base::failure::Failure;
use crate::base::fit::fit_name;
use crate::base::safe_text;
use crate::report::model::label::{Label, LabelKind};
use crate::report::model::totals::Totals;
use crate::report::naming::name;
use crate::report::options::{NameStyle, ReportOptions, View};
use crate::report::query::selection::Selection;
use crate::report::recording::Recording;
use crate::report::views::call_tree::Direction;
use crate::report::waits::hidden_idle::HiddenIdle;
use anstyle::{AnsiColor, Style};
use std::borrow::Cow;

/// The page that text is laid out for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Columns.
    pub width: usize,
    /// Whether names are cut to keep lines within the width: on a terminal. Elsewhere whole names
    /// matter more than the width.
    pub cut_names: bool,
    /// Whether colour is used.
    pub color: bool,
    /// How names are written.
    pub names: NameStyle,
}

impl Page {
    /// What a file or another program gets.
    pub const PLAIN: Page = Page { width: 80, cut_names: false, color: false, names: NameStyle::Full };

    /// From this width on there is room for three more columns.
    const WIDE: usize = 120;

    fn is_wide(&self) -> bool {
        self.width >= Self::WIDE
    }

    /// `text` in `style`, if colour is used. `text` must be safe.
    fn styled(&self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// The name of `label`, safe, cut to `columns` on a terminal.
    fn name(&self, label: &Label, columns: usize) -> String {
        let text = label.text(self.names);
        self.fit_name(&safe_text::terminal(&text), columns).into_owned()
    }

    /// The name of a function, which must be safe, cut to `columns` on a terminal.
    fn fit_name<'t>(&self, text: &'t str, columns: usize) -> Cow<'t, str> {
        if self.cut_names { fit_name(text, columns) } else { Cow::Borrowed(text) }
    }

    /// The module of `label` for a column, safe, cut to `columns` on a terminal.
    fn module(&self, label: &Label, columns: usize) -> String {
        let stem = match label.kind {
            LabelKind::Task => label.module.as_str(),
            _ => name::module_stem(&label.module),
        };
        let text = safe_text::terminal(stem);
        self.fit(&text, columns).into_owned()
    }

    fn fit<'t>(&self, text: &'t str, columns: usize) -> Cow<'t, str> {
        if self.cut_names { safe_text::fit_middle(text, columns) } else { Cow::Borrowed(text) }
    }
}

const HEADING: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const NOTE: Style = AnsiColor::Yellow.on_default();

/// `text` filled up with spaces to `columns` columns.
fn padded(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(safe_text::width(text));
    format!("{text}{:missing$}", "")
}

/// Appends `line` without the spaces at its end.
fn push_line(out: &mut String, line: &str) {
    out.push_str(line.trim_end_matches(' '));
    out.push('\n');
}

/// The whole report.
///
/// # Errors
///
/// A usage failure for a bad pattern; a failure with status 3 when nothing matches `--peek`.
pub(crate) fn report(
    recording: &Recording,
    selection: &Selection<'_>,
    options: &ReportOptions,
    page: &Page,
) -> Result<String, Failure> {
    let view = options.view.of(&selection.shown);
    let totals = if selection.shown.waits.is_some() || view == &View::Threads {
        Totals::of(recording, &options.common)?
    } else {
        None
    };
    let mut out = header::header(recording, selection, totals.as_ref(), &options.common.filter, page);
    match view {
        View::Overview | View::Flat => flat::flat(&mut out, selection, options, page),
        View::Waits => waits::waits(&mut out, selection, options, page),
        View::Tree => tree::tree(&mut out, selection, options, Direction::TopDown, page),
        View::BottomUp => tree::tree(&mut out, selection, options, Direction::BottomUp, page),
        View::Peek(pattern) => peek::peek(&mut out, selection, pattern, options, page)?,
        View::Threads => match &totals {
            Some(totals) => {
                thread_times::thread_times(&mut out, recording, selection, totals, options, page)?;
            }
            None => threads::threads(&mut out, selection, options, page),
        },
    }
    if matches!(view, View::Overview | View::Flat | View::Waits)
        && let Some(hidden) = HiddenIdle::of(recording, selection, &options.common)
    {
        waits::hidden_idle(&hidden, page).iter().for_each(|line| push_line(&mut out, line));
    }
    out.push_str(&header::notes_block(recording, selection, &options.common, page));
    Ok(out)
}

/// Why rows are left out.
#[derive(Debug, Clone, Copy)]
enum CutBy {
    Number,
    Share,
}

impl CutBy {
    /// Of a table with `shown` rows and room for `most`.
    fn of(shown: usize, most: usize) -> Self {
        if shown < most { CutBy::Share } else { CutBy::Number }
    }
}

/// The line that stands for rows left out.
fn more_line(left_out: usize, noun: &str, share_percent: f64, cut: CutBy, page: &Page) -> String {
    let count = crate::base::units::counted(left_out as u64, noun).replacen(' ', " more ", 1);
    let share = crate::base::units::percent_text(share_percent);
    let limit = match cut {
        CutBy::Number => "-n 0",
        CutBy::Share => "--min-pct 0",
    };
    page.styled(FAINT, &format!("  ... {count}, {share} ({limit} shows all)"))
}
