//! A change in words: what something cost in the base and on the new side, and how sure that is.

use super::line::fitting;
use super::theme::Theme;
use crate::diff::{Difference, RowValue, Tone, ValueStyle, change_words, interval_words};
use crate::report::LabelId;
use crate::tui::compute::boxes::BoxChange;
use crate::tui::compute::change::{Change, ThreadsOf};
use crate::tui::compute::picture::Picture;

/// A change as a cell of a table: `v -89%`.
pub(crate) fn cell(difference: &Difference) -> String {
    let (mark, words) = change_words(difference);
    format!("{mark} {words:>6}")
}

/// The same in a line of text: `v -89%`.
pub(crate) fn in_words(difference: &Difference) -> String {
    let (mark, words) = change_words(difference);
    format!("{mark} {words}").trim_start().to_owned()
}

/// Returns the tone of a change in text.
pub(crate) fn tone(difference: &Difference) -> Tone {
    let Difference { base, new, .. } = *difference;
    let new = difference.ratio().map_or(new, |ratio| base * ratio);
    Tone::of(base, new, difference.outcome.is_real())
}

/// Text after the name in a box: how much the box itself has changed, if the change is not noise.
pub(crate) fn in_box(change: Option<BoxChange<'_>>, tone: Tone) -> String {
    let Some([base, new]) = change.map(|change| change.costs_to_name()) else { return String::new() };
    match tone {
        Tone::Noise => String::new(),
        Tone::New => " new".to_owned(),
        _ if new <= 0.0 => " gone".to_owned(),
        _ => format!(" {:+.0}%", (new / base - 1.0) * 100.0),
    }
}

/// `v -89% (95%: -92 .. -85%)`.
fn sure(difference: &Difference) -> String {
    let interval = interval_words(difference);
    let interval = if interval.is_empty() { interval } else { format!(" (95%: {interval})") };
    in_words(difference) + &interval
}

fn both(style: &ValueStyle, [base, new]: [f64; 2]) -> String {
    format!("base {}, new {}", style.cell(base), style.cell(new))
}

fn parts(theme: &Theme, parts: Vec<(u8, String)>, columns: usize) -> String {
    theme.fit(&fitting(&parts, "   ", columns), columns)
}

/// The change of everything.
pub(crate) fn of_all(change: &Change, theme: &Theme, columns: usize) -> String {
    let (total, style) = (&change.functions.total, ValueStyle::of(&change.functions));
    let what = crate::diff::words(&change.functions);
    let values = both(&style, [total.base, total.new]);
    parts(theme, vec![(0, values), (0, sure(total)), (1, style.delta(total.delta())), (2, what)], columns)
}

/// Why one of several threads of a name has no change.
const NAMESAKES: &str = "not compared: several threads have its name (T puts them together)";
/// Why one of several processes of a name has none.
const NAMESAKES_OF_PROCESS: &str = "not compared: several processes have its name";

/// The change of a box, and that of its function everywhere.
pub(crate) fn of_box(
    picture: &Picture,
    change: &Change,
    label: LabelId,
    here: Option<BoxChange<'_>>,
    theme: &Theme,
    columns: usize,
) -> String {
    let style = ValueStyle::of(&change.functions);
    let kind = picture.labels.get(label).kind;
    let everywhere = change.of_label(label, kind, RowValue::Total);
    let everywhere =
        everywhere.map_or_else(String::new, |difference| format!("everywhere {}", sure(difference)));
    let Some(here) = here else {
        return parts(theme, vec![(0, NAMESAKES.to_owned()), (1, everywhere)], columns);
    };
    let [values, delta, words] = of_part(&style, here);
    parts(theme, vec![(2, format!("here {values}")), (0, delta), (0, words), (1, everywhere)], columns)
}

/// Texts on a part of the samples: the cost on both sides, the difference, and how sure the difference is.
fn of_part(style: &ValueStyle, part: BoxChange<'_>) -> [String; 3] {
    let [base, new] = part.costs;
    let words = if is_small(part) {
        "too small to be tested".to_owned()
    } else {
        part.tested.map_or_else(String::new, sure)
    };
    [both(style, [base, new]), style.delta(new - base), words]
}

/// Whether a part is too small to be tested, rather than of unknown spread.
fn is_small(part: BoxChange<'_>) -> bool {
    part.tested.is_none_or(|tested| !tested.is_tested() && tested.contrast.is_some())
}

/// The change of a part as a cell of a table.
pub(crate) fn cell_of_part(part: BoxChange<'_>) -> (String, Tone) {
    match part.tested.filter(|_| !is_small(part)) {
        Some(tested) => (cell(tested), tone(tested)),
        None => ("small".to_owned(), Tone::Noise),
    }
}

/// The change of a line of source.
pub(crate) fn of_line(change: &Change, line: BoxChange<'_>, theme: &Theme, columns: usize) -> String {
    let [values, delta, words] = of_part(&ValueStyle::of(&change.functions), line);
    parts(theme, vec![(1, format!("in this line {values}")), (0, delta), (0, words)], columns)
}

/// The change of a function, by what ends in it and by all with it on the stack.
pub(crate) fn of_function(
    picture: &Picture,
    change: &Change,
    label: LabelId,
    theme: &Theme,
    columns: usize,
) -> String {
    let kind = picture.labels.get(label).kind;
    let of = |value| change.of_label(label, kind, value);
    of_values(change, [of(RowValue::Own), of(RowValue::Total)], theme, columns)
}

/// The same of a function's self and total values.
pub(crate) fn of_values(
    change: &Change,
    [own, total]: [Option<&Difference>; 2],
    theme: &Theme,
    columns: usize,
) -> String {
    let style = ValueStyle::of(&change.functions);
    let words = |name: &str, difference: Option<&Difference>| {
        difference.map_or_else(String::new, |difference| {
            let values = both(&style, [difference.base, difference.new]);
            format!("{name} {values} {}", sure(difference))
        })
    };
    parts(theme, vec![(0, words("self", own)), (1, words("total", total))], columns)
}

fn why_without_change(change: &Change, row: ThreadsOf<'_>) -> &'static str {
    match (change.has_namesakes(row), row.is_process) {
        (true, true) => NAMESAKES_OF_PROCESS,
        (true, false) => NAMESAKES,
        (false, _) => "no samples on either side",
    }
}

/// The change of the threads in a row.
pub(crate) fn of_threads(change: &Change, row: ThreadsOf<'_>, theme: &Theme, columns: usize) -> String {
    let style = ValueStyle::of(&change.functions);
    let title = change.functions.measure.event.title.clone();
    let words = change.of_threads(row).map_or_else(
        || why_without_change(change, row).to_owned(),
        |difference| format!("{} {}", both(&style, [difference.base, difference.new]), sure(difference)),
    );
    parts(theme, vec![(0, title), (0, words)], columns)
}
