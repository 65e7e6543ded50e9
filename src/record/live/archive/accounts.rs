//! Times of threads that still live: their accounts from the kernel side, all read together, and updated with what was
//! seen of the threads since.

use crate::bpf::{Account, Doing};
use crate::profile::{Profile, Sample, TaskId, ThreadTime};
use crate::record::waits::living::{Living, NewWait, WaitEnd};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The accounts of all living threads. Times are since the recorder's start.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    /// Accounts by thread id.
    living: FxHashMap<u32, Living>,
    /// The accounts of threads that were living when the archive was cleared, as they were then, by thread id and
    /// start.
    before: FxHashMap<(u32, u64), ThreadTime>,
    /// Time at which the archive was cleared last, ns.
    cleared_ns: u64,
    /// End of the last look at the threads, ns: a thread that was not running then, and of which nothing was received
    /// since, has waited until this time, and so have the rows of its waits. On a busy machine a look takes a while.
    settled_ns: u64,
}

impl Accounts {
    /// Replaces the accounts with those `found` by a look; a thread that is not among them has ended.
    pub(crate) fn look(&mut self, found: Vec<Living>, profile: &Profile) {
        self.living.clear();
        self.settled_ns = found.iter().map(|living| living.time.to_ns).max().unwrap_or(0);
        for living in found {
            self.living.insert(profile.tables.task(living.time.task).tid, living);
        }
    }

    /// Updates the accounts with what was received since the last look, the last ends of waits and samples of running
    /// threads, so that no account is older than what was seen of its thread.
    pub(crate) fn follow(
        &mut self,
        ends: &FxHashMap<u32, WaitEnd>,
        running: &mut [Sample],
        profile: &Profile,
    ) {
        for (tid, end) in ends {
            if let Some(living) = self.living.get_mut(tid) {
                living.came_on_cpu(end);
            }
        }
        running.sort_by_key(|sample| sample.time_ns);
        for sample in running {
            let tid = profile.tables.task(sample.task).tid;
            if let Some(living) = self.living.get_mut(&tid) {
                living.ran(sample.time_ns);
            }
        }
    }

    /// Ends a thread; `time` is its whole account. Returns the part since the archive was cleared, with times since
    /// then.
    pub(crate) fn end(&mut self, tid: u32, time: ThreadTime) -> Option<ThreadTime> {
        if self.living.get(&tid).is_some_and(|living| living.time.to_ns <= time.to_ns) {
            self.living.remove(&tid);
        }
        let since = self.since_cleared(tid, time);
        since.filter(|time| time.to_ns > 0 || self.cleared_ns == 0)
    }

    /// Forgets all threads, because they have ended.
    pub(crate) fn forget(&mut self) {
        self.living.clear();
    }

    /// Starts the accounts over at `now_ns`, which is later than everything passed to [`Accounts::follow`].
    pub(crate) fn clear(&mut self, now_ns: u64) {
        self.cleared_ns = now_ns;
        self.before.clear();
        self.settled_ns = now_ns;
        for (&tid, living) in &self.living {
            // For a running thread, the time since its account's end is unknown. It counts as run after the clearing,
            // because the other way round the thread would have less time than its samples.
            let time = living.settled(now_ns, now_ns);
            self.before.insert((tid, time.from_ns), time);
        }
    }

    /// The times of all threads since the archive was cleared, up to `now_ns`. The time since a thread was last seen is
    /// in none of its parts: it is unaccounted for until the next look.
    pub(crate) fn times(&self, now_ns: u64) -> Vec<ThreadTime> {
        let mut living: Vec<_> = self.living.iter().collect();
        living.sort_unstable_by_key(|(tid, _)| **tid);
        let until_ns = now_ns.saturating_sub(self.cleared_ns);
        let until_now = |(&tid, living): (&u32, &Living)| {
            let settled = living.settled(self.settled_ns, self.cleared_ns);
            let until_settled_ns = settled.to_ns;
            let mut time = self.since_cleared(tid, settled)?;
            living.take_new_wait_out(&mut time, self.cleared_ns..until_settled_ns);
            Some(ThreadTime { to_ns: time.to_ns.max(until_ns), ..time })
        };
        living.into_iter().filter_map(until_now).collect()
    }

    /// The threads' row numbers in the profile, to be replaced when rows get new numbers.
    pub(crate) fn tasks(&mut self) -> impl Iterator<Item = &mut TaskId> {
        let living = self.living.values_mut().map(|living| &mut living.time.task);
        living.chain(self.before.values_mut().map(|time| &mut time.task))
    }

    /// The part of a thread's time after the archive was cleared; `None` if there is none.
    fn since_cleared(&self, tid: u32, time: ThreadTime) -> Option<ThreadTime> {
        let from_ns = time.from_ns.max(self.cleared_ns);
        let life_ns = time.to_ns.checked_sub(from_ns)?;
        let shift = |time: ThreadTime| ThreadTime {
            from_ns: from_ns - self.cleared_ns,
            to_ns: time.to_ns - self.cleared_ns,
            ..time
        };
        if time.from_ns >= self.cleared_ns {
            return Some(shift(time));
        }
        // For a thread that was unknown at the clearing, the part since then is unknown.
        let before = self.before.get(&(tid, time.from_ns))?;
        let on_cpu_ns = time.on_cpu_ns.saturating_sub(before.on_cpu_ns).min(life_ns);
        let no_cpu_ns = time.no_cpu_ns.saturating_sub(before.no_cpu_ns).min(life_ns - on_cpu_ns);
        let blocked_ns =
            time.blocked_ns.saturating_sub(before.blocked_ns).min(life_ns - on_cpu_ns - no_cpu_ns);
        let mut short_waits = time.short_waits.clone();
        for short in &mut short_waits {
            if let Some(before) = before.short_waits.iter().find(|before| before.reason == short.reason) {
                short.count = short.count.saturating_sub(before.count);
                short.time_ns = short.time_ns.saturating_sub(before.time_ns);
            }
        }
        short_waits.retain(|short| short.count > 0);
        Some(shift(ThreadTime {
            on_cpu_ns,
            no_cpu_ns,
            blocked_ns,
            switches: time.switches.saturating_sub(before.switches),
            short_waits,
            ..time
        }))
    }
}

impl Living {
    /// The thread's account, extended to `settled_ns` if it is waiting; it reaches at least `cleared_ns`, when the
    /// archive was cleared.
    fn settled(&self, settled_ns: u64, cleared_ns: u64) -> ThreadTime {
        let mut time = self.time.clone();
        let part_ns = settled_ns.saturating_sub(time.to_ns);
        match self.doing {
            Doing::Running => {}
            Doing::Blocked => time.blocked_ns += part_ns,
            Doing::WantsCpu => time.no_cpu_ns += part_ns,
        }
        let settled_ns = if self.doing == Doing::Running { 0 } else { settled_ns };
        time.to_ns = time.to_ns.max(settled_ns).max(cleared_ns);
        time
    }

    /// Takes the part of a wait without a row out of `time`, the account since the archive was cleared: what is blocked
    /// and in no row would be missing in the sums of the rows. It is unaccounted for until the next look.
    fn take_new_wait_out(&self, time: &mut ThreadTime, shown_ns: Range<u64>) {
        let Some(NewWait { start_ns, wake_ns }) = self.new_wait else { return };
        let within = |time_ns: u64| time_ns.max(shown_ns.start).min(shown_ns.end);
        let (from_ns, wake_ns) = (within(start_ns), within(wake_ns.unwrap_or(u64::MAX)));
        time.blocked_ns = time.blocked_ns.saturating_sub(wake_ns.saturating_sub(from_ns));
        time.no_cpu_ns = time.no_cpu_ns.saturating_sub(shown_ns.end.saturating_sub(wake_ns.max(from_ns)));
    }

    /// Takes the end of a wait. The account in it covers all time until then, including waits that were not sent.
    fn came_on_cpu(&mut self, end: &WaitEnd) {
        let (time, Account { on_cpu_ns, no_cpu_ns, blocked_ns }) = (&mut self.time, end.account);
        let known_ns = on_cpu_ns.saturating_add(no_cpu_ns).saturating_add(blocked_ns);
        // Another thread may have the number by now.
        let is_its_own = end.end_ns.checked_sub(time.from_ns).is_some_and(|life_ns| known_ns <= life_ns);
        if end.end_ns > time.to_ns && is_its_own {
            (time.on_cpu_ns, time.no_cpu_ns, time.blocked_ns) = (on_cpu_ns, no_cpu_ns, blocked_ns);
            time.to_ns = end.end_ns;
            (self.doing, self.new_wait) = (Doing::Running, None);
        }
    }

    /// Takes a sample of the thread running. If the thread was waiting when last seen, it is unknown when it came on a
    /// CPU, because the end of that wait was not sent.
    fn ran(&mut self, time_ns: u64) {
        let time = &mut self.time;
        if time_ns > time.to_ns {
            if self.doing == Doing::Running {
                time.on_cpu_ns += time_ns - time.to_ns;
            }
            time.to_ns = time_ns;
            (self.doing, self.new_wait) = (Doing::Running, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Meta, Reason, ShortWaits, Task};

    /// A profile with thread 7.
    fn profile() -> Profile {
        let mut profile = Profile::new(Meta::default());
        profile.tables.intern_task(Task { pid: 7, tid: 7, ..Task::default() });
        profile
    }

    fn time(from_ns: u64, to_ns: u64, [on_cpu_ns, no_cpu_ns, blocked_ns]: [u64; 3]) -> ThreadTime {
        let task = TaskId(0);
        ThreadTime { task, from_ns, to_ns, on_cpu_ns, no_cpu_ns, blocked_ns, ..ThreadTime::default() }
    }

    fn running(time_ns: u64) -> Sample {
        Sample { time_ns, ..Sample::default() }
    }

    /// The end of a wait of thread 7.
    fn end(end_ns: u64, [on_cpu_ns, no_cpu_ns, blocked_ns]: [u64; 3]) -> FxHashMap<u32, WaitEnd> {
        let account = Account { on_cpu_ns, no_cpu_ns, blocked_ns };
        [(7, WaitEnd { end_ns, account })].into_iter().collect()
    }

    fn living(time: ThreadTime, doing: Doing) -> Vec<Living> {
        vec![Living { time, doing, new_wait: None }]
    }

    /// Start, end, and the parts of the time between them.
    fn parts(accounts: &Accounts) -> Vec<[u64; 5]> {
        let parts = |time: ThreadTime| {
            assert_eq!(
                time.on_cpu_ns + time.no_cpu_ns + time.blocked_ns,
                time.to_ns - time.from_ns,
                "{time:?}"
            );
            [time.from_ns, time.to_ns, time.on_cpu_ns, time.no_cpu_ns, time.blocked_ns]
        };
        accounts.times(0).into_iter().map(parts).collect()
    }

    #[test]
    fn an_account_is_never_behind_the_samples_and_waits_of_its_thread() {
        let (mut accounts, profile) = (Accounts::default(), profile());
        accounts.look(living(time(0, 1_000, [400, 100, 500]), Doing::Running), &profile);
        // The account includes the first.
        let mut samples = [running(2_500), running(900), running(1_200)];
        accounts.follow(&end(2_100, [900, 200, 1_000]), &mut samples, &profile);
        assert_eq!(parts(&accounts), [[0, 2_500, 1_300, 200, 1_000]]);
        accounts.follow(&end(2_100, [900, 200, 1_000]), &mut [], &profile);
        assert_eq!(parts(&accounts), [[0, 2_500, 1_300, 200, 1_000]], "that was known");
        // The next look has the exact numbers.
        accounts.look(living(time(0, 3_000, [1_700, 250, 1_050]), Doing::Blocked), &profile);
        assert_eq!(parts(&accounts), [[0, 3_000, 1_700, 250, 1_050]]);
    }

    #[test]
    fn what_is_not_known_yet_is_in_no_part_of_the_time_until_now() {
        let (mut accounts, profile) = (Accounts::default(), profile());
        accounts.look(living(time(0, 1_000, [400, 100, 500]), Doing::Running), &profile);
        let known = |time: &ThreadTime| time.on_cpu_ns + time.no_cpu_ns + time.blocked_ns;
        let until = |accounts: &Accounts, now_ns| {
            let times = accounts.times(now_ns);
            (times[0].from_ns, times[0].to_ns, known(&times[0]))
        };
        assert_eq!(until(&accounts, 1_300), (0, 1_300, 1_000));
        accounts.clear(1_300);
        accounts.look(living(time(0, 2_000, [900, 100, 1_000]), Doing::Blocked), &profile);
        assert_eq!(until(&accounts, 2_500), (0, 1_200, 700));
    }

    #[test]
    fn a_wait_of_which_the_account_has_a_part_counts_once() {
        let (mut accounts, profile) = (Accounts::default(), profile());
        accounts.look(living(time(0, 1_000, [400, 0, 600]), Doing::Blocked), &profile);
        accounts.follow(&end(1_700, [400, 0, 1_300]), &mut [], &profile);
        assert_eq!(parts(&accounts), [[0, 1_700, 400, 0, 1_300]]);
    }

    /// The end of a wait may be missing because waits are sampled, the wait was short, or it was lost: 0.9 s too much
    /// of running had been shown on a crowded machine.
    #[test]
    fn a_wait_whose_end_was_not_sent_is_not_taken_for_running() {
        let (mut accounts, profile) = (Accounts::default(), profile());
        let known = |accounts: &Accounts| {
            let time = accounts.times(0).remove(0);
            [time.to_ns, time.on_cpu_ns, time.no_cpu_ns, time.blocked_ns]
        };
        accounts.look(living(time(0, 1_000, [400, 0, 600]), Doing::Blocked), &profile);
        accounts.follow(&FxHashMap::default(), &mut [running(5_000), running(5_100)], &profile);
        assert_eq!(known(&accounts), [5_100, 500, 0, 600]);
        // The end of the next wait has the whole account.
        accounts.follow(&end(7_000, [1_000, 500, 5_500]), &mut [], &profile);
        assert_eq!(known(&accounts), [7_000, 1_000, 500, 5_500]);
    }

    #[test]
    fn the_end_of_a_wait_of_a_thread_that_had_the_number_before_is_not_followed() {
        let (mut accounts, profile) = (Accounts::default(), profile());
        accounts.look(living(time(1_000, 1_500, [400, 0, 100]), Doing::Running), &profile);
        accounts.follow(&end(1_600, [1_000, 0, 600]), &mut [], &profile);
        assert_eq!(parts(&accounts), [[1_000, 1_500, 400, 0, 100]]);
    }

    #[test]
    fn threads_that_wait_while_others_are_looked_at_have_waited_until_the_end_of_the_look() {
        let (mut accounts, mut profile) = (Accounts::default(), profile());
        for tid in [8, 9] {
            profile.tables.intern_task(Task { pid: 7, tid, ..Task::default() });
        }
        let of = |task, time| ThreadTime { task: TaskId(task), ..time };
        let found = vec![
            Living { time: of(0, time(0, 1_000, [400, 0, 600])), doing: Doing::Blocked, new_wait: None },
            Living { time: of(1, time(0, 1_100, [1_100, 0, 0])), doing: Doing::Running, new_wait: None },
            Living { time: of(2, time(0, 1_500, [0, 1_500, 0])), doing: Doing::WantsCpu, new_wait: None },
        ];
        accounts.look(found, &profile);
        assert_eq!(
            parts(&accounts),
            [[0, 1_500, 400, 0, 1_100], [0, 1_100, 1_100, 0, 0], [0, 1_500, 0, 1_500, 0]]
        );
    }

    /// Regression: the account reached to the last event after a look, but the row of its wait only to the end of the
    /// look.
    #[test]
    fn a_thread_that_goes_on_waiting_is_not_ahead_of_the_row_of_its_wait() {
        let (mut accounts, mut profile) = (Accounts::default(), profile());
        profile.tables.intern_task(Task { pid: 7, tid: 8, ..Task::default() });
        let of = |task, time| ThreadTime { task: TaskId(task), ..time };
        let found = vec![
            Living { time: of(0, time(0, 1_000, [0, 0, 1_000])), doing: Doing::Blocked, new_wait: None },
            Living { time: of(1, time(0, 1_010, [0, 0, 1_010])), doing: Doing::Blocked, new_wait: None },
        ];
        accounts.look(found, &profile);
        // What arrives after the look is about one of them only.
        accounts.follow(&end(1_900, [0, 0, 1_900]), &mut [], &profile);
        assert_eq!(parts(&accounts), [[0, 1_900, 0, 0, 1_900], [0, 1_010, 0, 0, 1_010]]);
    }

    /// On a crowded machine an event from before the end of a look may arrive after it: 1.2 ms of waiting for a CPU had
    /// been shown as a sleep.
    #[test]
    fn what_comes_late_corrects_what_a_thread_was_thought_to_do() {
        let (mut accounts, mut profile) = (Accounts::default(), profile());
        profile.tables.intern_task(Task { pid: 7, tid: 8, ..Task::default() });
        let of = |task, time| ThreadTime { task: TaskId(task), ..time };
        let found = vec![
            Living { time: of(0, time(0, 1_000, [400, 100, 500])), doing: Doing::WantsCpu, new_wait: None },
            Living { time: of(1, time(0, 1_500, [0, 0, 1_500])), doing: Doing::Blocked, new_wait: None },
        ];
        accounts.look(found, &profile);
        assert_eq!(parts(&accounts)[0], [0, 1_500, 400, 600, 500]);
        accounts.follow(&end(1_400, [420, 150, 830]), &mut [], &profile);
        assert_eq!(parts(&accounts)[0], [0, 1_400, 420, 150, 830]);
    }

    /// Of 1,000 threads that sleep by turns, 15 s of each picture were in their accounts and in no row.
    #[test]
    fn a_wait_that_has_no_row_yet_is_not_accounted_for() {
        let (mut accounts, profile) = (Accounts::default(), profile());
        let look = |accounts: &mut Accounts, [on_cpu_ns, no_cpu_ns, blocked_ns]: [u64; 3], new_wait| {
            let to_ns = on_cpu_ns + no_cpu_ns + blocked_ns;
            let time = time(0, to_ns, [on_cpu_ns, no_cpu_ns, blocked_ns]);
            accounts.look(vec![Living { time, doing: Doing::Blocked, new_wait }], &profile);
        };
        let shown = |accounts: &Accounts| {
            let time = accounts.times(0).remove(0);
            [time.to_ns, time.on_cpu_ns, time.no_cpu_ns, time.blocked_ns]
        };
        let new = |start_ns, wake_ns| Some(NewWait { start_ns, wake_ns });
        look(&mut accounts, [400, 0, 600], new(900, None));
        assert_eq!(shown(&accounts), [1_000, 400, 0, 500]);
        look(&mut accounts, [400, 40, 660], new(900, Some(1_060)));
        assert_eq!(shown(&accounts), [1_100, 400, 0, 500], "it is ready, and has no CPU yet");
        // The end of the wait has a row.
        accounts.follow(&end(1_200, [400, 140, 660]), &mut [], &profile);
        assert_eq!(shown(&accounts), [1_200, 400, 140, 660]);

        // Of one that goes on while the archive is cleared, only the part since then is in the account.
        look(&mut accounts, [500, 140, 860], new(1_300, None));
        accounts.clear(1_550);
        assert_eq!(shown(&accounts), [0, 0, 0, 0]);
        look(&mut accounts, [500, 140, 960], new(1_300, None));
        assert_eq!(shown(&accounts), [50, 0, 0, 0]);
        look(&mut accounts, [500, 140, 1_060], None);
        assert_eq!(shown(&accounts), [150, 0, 0, 150], "it has its row now");
        look(&mut accounts, [600, 140, 1_160], new(1_850, None));
        assert_eq!(shown(&accounts), [350, 100, 0, 200]);
    }

    #[test]
    fn after_time_began_anew_only_what_was_since_counts() {
        let (mut accounts, profile) = (Accounts::default(), profile());
        let short = |count| vec![ShortWaits { reason: Reason::Lock, count, time_ns: count * 10 }];
        let with =
            |time: ThreadTime, count| ThreadTime { short_waits: short(count), switches: count, ..time };
        accounts.look(living(with(time(0, 1_000, [400, 0, 600]), 5), Doing::Blocked), &profile);
        accounts.clear(1_200);
        assert_eq!(parts(&accounts), [[0, 0, 0, 0, 0]]);
        let now = with(time(0, 3_000, [1_000, 200, 1_800]), 8);
        accounts.look(living(now.clone(), Doing::Running), &profile);
        assert_eq!(parts(&accounts), [[0, 1_800, 600, 200, 1_000]]);
        let times = accounts.times(0);
        assert_eq!((times[0].switches, &times[0].short_waits), (3, &short(3)));
        let ended = accounts.end(7, ThreadTime { has_ended: true, ..now }).expect("it lived since");
        assert_eq!((ended.to_ns, ended.on_cpu_ns, ended.blocked_ns), (1_800, 600, 1_000));
        assert_eq!(parts(&accounts), [[0; 5]; 0], "it has ended");
        // A thread that began since counts as a whole; of one unknown before, the time since is unknown.
        let young = accounts.end(7, time(2_000, 2_500, [500, 0, 0])).expect("it lived since");
        assert_eq!((young.from_ns, young.to_ns, young.on_cpu_ns), (800, 1_300, 500));
        assert_eq!(accounts.end(7, time(600, 2_500, [1_900, 0, 0])), None);
        assert_eq!(accounts.end(7, time(0, 1_100, [1_100, 0, 0])), None, "it ended before");
    }

    #[test]
    fn the_end_of_a_thread_whose_number_another_one_has_by_now_ends_nobody_else() {
        let (mut accounts, profile) = (Accounts::default(), profile());
        accounts.look(living(time(1_500, 2_000, [500, 0, 0]), Doing::Running), &profile);
        assert!(accounts.end(7, time(0, 1_400, [1_400, 0, 0])).is_some());
        assert_eq!(parts(&accounts), [[1_500, 2_000, 500, 0, 0]]);
    }
}
