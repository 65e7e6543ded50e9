//! Draws the bars and the heat map of the Time view.

use super::layout::{TimeLayout, row_text};
use super::state::TimeState;
use crate::base::safe_text;
use crate::report::{Busy, HeatGrid, Timeline, TimelineRow};
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// Draws a row of bars for each row of the timeline.
pub(super) fn draw_bars(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &TimeState,
    theme: &Theme,
    layout: &TimeLayout,
    timeline: &Timeline,
    range: Option<(u64, u64)>,
) {
    let (count, height) = (timeline.rows.len(), usize::from(layout.rows));
    let cursor = view.list.cursor(count);
    let here = layout.axis.column_of(view.at_ns);
    let buffer = frame.buffer_mut();
    for line in 0..height {
        let Some(number) = view.list.row_at(line, count, height) else { break };
        let row = &timeline.rows[number];
        let y = area.y + line as u16;
        let room = usize::from(layout.side).saturating_sub(2);
        let name = row_name(row, theme, room);
        let mark = if number == cursor { ">" } else { " " };
        let style = if number == cursor { theme.selected(Style::new()) } else { Style::new() };
        buffer.set_stringn(area.x, y, format!("{mark}{name}"), layout.side.into(), style);
        for column in 0..layout.axis.columns {
            let (from_ns, to_ns) = layout.axis.time_of(column);
            let (glyph, mut style) = bar(busy_in(timeline, row, from_ns, to_ns), theme);
            if range.is_some_and(|(start, end)| from_ns < end && to_ns > start) {
                style = style.add_modifier(Modifier::REVERSED);
            }
            if number == cursor && column == here {
                style = theme.selected(style).add_modifier(Modifier::UNDERLINED);
            }
            buffer.set_stringn(layout.axis.x + column, y, glyph, 1, style);
        }
    }
}

/// Time of a row in a part of the recording; a bucket that overlaps it partly counts in proportion.
pub(super) fn busy_in(timeline: &Timeline, row: &TimelineRow, from_ns: u64, to_ns: u64) -> Busy {
    let bucket_ns = timeline.bucket_ns.max(1);
    let mut sum = Busy::default();
    let first = (from_ns.saturating_sub(timeline.start_ns) / bucket_ns) as usize;
    for (number, busy) in row.buckets.iter().enumerate().skip(first) {
        let start_ns = timeline.start_ns.saturating_add((number as u64).saturating_mul(bucket_ns));
        if start_ns >= to_ns {
            break;
        }
        let overlap_ns = to_ns.min(start_ns.saturating_add(bucket_ns)) - from_ns.max(start_ns);
        let part = |ns: u64| (u128::from(ns) * u128::from(overlap_ns) / u128::from(bucket_ns)) as u64;
        sum.add(Busy {
            on_cpu_ns: part(busy.on_cpu_ns),
            no_cpu_ns: part(busy.no_cpu_ns),
            blocked_ns: part(busy.blocked_ns),
            alive_ns: part(busy.alive_ns),
        });
    }
    sum
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

/// The time that threads could have run: as long as they existed.
pub(crate) fn whole_ns(busy: &Busy) -> u64 {
    busy.alive_ns.max(busy.on_cpu_ns)
}

/// A bar for the on-CPU share; a dot where the threads hardly ran and mostly waited.
fn bar(busy: Busy, theme: &Theme) -> (&'static str, Style) {
    let bars = &theme.glyphs.bars;
    let most = bars.len() - 1;
    let whole = u128::from(whole_ns(&busy).max(1));
    let level = (u128::from(busy.on_cpu_ns) * most as u128 * 2 + whole) / (2 * whole);
    let level = (level as usize).min(most);
    if level > 0 {
        return (bars[level], theme.running());
    }
    if busy.blocked_ns.saturating_add(busy.no_cpu_ns) > busy.on_cpu_ns {
        return (theme.glyphs.dot, theme.waiting());
    }
    (if busy.on_cpu_ns > 0 { bars[1] } else { bars[0] }, theme.running())
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
            let x = layout.axis.x + column as u16 * layout.cell;
            buffer.set_stringn(x, y, glyph.repeat(layout.cell.into()), layout.cell.into(), style);
        }
    }
}
