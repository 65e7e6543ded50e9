//! Rows of goroutines that snapshots have found, from one snapshot to the next.

use crate::profile::{EventId, LabelSetId, StackId, TaskId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Rows whose last number is remembered.
const MOST_REMEMBERED: usize = 200_000;

/// What goroutines of one row have in common.
type RowKey = (TaskId, Option<StackId>, Option<LabelSetId>);

/// State of the goroutines that are recorded by snapshots.
#[derive(Debug)]
pub(crate) struct GoroutineRows {
    pub(super) event: EventId,
    /// Number of each row in the last snapshot that had it, and the end of its slots.
    last: FxHashMap<RowKey, (u64, u64)>,
    /// Processes that have had a snapshot.
    pub(super) begun: FxHashSet<TaskId>,
}

impl GoroutineRows {
    /// Rows of `event`: there are none yet.
    pub(super) fn new(event: EventId) -> Self {
        GoroutineRows { event, last: FxHashMap::default(), begun: FxHashSet::default() }
    }

    /// Variance of the number of goroutines of a row, by how much it has changed since the snapshot before.
    ///
    /// Half the squared difference of two neighbours estimates the variance of either. A row that was not there before will
    /// most likely go again: both changes count for the one that is seen.
    pub(super) fn variance(&mut self, key: RowKey, count: u64, slots: (u64, u64)) -> f64 {
        let before = self.last.insert(key, (count, slots.1));
        let known = before.filter(|(_, end)| *end == slots.0).map(|(count, _)| count);
        if self.last.len() > MOST_REMEMBERED {
            self.last.retain(|_, (_, end)| *end == slots.1);
        }
        match known {
            // Nothing is known of what was before the first snapshot.
            None if !self.begun.contains(&key.0) => 0.0,
            Some(before) => (count.abs_diff(before) as f64).powi(2) / 2.0,
            None => (count as f64).powi(2),
        }
    }

    /// Forgets rows of the profile, because they get new numbers.
    pub(super) fn forget_rows(&mut self) {
        self.last.clear();
        self.begun.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_stay_have_no_error_and_those_that_come_and_go_have_theirs() {
        let mut rows = GoroutineRows::new(EventId(0));
        let key = (TaskId(1), None, None);
        assert_eq!(rows.variance(key, 3, (0, 1)), 0.0, "the first snapshot");
        rows.begun.insert(TaskId(1));
        assert_eq!(rows.variance(key, 3, (1, 2)), 0.0);
        assert_eq!(rows.variance(key, 5, (2, 3)), 2.0);
        assert_eq!(rows.variance(key, 5, (4, 5)), 25.0, "it was not in the snapshot before");
        assert_eq!(rows.variance(key, 5, (5, 8)), 0.0, "slots without a snapshot count for the next");
    }
}
