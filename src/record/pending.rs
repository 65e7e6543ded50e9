//! What is known of waits before the record comes that tells of their end.

use rustc_hash::FxHashMap;

/// A thread has one open wait, and records of a few before may be late.
const MAX_OF_THREAD: usize = 8;
/// Threads, at most.
const MAX_THREADS: usize = 1 << 16;

/// Values by thread and time. Those that nobody asks for give way to newer ones of the same thread: the records of
/// short waits never come.
#[derive(Debug)]
pub(super) struct Pending<V> {
    /// By thread, in the order of arrival.
    by_thread: FxHashMap<u32, Vec<(u64, V)>>,
    max_threads: usize,
}

impl<V> Default for Pending<V> {
    fn default() -> Self {
        Pending { by_thread: FxHashMap::default(), max_threads: MAX_THREADS }
    }
}

impl<V> Pending<V> {
    /// Keeps a value. Gives how many threads had to be forgotten for it.
    pub(super) fn insert(&mut self, tid: u32, time_ns: u64, value: V) -> u64 {
        let mut forgotten = 0;
        if self.by_thread.len() >= self.max_threads && !self.by_thread.contains_key(&tid) {
            forgotten = self.forget_older_half();
        }
        let of_thread = self.by_thread.entry(tid).or_default();
        if of_thread.len() >= MAX_OF_THREAD {
            of_thread.remove(0);
        }
        of_thread.push((time_ns, value));
        forgotten
    }

    /// Takes a value out.
    pub(super) fn take(&mut self, tid: u32, time_ns: u64) -> Option<V> {
        let of_thread = self.by_thread.get_mut(&tid)?;
        let at = of_thread.iter().position(|(time, _)| *time == time_ns)?;
        let (_, value) = of_thread.remove(at);
        if of_thread.is_empty() {
            self.by_thread.remove(&tid);
        }
        Some(value)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.by_thread.values_mut().flatten().map(|(_, value)| value)
    }

    /// Forgets the threads of which nothing was heard for longest.
    fn forget_older_half(&mut self) -> u64 {
        let newest = |of_thread: &[(u64, V)]| of_thread.iter().map(|(time, _)| *time).max();
        let mut times: Vec<_> = self.by_thread.values().map(|of_thread| newest(of_thread)).collect();
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        let (median, before) = (*median, self.by_thread.len());
        self.by_thread.retain(|_, of_thread| newest(of_thread) > median);
        (before - self.by_thread.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_thread_and_time_once() {
        let mut pending = Pending::default();
        assert_eq!(pending.insert(7, 100, "a"), 0);
        pending.insert(7, 200, "b");
        pending.insert(8, 100, "c");
        assert_eq!(pending.take(7, 100), Some("a"));
        assert_eq!(pending.take(7, 100), None);
        assert_eq!((pending.take(8, 100), pending.take(7, 200)), (Some("c"), Some("b")));
        assert!(pending.by_thread.is_empty());
    }

    /// Of a thread's short waits no more is heard; a long one of another thread is not forgotten for them.
    #[test]
    fn what_nobody_asks_for_gives_way_to_the_same_threads_next() {
        let mut pending = Pending::default();
        pending.insert(1, 5, 0);
        for time_ns in 0..1_000_000 {
            assert_eq!(pending.insert(2, time_ns, 1), 0);
        }
        assert_eq!(pending.values_mut().count(), 1 + MAX_OF_THREAD);
        assert_eq!((pending.take(1, 5), pending.take(2, 999_999)), (Some(0), Some(1)));
    }

    #[test]
    fn too_many_threads_forget_those_that_were_heard_of_first() {
        let mut pending = Pending { max_threads: 100, ..Pending::default() };
        let forgotten: u64 = (0..150).map(|tid| pending.insert(tid, u64::from(tid), tid)).sum();
        assert!((40..=60).contains(&forgotten), "{forgotten}");
        assert!(pending.take(149, 149).is_some() && pending.take(0, 0).is_none());
    }
}
