//! How many rows of a sorted table are shown.

/// Which rows of a sorted table are shown: its first ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RowLimits {
    /// Largest number of rows.
    pub(crate) most: usize,
    /// Smallest share of all that a row may have, percent.
    pub(crate) least_percent: f64,
}

impl RowLimits {
    /// Rows of a table for people, where nothing else is asked for.
    pub(crate) const DEFAULT_ROWS: usize = 20;
    /// Smallest branch of a tree, where nothing else is asked for, percent of all.
    pub(crate) const DEFAULT_TREE_MIN_PERCENT: f64 = 1.0;

    /// The limits of a table for people, by what they ask for; 0 rows: all.
    pub(crate) fn for_people(rows: Option<usize>, min_percent: Option<f64>) -> Self {
        Self::for_programs(rows.or(Some(Self::DEFAULT_ROWS)), min_percent)
    }

    /// The limits of what has all rows unless fewer are asked for.
    pub(crate) fn for_programs(rows: Option<usize>, min_percent: Option<f64>) -> Self {
        let most = rows.filter(|rows| *rows > 0).unwrap_or(usize::MAX);
        RowLimits { most, least_percent: min_percent.unwrap_or(0.0) }
    }

    /// The rows that are shown of `rows`, which are sorted by their `share`, percent, largest first.
    pub(super) fn of<R>(self, rows: &[R], share: impl Fn(&R) -> f64) -> &[R] {
        let heavy = rows.partition_point(|row| share(row) >= self.least_percent);
        &rows[..heavy.min(self.most)]
    }
}
