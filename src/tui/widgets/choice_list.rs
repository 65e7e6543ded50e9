//! A list that is chosen from by typing, over the lower part of the screen.

use super::line::fitting;
use super::theme::Theme;
use crate::base::safe_text;
use crate::base::units::counted;
use crate::tui::app::choices::list::rows;
use crate::tui::app::context::{Context, ListOf};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Clear;

/// Draws the rows that have the words of `typed`, and below them what is typed, over at most half of the screen.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    context: &Context,
    theme: &Theme,
    list: ListOf,
    typed: &str,
    cursor: usize,
) {
    let screen = frame.area();
    let columns = usize::from(screen.width);
    let rows = rows(context, list, typed);
    let cursor = cursor.min(rows.len().saturating_sub(1));
    let most = usize::from(screen.height / 2).saturating_sub(1);
    let shown = rows.len().min(most);
    let first = (cursor + 1).saturating_sub(shown.max(1));
    let height = shown as u16 + 1;
    let area = Rect { y: screen.bottom() - height, height, ..screen };
    frame.render_widget(Clear, area);
    for ((number, row), y) in rows.iter().enumerate().skip(first).take(shown).zip(area.y..) {
        let aside = theme.fit(&safe_text::terminal(&row.aside), columns / 3);
        let room = columns.saturating_sub(safe_text::width(&aside) + 3);
        let words = theme.fit(&safe_text::terminal(&row.words), room);
        let gap = " ".repeat(room.saturating_sub(safe_text::width(&words)));
        let mark = if number == cursor { ">" } else { " " };
        let style = if number == cursor { theme.selected(Style::new()) } else { Style::new() };
        let line = Line::from(format!("{mark}{words}{gap} {aside} ")).style(style);
        frame.render_widget(line, Rect { y, height: 1, ..area });
    }
    let sign = match list {
        ListOf::Actions => ":",
        ListOf::Places => "'",
    };
    let of = match list {
        ListOf::Actions => "action",
        ListOf::Places => "place",
    };
    let parts = [
        (0, format!("{sign}{}_", safe_text::message(typed))),
        (1, counted(rows.len() as u64, of)),
        (0, "Enter does it  Esc closes".to_owned()),
        (2, "Tab completes".to_owned()),
    ];
    let line = Line::from(theme.fit(&fitting(&parts, "   ", columns), columns)).style(theme.heading());
    frame.render_widget(line, Rect { y: area.bottom() - 1, height: 1, ..area });
}
