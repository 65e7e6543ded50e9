//! Draws the bars and the heat map of the Time view.

use super::column::{Cell, EIGHTHS, cells};
use super::layout::{LEAST_WITH_SUMS, TimeLayout, cpus_words, row_text};
use super::shown_states::ShownStates;
use super::state::TimeState;
use crate::base::safe_text;
use crate::base::units::counted;
use crate::report::{HeatGrid, TimelineRow, TimelineState};
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// Draws the share of the CPUs that was used, and a picture of each row of the timeline.
pub(super) fn draw_bars(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &TimeState,
    theme: &Theme,
    layout: &TimeLayout,
    shown: &ShownStates<'_>,
    range: Option<(u64, u64)>,
) {
    let timeline = shown.timeline;
    if layout.top > 0 {
        draw_cpus(frame, area, theme, layout, shown);
    }
    let (count, height) = (timeline.rows.len(), usize::from(layout.rows));
    let cursor = view.list.cursor(count);
    let here = layout.axis.column_of(view.at_ns);
    let full_of_all = (!timeline.is_time).then(|| shown.most_weight(&layout.axis));
    let buffer = frame.buffer_mut();
    for line in 0..height {
        let Some(number) = view.list.row_at(line, count, height) else { break };
        let row = &timeline.rows[number];
        let (y, lines) = (area.y + layout.top + line as u16 * layout.lines, layout.lines);
        let room = usize::from(layout.side).saturating_sub(2);
        let name = row_name(row, theme, room);
        let mark = if number == cursor { ">" } else { " " };
        let style = shown.tone(row).map_or(Style::new(), |tone| theme.changed(tone));
        let style = if number == cursor { theme.selected(style) } else { style };
        buffer.set_stringn(area.x, y, format!("{mark}{name}"), layout.side.into(), style);
        let full = full_of_all.unwrap_or_else(|| shown.most_threads(row, &layout.axis));
        let mut next = y + 1;
        if lines > 1 && row.threads > 1 && timeline.is_time {
            let words = format!(" to {}", counted(full, "thread"));
            buffer.set_stringn(area.x, next, theme.fit(&words, room + 1), room + 1, theme.faint());
            next += 1;
        }
        if lines >= LEAST_WITH_SUMS && timeline.is_time {
            let time = range.unwrap_or((timeline.start_ns, timeline.duration_ns));
            let place = Rect { x: area.x + 1, y: next, width: room as u16, height: y + lines - next };
            draw_sums(buffer, place, theme, shown.sums(row, time));
        }
        for column in 0..layout.axis.columns {
            let (from_ns, to_ns) = layout.axis.time_of(column);
            let is_marked = range.is_some_and(|(start, end)| from_ns < end && to_ns > start);
            let is_here = number == cursor && column == here;
            for (cell, above) in shown.column(row, (from_ns, to_ns), full, lines.into()).into_iter().zip(0..)
            {
                let (glyph, mut style) = glyph_of(cell, theme);
                if is_marked {
                    style = style.add_modifier(Modifier::REVERSED);
                }
                if is_here {
                    style = theme.selected(style).add_modifier(Modifier::UNDERLINED);
                }
                let y = y + lines - 1 - above;
                buffer.set_stringn(layout.axis.x + column, y, glyph, 1, style);
            }
        }
    }
}

/// Lists how much time was spent in each state, as far as there is room.
fn draw_sums(buffer: &mut Buffer, area: Rect, theme: &Theme, sums: Vec<(TimelineState, String)>) {
    let room = usize::from(area.width).saturating_sub(2);
    let sums = sums.into_iter().zip(area.top()..area.bottom());
    for ((state, words), y) in sums.filter(|((_, words), _)| safe_text::width(words) <= room) {
        buffer.set_stringn(area.x, y, theme.state_glyph(state), 1, theme.state(state, None));
        buffer.set_stringn(area.x + 2, y, words, room, theme.faint());
    }
}

/// A line with the share of the CPUs that everything that passes the filters ran on, of the whole time in words.
fn draw_cpus(frame: &mut Frame<'_>, area: Rect, theme: &Theme, layout: &TimeLayout, shown: &ShownStates<'_>) {
    let buffer = frame.buffer_mut();
    let room = usize::from(layout.side).saturating_sub(2);
    let words = cpus_words(shown.timeline, shown.cpus, room);
    buffer.set_stringn(area.x + 1, area.y, words, room, theme.faint());
    for column in 0..layout.axis.columns {
        let (from_ns, to_ns) = layout.axis.time_of(column);
        let busy = shown.timeline.busy_in(&shown.timeline.sums, from_ns, to_ns);
        let full = (to_ns - from_ns).saturating_mul(shown.cpus);
        let cells = cells(&[(TimelineState::Running, busy.on_cpu_ns)], full, 1);
        let (glyph, style) = glyph_of(cells[0], theme);
        buffer.set_stringn(layout.axis.x + column, area.y, glyph, 1, style);
    }
}

/// The character of a cell, and its colours. Each state has both, since some terminals have no colours.
fn glyph_of(cell: Cell, theme: &Theme) -> (&'static str, Style) {
    match (cell.lower, cell.upper) {
        (None, _) => (theme.glyphs.bars[0], Style::new()),
        (Some((state @ (TimelineState::Running | TimelineState::Sampled), eighths)), upper) => {
            (theme.glyphs.bars[eighths], theme.state(state, upper))
        }
        (Some((_, eighths)), Some(upper)) if 2 * eighths < EIGHTHS => {
            (theme.state_glyph(upper), theme.state(upper, None))
        }
        (Some((state, _)), _) => (theme.state_glyph(state), theme.state(state, None)),
    }
}

/// Name of a row, cut to this many columns such that the thread id stays whole.
fn row_name(row: &TimelineRow, theme: &Theme, columns: usize) -> String {
    let text = row_text(row, theme.glyphs.times);
    let Some(tid) = row.tid.map(|tid| format!(" {tid}")).filter(|_| safe_text::width(&text) > columns) else {
        return theme.fit(&text, columns);
    };
    let name = theme.fit(&safe_text::terminal(&row.thread), columns.saturating_sub(tid.len()));
    theme.fit(&format!("{name}{tid}"), columns)
}

/// Draws the cells of the heat map.
pub(super) fn draw_heat(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &TimeState,
    theme: &Theme,
    layout: &TimeLayout,
    grid: &HeatGrid,
    range: Option<(u64, u64)>,
) {
    let here = grid.cell_at(view.at_ns);
    let buffer = frame.buffer_mut();
    let most = theme.glyphs.shades.len() as u128 - 1;
    // The u16 range never ends first, since a screen has fewer rows.
    for (row, y) in (0..grid.rows).zip(area.y..) {
        let offset = format!(" +{}", crate::base::units::duration_brief(row as u64 * grid.cell_ns));
        let offset = if row == 0 { " +0 ms".to_owned() } else { offset };
        buffer.set_stringn(area.x, y, offset, usize::from(layout.side), theme.faint());
        for column in 0..grid.columns {
            let weight = grid.weight(column, row);
            let level = (u128::from(weight) * most).div_ceil(u128::from(grid.most.max(1))) as usize;
            let glyph = theme.glyphs.shades[level.min(most as usize)];
            let (from_ns, to_ns) = grid.time_of(column, row);
            let mut style = theme.running();
            if range.is_some_and(|(start, end)| from_ns < end && to_ns > start) {
                style = style.add_modifier(Modifier::REVERSED);
            }
            if (column, row) == here {
                style = theme.selected(style).add_modifier(Modifier::UNDERLINED);
            }
            let columns = layout.columns_of(column);
            let (x, width) = (layout.axis.x + columns.start, columns.len());
            buffer.set_stringn(x, y, glyph.repeat(width), width, style);
        }
    }
}
