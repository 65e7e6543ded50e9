//! The page that text is laid out for: its width, its colours, how names are written, and the lines that all views have.

use crate::base::fit::fit_name;
use crate::base::safe_text;
use crate::report::model::label::Label;
use crate::report::model::label_kind::LabelKind;
use crate::report::naming::name;
use crate::report::naming::style::NameStyle;
use anstyle::{AnsiColor, Style};
use std::borrow::Cow;

/// The page that text is laid out for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Width, in columns.
    pub(crate) width: usize,
    /// Whether names are cut to keep lines within the width: on a terminal. Elsewhere whole names
    /// matter more than the width.
    pub(crate) cut_names: bool,
    /// Whether colour is used.
    pub(crate) color: bool,
    /// How names are written.
    pub(crate) names: NameStyle,
    /// Whether only ASCII can be written: what is wider without other characters has its width from the start.
    pub(crate) is_ascii: bool,
}

impl Page {
    /// Page for a file or another program.
    pub const PLAIN: Page =
        Page { width: 80, cut_names: false, color: false, names: NameStyle::Full, is_ascii: false };

    /// From this width on there is room for three more columns.
    const WIDE: usize = 120;

    /// Below this width, columns that say less are left out.
    const NARROW: usize = 60;

    pub(crate) fn is_wide(&self) -> bool {
        self.width >= Self::WIDE
    }

    /// Whether there is room for a name and two or three numbers only: on a small terminal.
    pub(crate) fn is_narrow(&self) -> bool {
        self.cut_names && self.width < Self::NARROW
    }

    /// `text` in `style`, if colour is used. `text` must be safe.
    pub(crate) fn styled(&self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// A foreign text, safe, in characters that can be written.
    pub(crate) fn safe<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.written(safe_text::terminal(text))
    }

    /// A message that may quote foreign names, likewise; it is not cut.
    pub(crate) fn message<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.written(safe_text::message(text))
    }

    /// `text`, which must be safe, in characters that can be written.
    pub(crate) fn written<'t>(&self, text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
        let text = text.into();
        if self.is_ascii && !text.is_ascii() { Cow::Owned(safe_text::in_ascii(&text)) } else { text }
    }

    /// The name of `label`, safe, cut to `columns` on a terminal.
    pub(crate) fn name(&self, label: &Label, columns: usize) -> String {
        let text = label.text(self.names);
        self.fit_name(&self.safe(&text), columns).into_owned()
    }

    /// The name of a function, which must be safe, cut to `columns` on a terminal.
    pub(crate) fn fit_name<'t>(&self, text: &'t str, columns: usize) -> Cow<'t, str> {
        if self.cut_names { fit_name(text, columns) } else { Cow::Borrowed(text) }
    }

    /// The module of `label` for a column, safe, cut to `columns` on a terminal.
    pub(crate) fn module(&self, label: &Label, columns: usize) -> String {
        let stem = match label.kind {
            LabelKind::Task => label.module.as_str(),
            _ => name::module_stem(&label.module),
        };
        let text = self.safe(stem);
        self.fit(&text, columns).into_owned()
    }

    pub(crate) fn fit<'t>(&self, text: &'t str, columns: usize) -> Cow<'t, str> {
        if self.cut_names { safe_text::fit_middle(text, columns) } else { Cow::Borrowed(text) }
    }
}

pub(crate) const HEADING: Style = Style::new().bold();

pub(crate) const FAINT: Style = Style::new().dimmed();

pub(crate) const NOTE: Style = AnsiColor::Yellow.on_default();

/// `text` filled up with spaces to `columns` columns.
pub(crate) fn padded(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(safe_text::width(text));
    format!("{text}{:missing$}", "")
}

/// Appends `line` without the spaces at its end.
pub(crate) fn push_line(out: &mut String, line: &str) {
    out.push_str(line.trim_end_matches(' '));
    out.push('\n');
}

/// Why rows are left out.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CutBy {
    Number,
    Share,
}

impl CutBy {
    /// Of a table with `shown` rows and room for `most`.
    pub(crate) fn of(shown: usize, most: usize) -> Self {
        if shown < most { CutBy::Share } else { CutBy::Number }
    }
}

/// The line in place of rows left out.
pub(crate) fn more_line(left_out: usize, noun: &str, share_percent: f64, cut: CutBy, page: &Page) -> String {
    let count = crate::base::units::counted(left_out as u64, noun).replacen(' ', " more ", 1);
    let share = crate::base::units::percent_text(share_percent);
    let limit = match cut {
        CutBy::Number => "-n 0",
        CutBy::Share => "--min-pct 0",
    };
    let all = if page.is_narrow() { "" } else { " shows all" };
    page.styled(FAINT, &format!("  ... {count}, {share} ({limit}{all})"))
}
