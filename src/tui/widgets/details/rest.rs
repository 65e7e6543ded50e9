//! Text about a box that several calls share, since each is too narrow to be drawn.

use crate::base::safe_text;
use crate::base::units::counted;
use crate::tui::widgets::line::Below;
use crate::tui::widgets::theme::Theme;
use ratatui::text::{Line, Span};

/// Text of the details about the box.
pub(crate) const REST_WORDS: &str = "each narrower than a column: Enter shows them";

/// Name of a box that so many calls share.
pub(crate) fn rest_name(theme: &Theme, calls: usize) -> String {
    format!("{} {}", theme.glyphs.ellipsis, counted(calls as u64, "call"))
}

/// The first line of the details about the box.
pub(crate) fn rest_heading(calls: usize, below: Below<'_>) -> Line<'static> {
    let name = rest_name(below.theme, calls);
    let room = below.columns.saturating_sub(4 + safe_text::width(&name));
    let words = below.theme.fit(REST_WORDS, room);
    Line::from(vec![
        Span::styled(format!(" {name}"), below.theme.heading()),
        Span::raw(format!("   {words}")),
    ])
}

/// Text in the box.
pub(crate) fn rest_text(theme: &Theme, calls: usize, room: usize) -> String {
    let ellipsis = theme.glyphs.ellipsis;
    let text = rest_name(theme, calls);
    if safe_text::width(&text) <= room { text } else { ellipsis.to_owned() }
}
