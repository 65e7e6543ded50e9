//! A flame graph as one self-contained SVG file: inferno draws our folded stacks. inferno prints weights as whole numbers: it
//! gets nanoseconds, and its tooltips are turned into durations afterwards. The document type line, a web address, is removed,
//! and what its script lacks is added (see [`dress`]). Nothing is summed or named here.

mod dress;

use super::caption;
use super::exporter::{Exporter, Render, Rendered};
use super::palette::palette;
use super::text_tree::{Order, StackOrder, TextTree};
use crate::base::failure::{Failure, status};
use crate::base::{safe_text, units};
use crate::profile::Unit;
use crate::report::analysis::Analysis;
use crate::report::naming::style::NameStyle;
use crate::report::options::ExportOptions;
use crate::report::query::selection::Selection;
use crate::report::recording::Recording;
use anyhow::Context;
use inferno::flamegraph::color::{BackgroundColor, Color};
use inferno::flamegraph::{Direction, Options, TextTruncateDirection};
use std::io::{self, Write};

/// Boxes narrower than this are not drawn, percent of the width.
const LEAST_PERCENT: f64 = 0.01;

/// Limit on the size of the lines to draw, bytes: it bounds the memory, and keeps the picture small enough for a
/// browser.
const MOST_BYTES: u64 = 32 << 20;

/// Limit on the number of boxes to draw: a picture of about 20 MB.
const MOST_BOXES: usize = 60_000;

/// Deepest stack in a graph with its root at the bottom: in a deeper one, of more than about 1000 pixels, the root
/// would be off the screen.
const MOST_STANDING: u32 = 58;

/// Largest sum of weights that can be drawn; as nanoseconds, 146 years.
const MOST_WEIGHT: u64 = u64::MAX / 4;

/// The export format.
pub(in crate::report::export) const EXPORTER: Exporter = Exporter {
    name: "svg",
    endings: &[".svg"],
    key: Some(('s', "SVG")),
    render: Render::Any(render),
    ..Exporter::NONE
};

fn render<'r>(
    recording: &'r Analysis,
    selection: Selection<'r>,
    options: &ExportOptions,
) -> anyhow::Result<Box<dyn Rendered + 'r>> {
    let (drawn, notes) = svg(recording, &selection, options)?;
    Ok(Box::new(DrawnGraph { drawn, notes }))
}

/// A flame graph that is ready to be written.
#[derive(Debug)]
struct DrawnGraph {
    drawn: Vec<u8>,
    notes: Vec<String>,
}

impl Rendered for DrawnGraph {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.drawn)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// Draws `selection`; returns the SVG and notes on what it leaves out.
///
/// # Errors
///
/// Status 3 when the samples carry no weight; another failure when the weights are too large to be real.
fn svg(
    recording: &Recording,
    selection: &Selection<'_>,
    options: &ExportOptions,
) -> anyhow::Result<(Vec<u8>, Vec<String>)> {
    if selection.total.weight == 0 {
        return Err(Failure::new(status::NO_MATCH, "the samples that match carry no weight").into());
    }
    // inferno adds weights without overflow checks.
    if selection.total.weight > MOST_WEIGHT {
        return Err(Failure::new(status::FAILED, "the weights in the file are too large to be real").into());
    }
    let names = options.common.names.unwrap_or(NameStyle::Short);
    let order = if options.bottom_up { StackOrder::LeafFirst } else { StackOrder::RootFirst };
    let mut tree = TextTree::new(selection, names, order);
    let cut = Cut::of(&mut tree, selection, options);
    let mut palette = palette(selection, names);
    let mut drawing = Options::default();
    let title = options.title.clone().unwrap_or_else(|| {
        let order = if options.bottom_up { ", bottom-up" } else { "" };
        format!("{}{order}{}", caption::title(recording, selection, options.count), cut.words())
    });
    let title = xml_line(&title);
    drawing.title.clone_from(&title);
    drawing.subtitle = caption::subtitle(recording, options).map(|line| xml_line(&line));
    let is_tall = tree.depth() > MOST_STANDING;
    drawing.direction = if options.icicle || is_tall { Direction::Inverted } else { Direction::Straight };
    drawing.min_width = cut.drawn_percent;
    drawing.count_name = caption::count_name(selection, options.count);
    drawing.palette_map = Some(&mut palette);
    let mut lines = Vec::new();
    tree.lines(Order::Frames, options.count, |stack, value| {
        lines.push(format!("{stack} {value}"));
        anyhow::Ok(())
    })?;
    let drawn = drawn(&mut drawing, &lines)?;
    let has_durations = selection.shown.unit == Unit::Nanoseconds && !options.count;
    Ok((dress::dressed(&drawn, &title, has_durations).into_bytes(), cut.notes()))
}

/// The SVG that inferno draws of `lines`, which are sorted frame by frame.
fn drawn(drawing: &mut Options<'_>, lines: &[String]) -> anyhow::Result<String> {
    // The start of a name says more than its arguments.
    drawing.text_truncate_direction = TextTruncateDirection::Right;
    drawing.bgcolors = Some(BackgroundColor::Flat(Color { r: 255, g: 255, b: 255 }));
    drawing.deterministic = true;
    // inferno's own sort by text would put a name that continues with a space between the stacks of the shorter name,
    // and split its box. "Flame chart" is inferno's term for lines in the given order, last one first.
    drawing.flame_chart = true;
    let mut drawn = Vec::new();
    inferno::flamegraph::from_lines(drawing, lines.iter().rev().map(String::as_str), &mut drawn)
        .context("cannot draw the flame graph")?;
    String::from_utf8(drawn).context("cannot draw the flame graph")
}

/// Limits beyond which parts are left out, to keep the picture small enough for a browser.
#[derive(Debug, Default)]
struct Cut {
    /// Boxes below this share of the width are not drawn, percent.
    drawn_percent: f64,
    /// Depth at which deeper stacks were cut, frames.
    depth: Option<u32>,
    /// Boxes below this share of the width were left out because there were too many, percent.
    least_percent: Option<f64>,
}

impl Cut {
    /// Cuts `tree` as the options say, and as far as the limits require.
    fn of(tree: &mut TextTree, selection: &Selection<'_>, options: &ExportOptions) -> Self {
        let asked_percent = options.min_percent.unwrap_or(LEAST_PERCENT);
        let whole = if options.count { selection.total.count() } else { selection.total.weight };
        let least = whole as f64 * asked_percent / 100.0;
        tree.without_less_than(least, options.count);
        let raised = tree.least_of_largest(MOST_BOXES, options.count).filter(|raised| *raised as f64 > least);
        if let Some(least) = raised {
            tree.without_less_than(least as f64, options.count);
        }
        let least_percent = raised.map(|least| units::percent(least, whole));
        let drawn_percent = least_percent.unwrap_or(asked_percent);
        Cut { drawn_percent, depth: cut_to_fit(tree), least_percent }
    }

    /// The cuts, in words to append to a title.
    fn words(&self) -> String {
        let narrow = self.least_percent.map(|least| format!(", boxes under {least:.2}% left out"));
        let deep =
            self.depth.map(|depth| format!(", stacks cut at {}", units::counted(depth.into(), "frame")));
        format!("{}{}", narrow.unwrap_or_default(), deep.unwrap_or_default())
    }

    /// The cuts, in sentences.
    fn notes(&self) -> Vec<String> {
        let narrow = self.least_percent.map(|least| {
            format!("boxes under {least:.2}% are left out: the picture would be too large for a browser; their callers have their time")
        });
        let deep = self.depth.map(|depth| {
            format!("stacks are cut at {depth} frames: the picture would be too large for a browser; what is deeper counts there")
        });
        narrow.into_iter().chain(deep).collect()
    }
}

/// Cuts the deepest stacks while there is too much to draw; returns the depth in frames.
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

fn xml_line(text: &str) -> String {
    safe_text::xml(text).into_owned()
}
