//! The lines above and below every report: what was recorded, how far to trust it, what would mend it.

use super::{FAINT, NOTE, Page, push_line};
use crate::profile::Unit;
use crate::report::options::FilterOptions;
use crate::report::selection::Selection;
use crate::report::{Recording, advice, filter};
use crate::safe_text;
use crate::units::{count, counted, duration, honest_percent_text, percent, weight};

/// The name of an event for people.
pub(in crate::report) fn event_title(name: &str) -> String {
    match name {
        "on-cpu" => "on-CPU".to_owned(),
        "off-cpu" => "off-CPU".to_owned(),
        other => safe_text::terminal(other).into_owned(),
    }
}

/// The lines above a report, with an empty line at the end.
pub(in crate::report) fn header(
    recording: &Recording,
    selection: &Selection<'_>,
    filters: &FilterOptions,
    page: &Page,
) -> String {
    let mut out = String::new();
    push_joined(&mut out, &target_line(recording, selection), page.width);
    push_joined(&mut out, &quality_line(recording, selection), page.width);
    if let Some(words) = filter::description(filters) {
        let total = selection.total;
        let whole = selection.whole;
        let line = format!(
            "filter {}  {} of {}, {}",
            safe_text::terminal(&words),
            count(total.samples),
            counted(whole.samples, "sample"),
            honest_percent_text(percent(total.weight, whole.weight))
        );
        push_line(&mut out, &line);
    }
    out.push('\n');
    out
}

fn target_line(recording: &Recording, selection: &Selection<'_>) -> Vec<String> {
    let meta = &recording.profile.meta;
    let info = selection.event.info();
    let whole = selection.whole;
    let mut length = duration(recording.profile.duration_ns());
    if meta.effective_hz > 0 {
        length.push_str(&format!(" at {} Hz", count(meta.effective_hz.into())));
    }
    if meta.requested_hz > meta.effective_hz && meta.effective_hz > 0 {
        length.push_str(&format!(" ({} Hz asked for)", count(meta.requested_hz.into())));
    }
    let sum = weight(info.unit, whole.weight, whole.weight);
    let what = if info.unit == Unit::Nanoseconds && info.name == "on-cpu" { " CPU" } else { "" };
    let target = if meta.target.is_empty() { "unknown target" } else { &meta.target };
    vec![
        safe_text::terminal(target).into_owned(),
        event_title(&info.name),
        length,
        format!("{} = {sum}{what}", counted(whole.samples, "sample")),
    ]
}

fn quality_line(recording: &Recording, selection: &Selection<'_>) -> Vec<String> {
    let quality = &selection.quality;
    let mut parts = vec![format!("stacks {} complete", honest_percent_text(quality.complete_percent()))];
    if quality.frames > 0 {
        parts.push(format!("symbols {}", honest_percent_text(100.0 - quality.unnamed_percent())));
    }
    parts.push(format!("lost {}", count(quality.lost)));
    if let Some(end) = &recording.profile.end
        && selection.event.info().unit == Unit::Nanoseconds
        && selection.whole.weight > 0
    {
        let cost = percent(end.cpu_ns.saturating_add(end.bpf_ns), selection.whole.weight);
        parts.push(format!("prof cost {}", honest_percent_text(cost)));
    }
    parts
}

/// Appends `parts` in as few lines as the width allows.
fn push_joined(out: &mut String, parts: &[String], width: usize) {
    let mut line = String::new();
    for part in parts {
        let needed = safe_text::width(&line) + 2 + safe_text::width(part);
        if !line.is_empty() && needed > width {
            push_line(out, &line);
            line.clear();
        }
        if !line.is_empty() {
            line.push_str("  ");
        }
        line.push_str(part);
    }
    push_line(out, &line);
}

/// The notes below a report, wrapped to the page.
pub(in crate::report) fn notes_block(
    recording: &Recording,
    selection: &Selection<'_>,
    page: &Page,
) -> String {
    let mut out = String::new();
    for note in advice::notes(&recording.profile, &recording.integrity, &selection.quality) {
        let note = safe_text::message(&note);
        for (index, line) in wrapped(&note, page.width.saturating_sub(6).max(20)).iter().enumerate() {
            let start = if index == 0 { page.styled(NOTE, "NOTE") } else { "    ".to_owned() };
            push_line(&mut out, &format!("{start}  {line}"));
        }
    }
    if selection.total.samples > 0 && selection.total.samples < FEW_SAMPLES {
        let line = format!(
            "NOTE  {}: shares are rough (see the ± column)",
            counted(selection.total.samples, "sample")
        );
        push_line(&mut out, &page.styled(FAINT, &line));
    }
    out
}

/// With fewer samples a share of one half is known to no better than ±10 points.
const FEW_SAMPLES: u64 = 100;

/// `text` in lines of at most `width` columns, broken at spaces.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && safe_text::width(line) + 1 + safe_text::width(word) > width {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}
