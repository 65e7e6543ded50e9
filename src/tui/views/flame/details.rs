//! The lines below the Flame view: details of the selected box.

use super::FlameState;
use super::text::{mark_of, name_of};
use crate::base::safe_text;
use crate::base::units::{counted, percent, percent_text};
use crate::report::{Amount, BoxOf, Direction, NameStyle, NodeId, module_file};
use crate::tui::app::context::Context;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::change_line;
use crate::tui::widgets::details::{REST_WORDS, rest_name};
use crate::tui::widgets::line::{Below, kind_word, place_text, push_kind, self_and_total};
use crate::tui::widgets::theme::Theme;
use ratatui::text::{Line, Span};

/// Details of the selection.
pub(crate) fn details(
    view: &FlameState,
    context: &Context,
    picture: &Picture,
    below: Below<'_>,
) -> Vec<Line<'static>> {
    let Below { theme, columns, lines } = below;
    let (tree, what) = (&picture.tree, picture.find(&view.selected));
    let top = picture.find(&view.zoom).total(tree);
    let whole = picture.total.weight;
    let total = what.total(tree);
    let (name, place, own, places) = match &what {
        BoxOf::All => ("all".to_owned(), Default::default(), None, None),
        BoxOf::Rest(ids) => (rest_name(theme, ids.len()), (REST_WORDS.to_owned(), String::new()), None, None),
        BoxOf::Node(id) => {
            let node = tree.node(*id);
            let label = picture.labels.get(node.label);
            let module = safe_text::terminal(module_file(&label.module)).into_owned();
            let source = picture.source_of(node.label).map(|source| source.text(NameStyle::Full));
            let place = (module, safe_text::terminal(&source.unwrap_or_default()).into_owned());
            let name = name_of(context, picture, theme, *id) + mark_of(picture, *id);
            let places = picture.places_of[node.label.index()];
            (name, place, own_of(picture, *id), Some(places))
        }
    };
    let share = |weight: u64| percent_text(percent(weight, whole));
    let zoom = format!("   of zoom {}", percent_text(percent(total, top)));
    let places = places.map_or(String::new(), |places| format!("   in {}", counted(places.into(), "place")));
    if lines < 2 {
        let short = match own {
            Some(own) => format!("  self {} total {}", share(own.weight), share(total)),
            None => format!("  total {}", share(total)),
        };
        let room = columns.saturating_sub(1 + short.len());
        return vec![Line::from(format!(" {}{short}", theme.fit(&name, room)))];
    }
    let mut first =
        vec![Span::styled(format!(" {}", theme.fit(&name, columns.saturating_sub(1))), theme.heading())];
    let mut room = columns.saturating_sub(4 + safe_text::width(&name));
    if let BoxOf::Node(id) = &what {
        let kind = picture.labels.get(tree.node(*id).label).kind;
        room = push_kind(&mut first, kind_word(picture, theme, kind, picture.is_waiting[id.index()]), room);
    }
    let (module, source) = &place;
    if !(module.is_empty() && source.is_empty()) && room > 3 {
        first.push(Span::raw(format!("   {}", place_text(theme, module, source, room))));
    }
    if let Some(words) = change_of(picture, &what, theme, columns) {
        return vec![Line::from(first), Line::from(words)];
    }
    let mut second = self_and_total(picture, theme, own, total, columns);
    for part in [zoom, places] {
        if safe_text::width(&second) + safe_text::width(&part) <= columns {
            second.push_str(&part);
        }
    }
    vec![Line::from(first), Line::from(theme.fit(&second, columns))]
}

/// Text on the cost of a box in the base of a comparison and on the new side.
fn change_of(picture: &Picture, what: &BoxOf, theme: &Theme, columns: usize) -> Option<String> {
    let change = picture.change.as_ref()?;
    Some(match what {
        BoxOf::Node(id) => {
            let label = picture.tree.node(*id).label;
            change_line::of_box(picture, change, label, change.of_node(*id), theme, columns)
        }
        BoxOf::All | BoxOf::Rest(_) => change_line::of_all(change, theme, columns),
    })
}

/// The node's own weight. In the bottom-up tree only roots have one that means something, and it is their total.
fn own_of(picture: &Picture, id: NodeId) -> Option<Amount> {
    let node = picture.tree.node(id);
    match picture.query.direction {
        Direction::TopDown => Some(picture.tree.own(id)),
        Direction::BottomUp => node.parent.is_none().then_some(node.total),
    }
}
