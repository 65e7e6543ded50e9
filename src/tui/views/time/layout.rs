//! Places the parts of the Time view.

use super::axis::TimeAxis;
use super::state::TimeState;
use crate::base::safe_text;
use crate::base::units::{count, counted, percent};
use crate::report::{HeatGrid, Timeline, TimelineRow, thread_title};
use crate::tui::widgets::line::{first_that_fits, threads_words};
use ratatui::layout::Rect;
use std::ops::Range;

/// Most columns for the names of threads.
const NAME_COLUMNS: usize = 16;
/// Columns of `+200 ms`, with a space on both sides.
const OFFSET_COLUMNS: u16 = 10;
/// Columns of `to 99 threads`.
const HEIGHT_COLUMNS: usize = 13;
/// Least lines of a row if some rows are of several threads: their states need some height, and the second line says how many
/// threads that is.
const LEAST_LINES: u16 = 2;
/// Most lines of one row: with more, rows are not seen at a glance.
const MOST_LINES: u16 = 8;
/// Columns of the sum of a state, `▓ no CPU 23.0 s`, which stand below the name of a row of this many lines and more.
const SUM_COLUMNS: usize = 15;
pub(super) const LEAST_WITH_SUMS: u16 = 4;
/// Least number of lines for the line of the CPUs.
const LEAST_WITH_CPUS: u16 = 6;

pub(super) fn row_text(row: &TimelineRow, times: &str) -> String {
    if row.is_rest {
        return format!("{} others", count(row.threads));
    }
    threads_words(thread_title(&row.thread, &row.process), row.tid.or(row.pid), row.threads, times)
}

/// Share of the machine's CPUs that everything in the timeline used, in `columns` columns: `44% of 2 CPUs`.
pub(super) fn cpus_words(timeline: &Timeline, cpus: u64, columns: usize) -> String {
    let length_ns = timeline.duration_ns.saturating_sub(timeline.start_ns);
    let busy = timeline.busy_in(&timeline.sums, timeline.start_ns, timeline.duration_ns);
    let share = match percent(busy.on_cpu_ns, length_ns.saturating_mul(cpus)) {
        share if share > 0.0 && share < 0.5 => "<1%".to_owned(),
        share => format!("{share:.0}%"),
    };
    let texts = [format!("{share} of {}", counted(cpus, "CPU")), format!("{share} of CPUs"), share];
    first_that_fits(texts, columns)
}

/// Columns of these words, however much it is: while a recording goes on, the bars do not move as the share grows.
fn cpus_columns(cpus: u64) -> usize {
    format!("100% of {}", counted(cpus, "CPU")).len()
}

/// Positions of the parts of the view.
pub(crate) struct TimeLayout {
    /// Columns to the left: names of threads, or offsets.
    pub(crate) side: u16,
    /// Lines above the rows: the CPUs.
    pub(crate) top: u16,
    /// Rows of bars or cells that fit.
    pub(crate) rows: u16,
    /// Screen lines per row of bars.
    pub(crate) lines: u16,
    pub(crate) axis: TimeAxis,
    pub(crate) grid: Option<HeatGrid>,
}

impl TimeLayout {
    /// Lays out the view for a machine with `cpus` CPUs.
    pub(super) fn new(view: &TimeState, timeline: &Timeline, cpus: u64, area: Rect) -> Self {
        // The last line is the axis.
        let rows = area.height.saturating_sub(1);
        if view.is_heat_map {
            let side = OFFSET_COLUMNS.min(area.width / 3);
            let room = area.width.saturating_sub(side).max(1);
            let grid = timeline.heat.grid(room.into(), rows.into());
            let length_ns = grid.column_ns.saturating_mul(grid.columns.max(1) as u64);
            let axis = TimeAxis { x: area.x + side, columns: room, start_ns: grid.origin_ns, length_ns };
            return TimeLayout { side, top: 0, rows, lines: 1, axis, grid: Some(grid) };
        }
        let widest = timeline.rows.iter().map(|row| safe_text::width(&row_text(row, "×"))).max().unwrap_or(0);
        let has_pools = timeline.rows.iter().any(|row| row.threads > 1 && !row.is_rest);
        let widest = if has_pools { widest.max(HEIGHT_COLUMNS) } else { widest };
        let top = u16::from(rows >= LEAST_WITH_CPUS && !timeline.rows.is_empty() && timeline.is_time);
        let count = u16::try_from(timeline.rows.len()).unwrap_or(u16::MAX).max(1);
        let least = if has_pools { LEAST_LINES.min(rows - top).max(1) } else { 1 };
        let lines = ((rows - top) / count).clamp(least, MOST_LINES);
        let has_sums = timeline.is_time && lines >= LEAST_WITH_SUMS;
        let widest = if has_sums { widest.max(SUM_COLUMNS) } else { widest };
        let of_cpus = if top > 0 { cpus_columns(cpus) } else { 0 };
        // At most a third of the screen.
        let most = usize::from(area.width / 3);
        let side = widest.min(NAME_COLUMNS).max(of_cpus).min(most) as u16 + 2;
        let axis = TimeAxis {
            x: area.x + side,
            columns: area.width.saturating_sub(side).max(1),
            start_ns: timeline.start_ns,
            length_ns: timeline.duration_ns.saturating_sub(timeline.start_ns),
        };
        TimeLayout { side, top, rows: (rows - top) / lines, lines, axis, grid: None }
    }

    /// The number of columns of the heat map.
    fn heat_columns(&self) -> u64 {
        self.grid.as_ref().map_or(1, |grid| grid.columns.max(1) as u64)
    }

    /// The screen columns, counted from the first, that a column of the heat map takes. Together they take the whole width, so
    /// some are wider by one than others.
    pub(super) fn columns_of(&self, column: usize) -> Range<u16> {
        let all = self.heat_columns();
        // Fits, since it is not above the number of screen columns.
        let edge = |column: usize| ((column as u64).min(all) * u64::from(self.axis.columns) / all) as u16;
        edge(column)..edge(column + 1)
    }

    /// The column of the heat map that takes a screen column, counted from the first.
    pub(super) fn heat_column_at(&self, at: u16) -> usize {
        let all = self.heat_columns();
        let column = ((u64::from(at) + 1) * all - 1) / u64::from(self.axis.columns.max(1));
        column.min(all - 1) as usize
    }

    /// Start and end of the selected cell, ns.
    pub(super) fn place(&self, at_ns: u64) -> (u64, u64) {
        match &self.grid {
            Some(grid) => {
                let (column, row) = grid.cell_at(at_ns);
                grid.time_of(column, row)
            }
            None => self.axis.time_of(self.axis.column_of(at_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_the_heat_map_take_the_whole_width() {
        for columns in 1..=200u16 {
            for seconds in 1..=usize::from(columns) {
                let axis = TimeAxis { x: 10, columns, start_ns: 0, length_ns: seconds as u64 };
                let grid = Some(HeatGrid { columns: seconds, rows: 1, ..HeatGrid::default() });
                let layout = TimeLayout { side: 10, top: 0, rows: 1, lines: 1, axis, grid };
                let mut next = 0;
                for column in 0..seconds {
                    let taken = layout.columns_of(column);
                    assert_eq!(taken.start, next, "{seconds} s in {columns} columns");
                    let width = usize::from(columns) / seconds;
                    assert!((width..=width + 1).contains(&taken.len()), "{taken:?}");
                    next = taken.end;
                    let is_found = layout.columns_of(column).all(|at| layout.heat_column_at(at) == column);
                    assert!(is_found, "{column} of {seconds} s in {columns} columns");
                }
                assert_eq!(next, columns, "{seconds} s");
            }
        }
    }
}
