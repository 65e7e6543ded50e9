//! Overlays: the keys of the view, or the notes on the recording.

use super::legend::{self, ViewHelp};
use super::list::ListState;
use super::theme::Theme;
use crate::base::safe_text;
use crate::base::safe_text::wrapped;
use crate::base::units::counted;
use crate::report::cost_lines;
use crate::tui::app::action::Action;
use crate::tui::app::context::{Context, Overlay};
use crate::tui::app::key;
use crate::tui::compute::picture::Picture;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Clear;

/// Most columns of an overlay.
const MOST_COLUMNS: u16 = 100;
/// Columns of the heading of a group of keys.
const GROUP_COLUMNS: usize = 8;

/// A line of an overlay.
type SheetLine = Vec<Span<'static>>;

/// Position and contents of an overlay.
struct Sheet {
    area: Rect,
    title: &'static str,
    lines: Vec<SheetLine>,
}

impl Sheet {
    fn new(screen: Rect, view: ViewHelp, context: &Context, theme: &Theme, overlay: Overlay) -> Self {
        let width = screen.width.min(MOST_COLUMNS);
        let inner = inner_of(width);
        let (title, lines) = match overlay {
            Overlay::Help => ("Help", help_lines(view, context, theme, inner)),
            Overlay::Notes => {
                let notes = note_lines(context.picture.as_deref(), theme.glyphs.dot, inner);
                ("Notes on the recording", plain(notes, theme, inner))
            }
        };
        let height = (lines.len().min(usize::from(screen.height).saturating_sub(2)) + 2) as u16;
        let height = height.min(screen.height);
        let area = Rect {
            x: screen.x + (screen.width - width) / 2,
            y: screen.y + (screen.height - height) / 2,
            width,
            height,
        };
        Sheet { area, title, lines }
    }

    /// Number of lines that are shown at once.
    fn rows(&self) -> usize {
        usize::from(self.area.height).saturating_sub(2)
    }

    /// Largest first line, such that no row stays empty.
    fn last_first(&self) -> usize {
        self.lines.len().saturating_sub(self.rows())
    }
}

fn inner_of(width: u16) -> usize {
    usize::from(width).saturating_sub(4)
}

/// Scrolls an overlay that is longer than the screen; returns false if it is not, or if `action` does not scroll.
pub(crate) fn scroll(view: ViewHelp, context: &mut Context, action: &Action) -> bool {
    let Some(overlay) = context.overlay else { return false };
    let screen = Rect::new(0, 0, context.size.width, context.size.height);
    let sheet = Sheet::new(screen, view, context, &Theme::plain(context.is_ascii), overlay);
    let mut list = ListState { cursor: 0, offset: context.overlay_line };
    let page = i16::try_from(sheet.rows().saturating_sub(1).max(1)).unwrap_or(i16::MAX);
    let rows = match action {
        Action::Up => -1,
        Action::Down => 1,
        Action::PageUp => -page,
        Action::PageDown => page,
        Action::HalfUp => -(page / 2).max(1),
        Action::HalfDown => (page / 2).max(1),
        Action::First => i16::MIN,
        Action::Last => i16::MAX,
        Action::Scroll { rows, .. } => *rows,
        _ => return false,
    };
    if sheet.last_first() == 0 {
        return false;
    }
    let moved = Action::Scroll { at: Position::default(), rows, columns: 0 };
    list.update(&moved, sheet.lines.len(), sheet.rows());
    context.overlay_line = list.offset;
    true
}

/// Draws `overlay` in the middle of the screen.
pub(crate) fn draw(
    frame: &mut Frame<'_>,
    view: ViewHelp,
    context: &Context,
    theme: &Theme,
    overlay: Overlay,
) {
    let sheet = Sheet::new(frame.area(), view, context, theme, overlay);
    let (area, inner) = (sheet.area, inner_of(sheet.area.width));
    let first = context.overlay_line.min(sheet.last_first());
    frame.render_widget(Clear, area);
    let [top_left, top_right, bottom_left, bottom_right, side] = theme.glyphs.frame;
    let title = match overlay {
        Overlay::Help => format!("{}: {}", sheet.title, context.tab.name()),
        // Shortened where the title and the hint do not both fit.
        Overlay::Notes if inner < 40 => "Notes".to_owned(),
        Overlay::Notes => sheet.title.to_owned(),
    };
    let is_long = sheet.last_first() > 0;
    let close = if is_long { "any other key closes" } else { "any key closes" };
    let top = rule(&title, close, inner + 2, theme);
    frame.render_widget(Line::from(format!("{top_left}{top}{top_right}")), Rect { height: 1, ..area });
    for (spans, y) in sheet.lines.iter().skip(first).take(sheet.rows()).zip(area.y + 1..) {
        let used: usize = spans.iter().map(Span::width).sum();
        let space = " ".repeat(inner.saturating_sub(used));
        let mut line = vec![Span::raw(format!("{side} "))];
        line.extend(spans.iter().cloned());
        line.push(Span::raw(format!("{space} {side}")));
        frame.render_widget(Line::from(line), Rect { y, height: 1, ..area });
    }
    let shown =
        format!("{}-{} of {}", first + 1, first + sheet.rows(), counted(sheet.lines.len() as u64, "line"));
    let bottom = if is_long {
        rule("j k move", &shown, inner + 2, theme)
    } else {
        theme.glyphs.rule.repeat(inner + 2)
    };
    let bottom = format!("{bottom_left}{bottom}{bottom_right}");
    frame.render_widget(Line::from(bottom), Rect { y: area.bottom().saturating_sub(1), height: 1, ..area });
}

/// A rule with a text at each end; where both do not fit, the right one is dropped.
fn rule(left: &str, right: &str, columns: usize, theme: &Theme) -> String {
    let rule = |columns: usize| theme.glyphs.rule.repeat(columns);
    let left = format!("{} {} ", rule(1), theme.fit(left, columns.saturating_sub(4)));
    let right = format!(" {right} {}", rule(1));
    let used = safe_text::width(&left) + safe_text::width(&right);
    match columns.checked_sub(used) {
        Some(between) => format!("{left}{}{right}", rule(between)),
        None => format!("{left}{}", rule(columns.saturating_sub(safe_text::width(&left)))),
    }
}

/// Lines of text, cut to `columns`.
fn plain(lines: Vec<String>, theme: &Theme, columns: usize) -> Vec<SheetLine> {
    lines.into_iter().map(|line| vec![Span::raw(theme.fit(&line, columns))]).collect()
}

/// The keys that apply in this state, one paragraph per group; what the colours and marks mean; the mouse.
fn help_lines(view: ViewHelp, context: &Context, theme: &Theme, columns: usize) -> Vec<SheetLine> {
    let text = |entry: &&key::Entry| format!("{} {}", entry.keys, entry.words).trim_end().to_owned();
    let entries: Vec<&key::Entry> = key::entries(context).collect();
    let groups = entries.chunk_by(|a, b| a.group == b.group);
    let keys = groups.flat_map(|group| paragraph(group[0].group, group.iter().map(text).collect(), columns));
    let mut lines = plain(keys.collect(), theme, columns);
    for (heading, words) in legend::colours(view, context, theme) {
        lines.extend(coloured(heading, words, columns));
    }
    let mut last = paragraph("marks", legend::marks(view, context, theme), columns);
    let mut heading = "mouse";
    let text = mouse_words(view, context).join("   ");
    for text in wrapped(&text, columns.saturating_sub(GROUP_COLUMNS)) {
        last.push(format!("{heading:GROUP_COLUMNS$}{text}"));
        heading = "";
    }
    lines.extend(plain(last, theme, columns));
    lines
}

/// `items` side by side as far as they fit, with the heading before the first.
fn paragraph(heading: &str, items: Vec<String>, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        let fits = |line: &String| safe_text::width(line) + 3 + safe_text::width(&item) <= columns;
        match lines.last_mut() {
            Some(line) if fits(line) => {
                line.push_str("   ");
                line.push_str(&item);
            }
            _ => {
                for text in wrapped(&item, columns.saturating_sub(GROUP_COLUMNS)) {
                    let heading = if lines.is_empty() { heading } else { "" };
                    lines.push(format!("{heading:GROUP_COLUMNS$}{text}"));
                }
            }
        }
    }
    lines
}

/// Words in their colours, as many in a line as fit, with the heading before the first.
fn coloured(heading: &str, words: Vec<(&'static str, Style)>, columns: usize) -> Vec<SheetLine> {
    let mut lines: Vec<SheetLine> = Vec::new();
    let mut used = 0;
    for (word, style) in words {
        let width = safe_text::width(word);
        match lines.last_mut() {
            Some(line) if used + 1 + width <= columns => {
                line.extend([Span::raw(" "), Span::styled(word, style)]);
                used += 1 + width;
            }
            _ => {
                let heading = if lines.is_empty() { heading } else { "" };
                lines.push(vec![Span::raw(format!("{heading:GROUP_COLUMNS$}")), Span::styled(word, style)]);
                used = GROUP_COLUMNS + width;
            }
        }
    }
    lines
}

/// Texts on what the mouse does in the open view.
fn mouse_words(view: ViewHelp, context: &Context) -> Vec<&'static str> {
    if !context.has_mouse {
        return vec!["the terminal has it: M takes it back"];
    }
    let mut words = vec!["click select", "double click open", "wheel scroll"];
    words.extend(view.mouse);
    words
}

fn note_lines(picture: Option<&Picture>, dot: &str, columns: usize) -> Vec<String> {
    let Some(picture) = picture else { return vec!["there is no picture yet".to_owned()] };
    let mut lines = Vec::new();
    if picture.notes.is_empty() {
        lines.push("no problems found".to_owned());
    }
    for note in &picture.notes {
        let note = safe_text::message(note);
        for (index, line) in wrapped(&note, columns.saturating_sub(2)).into_iter().enumerate() {
            lines.push(format!("{} {line}", if index == 0 { dot } else { " " }));
        }
    }
    let cost = cost_lines(&picture.recording);
    if !cost.is_empty() {
        lines.push(String::new());
        lines.push("what recording costs".to_owned());
        let cost = cost.iter().flat_map(|line| wrapped(line, columns.saturating_sub(2)));
        lines.extend(cost.map(|line| format!("  {line}")));
    }
    lines
}
