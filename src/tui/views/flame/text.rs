//! What stands in boxes.

use super::trunk::ShortTrunk;
use crate::base::safe_text;
use crate::base::units::{count, counted, honest_percent_text, percent};
use crate::profile::Unit;
use crate::report::{BoxOf, Metric, NodeId};
use crate::tui::app::context::Context;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::change_line;
use crate::tui::widgets::details::rest_text;
use crate::tui::widgets::line::first_that_fits;
use crate::tui::widgets::theme::Theme;

/// Text in a box of `columns`.
pub(super) fn text_of(
    context: &Context,
    picture: &Picture,
    theme: &Theme,
    what: &BoxOf,
    columns: usize,
) -> String {
    let room = columns.saturating_sub(1);
    let text = match what {
        BoxOf::All => all_text(picture, theme),
        BoxOf::Rest(ids) => rest_text(theme, ids.len(), room),
        BoxOf::Node(id) => {
            let name = name_of(context, picture, theme, *id);
            let mark = format!("{}{}", mark_of(picture, *id), change_of(picture, *id));
            if safe_text::width(&name) + mark.len() <= room { name + &mark } else { name }
        }
    };
    format!("{}{}", theme.glyphs.edge, theme.fit(&text, room))
}

/// Text in the box of a shortened trunk: as far as there is room, how many frames are hidden, the last one, how much of what is
/// above is not in it, and the key.
pub(super) fn trunk_text(
    context: &Context,
    picture: &Picture,
    theme: &Theme,
    (id, folded): (NodeId, ShortTrunk),
    columns: usize,
) -> String {
    let (edge, ellipsis) = (theme.glyphs.edge, theme.glyphs.ellipsis);
    let frames = counted(folded.hidden as u64, "frame");
    let name = name_of(context, picture, theme, id);
    let room = columns.saturating_sub(1);
    let missing = match folded.missing {
        0 => String::new(),
        missing => format!("  {} not in it", honest_percent_text(percent(missing, folded.whole))),
    };
    let texts = [
        format!("{ellipsis} {frames} to {name}{missing}  (t opens)"),
        format!("{ellipsis} {frames} to {name}{missing}"),
        format!("{ellipsis} {frames} to {name}"),
        format!("{ellipsis} to {name}"),
    ];
    format!("{edge}{}", theme.fit(&first_that_fits(texts, room), room))
}

fn all_text(picture: &Picture, theme: &Theme) -> String {
    let separator = theme.glyphs.separator;
    let samples = counted(picture.count, &picture.event.noun);
    format!(
        "all{separator}{samples}{separator}{}{}",
        picture.weight_text(picture.total.weight),
        weight_word(picture)
    )
}

/// Word for what the weight is of, where the unit does not tell: ` CPU`, ` page faults`.
fn weight_word(picture: &Picture) -> String {
    match picture.event.metric {
        Metric::ON_CPU => " CPU".to_owned(),
        _ if picture.event.unit == Unit::Count => format!(" {}", picture.event.title),
        _ => String::new(),
    }
}

/// Name of a node, with the number of threads after it where several have the name.
pub(crate) fn name_of(context: &Context, picture: &Picture, theme: &Theme, id: NodeId) -> String {
    let label = picture.tree.node(id).label;
    let name = context.name(picture.labels.get(label));
    match picture.threads_of.get(&label) {
        Some(threads) if *threads > 1 => format!("{name} {}{}", theme.glyphs.times, count(*threads)),
        _ => name,
    }
}

/// Returns the change of the box in words, in a comparison.
fn change_of(picture: &Picture, id: NodeId) -> String {
    let Some(change) = &picture.change else { return String::new() };
    let (label, of_box) = (picture.tree.node(id).label, change.of_node(id));
    change_line::in_box(of_box, change.tone(of_box, label, picture.labels.get(label).kind))
}

/// Says what the colour says.
pub(in crate::tui::views) fn mark_of(picture: &Picture, id: NodeId) -> &'static str {
    let node = picture.tree.node(id);
    match (node.is_kernel, node.is_inlined) {
        (true, _) => " [k]",
        (_, true) => " [i]",
        _ => "",
    }
}
