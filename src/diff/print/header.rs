//! The header of a comparison: what is compared, the total, and what would have been detected.

use super::values::{ValueStyle, words};
use crate::base::safe_text;
use crate::base::units::{count, counted, duration};
use crate::diff::comparison::Comparison;
use crate::diff::difference::DiffOutcome;
use crate::diff::gate::verdicts::{change, part};
use crate::diff::options::DiffOptions;
use crate::diff::per::Per;
use crate::diff::side::{DiffSide, RowValue};
use crate::report::{NOTE, Page, module_file, push_line};

/// Most columns of a file name in the header.
const NAME_COLUMNS: usize = 30;

/// Appends the header, followed by an empty line.
pub(super) fn header(
    out: &mut String,
    comparison: &Comparison,
    value: RowValue,
    options: &DiffOptions,
    page: &Page,
) {
    let style = ValueStyle::of(comparison);
    let side = |name: &str, side: usize, mean: f64| {
        format!("{name} {} {}", side_name(&comparison.sides[side], page), style.value(mean))
    };
    let parts = [
        side("base", 0, comparison.total.base),
        side("new", 1, comparison.total.new),
        format!("({}, {})", words(comparison), lengths(comparison)),
    ];
    push_parts(out, "diff", &parts, page);
    let clock_spans = clock_spans(comparison);
    if !clock_spans.is_empty() {
        push_parts(out, "when", &clock_spans, page);
    }
    push_parts(out, "total", &total(comparison, &style, value), page);
    let found = found(comparison, value);
    if !found.is_empty() {
        // 19 of 20 is the power of the test.
        let text = format!("growth of {} (19 of 20 times)", found.join(", "));
        for (at, line) in safe_text::wrapped(&text, page.width.saturating_sub(7).max(20)).iter().enumerate() {
            push_line(out, &format!("{:<5}  {line}", if at == 0 { "finds" } else { "" }));
        }
    }
    if let Some(words) = crate::report::filters_in_words(&options.common.filter) {
        push_parts(out, "filter", &[page.safe(&words).into_owned()], page);
    }
    for note in notes(comparison, options.per.is_none()) {
        for (at, line) in safe_text::wrapped(&note, page.width.saturating_sub(6).max(20)).iter().enumerate() {
            let start = if at == 0 { page.styled(NOTE, "NOTE") } else { "    ".to_owned() };
            push_line(out, &format!("{start}  {line}"));
        }
    }
    out.push('\n');
}

/// Name of a side: its file, or its number of runs.
fn side_name(side: &DiffSide, page: &Page) -> String {
    match side.runs.as_slice() {
        [run] => safe_text::fit_tail(&page.safe(module_file(&run.facts.file)), NAME_COLUMNS).into_owned(),
        runs => counted(runs.len() as u64, "run"),
    }
}

/// From when to when the only run of each side is, if that is a part by the clock.
fn clock_spans(comparison: &Comparison) -> Vec<String> {
    let of_side = |(name, side): (&str, &DiffSide)| match side.runs.as_slice() {
        [run] => run.facts.clock_span.as_ref().map(|span| format!("{name} {span}")),
        _ => None,
    };
    ["base", "new"].into_iter().zip(&comparison.sides).filter_map(of_side).collect()
}

/// Lengths of the recordings, averaged per side.
fn lengths(comparison: &Comparison) -> String {
    let mean = |side: &DiffSide| {
        let sum: u128 = side.runs.iter().map(|run| u128::from(run.facts.duration_ns)).sum();
        duration(u64::try_from(sum / side.runs.len().max(1) as u128).unwrap_or(u64::MAX))
    };
    let [base, new] = [0, 1].map(|side: usize| mean(&comparison.sides[side]));
    if base == new { format!("{base} each") } else { format!("{base} and {new}") }
}

fn total(comparison: &Comparison, style: &ValueStyle, value: RowValue) -> Vec<String> {
    let total = &comparison.total;
    let mut parts = Vec::new();
    let delta = style.delta(total.delta());
    match (total.ratio(), total.contrast) {
        (Some(ratio), Some(contrast)) => {
            let [low, high] = contrast.interval().map(change);
            let [low, high] = [low.trim_end_matches('%'), high.trim_end_matches('%')];
            parts.push(format!("{delta}  {}  (95%: {low} .. {high})", change(ratio)));
            if total.outcome == DiffOutcome::Noise {
                parts.push("within noise".to_owned());
            }
        }
        (Some(_), None) if comparison.measure.per == Per::Share => parts.push("all of both".to_owned()),
        (Some(ratio), None) => parts.push(format!("{delta}  {}  (spread unknown)", change(ratio))),
        _ => parts.push(format!("{delta}  {}", total.outcome.key())),
    }
    let [changed, noise, small] = [
        comparison.count(value, DiffOutcome::is_real),
        comparison.count(value, |outcome| outcome == DiffOutcome::Noise),
        comparison.count(value, |outcome| outcome == DiffOutcome::Untested),
    ];
    parts.push(format!("{} changed, {} within noise", count(changed as u64), count(noise as u64)));
    if small > 0 {
        parts.push(format!("{} too small to test", count(small as u64)));
    }
    parts
}

/// The smallest growth that would have been detected: of the total, and of the largest and the smallest function that
/// was tested.
fn found(comparison: &Comparison, value: RowValue) -> Vec<String> {
    let mut found = Vec::new();
    let growth = |ratio: f64| part(ratio - 1.0);
    found.extend(comparison.total.least_found.map(|ratio| format!("{} of the total", growth(ratio))));
    let mut rows: Vec<(f64, f64, &str)> = (comparison.rows.iter())
        .filter_map(|row| {
            let name = comparison.label(row).key.name.as_str();
            row.value(value).ratio()?;
            Some((comparison.share(row, value), row.value(value).least_found?, name))
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.cmp(b.2)));
    let with_share = |(share, ratio, _): &(f64, f64, &str)| {
        format!("{} of a function of {}", growth(*ratio), part(*share))
    };
    found.extend(rows.first().map(with_share));
    found.extend(rows.last().filter(|_| rows.len() > 1).map(with_share));
    found
}

/// Notes on what limits the comparison; `is_default_per` if no one asked for what the values are divided by.
pub(crate) fn notes(comparison: &Comparison, is_default_per: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if comparison.is_within_run() {
        let designs: Vec<String> = (comparison.sides.iter())
            .filter_map(DiffSide::blocks)
            .map(|blocks| format!("{:.1}", blocks.design))
            .collect();
        let why = match designs.as_slice() {
            _ if comparison.measure.event.is_memory() => "the error of sampling".to_owned(),
            [] => "the recordings are too short to see their noise".to_owned(),
            designs => format!("design effect {}", designs.join(" and ")),
        };
        notes.push(format!(
            "within-run noise only ({why}): one recording a side says nothing of how runs differ; \
             prof bench -n 10 --base CMD --new CMD"
        ));
    }
    let rates =
        [0, 1].map(|side: usize| comparison.sides[side].runs.iter().map(|run| run.facts.rate_hz).max());
    if let [Some(base), Some(new)] = rates
        && base != new
        && base.min(new) > 0
    {
        notes.push(format!(
            "base at {} Hz and new at {} Hz are compared as time",
            count(base.into()),
            count(new.into())
        ));
    }
    if is_default_per && comparison.measure.per == Per::Second {
        notes.push(
            "per second, since the recordings differ in length; prof diff --per run compares sums".to_owned(),
        );
    }
    let runs = || comparison.sides.iter().flat_map(|side| &side.runs);
    let failed = runs().filter(|run| run.facts.failed_with.is_some()).count();
    if failed > 0 {
        let all = runs().count();
        notes.push(format!("{failed} of {all} commands failed: they may have done other work"));
    }
    let lost = runs().map(|run| run.facts.lost).fold(0, u64::saturating_add);
    if lost > 0 {
        notes.push(format!("{} lost: what was lost is missing in the sums", counted(lost, "sample")));
    }
    notes
}

/// Appends `word` and `parts` in as few lines as the width allows.
fn push_parts(out: &mut String, word: &str, parts: &[String], page: &Page) {
    let mut line = format!("{word:<5}");
    let mut has_part = false;
    for part in parts {
        let gap = if has_part { "   " } else { "  " };
        if has_part && safe_text::width(&line) + gap.len() + safe_text::width(part) > page.width {
            push_line(out, &line);
            line = " ".repeat(5);
            line.push_str("  ");
        } else {
            line.push_str(gap);
        }
        line.push_str(part);
        has_part = true;
    }
    push_line(out, &line);
}
