//! The change of one value in words, as tables and screens show it.

use crate::diff::difference::{DiffOutcome, Difference};
use crate::diff::gate::verdicts::change;
use crate::report::FAINT;
use anstyle::{AnsiColor, Style};

const GREW: Style = AnsiColor::Red.on_default();
const SHRANK: Style = AnsiColor::Blue.on_default();
const NEW: Style = AnsiColor::Magenta.on_default();

/// The change and its mark: `v` and `-89%`, `^` and `new`, `~` and `noise`.
pub(crate) fn change_words(difference: &Difference) -> (char, String) {
    let arrow = if difference.delta() < 0.0 { 'v' } else { '^' };
    match (difference.outcome, difference.ratio()) {
        (DiffOutcome::Changed, ratio) => (arrow, ratio.map_or_else(String::new, brief)),
        (DiffOutcome::New, _) => (arrow, "new".to_owned()),
        (DiffOutcome::Gone, _) => (arrow, "gone".to_owned()),
        (DiffOutcome::Noise, _) => ('~', "noise".to_owned()),
        (DiffOutcome::Untested, Some(ratio)) if difference.contrast.is_none() => (' ', brief(ratio)),
        (DiffOutcome::Untested, _) => (' ', "small".to_owned()),
    }
}

/// The style of a change with such an outcome and mark.
pub(crate) fn change_color(outcome: DiffOutcome, mark: char) -> Style {
    match (outcome, mark) {
        (DiffOutcome::New, _) => NEW,
        (DiffOutcome::Noise | DiffOutcome::Untested, _) => FAINT,
        (_, 'v') => SHRANK,
        _ => GREW,
    }
}

/// The 95 % confidence interval of the change, `-92 .. -85%`; empty where it was not tested.
pub(crate) fn interval_words(difference: &Difference) -> String {
    let tested =
        difference.contrast.filter(|_| difference.p_adjusted.is_some() && difference.ratio().is_some());
    tested.map_or_else(String::new, |contrast| {
        let [low, high] = contrast.interval().map(brief);
        format!("{} .. {high}", low.trim_end_matches('%'))
    })
}

/// The probability of such a change by chance, `<.001`; empty where it was not tested.
pub(crate) fn chance_words(difference: &Difference) -> String {
    difference.p_adjusted.map_or_else(String::new, |p| match p {
        p if p < 0.001 => "<.001".to_owned(),
        p => format!("{p:.3}").trim_start_matches('0').to_owned(),
    })
}

/// A change in few columns: `-89%`, `+4.2%`.
fn brief(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() < 9.95 || percent >= 999.5 { change(ratio) } else { format!("{percent:+.0}%") }
}
