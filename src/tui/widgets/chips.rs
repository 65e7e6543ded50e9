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

/// Meaning of a chip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChipOf {
    /// A filter.
    Filter(FilterPart),
    /// The base of a comparison.
    Base,
    /// Chips for which there is no room, in words. Foreign text.
    Others(Vec<String>),
}

/// A filter or the base of a comparison, with its place on the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chip {
    /// Meaning of the chip.
    pub(crate) of: ChipOf,
    /// `[focus parse x]`, safe.
    pub(crate) text: String,
    /// The columns that it takes.
    pub(crate) columns: Range<usize>,
}

/// The base and the filters of `query` that fit into `columns`, always in the same order, and after them how many others
/// there are.
pub(crate) fn chips(query: &Query, columns: usize, theme: &Theme) -> Vec<Chip> {
    let mut all = texts(query, theme);
    let others = |count: usize| format!("[+{count} more]");
    let width = |(_, _, text): &(ChipOf, String, String)| safe_text::width(text);
    // Each is followed by a column of the rule.
    let end_of = |count: usize| START + all[..count].iter().map(|chip| width(chip) + 1).sum::<usize>();
    let fits = |count: &usize| match all.len() - count {
        0 => end_of(*count) <= columns,
        left => end_of(*count) + others(left).len() < columns,
    };
    let shown = (0..=all.len()).rev().find(fits).unwrap_or(0);
    let hidden: Vec<String> = all.split_off(shown).into_iter().map(|(_, words, _)| words).collect();
    let mut texts: Vec<(ChipOf, String)> = all.into_iter().map(|(of, _, text)| (of, text)).collect();
    if !hidden.is_empty() {
        let text = others(hidden.len());
        texts.push((ChipOf::Others(hidden), text));
    }
    let mut at = START;
    let place = |(of, text): (ChipOf, String)| {
        let columns = at..at + safe_text::width(&text);
        at = columns.end + 1;
        Chip { of, text, columns }
    };
    texts.into_iter().map(place).collect()
}

/// The base and the filters of `query`, each in words, which are foreign text, and as a chip.
fn texts(query: &Query, theme: &Theme) -> Vec<(ChipOf, String, String)> {
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
        // A search for small letters finds large ones, too; the pattern says so in a way that the user has not typed.
        (ChipOf::Filter(part), inner.unwrap_or(words).replacen(" match of (?i)", " match of ", 1))
    });
    let text = |(of, words): (ChipOf, String)| {
        let short = theme.fit(&safe_text::terminal(&words), WORDS);
        let is_fixed = of == ChipOf::Base && matches!(query.base, Some(DiffBase::Recording(..)));
        let text = if is_fixed { format!("[{short}]") } else { format!("[{short} {}]", theme.glyphs.times) };
        (of, words, text)
    };
    base.into_iter().chain(filters).map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CommonOptions, FilterOptions, ThreadFilter, TimeRange};

    #[test]
    fn filters_are_chips_as_far_as_they_fit_and_the_others_are_counted() {
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
        // Those for which there is no room are counted, and named when that is clicked.
        assert_eq!(texts(30), ["[focus parse x]", "[+1 more]"]);
        assert_eq!(texts(36), ["[focus parse x]", "[thread worker x]"]);
        assert_eq!(texts(35), ["[focus parse x]", "[+1 more]"]);
        assert_eq!(texts(20), ["[+2 more]"]);
        let hidden = ["focus parse", "thread worker"].map(str::to_owned).to_vec();
        assert_eq!(super::chips(&options, 20, &theme)[0].of, ChipOf::Others(hidden));
        let chips = chips(&options, 80, &theme);
        assert_eq!((chips[0].columns.clone(), chips[1].columns.clone()), (2..17, 18..35));
        assert!(super::chips(&query(FilterOptions::default()), 80, &theme).is_empty());
        // The command line would have all digits.
        let time = TimeRange { from_ns: Some(1_982_249_590), to_ns: Some(4_100_000_001) };
        let of_time = super::chips(&query(FilterOptions { time, ..FilterOptions::default() }), 80, &theme);
        assert_eq!(of_time[0].text, "[time 2.0-4.1 s x]");
    }
}
