//! Draws the list of processes. Changes nothing, does no I/O.

use super::choice::{LastRecording, ProcessRow};
use super::list::{OTHER_LINES, ProcessList};
use crate::base::safe_text;
use crate::base::units::{bytes, counted, percent_text};
use crate::tui::widgets::areas::SMALLEST;
use crate::tui::widgets::line::fitting;
use crate::tui::widgets::table::{self, PlacedColumns, TableColumn};
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Clear;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessColumn {
    Pid,
    Cpu,
    Threads,
    Command,
}

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, list: &ProcessList, theme: &Theme) {
    let screen = frame.area();
    let row = |y: u16| Rect { y: screen.y + y, height: 1, ..screen };
    if screen.width < SMALLEST.0 || screen.height < SMALLEST.1 {
        frame.render_widget(Line::from(format!("need {}x{}", SMALLEST.0, SMALLEST.1)), row(0));
        return;
    }
    let columns = usize::from(screen.width);
    let mut put = |y: u16, text: &str, style: Style| {
        frame.render_widget(Line::from(theme.fit(text, columns)).style(style), row(y));
    };
    put(0, " prof  where does the time go?", theme.heading());
    put(1, &last_words(list.last.as_ref(), columns), theme.note());
    let below = screen.height - 3;
    put(below, &selected_words(list, columns), Style::new());
    let (keys, style) = key_words(list, columns);
    put(below + 2, &keys, style);
    frame.render_widget(Line::from(theme.glyphs.rule.repeat(columns)).style(theme.faint()), row(below + 1));
    let body = Rect { y: screen.y + 2, height: screen.height - OTHER_LINES + 1, ..screen };
    match list.shown() {
        None => frame.render_widget(Line::from(" looking at processes").style(theme.faint()), body),
        Some(shown) if shown.is_empty() => {
            frame.render_widget(Line::from(" no process matches").style(theme.faint()), body);
        }
        Some(shown) => draw_table(frame, body, list, &shown, theme),
    }
    if let Some(message) = &list.message {
        draw_message(frame, message, theme);
    }
}

/// Draws the answer to a key over the lowest lines, as many as it takes.
fn draw_message(frame: &mut Frame<'_>, message: &str, theme: &Theme) {
    let screen = frame.area();
    let lines = safe_text::wrapped(message, usize::from(screen.width).saturating_sub(2));
    let height = (lines.len().min(usize::from(screen.height) / 2)) as u16;
    let area = Rect { y: screen.bottom() - height, height, ..screen };
    frame.render_widget(Clear, area);
    for (text, y) in lines.iter().zip(area.y..area.bottom()) {
        let line = Line::from(theme.fit(&format!(" {text}"), screen.width.into())).style(theme.note());
        frame.render_widget(line, Rect { y, height: 1, ..area });
    }
}

fn draw_table(frame: &mut Frame<'_>, body: Rect, list: &ProcessList, shown: &[&ProcessRow], theme: &Theme) {
    let column = |id, heading, width, is_number, rank| TableColumn { id, heading, width, is_number, rank };
    let placed = PlacedColumns::new(
        vec![
            column(ProcessColumn::Pid, "PID", 7, true, 0),
            column(ProcessColumn::Cpu, "CPU", 7, true, 0),
            column(ProcessColumn::Threads, "THREADS", 7, true, 1),
            column(ProcessColumn::Command, "COMMAND", 12, false, 0),
        ],
        body.width.into(),
        ProcessColumn::Command,
        usize::MAX,
    );
    let cell = |id, row: usize, width| {
        let Some(row) = shown.get(row) else { return (String::new(), Style::new()) };
        let text = match id {
            ProcessColumn::Pid => row.pid.to_string(),
            ProcessColumn::Cpu => row.cpu_percent.map(percent_text).unwrap_or_default(),
            ProcessColumn::Threads => row.threads.to_string(),
            ProcessColumn::Command => theme.fit(&safe_text::message(&row.command), width),
        };
        (text, Style::new())
    };
    let rows = (list.list, shown.len());
    table::draw(frame.buffer_mut(), body, &placed, rows, theme, |_, heading| heading.to_owned(), cell);
}

fn last_words(last: Option<&LastRecording>, columns: usize) -> String {
    let Some(last) = last else {
        return " no recording in this folder yet".to_owned();
    };
    let name = safe_text::message(&last.path.display().to_string()).into_owned();
    let age = last.age.map(|age| format!("{} ago", age_words(age)));
    let parts =
        [(0, "last recording:".to_owned()), (0, name), (1, age.unwrap_or_default()), (2, bytes(last.bytes))];
    fitting(&parts, "  ", columns)
}

/// `age` in its largest unit: `5 minutes`.
fn age_words(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => counted(seconds, "second"),
        60..3600 => counted(seconds / 60, "minute"),
        3600..86_400 => counted(seconds / 3600, "hour"),
        _ => counted(seconds / 86_400, "day"),
    }
}

/// The command that Enter runs.
fn selected_words(list: &ProcessList, columns: usize) -> String {
    let Some(row) = list.selected() else { return String::new() };
    let parts = [
        (0, format!("Enter  prof live -p {}", row.pid)),
        (1, format!("r  prof record -p {}", row.pid)),
        (2, "a  prof live -a".to_owned()),
    ];
    fitting(&parts, "     ", columns)
}

fn key_words(list: &ProcessList, columns: usize) -> (String, Style) {
    let filter = list.filter.value();
    if list.is_typing || !filter.is_empty() {
        let cursor = if list.is_typing { "_" } else { "" };
        let found = list.shown().map_or(0, |shown| shown.len());
        let parts = [
            (0, format!("/{}{cursor}", safe_text::message(filter))),
            (
                0,
                match found {
                    1 => "1 process".to_owned(),
                    found => format!("{found} processes"),
                },
            ),
            (1, "Enter watch  Esc all".to_owned()),
        ];
        return (fitting(&parts, "   ", columns), Style::new());
    }
    let open = if list.last.is_some() { "o last recording" } else { "" };
    let parts = [
        (0, "Enter watch".to_owned()),
        (0, "r record".to_owned()),
        (1, "a whole machine".to_owned()),
        (2, open.to_owned()),
        (1, "/ find".to_owned()),
        (0, "q quit".to_owned()),
        (3, "? help".to_owned()),
    ];
    (fitting(&parts, "  ", columns), Style::new())
}
