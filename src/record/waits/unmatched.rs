//! What is known of waits before the record comes that tells of their end.

use rustc_hash::FxHashMap;

/// Values, at most.
const MAX_VALUES: usize = 1 << 17;
/// Entries kept for each thread when space runs out: a thread has one open wait, and the records of a few earlier
/// ones may be late.
const KEPT_OF_THREAD: usize = 8;

/// Values by thread and time. When there are too many, those give way that no one has asked for: the records of short waits
/// never come.
#[derive(Debug)]
pub(crate) struct Pending<V> {
    /// Records by thread, in the order of arrival.
    by_thread: FxHashMap<u32, Vec<(u64, V)>>,
    values: usize,
    max_values: usize,
}

impl<V> Default for Pending<V> {
    fn default() -> Self {
        Pending { by_thread: FxHashMap::default(), values: 0, max_values: MAX_VALUES }
    }
}

impl<V> Pending<V> {
    /// Keeps a value.
    pub(crate) fn insert(&mut self, tid: u32, time_ns: u64, value: V) {
        if self.values >= self.max_values {
            self.make_room();
        }
        self.by_thread.entry(tid).or_default().push((time_ns, value));
        self.values += 1;
    }

    /// Takes a value out.
    pub(crate) fn take(&mut self, tid: u32, time_ns: u64) -> Option<V> {
        let of_thread = self.by_thread.get_mut(&tid)?;
        // Most likely it came last.
        let at = of_thread.iter().rposition(|(time, _)| *time == time_ns)?;
        let (_, value) = of_thread.remove(at);
        self.values -= 1;
        if of_thread.is_empty() {
            self.by_thread.remove(&tid);
        }
        Some(value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.by_thread.values_mut().flatten().map(|(_, value)| value)
    }

    fn make_room(&mut self) {
        for of_thread in self.by_thread.values_mut() {
            of_thread.drain(..of_thread.len().saturating_sub(KEPT_OF_THREAD));
        }
        if self.by_thread.values().map(Vec::len).sum::<usize>() > self.max_values / 2 {
            self.forget_older_half();
        }
        self.values = self.by_thread.values().map(Vec::len).sum();
    }

    /// Forgets the threads that have sent nothing for longest.
    fn forget_older_half(&mut self) {
        let newest = |of_thread: &[(u64, V)]| of_thread.iter().map(|(time, _)| *time).max();
        let mut times: Vec<_> = self.by_thread.values().map(|of_thread| newest(of_thread)).collect();
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        let median = *median;
        self.by_thread.retain(|_, of_thread| newest(of_thread) > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_thread_and_time_once() {
        let mut pending = Pending::default();
        pending.insert(7, 100, "a");
        pending.insert(7, 200, "b");
        pending.insert(8, 100, "c");
        assert_eq!(pending.take(7, 100), Some("a"));
        assert_eq!(pending.take(7, 100), None);
        assert_eq!((pending.take(8, 100), pending.take(7, 200)), (Some("c"), Some("b")));
        assert!(pending.by_thread.is_empty() && pending.values == 0);
    }

    /// All of the waits of ten seconds may have to wait for a table.
    #[test]
    fn many_late_values_of_one_thread_are_all_found() {
        let mut pending = Pending::default();
        for time_ns in 0..10_000 {
            pending.insert(7, time_ns, time_ns);
        }
        assert!((0..10_000).all(|time_ns| pending.take(7, time_ns) == Some(time_ns)));
    }

    /// A thread's short waits are dropped first; a long wait of another thread is not forgotten for their sake.
    #[test]
    fn what_nobody_asks_for_gives_way_to_the_same_threads_next() {
        let mut pending = Pending::default();
        pending.insert(1, 5, 0);
        for time_ns in 0..1_000_000 {
            pending.insert(2, time_ns, 1);
            assert!(pending.values <= MAX_VALUES);
        }
        let count = pending.values_mut().count();
        assert_eq!(pending.values, count);
        assert_eq!((pending.take(1, 5), pending.take(2, 999_999)), (Some(0), Some(1)));
    }

    #[test]
    fn too_many_threads_forget_those_that_were_heard_of_first() {
        let mut pending = Pending { max_values: 100, ..Pending::default() };
        for tid in 0..150 {
            pending.insert(tid, u64::from(tid), tid);
        }
        assert!((50..=100).contains(&pending.values), "{}", pending.values);
        assert!(pending.take(149, 149).is_some() && pending.take(0, 0).is_none());
    }
}
