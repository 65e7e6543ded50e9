//! The bottom of the screen for prompts and messages, as many lines as they take.

use super::choice_list;
use super::line::fitting;
use super::theme::Theme;
use crate::base::safe_text;
use crate::base::units::counted;
use crate::report::ExportShape;
use crate::tui::app::context::{Context, Prompt};
use crate::tui::app::search::Search;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Clear;

/// Draws prompts, messages and searches over the lowest lines of the screen, at most half of them.
pub(crate) fn draw(frame: &mut Frame<'_>, context: &Context, theme: &Theme) {
    let screen = frame.area();
    if let Some(Prompt::List { list, input, cursor }) = &context.prompt {
        return choice_list::draw(frame, context, theme, *list, input.value(), *cursor);
    }
    let Some((lines, style)) = lines(context, theme, screen.width.into()) else { return };
    let height = (lines.len().min(usize::from(screen.height) / 2)) as u16;
    let area = Rect { y: screen.bottom() - height, height, ..screen };
    frame.render_widget(Clear, area);
    for (text, y) in lines.into_iter().zip(area.y..area.bottom()) {
        frame.render_widget(Line::from(text).style(style), Rect { y, height: 1, ..area });
    }
}

fn lines(context: &Context, theme: &Theme, columns: usize) -> Option<(Vec<String>, Style)> {
    match &context.prompt {
        Some(Prompt::Export) => {
            let kinds: Vec<String> =
                ExportShape::offered().map(|(_, letter, name)| format!("{letter} {name}")).collect();
            let text = format!("export this view as: {}   Esc no", kinds.join("  "));
            return Some((wrapped(&text, theme, columns), theme.heading()));
        }
        Some(Prompt::Search { input, problem, .. }) => {
            let found = match (problem, &context.search) {
                (Some(problem), _) => problem.clone(),
                (None, Some(search)) => search_words(search),
                (None, None) => "regular expression".to_owned(),
            };
            let style = if problem.is_some() { theme.note() } else { theme.heading() };
            return Some((typed(input.value(), &found, theme, columns), style));
        }
        Some(Prompt::PlaceName { input }) => {
            let name = safe_text::message(input.value()).into_owned();
            let parts =
                [(0, format!("name of this place: {name}_")), (1, "Enter marks it  Esc closes".to_owned())];
            let line = theme.fit(&fitting(&parts, "   ", columns), columns);
            return Some((vec![line], theme.heading()));
        }
        // A list is drawn by itself.
        Some(Prompt::List { .. }) | None => {}
    }
    if let Some(message) = context.toast.as_ref().or(context.notice.as_ref()) {
        return Some((wrapped(&safe_text::message(message), theme, columns), theme.note()));
    }
    let search = context.search.as_ref()?;
    let pattern = safe_text::message(&search.text);
    let parts = [
        (0, format!("/{}", safe_text::fit_middle(&pattern, columns / 3))),
        (0, search_words(search)),
        (1, "n N next  & keep  Esc clear".to_owned()),
    ];
    Some((vec![theme.fit(&fitting(&parts, "   ", columns), columns)], theme.heading()))
}

/// The text being typed and the matches so far: next to it, or below it where there is no room.
fn typed(text: &str, found: &str, theme: &Theme, columns: usize) -> Vec<String> {
    let safe = safe_text::message(text);
    let parts = [(0, format!("/{safe}_")), (0, found.to_owned()), (1, "Enter keep  Esc clear".to_owned())];
    let line = fitting(&parts, "   ", columns);
    if safe_text::width(&line) <= columns {
        return vec![theme.fit(&line, columns)];
    }
    // Cut in the middle, so that the end, where one types, stays visible.
    let room = columns.saturating_sub(3);
    let mut lines = vec![format!(" /{}_", theme.fit(&safe_text::fit_middle(&safe, room), room))];
    lines.extend(wrapped(found, theme, columns));
    lines
}

/// Wraps `text`, which must be safe, into lines with a space in front.
fn wrapped(text: &str, theme: &Theme, columns: usize) -> Vec<String> {
    let room = columns.saturating_sub(1);
    let lines = safe_text::wrapped(text, room);
    lines.into_iter().map(|line| format!(" {}", theme.fit(&line, room))).collect()
}

fn search_words(search: &Search) -> String {
    let mut found = Vec::new();
    if search.functions > 0 || search.threads == 0 {
        found.push(counted(search.functions as u64, "function"));
    }
    if search.threads > 0 {
        found.push(counted(search.threads as u64, "thread"));
    }
    format!("{}  {:.1}% of zoom", found.join(", "), search.share_percent)
}
