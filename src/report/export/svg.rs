//! A flame graph as one SVG file that needs nothing else: inferno draws our folded stacks.
//!
//! inferno prints weights as whole numbers. It gets nanoseconds; the tool tips that it wrote are turned
//! into durations afterwards. The document type line, which names an address in the net that no
//! browser needs, is taken out.

use super::exporter::{Exporter, Rendered};
use super::palette::palette;
use super::text_tree::{Order, TextTree};
use crate::base::failure::{Failure, status};
use crate::base::{safe_text, units};
use crate::profile::Unit;
use crate::report::model::metric::Metric;
use crate::report::naming::style::NameStyle;
use crate::report::options::ExportOptions;
use crate::report::print::info::date_text;
use crate::report::query::selection::Selection;
use crate::report::recording::Recording;
use anyhow::Context;
use inferno::flamegraph::color::{BackgroundColor, Color};
use inferno::flamegraph::{Direction, Options, TextTruncateDirection};

/// Columns of the subtitle; a command can be long.
const SUBTITLE_COLUMNS: usize = 150;

/// Narrower boxes are not drawn, % of the width.
const LEAST_PERCENT: f64 = 0.01;

/// Most bytes of lines that are drawn: so much memory, and a picture that a browser can show.
const MOST_BYTES: u64 = 32 << 20;

/// Most boxes that are drawn: a picture of some 20 MB.
const MOST_BOXES: usize = 60_000;

/// Largest sum of weights that is drawn; as nanoseconds, 146 years.
const MOST_WEIGHT: u64 = u64::MAX / 4;

/// The format.
#[derive(Debug)]
pub(super) struct Svg;

impl Exporter for Svg {
    fn name(&self) -> &'static str {
        "svg"
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".svg"]
    }

    fn key(&self) -> (char, &'static str) {
        ('s', "SVG")
    }

    fn render(
        &self,
        recording: &Recording,
        selection: &Selection<'_>,
        options: &ExportOptions,
    ) -> anyhow::Result<Box<dyn Rendered>> {
        Ok(Box::new(svg(recording, selection, options)?))
    }
}

/// Draws `selection`.
///
/// # Errors
///
/// Status 3 when the samples carry no weight; a failure when they carry more than can be real.
fn svg(recording: &Recording, selection: &Selection<'_>, options: &ExportOptions) -> anyhow::Result<Vec<u8>> {
    if selection.total.weight == 0 {
        return Err(Failure::new(status::NO_MATCH, "the samples that match carry no weight").into());
    }
    // inferno adds without looking at the limit of its numbers.
    if selection.total.weight > MOST_WEIGHT {
        return Err(Failure::new(status::FAILED, "the weights in the file are too large to be real").into());
    }
    let names = options.common.names.unwrap_or(NameStyle::Short);
    let mut tree = TextTree::new(selection, names);
    let least_percent = options.min_percent.unwrap_or(LEAST_PERCENT);
    let whole = if options.count { selection.total.count() } else { selection.total.weight };
    let least = whole as f64 * least_percent / 100.0;
    tree.without_less_than(least, options.count);
    let raised = tree.least_of_largest(MOST_BOXES, options.count).filter(|raised| *raised as f64 > least);
    if let Some(least) = raised {
        tree.without_less_than(least as f64, options.count);
    }
    let least_percent = raised.map_or(least_percent, |least| units::percent(least, whole));
    let cut = Cut { depth: cut_to_fit(&mut tree), least_percent: raised.map(|_| least_percent) };
    let mut palette = palette(selection, names);
    let unit = selection.shown.unit;
    let mut drawing = Options::default();
    drawing.title = xml_line(options.title.as_deref().unwrap_or(&title(recording, selection, options, &cut)));
    drawing.subtitle = subtitle(recording, options).map(|line| xml_line(&line));
    drawing.direction = if options.icicle { Direction::Inverted } else { Direction::Straight };
    // The start of a name tells more than its arguments.
    drawing.text_truncate_direction = TextTruncateDirection::Right;
    drawing.min_width = least_percent;
    drawing.count_name = count_name(selection, options.count);
    drawing.palette_map = Some(&mut palette);
    drawing.bgcolors = Some(BackgroundColor::Flat(Color { r: 255, g: 255, b: 255 }));
    drawing.deterministic = true;
    // The lines come frame by frame in order. Sorted as text, a name that goes on with a space after
    // another's end would come between that one's stacks and split its box. A "flame chart" is what
    // inferno calls lines drawn in the order given, last one first.
    drawing.flame_chart = true;
    let mut lines = Vec::new();
    tree.lines(Order::Frames, options.count, |stack, value| {
        lines.push(format!("{stack} {value}"));
        anyhow::Ok(())
    })?;
    let mut drawn = Vec::new();
    inferno::flamegraph::from_lines(&mut drawing, lines.iter().rev().map(String::as_str), &mut drawn)
        .context("cannot draw the flame graph")?;
    let drawn = String::from_utf8(drawn).context("cannot draw the flame graph")?;
    let drawn = without_document_type(&drawn);
    Ok(if unit == Unit::Nanoseconds && !options.count {
        with_durations(&drawn).into_bytes()
    } else {
        drawn.into_bytes()
    })
}

/// What is not drawn, to keep the picture small enough for a browser.
#[derive(Debug, Default)]
struct Cut {
    /// Frames after which deeper stacks end.
    depth: Option<u32>,
    /// Boxes narrower than this many percent of the width, where there are too many of them.
    least_percent: Option<f64>,
}

/// Cuts the deepest stacks where too much would have to be drawn; returns at how many frames.
fn cut_to_fit(tree: &mut TextTree) -> Option<u32> {
    let whole = tree.depth();
    let mut depth = whole;
    while depth > 1 && (tree.bytes_within(depth) > MOST_BYTES || tree.boxes_within(depth) > MOST_BOXES) {
        depth = (depth * 3 / 4).max(1);
    }
    (depth < whole).then(|| {
        tree.without_deeper_than(depth);
        depth
    })
}

fn count_name(selection: &Selection<'_>, is_count: bool) -> String {
    match selection.shown.unit {
        _ if is_count => format!("{}s", selection.shown.noun),
        Unit::Count => selection.shown.title.to_string(),
        Unit::Nanoseconds => "ns".to_owned(),
        Unit::Bytes => "bytes".to_owned(),
        _ => "samples".to_owned(),
    }
}

/// `ingest on-CPU, 10.0 s`, and for waits what they are: `ingest off-CPU, number of waits, 10.0 s, without idle waits`.
fn title(recording: &Recording, selection: &Selection<'_>, options: &ExportOptions, cut: &Cut) -> String {
    let meta = &recording.profile.meta;
    let name = if meta.target_name.is_empty() { &meta.target } else { &meta.target_name };
    let event = match selection.shown.metric() {
        Metric::Wall => "wall clock (waits in blue)".to_owned(),
        _ => selection.shown.title.to_string(),
    };
    let what =
        if options.count { format!("number of {}, ", count_name(selection, true)) } else { String::new() };
    let length = units::duration(recording.profile.duration_ns());
    let idle = if selection.hidden_idle.is_empty() { "" } else { ", without idle waits" };
    let narrow = cut.least_percent.map(|least| format!(", boxes under {least:.2}% left out"));
    let deep = cut.depth.map(|depth| format!(", stacks cut at {}", units::counted(depth.into(), "frame")));
    let (narrow, deep) = (narrow.unwrap_or_default(), deep.unwrap_or_default());
    format!("{name} {event}, {what}{length}{idle}{narrow}{deep}")
}

/// The command and the date, unless something else or nothing is asked for.
fn subtitle(recording: &Recording, options: &ExportOptions) -> Option<String> {
    if options.subtitle.is_some() {
        return options.subtitle.clone();
    }
    let meta = &recording.profile.meta;
    let command = meta.command.join(" ");
    let command = safe_text::fit_tail(&command, SUBTITLE_COLUMNS).into_owned();
    let date = date_text(meta.start_unix_ns);
    let parts: Vec<String> = [command, date].into_iter().filter(|part| !part.is_empty()).collect();
    (!options.no_meta && !parts.is_empty()).then(|| parts.join("  "))
}

fn xml_line(text: &str) -> String {
    safe_text::xml(text).into_owned()
}

fn without_document_type(svg: &str) -> String {
    const START: &str = "<!DOCTYPE";
    let Some(start) = svg.find(START) else { return svg.to_owned() };
    let Some(length) = svg[start..].find('>') else { return svg.to_owned() };
    format!("{}{}", &svg[..start], svg[start + length + 1..].trim_start())
}

/// Turns the weight in every tool tip, `NAME (1,234,567,890 ns, 12.3%)`, into a duration. Names are
/// escaped and come first, so the last parenthesis of a tip is always inferno's own.
fn with_durations(svg: &str) -> String {
    const OPEN: &str = "<title>";
    const CLOSE: &str = "</title>";
    let mut out = String::with_capacity(svg.len());
    let mut rest = svg;
    while let Some(start) = rest.find(OPEN) {
        let (before, tip) = rest.split_at(start + OPEN.len());
        out.push_str(before);
        let Some(end) = tip.find(CLOSE) else {
            rest = tip;
            break;
        };
        out.push_str(&duration_tip(&tip[..end]).unwrap_or_else(|| tip[..end].to_owned()));
        rest = &tip[end..];
    }
    out.push_str(rest);
    out
}

fn duration_tip(tip: &str) -> Option<String> {
    let (name, facts) = tip.rsplit_once('(')?;
    let (number, share) = facts.split_once(" ns, ")?;
    let ns: u64 = number.replace(',', "").parse().ok()?;
    Some(format!("{name}({}, {share}", precise_duration(ns)))
}

/// Seconds with milliseconds, or what is smaller in its own unit.
fn precise_duration(ns: u64) -> String {
    if ns < 1_000_000_000 {
        return units::duration(ns);
    }
    let ms = ns / 1_000_000 + u64::from(ns % 1_000_000 >= 500_000);
    format!("{}.{:03} s", units::count(ms / 1000), ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_tips_show_durations_and_keep_names() {
        let svg = "<title>f(int) (1 ns, x) (1,234,567,890 ns, 12.3%)</title><title>all (5 ns, 100%)</title>";
        assert_eq!(
            with_durations(svg),
            "<title>f(int) (1 ns, x) (1.235 s, 12.3%)</title><title>all (5 ns, 100%)</title>"
        );
    }

    #[test]
    fn durations_round_into_seconds() {
        assert_eq!(precise_duration(1_999_999_999), "2.000 s");
        assert_eq!(precise_duration(12_345_678), "12.3 ms");
        assert_eq!(precise_duration(3_600_000_000_000), "3,600.000 s");
    }
}
