//! The filters in force on the line between a view and its details: each can be taken off by a click.

use super::theme::Theme;
use crate::base::safe_text;
use crate::report::{FilterOptions, FilterPart, filter_parts};
use std::ops::Range;

/// Columns of the rule in front of the first chip.
const START: usize = 2;
/// Most columns of the words of a chip.
const WORDS: usize = 32;

/// A filter with its place on the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chip {
    /// The filter.
    pub(crate) part: FilterPart,
    /// `[focus parse x]`, safe.
    pub(crate) text: String,
    /// The columns that it takes.
    pub(crate) columns: Range<usize>,
}

/// The filters of `options` that fit into `columns`, always in the same order; the row of tabs
/// counts all.
pub(crate) fn chips(options: &FilterOptions, columns: usize, theme: &Theme) -> Vec<Chip> {
    let mut at = START;
    let mut chips = Vec::new();
    for (part, words) in filter_parts(options) {
        let words = words.trim_start_matches("--");
        let words = words.strip_prefix('(').and_then(|words| words.strip_suffix(')')).unwrap_or(words);
        let text = format!("[{} {}]", theme.fit(&safe_text::terminal(words), WORDS), theme.glyphs.times);
        let end = at + safe_text::width(&text);
        if end >= columns {
            break;
        }
        chips.push(Chip { part, text, columns: at..end });
        at = end + 1;
    }
    chips
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ThreadFilter;

    #[test]
    fn filters_are_chips_as_long_as_they_fit() {
        let theme = Theme::plain(true);
        let options = FilterOptions {
            focus: Some("parse".into()),
            threads: vec![ThreadFilter::named("worker")],
            ..FilterOptions::default()
        };
        let texts = |columns| -> Vec<String> {
            chips(&options, columns, &theme).into_iter().map(|chip| chip.text).collect()
        };
        assert_eq!(texts(80), ["[focus parse x]", "[thread worker x]"]);
        assert_eq!(texts(30), ["[focus parse x]"]);
        let chips = chips(&options, 80, &theme);
        assert_eq!((chips[0].columns.clone(), chips[1].columns.clone()), (2..17, 18..35));
        assert!(super::chips(&FilterOptions::default(), 80, &theme).is_empty());
    }
}
