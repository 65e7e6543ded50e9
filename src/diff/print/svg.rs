//! A differential flame graph: boxes are as wide as in the new side, red where they grew, blue where they shrank, and
//! grey where the change may be chance.
//!
//! inferno draws it from lines with two integer weights; colours and a legend are added afterwards. Functions that are
//! gone have no width: the legend says so, a note says how many they are, and `--tree` lists them.

use super::tones::{self, Tone, ToneOfBox};
use super::values::{ValueStyle, words};
use crate::base::failure::{Failure, status};
use crate::base::safe_text;
use crate::base::units::{count, counted};
use crate::diff::comparison::Comparison;
use crate::diff::options::DiffOptions;
use crate::diff::per::Per;
use crate::diff::tree::DiffTree;
use crate::report::NameStyle;
use anyhow::Context;
use inferno::flamegraph::color::{BackgroundColor, Color};
use inferno::flamegraph::{Options, TextTruncateDirection};
use rustc_hash::FxHashMap;

/// Largest sum of weights that can be drawn.
const MOST_WEIGHT: f64 = 4e18;

/// Integer that a share of 100 % is scaled to.
const WHOLE_SHARE: f64 = 1e9;

/// Boxes narrower than this are not drawn, percent of the width.
const LEAST_PERCENT: f64 = 0.01;

/// Deepest stack that is drawn, frames.
const MOST_DEPTH: u32 = 1_000;

/// A differential flame graph.
#[derive(Debug)]
pub(super) struct DiffGraph {
    /// The SVG.
    pub(super) bytes: Vec<u8>,
    /// Notes on what the comparison has and the graph has not, for people.
    pub(super) notes: Vec<String>,
}

/// The flame graph.
///
/// # Errors
///
/// Status 3 when the new side has no weight; another failure when the weights are too large to be real.
pub(super) fn svg(comparison: &Comparison, options: &DiffOptions) -> anyhow::Result<DiffGraph> {
    if comparison.total.new <= 0.0 {
        let message = "the new side has nothing that could be drawn";
        return Err(Failure::new(status::NO_MATCH, message)
            .hint("the other way round:  prof diff NEW BASE")
            .into());
    }
    let scale = if comparison.measure.per == Per::Share { WHOLE_SHARE } else { 1.0 };
    if comparison.total.new.max(comparison.total.base) * scale > MOST_WEIGHT {
        return Err(Failure::new(status::FAILED, "the weights in the files are too large to be real").into());
    }
    let Some(tree) = &comparison.tree else { anyhow::bail!("there are no call paths") };
    let least_percent = options.min_percent.unwrap_or(LEAST_PERCENT);
    let names = options.common.names.unwrap_or(NameStyle::Short);
    let (lines, boxes) = lines(comparison, tree, scale, least_percent, names);
    let style = ValueStyle::of(comparison);
    let total = &comparison.total;
    let mut drawing = Options::default();
    drawing.title = safe_text::xml(&format!(
        "{}: base {}, new {}",
        words(comparison),
        style.value(total.base),
        style.value(total.new)
    ))
    .into_owned();
    // An empty subtitle leaves room for the legend.
    drawing.subtitle = Some(String::new());
    drawing.text_truncate_direction = TextTruncateDirection::Right;
    drawing.min_width = least_percent;
    drawing.count_name =
        if scale == 1.0 { super::values::unit_word(comparison) } else { "parts of 1e9" }.to_owned();
    drawing.bgcolors = Some(BackgroundColor::Flat(Color { r: 255, g: 255, b: 255 }));
    drawing.deterministic = true;
    // Boxes are matched by position, so the lines must stay in the order of the tree: in a "flame chart", inferno keeps
    // their order, last one first.
    drawing.flame_chart = true;
    let mut drawn = Vec::new();
    inferno::flamegraph::from_lines(&mut drawing, lines.iter().rev().map(String::as_str), &mut drawn)
        .context("cannot draw the flame graph")?;
    let drawn = String::from_utf8(drawn).context("cannot draw the flame graph")?;
    let total = Tone::of(comparison.total.base, comparison.total.new, comparison.total.outcome.is_real());
    let bytes = tones::toned(&drawn, total, &boxes).into_bytes();
    Ok(DiffGraph { bytes, notes: left_out(comparison, tree, least_percent) })
}

/// Boxes that are not drawn.
#[derive(Debug, Clone, Copy, Default)]
struct Undrawn {
    boxes: u64,
    /// Weights of the boxes on the base and on the new side, each sample once.
    weights: [f64; 2],
}

/// Returns the words for the number of boxes that the graph leaves out, and their time.
fn left_out(comparison: &Comparison, tree: &DiffTree, least_percent: f64) -> Vec<String> {
    const GONE: usize = 0;
    const NARROW: usize = 1;
    let least = comparison.total.new * least_percent / 100.0;
    let mut all = [Undrawn::default(); 2];
    let mut fates: Vec<Option<usize>> = Vec::with_capacity(tree.nodes.len());
    // Callers come before callees.
    for node in &tree.nodes {
        let above = node.parent.and_then(|parent| fates[parent as usize]);
        let is_narrow = node.total[1] < least || node.depth >= MOST_DEPTH;
        let own = if node.total[1] <= 0.0 { Some(GONE) } else { is_narrow.then_some(NARROW) };
        if let Some(out) = above.or(own).map(|fate| &mut all[fate]) {
            out.boxes += 1;
            if above.is_none() {
                (0..2).for_each(|side| out.weights[side] += node.total[side]);
            }
        }
        fates.push(above.or(own));
    }
    let style = ValueStyle::of(comparison);
    let [gone, narrow] =
        all.map(|out| (counted(out.boxes, "box"), out.weights.map(|weight| style.cell(weight))));
    let mut notes = Vec::new();
    if all[GONE].boxes > 0 {
        let (boxes, [base, _]) = gone;
        notes.push(format!("left out: {boxes} gone from the new side (base {base})"));
    }
    if all[NARROW].boxes > 0 {
        let (boxes, [base, new]) = narrow;
        let depth = count(MOST_DEPTH.into());
        notes.push(format!(
            "left out: {boxes} under {least_percent}% of the width or deeper than {depth} frames \
             (base {base}, new {new}); their callers have their time"
        ));
    }
    notes
}

/// Folded stacks with the weights of both sides, and the tone of each box. The weight of boxes that are too narrow or
/// too deep is added to their callers.
fn lines(
    comparison: &Comparison,
    tree: &DiffTree,
    scale: f64,
    least_percent: f64,
    names: NameStyle,
) -> (Vec<String>, ToneOfBox) {
    let least = comparison.total.base.max(comparison.total.new) * least_percent / 100.0;
    let is_drawn = |id: u32| {
        let node = tree.node(id);
        node.larger() >= least && node.depth < MOST_DEPTH
    };
    let texts: Vec<String> =
        comparison.labels.iter().map(|label| safe_text::folded(&label.text(names))).collect();
    let is_real: FxHashMap<u32, bool> =
        comparison.rows.iter().map(|row| (row.number, row.total.outcome.is_real())).collect();
    let (mut lines, mut boxes, mut start) = (Vec::new(), ToneOfBox::default(), 0u64);
    let order = tree.walk(|node| node.larger() >= least && node.depth < MOST_DEPTH);
    for id in order {
        let node = tree.node(id);
        // A box that is too small for a test of its own has that of its function.
        let of_function = || is_real.get(&node.row).copied().unwrap_or(false);
        let is_real = node.tested.map_or_else(of_function, |tested| tested.outcome.is_real());
        let [base, new] = node.costs_to_name();
        let tone = Tone::of(base, new, is_real);
        // inferno's box of everything is at depth 0, so depths are one more here. A box without width gets no entry,
        // since the next box starts at the same place.
        if node.total[1] * scale >= 0.5 {
            boxes.entry((node.depth + 1, start)).or_insert(tone);
        }
        let mut own = node.own;
        for &child in node.children.iter().filter(|child| !is_drawn(**child)) {
            (0..2).for_each(|side| own[side] += tree.node(child).total[side]);
        }
        let [base, new] = own.map(|weight| (weight * scale).round() as u64);
        if base == 0 && new == 0 {
            continue;
        }
        let mut path: Vec<&str> = tree.path(id).map(|row| texts[row as usize].as_str()).collect();
        path.reverse();
        start = start.saturating_add(new);
        lines.push(format!("{} {base} {new}", path.join(";")));
    }
    (lines, boxes)
}
