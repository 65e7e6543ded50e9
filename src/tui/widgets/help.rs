//! Overlays: the keys of the view, or the notes on the recording.

use super::list::ListState;
use super::theme::Theme;
use crate::base::safe_text;
use crate::base::safe_text::wrapped;
use crate::base::units::counted;
use crate::report::cost_lines;
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::context::{Context, Overlay};
use crate::tui::app::key;
use crate::tui::compute::picture::Picture;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Clear;

/// Most columns of an overlay.
const MOST_COLUMNS: u16 = 100;
/// Columns of the heading of a group of keys.
const GROUP_COLUMNS: usize = 8;

/// The heading of the colours, which stands for the whole line until it is drawn.
const COLOURS: &str = "colours";
/// Columns of that line.
const LEGEND_COLUMNS: usize = 62;

/// Position and contents of an overlay.
struct Sheet {
    area: Rect,
    title: &'static str,
    lines: Vec<String>,
}

impl Sheet {
    fn new(screen: Rect, context: &Context, dot: &str, overlay: Overlay) -> Self {
        let width = screen.width.min(MOST_COLUMNS);
        let inner = inner_of(width);
        let (title, lines) = match overlay {
            Overlay::Help => ("Help", help_lines(context, inner)),
            Overlay::Notes => ("Notes on the recording", note_lines(context.picture.as_deref(), dot, inner)),
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
pub(crate) fn scroll(context: &mut Context, action: &Action) -> bool {
    let Some(overlay) = context.overlay else { return false };
    let screen = Rect::new(0, 0, context.size.width, context.size.height);
    let sheet = Sheet::new(screen, context, ".", overlay);
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
pub(crate) fn draw(frame: &mut Frame<'_>, context: &Context, theme: &Theme, overlay: Overlay) {
    let sheet = Sheet::new(frame.area(), context, theme.glyphs.dot, overlay);
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
    for (text, y) in sheet.lines.iter().skip(first).take(sheet.rows()).zip(area.y + 1..) {
        let spans = if text == COLOURS { legend(theme) } else { vec![Span::raw(theme.fit(text, inner))] };
        let used: usize = spans.iter().map(Span::width).sum();
        let space = " ".repeat(inner.saturating_sub(used));
        let mut line = vec![Span::raw(format!("{side} "))];
        line.extend(spans);
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

/// The line of the colours: each word in the colours of its boxes.
fn legend(theme: &Theme) -> Vec<Span<'static>> {
    let mut spans = vec![Span::raw(COLOURS)];
    for (word, style) in theme.legend() {
        spans.extend([Span::raw(" "), Span::styled(word, style)]);
    }
    spans
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

/// The keys that apply in this state, one paragraph per group.
pub(crate) fn help_lines(context: &Context, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut group = "";
    for entry in key::entries(context) {
        let text = if entry.words.is_empty() {
            entry.keys.to_owned()
        } else {
            format!("{} {}", entry.keys, entry.words)
        };
        let fits = |line: &String| safe_text::width(line) + 3 + safe_text::width(&text) <= columns;
        match lines.last_mut() {
            Some(line) if group == entry.group && fits(line) => {
                line.push_str("   ");
                line.push_str(&text);
            }
            _ => {
                let mut heading = if group == entry.group { "" } else { entry.group };
                for text in wrapped(&text, columns.saturating_sub(GROUP_COLUMNS)) {
                    lines.push(format!("{heading:GROUP_COLUMNS$}{text}"));
                    heading = "";
                }
            }
        }
        group = entry.group;
    }
    if matches!(context.tab, Tab::Flame | Tab::Callers) {
        let has_room = columns >= LEGEND_COLUMNS;
        lines.extend(has_room.then(|| COLOURS.to_owned()));
        lines.push(format!("{:GROUP_COLUMNS$}blank below a box = its own time   [i] inlined", "boxes"));
    }
    let mut heading = "mouse";
    let text = mouse_words(context).join("   ");
    for text in wrapped(&text, columns.saturating_sub(GROUP_COLUMNS)) {
        lines.push(format!("{heading:GROUP_COLUMNS$}{text}"));
        heading = "";
    }
    lines
}

/// What the mouse does in the open view.
fn mouse_words(context: &Context) -> Vec<&'static str> {
    if !context.has_mouse {
        return vec!["the terminal has it: M takes it back"];
    }
    let mut words = vec!["click select", "double click open", "wheel scroll"];
    words.extend(match context.tab {
        Tab::Flame => Some("Shift-wheel pan"),
        Tab::Top | Tab::Threads => Some("click on a heading sort"),
        Tab::Time => Some("drag range"),
        Tab::Callers | Tab::Source => None,
    });
    if matches!(context.tab, Tab::Callers | Tab::Time) {
        words.push("Shift-wheel pan");
    }
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
