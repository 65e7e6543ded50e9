//! The lines above and below every report: what was recorded, how far to trust it, what would fix it.

use super::page::{FAINT, NOTE, Page, push_line};
use super::totals::{totals_text, whole_text};
use crate::base::safe_text;
use crate::base::safe_text::{wrapped, wrapped_note};
use crate::base::units::{count, counted, duration, honest_percent_text, percent, weight};
use crate::profile::{Profile, Unit};
use crate::report::analysis::Analysis;
use crate::report::model::ending;
use crate::report::model::metric::Metric;
use crate::report::model::quality::Quality;
use crate::report::model::totals::Totals;
use crate::report::options::{CommonOptions, FilterOptions, ReportView};
use crate::report::print::cost::cost_words;
use crate::report::query::filter_words;
use crate::report::query::selection::Selection;
use crate::report::recording::Recording;
use anstyle::Style;

/// The lines above a report, with an empty line at the end.
pub(in crate::report) fn header(
    recording: &Recording,
    selection: &Selection<'_>,
    totals: Option<&Totals>,
    filters: &FilterOptions,
    page: &Page,
) -> String {
    let mut out = String::new();
    push_joined(&mut out, &broken(target_line(recording, selection, totals, page), page), page);
    if let Some(part) = &recording.clock_part {
        wrapped(&page.message(&part.words()), page.width).iter().for_each(|line| push_line(&mut out, line));
    }
    if let Some(totals) = totals {
        let line = totals_text(totals, !filters.idle);
        wrapped(&line, page.width).iter().for_each(|line| push_line(&mut out, line));
    }
    push_joined(&mut out, &broken(quality_line(recording, selection, page), page), page);
    if let Some(words) = filter_words::description(filters) {
        let total = selection.total;
        let whole = selection.whole;
        let shown = &selection.shown;
        let all = counted(selection.count_of_whole(), &shown.noun);
        let part = count(selection.count());
        // Waits have lengths: a share of their time is none of their number.
        let (all, part) = match shown.noun.as_ref() {
            "sample" => (all, part),
            _ => {
                let text = |amount: u64| weight(shown.unit, amount, whole.weight);
                (format!("{} in {all}", text(whole.weight)), format!("{} in {part}", text(total.weight)))
            }
        };
        let base = if filters.relative { "these" } else { "all" };
        let line = format!(
            "of {all}: {} ({part}) after {}; percentages are of {base}",
            honest_percent_text(percent(total.weight, whole.weight)),
            page.message(&words),
        );
        wrapped(&line, page.width).iter().for_each(|line| push_line(&mut out, line));
    }
    out.push('\n');
    out
}

fn target_line(
    recording: &Recording,
    selection: &Selection<'_>,
    totals: Option<&Totals>,
    page: &Page,
) -> Vec<String> {
    let meta = &recording.profile.meta;
    let shown = &selection.shown;
    let duration_ns = recording.profile.duration_ns();
    let target = if meta.target.is_empty() { "unknown target" } else { &meta.target };
    let target = page.safe(target);
    let most = if page.cut_names { page.width } else { usize::MAX };
    let mut parts = vec![safe_text::fit_tail(&target, most).into_owned(), shown.title.to_string()];
    let mut length = match totals {
        Some(totals) if shown.waits.is_some() => {
            whole_text(totals, selection.thread_count(Some(totals)), duration_ns)
        }
        _ => recording.profile.known_duration_ns().map_or("length not known".to_owned(), duration),
    };
    let rate = shown.rate(meta);
    length.push_str(&rate);
    if rate.ends_with("Hz") && meta.requested_hz > meta.effective_hz {
        length.push_str(&format!(" ({} Hz asked for)", count(meta.requested_hz.into())));
    }
    parts.push(length);
    parts.extend(sums(selection));
    parts
}

/// How many samples and waits there are, and what they add up to.
fn sums(selection: &Selection<'_>) -> Option<String> {
    let shown = &selection.shown;
    let whole = selection.whole;
    match (shown.metric(), shown.waits) {
        (Metric::WALL, _) => None,
        (_, Some(_)) => {
            let waits = counted(selection.count_of_whole(), "wait");
            if whole.variance_us2 == 0 {
                return Some(waits);
            }
            Some(format!("{} of about {waits} kept, ± {}", count(whole.samples), duration(whole.error_ns())))
        }
        _ => {
            let sum = weight(shown.unit, whole.weight, whole.weight);
            let what = match shown.metric() {
                Metric::ON_CPU => " CPU".to_owned(),
                _ if shown.unit == Unit::Count => format!(" {}", shown.title),
                _ => String::new(),
            };
            Some(format!("{} = {sum}{what}", counted(whole.samples, &shown.noun)))
        }
    }
}

fn quality_line(recording: &Recording, selection: &Selection<'_>, page: &Page) -> Vec<String> {
    let quality = &selection.quality;
    let mut parts = vec![match quality.samples {
        0 => "no stacks".to_owned(),
        _ => format!("stacks {}", completeness(quality)),
    }];
    if quality.frames > 0 {
        parts.push(format!("symbols {}", honest_percent_text(100.0 - quality.unnamed_percent())));
    }
    parts.extend(recording.profile.interpreter_words());
    parts.push(lost_words(&recording.profile, quality));
    let ending = ending::words(&recording.profile).map(|words| page.safe(&words).into_owned());
    // Side by side, wherever that is.
    let last: Vec<String> = cost_words(recording).into_iter().chain(ending).collect();
    match page.width >= Page::PLAIN.width {
        true => parts.push(last.join("  ")),
        false => parts.extend(last),
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// `99.8 % complete`; of what was imported mostly `complete: not known`.
pub(in crate::report) fn completeness(quality: &Quality) -> String {
    quality.complete_percent().map_or("complete: not known".to_owned(), |complete| {
        format!("{} complete", honest_percent_text(complete))
    })
}

/// `lost 12`, unless no one has counted them.
pub(in crate::report) fn lost_words(profile: &Profile, quality: &Quality) -> String {
    if profile.losses_known() {
        format!("lost {}", count(quality.lost))
    } else {
        "lost: not known".to_owned()
    }
}

/// Appends `parts` in as few lines as the width allows.
pub(super) fn push_joined(out: &mut String, parts: &[String], page: &Page) {
    let mut line = String::new();
    for part in parts {
        let part = page.written(part);
        let needed = safe_text::width(&line) + 2 + safe_text::width(&part);
        if !line.is_empty() && needed > page.width {
            push_line(out, &line);
            line.clear();
        }
        if !line.is_empty() {
            line.push_str("  ");
        }
        line.push_str(&part);
    }
    push_line(out, &line);
}

/// `parts`, of which those that are wider than a narrow page are broken.
fn broken(parts: Vec<String>, page: &Page) -> Vec<String> {
    if !page.is_narrow() {
        return parts;
    }
    parts.into_iter().flat_map(|part| wrapped(&page.written(part), page.width)).collect()
}

/// The notes below a report, wrapped to the page.
pub(in crate::report) fn notes_block(
    recording: &Analysis,
    selection: &Selection<'_>,
    options: &CommonOptions,
    view: &ReportView,
    page: &Page,
) -> String {
    let mut out = String::from("\n");
    for note in recording.notes_for(selection, options, view) {
        push_note(&mut out, &page.message(&note), NOTE, page);
    }
    let samples = selection.total.samples;
    if selection.shown.waits.is_none() && samples > 0 && samples < FEW_SAMPLES {
        let note = format!("{}: shares are rough (see the ± column)", counted(samples, "sample"));
        push_note(&mut out, &note, FAINT, page);
    }
    if out.len() > 1 { out } else { String::new() }
}

/// Appends a note, which must be safe, with its first word in `style`.
fn push_note(out: &mut String, note: &str, style: Style, page: &Page) {
    let width = page.width.saturating_sub(6).max(20);
    for (index, line) in wrapped_note(&page.written(note), width).iter().enumerate() {
        let start = if index == 0 { page.styled(style, "NOTE") } else { "    ".to_owned() };
        push_line(out, &format!("{start}  {line}"));
    }
}

/// With fewer samples a share of one half is known to no better than ±10 points.
const FEW_SAMPLES: u64 = 100;
