//! The recording as a grid: a column per second, with the time within the second from top to bottom.
//!
//! What repeats every second shows as a line, a single event as a dot. Weights are kept in slots of equal length, from
//! which a grid of any size is made: a cell is always one contiguous range of time.

use crate::report::model::spread::Spread;

/// Length of a slot in a recording of normal length, ns: a fiftieth of a second.
const SLOT_NS: u64 = 20_000_000;
/// Most slots; a longer recording has longer slots.
const MOST_SLOTS: u64 = 200_000;
/// One second, ns.
const SECOND_NS: u64 = 1_000_000_000;
/// Numbers of rows that divide a column of slots evenly: the largest that fits is used.
const ROWS: [usize; 5] = [50, 25, 10, 5, 2];

/// Weight of the recording over time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HeatMap {
    /// Start of the first slot, ns since the start of the recording: a whole second.
    origin_ns: u64,
    /// Total length of all slots, ns.
    duration_ns: u64,
    /// Length of a slot, ns.
    slot_ns: u64,
    /// Weight of each slot.
    slots: Vec<u64>,
}

/// A heat map at one size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HeatGrid {
    /// Start of the first column, ns since the start of the recording.
    pub(crate) origin_ns: u64,
    /// Length of a column, ns: a second, or several.
    pub(crate) column_ns: u64,
    /// Length of a cell, ns.
    pub(crate) cell_ns: u64,
    /// Weights: the rows of the first column, then those of the next.
    pub(crate) cells: Vec<u64>,
    /// Number of columns.
    pub(crate) columns: usize,
    /// Number of rows.
    pub(crate) rows: usize,
    /// The largest weight.
    pub(crate) most: u64,
}

impl HeatGrid {
    /// The weight of a cell; 0 outside the grid.
    pub(crate) fn weight(&self, column: usize, row: usize) -> u64 {
        if row >= self.rows { 0 } else { self.cells.get(column * self.rows + row).copied().unwrap_or(0) }
    }

    /// Start and end of a cell, ns.
    pub(crate) fn time_of(&self, column: usize, row: usize) -> (u64, u64) {
        let offset_ns =
            (column as u64).saturating_mul(self.column_ns).saturating_add(row as u64 * self.cell_ns);
        let start_ns = self.origin_ns.saturating_add(offset_ns);
        (start_ns, start_ns.saturating_add(self.cell_ns))
    }

    /// The column and row of a point in time.
    pub(crate) fn cell_at(&self, ns: u64) -> (usize, usize) {
        let ns = ns.saturating_sub(self.origin_ns);
        let column = (ns / self.column_ns.max(1)).min(self.columns.saturating_sub(1) as u64);
        let offset_ns = ns.saturating_sub(column * self.column_ns);
        let row = (offset_ns / self.cell_ns.max(1)).min(self.rows.saturating_sub(1) as u64);
        (column as usize, row as usize)
    }
}

impl HeatMap {
    /// Empty slots for a recording from `from_ns` to `to_ns`.
    pub(crate) fn spread(from_ns: u64, to_ns: u64) -> Spread {
        let (origin_ns, duration_ns) = whole_seconds(from_ns, to_ns);
        let slot_ns = slot_length(duration_ns);
        Spread::new(usize::try_from(duration_ns.div_ceil(slot_ns)).unwrap_or(0).max(1), slot_ns)
            .since(origin_ns, from_ns)
    }

    /// The map of slots that were created by [`HeatMap::spread`] for the same time range.
    pub(crate) fn new(from_ns: u64, to_ns: u64, slots: Spread) -> Self {
        let (origin_ns, duration_ns) = whole_seconds(from_ns, to_ns);
        HeatMap { origin_ns, duration_ns, slot_ns: slot_length(duration_ns), slots: slots.finish() }
    }

    /// The grid of at most `columns` columns and `rows` rows.
    pub(crate) fn grid(&self, columns: usize, rows: usize) -> HeatGrid {
        let slot_ns = self.slot_ns.max(1);
        let columns = columns.max(1) as u64;
        // A column of a long recording is several seconds, in steps that people count by.
        let mut column_ns = SECOND_NS.max(slot_ns.saturating_mul(ROWS[0] as u64));
        let mut factors = [2, 5, 10].into_iter().cycle();
        let base_ns = column_ns;
        let mut scale = 1u64;
        while self.duration_ns.div_ceil(column_ns) > columns {
            let factor = factors.next().unwrap_or(10);
            column_ns = base_ns.saturating_mul(scale).saturating_mul(factor);
            if factor == 10 {
                scale = scale.saturating_mul(10);
            }
            if column_ns == u64::MAX {
                break;
            }
        }
        let rows = ROWS.into_iter().find(|count| *count <= rows).unwrap_or(1);
        let cell_ns = column_ns / rows as u64;
        let slots_of_cell = usize::try_from(cell_ns / slot_ns).unwrap_or(usize::MAX).max(1);
        let columns = self.duration_ns.div_ceil(column_ns) as usize;
        let mut cells = vec![0u64; columns * rows];
        for (cell, slots) in cells.iter_mut().zip(self.slots.chunks(slots_of_cell)) {
            *cell = slots.iter().fold(0, |sum: u64, weight| sum.saturating_add(*weight));
        }
        let most = cells.iter().copied().max().unwrap_or(0);
        HeatGrid { origin_ns: self.origin_ns, column_ns, cell_ns, cells, columns, rows, most }
    }
}

/// The start of the second that contains `from_ns`, and the length from there to `to_ns`. Columns are aligned to whole
/// seconds, so that what repeats every second stays in its row while the start moves on.
fn whole_seconds(from_ns: u64, to_ns: u64) -> (u64, u64) {
    let origin_ns = from_ns / SECOND_NS * SECOND_NS;
    (origin_ns, to_ns.saturating_sub(origin_ns))
}

/// 20 ms, multiplied by ten as often as needed.
fn slot_length(duration_ns: u64) -> u64 {
    let mut slot_ns = SLOT_NS;
    while duration_ns.div_ceil(slot_ns) > MOST_SLOTS {
        slot_ns = slot_ns.saturating_mul(10);
    }
    slot_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(duration_ns: u64, samples: &[(u64, u64)]) -> HeatMap {
        let mut slots = HeatMap::spread(0, duration_ns);
        samples.iter().for_each(|(time_ns, weight)| slots.add(*time_ns, 0, *weight));
        HeatMap::new(0, duration_ns, slots)
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn columns_are_seconds_and_rows_their_parts() {
        let map =
            map(10_000 * MS, &[(0, 1), (999 * MS, 2), (1_000 * MS, 4), (3_250 * MS, 8), (9_999 * MS, 16)]);
        let grid = map.grid(70, 12);
        assert_eq!((grid.columns, grid.rows, grid.column_ns, grid.cell_ns), (10, 10, 1_000 * MS, 100 * MS));
        let found = [(0, 0), (0, 9), (1, 0), (3, 2), (9, 9)].map(|(column, row)| grid.weight(column, row));
        assert_eq!(found, [1, 2, 4, 8, 16]);
        assert_eq!(grid.cells.iter().sum::<u64>(), 31);
        assert_eq!(grid.time_of(3, 2), (3_200 * MS, 3_300 * MS));
        assert_eq!(grid.cell_at(3_250 * MS), (3, 2));
        assert_eq!((grid.most, grid.weight(10, 0), grid.weight(0, 10)), (16, 0, 0));
    }

    #[test]
    fn a_part_of_a_recording_begins_with_a_whole_second() {
        let (from_ns, to_ns) = (65_300 * MS, 75_300 * MS);
        let mut slots = HeatMap::spread(from_ns, to_ns);
        for at_ms in [65_100, 65_400, 66_400, 75_290] {
            slots.add(at_ms * MS, 0, 1);
        }
        let grid = HeatMap::new(from_ns, to_ns, slots).grid(70, 10);
        assert_eq!((grid.columns, grid.rows), (11, 10));
        let found = [(0, 1), (0, 4), (1, 4), (10, 2)].map(|(column, row)| grid.weight(column, row));
        assert_eq!(found, [0, 1, 1, 1]);
        assert_eq!(grid.time_of(1, 4), (66_400 * MS, 66_500 * MS));
        assert_eq!(grid.cell_at(66_450 * MS), (1, 4));
    }

    #[test]
    fn columns_of_a_long_recording_are_several_seconds() {
        let day_ns = 86_400 * SECOND_NS;
        for (duration_ns, columns) in
            [(SECOND_NS, 1), (100 * SECOND_NS, 30), (3_600 * SECOND_NS, 70), (day_ns, 66), (u64::MAX, 30)]
        {
            let map = map(duration_ns, &[(0, 1), (duration_ns - 1, 2)]);
            let grid = map.grid(columns, 20);
            assert!(grid.columns <= columns, "{duration_ns}: {}", grid.columns);
            assert_eq!(grid.rows, 10);
            let sum: u64 = grid.cells.iter().sum();
            assert_eq!(sum, 3, "{duration_ns}");
            for at_ns in [0, duration_ns / 2, duration_ns - 1] {
                let (column, row) = grid.cell_at(at_ns);
                let (from_ns, to_ns) = grid.time_of(column, row);
                assert!((from_ns..=to_ns).contains(&at_ns), "{at_ns} of {duration_ns}");
            }
        }
        let long = map(day_ns, &[]);
        assert_eq!(long.grid(1_000, 50).column_ns, 100 * SECOND_NS);
    }
}
