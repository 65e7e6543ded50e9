//! The filters in force on the line between a view and its details: each can be taken off by a click.

use super::theme::Theme;
use crate::base::safe_text;
use crate::report::{FilterPart, filter_parts};
use crate::tui::app::diff_base::{DiffBase, range_words};
use crate::tui::app::query::Query;
use std::ops::Range;

/// Columns of the rule in front of the first chip.
const START: usize = 2;
/// Most columns of the words of a chip.
const WORDS: usize = 32;

/// What a chip stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChipOf {
    /// A filter.
    Filter(FilterPart),
    /// The base of a comparison.
    Base,
}

/// A filter or the base of a comparison, with its place on the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chip {
    /// What it stands for.
    pub(crate) of: ChipOf,
    /// `[focus parse x]`, safe.
    pub(crate) text: String,
    /// The columns that it takes.
    pub(crate) columns: Range<usize>,
}

/// The base and the filters of `query` that fit into `columns`, always in the same order; the row of tabs counts all
/// filters.
pub(crate) fn chips(query: &Query, columns: usize, theme: &Theme) -> Vec<Chip> {
    let base = query.base.as_ref().map(|base| {
        let side = if query.shows_base { "shown: base" } else { "base" };
        (ChipOf::Base, format!("{side} {}", base.words()))
    });
    let filters = filter_parts(&query.common.filter).into_iter().map(|(part, words)| {
        if part == FilterPart::Time {
            return (ChipOf::Filter(part), format!("time {}", range_words(query.common.filter.time)));
        }
        let words = words.trim_start_matches("--");
        let inner = words.strip_prefix('(').and_then(|words| words.strip_suffix(')'));
        (ChipOf::Filter(part), inner.unwrap_or(words).to_owned())
    });
    let mut at = START;
    let mut chips = Vec::new();
    for (of, words) in base.into_iter().chain(filters) {
        let words = theme.fit(&safe_text::terminal(&words), WORDS);
        let is_fixed = of == ChipOf::Base && matches!(query.base, Some(DiffBase::Recording(..)));
        let text = if is_fixed { format!("[{words}]") } else { format!("[{words} {}]", theme.glyphs.times) };
        let end = at + safe_text::width(&text);
        if end >= columns {
            break;
        }
        chips.push(Chip { of, text, columns: at..end });
        at = end + 1;
    }
    chips
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CommonOptions, FilterOptions, ThreadFilter, TimeRange};

    #[test]
    fn filters_are_chips_as_long_as_they_fit() {
        let theme = Theme::plain(true);
        let options = FilterOptions {
            focus: Some("parse".into()),
            threads: vec![ThreadFilter::named("worker")],
            ..FilterOptions::default()
        };
        let query = |filter| Query::new(CommonOptions { filter, ..CommonOptions::default() });
        let options = query(options);
        let texts = |columns| -> Vec<String> {
            chips(&options, columns, &theme).into_iter().map(|chip| chip.text).collect()
        };
        assert_eq!(texts(80), ["[focus parse x]", "[thread worker x]"]);
        assert_eq!(texts(30), ["[focus parse x]"]);
        let chips = chips(&options, 80, &theme);
        assert_eq!((chips[0].columns.clone(), chips[1].columns.clone()), (2..17, 18..35));
        assert!(super::chips(&query(FilterOptions::default()), 80, &theme).is_empty());
        // The command line would have all digits.
        let time = TimeRange { from_ns: Some(1_982_249_590), to_ns: Some(4_100_000_001) };
        let of_time = super::chips(&query(FilterOptions { time, ..FilterOptions::default() }), 80, &theme);
        assert_eq!(of_time[0].text, "[time 2.0-4.1 s x]");
    }
}
