//! The time axis along the columns of the screen.

/// The time of the whole recording or of its last part, mapped to columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeAxis {
    /// First column on the screen.
    pub(crate) x: u16,
    /// Number of columns; at least 1.
    pub(crate) columns: u16,
    /// Start of the first column, ns since the start of the recording.
    pub(crate) start_ns: u64,
    /// Time covered by all columns, ns.
    pub(crate) length_ns: u64,
}

impl TimeAxis {
    /// Start of a column, ns.
    fn edge(&self, column: u16) -> u64 {
        let ns = u128::from(self.length_ns) * u128::from(column) / u128::from(self.columns.max(1));
        self.start_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Start and end of a column (counted from the first), ns.
    pub(crate) fn time_of(&self, column: u16) -> (u64, u64) {
        let from_ns = self.edge(column);
        (from_ns, self.edge(column.saturating_add(1)).max(from_ns.saturating_add(1)))
    }

    /// The column of a point in time.
    pub(crate) fn column_of(&self, ns: u64) -> u16 {
        let last = self.columns.saturating_sub(1);
        let from_start_ns = ns.saturating_sub(self.start_ns);
        let column = u128::from(from_start_ns) * u128::from(self.columns) / u128::from(self.length_ns.max(1));
        let column = u16::try_from(column).unwrap_or(last).min(last);
        // Column starts are rounded down, so the time can be in the next column.
        if column < last && self.edge(column + 1) <= ns { column + 1 } else { column }
    }

    /// The line of the axis: the range as `[===]`, the rolled-up part as `~~~`, and the end of the recording of
    /// `duration_ns`.
    pub(crate) fn ruler(
        &self,
        range: Option<(u64, u64)>,
        rollup_until_ns: Option<u64>,
        duration_ns: u64,
    ) -> String {
        let width = usize::from(self.columns);
        let is_rollup = |column| rollup_until_ns.is_some_and(|until_ns| self.time_of(column).1 <= until_ns);
        let mut cells: Vec<char> =
            (0..self.columns).map(|column| if is_rollup(column) { '~' } else { ' ' }).collect();
        let end = format!("{:.1}s", duration_ns as f64 / 1e9);
        if end.len() <= width {
            cells.splice(width - end.len().., end.chars());
        }
        if let Some((start, end)) = range {
            let first = usize::from(self.column_of(start));
            let last = usize::from(self.column_of(end.saturating_sub(1).max(start)));
            for (at, cell) in cells.iter_mut().enumerate().take(last + 1).skip(first) {
                *cell = if at == first { '[' } else { '=' };
            }
            if last > first {
                cells[last] = ']';
            }
        }
        cells.into_iter().collect()
    }

    /// `ruler` with a `b` in the columns of the base of a comparison that the range does not take.
    pub(crate) fn with_base(&self, ruler: &str, from_ns: u64, to_ns: u64) -> String {
        let columns = self.column_of(from_ns)..=self.column_of(to_ns.saturating_sub(1).max(from_ns));
        let is_base = |column: usize| u16::try_from(column).is_ok_and(|column| columns.contains(&column));
        let mark = |(column, cell): (usize, char)| match cell {
            ' ' | '~' if is_base(column) => 'b',
            cell => cell,
        };
        ruler.chars().enumerate().map(mark).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_range_is_marked_where_it_is() {
        let axis = TimeAxis { x: 10, columns: 20, start_ns: 0, length_ns: 10_000_000_000 };
        assert_eq!(axis.ruler(None, None, 10_000_000_000), "               10.0s");
        let range = Some((1_000_000_000, 3_000_000_000));
        assert_eq!(axis.ruler(range, None, 10_000_000_000), "  [==]         10.0s");
        assert_eq!(
            axis.with_base(&axis.ruler(range, None, 10_000_000_000), 0, 4_000_000_000),
            "bb[==]bb       10.0s"
        );
        assert_eq!(axis.ruler(range, Some(4_200_000_000), 10_000_000_000), "~~[==]~~       10.0s");
        let late = TimeAxis { start_ns: 60_000_000_000, ..axis };
        assert_eq!(late.ruler(None, Some(61_000_000_000), 70_000_000_000), "~~             70.0s");
        assert_eq!((late.time_of(0).0, late.column_of(61_100_000_000)), (60_000_000_000, 2));
        assert_eq!(axis.ruler(Some((0, 1)), None, 10_000_000_000), "[              10.0s");
        assert_eq!(
            TimeAxis { x: 0, columns: 3, start_ns: 0, length_ns: 1 }.ruler(Some((5, 2)), None, 1),
            "  ["
        );
    }

    proptest! {
        #[test]
        fn cells_cover_all_time_and_find_themselves(columns in 1u16..500, length_ns in any::<u64>(), at in any::<u64>()) {
            let axis = TimeAxis { x: 0, columns, start_ns: 0, length_ns };
            let at = at % length_ns.max(1);
            let (from_ns, to_ns) = axis.time_of(axis.column_of(at));
            if length_ns > u64::from(columns) {
                prop_assert!((from_ns..to_ns).contains(&at), "{at} in {from_ns}..{to_ns}");
                prop_assert_eq!(axis.time_of(0).0, 0);
                prop_assert_eq!(axis.time_of(columns - 1).1, length_ns);
            }
        }
    }
}
