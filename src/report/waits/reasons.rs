//! Why threads waited, as far as names say more than the recorder could know: a futex is what locks, condition variables,
//! semaphores and the ends of threads are made of, and only the functions that call it tell which it was.
//!
//! What a file holds stays as it is: every view asks here, so that all of them say the same.

use super::blocking::BlockingCalls;
use crate::profile::{Profile, Reason, Sample, StackId, Wait};
use crate::report::model::activity::Activity;
use rustc_hash::FxHashMap;

/// The reasons of all waits of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reasons {
    /// Reasons of the stacks of waits that were recorded as waits for a lock.
    of_lock: FxHashMap<StackId, Reason>,
    /// Stacks of waits that were recorded as sleeps, since a timer ended them, and are for a lock: its kind.
    rechecked_locks: FxHashMap<StackId, Reason>,
    /// What stacks of waits that were recorded as ones for events are for, where that is something else.
    polls: FxHashMap<StackId, Option<Reason>>,
}

impl Reasons {
    /// Finds the reasons of the waits of `profile`.
    pub(crate) fn of(profile: &Profile) -> Self {
        let mut calls = BlockingCalls::new(profile);
        let mut reasons = Reasons::default();
        let mut is_known = vec![false; profile.tables.stacks().len()];
        for event in profile.events.iter().filter(|event| event.has_waits()) {
            for sample in event.samples() {
                let (Some(wait), Some(stack)) = (sample.wait, sample.stack) else { continue };
                match wait.reason {
                    Reason::Lock => {
                        reasons.of_lock.entry(stack).or_insert_with(|| calls.of_lock(stack));
                    }
                    Reason::Sleep if std::mem::replace(&mut is_known[stack.index()], true) => {}
                    Reason::Sleep => {
                        let lock = calls.rechecked_lock(stack);
                        reasons.rechecked_locks.extend(lock.map(|lock| (stack, lock)));
                    }
                    Reason::Poll => {
                        reasons.polls.entry(stack).or_insert_with(|| calls.polls_for(stack));
                    }
                    _ => {}
                }
            }
        }
        reasons
    }

    /// Why the thread of a wait waited.
    pub(crate) fn reason(&self, wait: &Wait, stack: Option<StackId>) -> Reason {
        match (wait.reason, stack) {
            (Reason::Lock, Some(stack)) => self.of_lock.get(&stack).copied().unwrap_or(Reason::Futex),
            (Reason::Sleep, Some(stack)) => {
                self.rechecked_locks.get(&stack).copied().unwrap_or(Reason::Sleep)
            }
            (Reason::Poll, Some(stack)) => self.polls.get(&stack).copied().flatten().unwrap_or(Reason::Poll),
            (reason, None) => of_short(reason),
            (reason, _) => reason,
        }
    }

    /// Activity of the thread of a sample.
    pub(crate) fn activity(&self, sample: &Sample) -> Activity {
        sample.wait.map_or(Activity::Running, |wait| Activity::Waiting(self.reason(&wait, sample.stack)))
    }
}

/// Why a thread waited, of a wait without a stack.
pub(crate) fn of_short(reason: Reason) -> Reason {
    if reason == Reason::Lock { Reason::Futex } else { reason }
}

#[cfg(test)]
mod tests {
    use crate::profile::{Reason, Waker};
    use crate::report::tests::fixture::Build;
    use crate::report::{CommonOptions, FilterOptions, Metric, SortKey, WaitTable};

    const LIBC: &str = "/usr/lib/libc.so.6";
    const JVM: &str = "/usr/lib/jvm/lib/server/libjvm.so";

    /// The reason that views show of a wait in a futex whose functions, root first, are `stack`.
    fn reason(stack: &[&str]) -> Reason {
        reason_of(Reason::Lock, stack)
    }

    /// The same of a wait that was recorded for a reason.
    fn reason_of(recorded: Reason, stack: &[&str]) -> Reason {
        let mut build = Build::new();
        let task = build.task(1, 1, "app", "app");
        let with_kernel = [stack, &["[kernel]:do_syscall_64", "[kernel]:futex_wait_queue"]].concat();
        build.thinned_wait(task, recorded, [0, 1_000_000, 1_000_000], &with_kernel, Waker::default());
        let recording = build.finish();
        let filter = FilterOptions { idle: true, ..FilterOptions::default() };
        let options = CommonOptions { metric: Some(Metric::OFF_CPU), filter, ..CommonOptions::default() };
        let selection = recording.select(&options).unwrap();
        // The table and the tree must agree.
        let rows = WaitTable::new(&selection, SortKey::SelfWeight).rows;
        let tail = selection.path_of(0).pop().unwrap();
        assert_eq!(selection.labels.get(tail.label).name, format!("[{}]", rows[0].reason.label()));
        rows[0].reason
    }

    fn in_app(functions: &[&str], library: &[(&str, &str)]) -> Reason {
        let own = functions.iter().map(|name| format!("/usr/bin/app:{name}"));
        let rest = library.iter().map(|(module, name)| format!("{module}:{name}"));
        let stack: Vec<String> = own.chain(rest).collect();
        reason(&stack.iter().map(String::as_str).collect::<Vec<_>>())
    }

    #[test]
    fn ruby_sleeps_and_waits_for_children_in_poll() {
        const RUBY: &str = "/usr/lib/libruby-3.1.so.3.1";
        let wait = |inner: &str, library: &str| {
            let stack = ["/usr/bin/ruby3.1:main", "ruby 3.1:work", inner, library, &format!("{LIBC}:ppoll")];
            reason_of(Reason::Poll, &stack)
        };
        assert_eq!(wait("ruby 3.1:sleep", &format!("{RUBY}:rb_thread_wait_for")), Reason::Sleep);
        assert_eq!(wait("ruby 3.1:wait", &format!("{RUBY}:rb_waitpid")), Reason::Child);
        assert_eq!(wait("ruby 3.1:wait", &format!("{RUBY}:rb_io_wait")), Reason::Poll, "for a file");
        assert_eq!(wait("ruby 3.1:select", &format!("{RUBY}:rb_thread_fd_select")), Reason::Poll);
        assert_eq!(wait("ruby 3.1:sleep", "/usr/lib/libpq.so.5:PQexec"), Reason::Poll, "in a library");
        assert_eq!(wait("python 3.11:sleep", &format!("{RUBY}:rb_thread_wait_for")), Reason::Poll);
    }

    /// Python's functions that wait for its lock are not exported, so that they have no names in stripped programs.
    #[test]
    fn an_interpreters_lock_is_known_without_the_name_of_the_function_that_waits() {
        let python =
            ["_PyEval_EvalFrameDefault", "+0x1234"].map(|name| format!("/usr/bin/python3.11:{name}"));
        let wait =
            ["pthread_cond_timedwait", "__futex_abstimed_wait_common64"].map(|name| format!("{LIBC}:{name}"));
        let stack = [&python[0], &python[1], &wait[0], &wait[1]].map(String::as_str);
        assert_eq!(reason(&stack), Reason::Gil);
        assert_eq!(reason_of(Reason::Sleep, &stack), Reason::Gil, "a timer woke it");
        let own = ["/usr/bin/app:main", "/usr/bin/app:+0x1234", stack[2], stack[3]];
        assert_eq!(reason(&own), Reason::Condvar);
    }

    #[test]
    fn locks_and_condition_variables_are_told_apart_by_who_calls() {
        let lock = |functions: &[&str], library: &[(&str, &str)]| {
            assert_eq!(in_app(functions, library), Reason::Lock, "{functions:?} {library:?}");
        };
        let condition = |functions: &[&str], library: &[(&str, &str)]| {
            assert_eq!(in_app(functions, library), Reason::Condvar, "{functions:?} {library:?}");
        };
        let other = |functions: &[&str], library: &[(&str, &str)]| {
            assert_eq!(in_app(functions, library), Reason::Futex, "{functions:?} {library:?}");
        };
        const LOCK: [(&str, &str); 2] =
            [(LIBC, "pthread_mutex_lock@@GLIBC_2.2.5"), (LIBC, "__lll_lock_wait")];
        const CONDITION: [(&str, &str); 2] =
            [(LIBC, "pthread_cond_wait"), (LIBC, "__futex_abstimed_wait_common64")];
        lock(&["main", "pool_get"], &LOCK);
        condition(&["main", "worker"], &CONDITION);
        condition(
            &["main", "worker"],
            &[("/usr/lib/libstdc++.so.6", "std::condition_variable::wait"), CONDITION[0]],
        );
        // A condition variable takes its lock again.
        lock(&["main", "worker"], &[CONDITION[0], (LIBC, "__pthread_mutex_cond_lock"), LOCK[1]]);
        other(&["main", "join_all"], &[(LIBC, "__pthread_clockjoin_ex"), CONDITION[1]]);
        other(&["main", "next_job"], &[(LIBC, "sem_wait"), CONDITION[1]]);
        other(&["main", "own_futex"], &[(LIBC, "syscall")]);
        // Rust.
        lock(&["main", "<std::sys::sync::mutex::futex::Mutex>::lock_contended"], &[(LIBC, "syscall")]);
        condition(
            &["main", "<std::sys::sync::condvar::futex::Condvar>::wait_optional_timeout"],
            &[(LIBC, "syscall")],
        );
        lock(&["main", "parking_lot::raw_mutex::RawMutex::lock_slow"], &[(LIBC, "syscall")]);
        condition(&["main", "parking_lot::condvar::Condvar::wait_until_internal"], &[(LIBC, "syscall")]);
        other(&["main", "std::thread::park"], &[(LIBC, "syscall")]);
        // Go.
        other(
            &["main.work", "runtime.gopreempt_m", "runtime.stopm", "runtime.notesleep", "runtime.futexsleep"],
            &[],
        );
        lock(&["main.work", "sync.(*Mutex).lockSlow", "runtime.semacquire1", "runtime.notesleep"], &[]);
        lock(&["main.work", "runtime.lock2", "runtime.futexsleep"], &[]);
        condition(&["main.work", "sync.(*Cond).Wait", "runtime.notesleep"], &[]);
        // Python.
        assert_eq!(in_app(&["_PyEval_EvalFrameDefault", "take_gil"], &CONDITION), Reason::Gil);
        // threading.Thread.join(), queue.get() and a lock look alike.
        other(&["_PyEval_EvalFrameDefault", "PyThread_acquire_lock_timed"], &[(LIBC, "sem_clockwait")]);
    }

    #[test]
    fn a_lock_that_is_looked_at_again_by_a_timer_is_no_sleep() {
        let library = |name: &str| format!("{LIBC}:{name}");
        let waits = [library("pthread_cond_timedwait"), library("futex_wait")];
        let slept = |functions: &[&str]| {
            let stack: Vec<&str> =
                functions.iter().copied().chain(waits.iter().map(String::as_str)).collect();
            reason_of(Reason::Sleep, &stack)
        };
        let java =
            ["main", "enter", "EnterI"].map(|name| format!("{JVM}:ObjectMonitor::{name}(JavaThread*)"));
        assert_eq!(slept(&[&java[0], &java[1], &java[2]]), Reason::Lock);
        let python =
            ["_PyEval_EvalFrameDefault", "take_gil"].map(|name| format!("/usr/bin/python3.11:{name}"));
        assert_eq!(slept(&[&python[0], &python[1]]), Reason::Gil);
        // One that may last so long, and no longer, has slept.
        assert_eq!(slept(&["/usr/bin/app:main", &library("pthread_mutex_timedlock")]), Reason::Sleep);
    }

    #[test]
    fn monitors_of_java_are_locks_or_conditions() {
        let java = |functions: &[&str]| {
            let library: Vec<(&str, &str)> = functions.iter().map(|name| (JVM, *name)).collect();
            in_app(&["main"], &[&library[..], &[(LIBC, "pthread_cond_wait"), (LIBC, "futex_wait")]].concat())
        };
        assert_eq!(
            java(&[
                "ObjectMonitor::enter(JavaThread*)",
                "ObjectMonitor::EnterI(JavaThread*)",
                "PlatformEvent::park()"
            ]),
            Reason::Lock
        );
        assert_eq!(
            java(&[
                "ObjectSynchronizer::wait(Handle, long, JavaThread*)",
                "ObjectMonitor::wait(long, bool, JavaThread*)",
                "PlatformEvent::park()"
            ]),
            Reason::Condvar
        );
        assert_eq!(java(&["WatcherThread::sleep() const", "PlatformMonitor::wait(long)"]), Reason::Condvar);
    }

    #[test]
    fn a_lock_of_the_kernel_stays_a_lock() {
        let stack = ["/usr/bin/app:main", "[kernel]:do_syscall_64", "[kernel]:rwsem_down_write_slowpath"];
        let mut build = Build::new();
        let task = build.task(1, 1, "app", "app");
        build.thinned_wait(task, Reason::Lock, [0, 1_000, 1_000], &stack, Waker::default());
        build.thread_time(task, 0, 0, 1_900);
        build.short_waits(Reason::Lock, 3, 900);
        let recording = build.finish();
        let options = CommonOptions { metric: Some(Metric::OFF_CPU), ..CommonOptions::default() };
        let selection = recording.select(&options).unwrap();
        let rows = WaitTable::new(&selection, SortKey::SelfWeight).rows;
        let reasons: Vec<Reason> = rows.iter().map(|row| row.reason).collect();
        // Which lock short waits were for is not known, nor whether it was one.
        assert_eq!(reasons, [Reason::Lock, Reason::Futex]);
    }
}
