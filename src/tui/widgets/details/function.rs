//! Details of a function.

use crate::base::safe_text;
use crate::base::units::{counted, percent, percent_text};
use crate::report::{LabelId, NameStyle, module_file};
use crate::tui::app::context::Context;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::change_line;
use crate::tui::widgets::line::{Below, place_text, push_kind, self_and_total};
use ratatui::text::{Line, Span};

/// Details of a function, with the word for its colour where the view has such colours.
pub(crate) fn function_details(
    context: &Context,
    picture: &Picture,
    label: LabelId,
    kind: Option<Span<'static>>,
    below: Below<'_>,
) -> Vec<Line<'static>> {
    let Below { theme, columns, lines } = below;
    let text = picture.labels.get(label);
    let name = context.name(text);
    let shown = theme.fit(&name, columns.saturating_sub(1));
    let mut first = vec![Span::styled(format!(" {shown}"), theme.heading())];
    let room = columns.saturating_sub(4 + safe_text::width(&shown));
    let room = kind.map_or(room, |kind| push_kind(&mut first, kind, room));
    let Some(row) = picture.row(label) else { return vec![Line::from(first)] };
    let share = |weight: u64| percent_text(percent(weight, picture.total.weight));
    if lines < 2 {
        let numbers = format!("  self {} total {}", share(row.own.weight), share(row.total.weight));
        let room = columns.saturating_sub(1 + numbers.len());
        return vec![Line::from(format!(" {}{numbers}", theme.fit(&name, room)))];
    }
    let module = safe_text::terminal(module_file(&text.module)).into_owned();
    let source = row.source.as_ref().map_or(String::new(), |source| source.text(NameStyle::Full));
    let source = safe_text::terminal(&source);
    if room > 3 && !(module.is_empty() && source.is_empty()) {
        first.push(Span::raw(format!("   {}", place_text(theme, &module, &source, room))));
    }
    let places = picture.places_of.get(label.index()).copied().unwrap_or(0);
    if let Some(change) = &picture.change {
        let words = change_line::of_function(picture, change, label, theme, columns);
        return vec![Line::from(first), Line::from(words)];
    }
    let mut second = self_and_total(picture, theme, Some(row.own), row.total.weight, columns);
    for part in [
        format!("   in {}", counted(places.into(), "place")),
        format!("   {}", counted(row.threads, "thread")),
    ] {
        if safe_text::width(&second) + part.len() <= columns {
            second.push_str(&part);
        }
    }
    vec![Line::from(first), Line::from(theme.fit(&second, columns))]
}
