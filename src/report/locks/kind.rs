//! What a futex is: a lock that a thread holds, or something on which it is signalled, by the functions that wait.

use crate::profile::Reason;

/// Kind of what threads wait for in futexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum LockKind {
    /// A mutex.
    Mutex,
    /// A lock for readers and writers.
    RwLock,
    /// Initialisation that one thread does, for which others wait.
    Once,
    /// A lock of another kind.
    Lock,
    /// The lock of a language's runtime.
    Gil,
    /// A condition variable, or a monitor's.
    Condvar,
    /// A semaphore.
    Semaphore,
    /// The end of a thread.
    Join,
    /// A thread that has put itself to sleep until another wakes it.
    Park,
    /// A channel of Go.
    Channel,
    /// The end of a group of goroutines.
    WaitGroup,
    /// None of these, as far as names tell.
    Futex,
}

/// Parts of names of functions that wait for locks, and of which kind these are; the first that fits counts.
const LOCKS: [(&str, LockKind); 8] = [
    ("rwlock", LockKind::RwLock),
    ("RwLock", LockKind::RwLock),
    ("RWMutex", LockKind::RwLock),
    ("RWLock", LockKind::RwLock),
    ("__cxa_guard_acquire", LockKind::Once),
    ("pthread_once", LockKind::Once),
    ("mutex", LockKind::Mutex),
    ("Mutex", LockKind::Mutex),
];

/// The same of functions that wait for something else.
const SIGNALLED: [(&str, LockKind); 16] = [
    ("runtime.chan", LockKind::Channel),
    ("runtime.selectgo", LockKind::Channel),
    ("WaitGroup", LockKind::WaitGroup),
    ("sem_wait", LockKind::Semaphore),
    ("sem_timedwait", LockKind::Semaphore),
    ("sem_clockwait", LockKind::Semaphore),
    ("Semaphore", LockKind::Semaphore),
    ("semaphore", LockKind::Semaphore),
    ("pthread_join", LockKind::Join),
    ("pthread_clockjoin", LockKind::Join),
    ("pthread_timedjoin", LockKind::Join),
    ("JoinHandle", LockKind::Join),
    ("park", LockKind::Park),
    ("Park", LockKind::Park),
    ("Once", LockKind::Once),
    ("runtime.note", LockKind::Park),
];

/// The same of Java's library, whose threads wait for all of these as for a condition variable.
const OF_JAVA: [(&str, LockKind); 5] = [
    ("java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject", LockKind::Condvar),
    ("java.util.concurrent.locks.ReentrantReadWriteLock$", LockKind::RwLock),
    ("java.util.concurrent.locks.StampedLock", LockKind::RwLock),
    ("java.util.concurrent.locks.ReentrantLock", LockKind::Lock),
    ("java.util.concurrent.Semaphore", LockKind::Semaphore),
];

impl LockKind {
    /// Kind of a wait for `reason` whose functions, innermost first, have these names.
    pub(crate) fn of<'n>(reason: Reason, names: impl Iterator<Item = &'n str> + Clone) -> Self {
        let first = |table: &[(&str, LockKind)]| {
            names
                .clone()
                .find_map(|name| table.iter().find(|(part, _)| name.contains(part)).map(|(_, kind)| *kind))
        };
        match reason {
            Reason::Condvar => first(&OF_JAVA).unwrap_or(LockKind::Condvar),
            Reason::Gil => LockKind::Gil,
            Reason::Lock => first(&LOCKS).unwrap_or(LockKind::Lock),
            _ => first(&SIGNALLED).unwrap_or(LockKind::Futex),
        }
    }

    /// Word for it in tables and documents.
    pub(crate) fn word(self) -> &'static str {
        match self {
            LockKind::Mutex => "mutex",
            LockKind::RwLock => "rwlock",
            LockKind::Once => "once",
            LockKind::Lock => "lock",
            LockKind::Gil => "GIL",
            LockKind::Condvar => "condvar",
            LockKind::Semaphore => "semaphore",
            LockKind::Join => "join",
            LockKind::Park => "park",
            LockKind::Channel => "channel",
            LockKind::WaitGroup => "wait group",
            LockKind::Futex => "futex",
        }
    }

    /// Whether a thread holds it while others wait. Who ends a wait for anything else only signals.
    pub(crate) fn is_held(self) -> bool {
        matches!(self, LockKind::Mutex | LockKind::RwLock | LockKind::Once | LockKind::Lock | LockKind::Gil)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_the_functions_that_wait() {
        let kind = |reason, names: &[&str]| LockKind::of(reason, names.iter().copied()).word();
        assert_eq!(kind(Reason::Lock, &["__lll_lock_wait", "pthread_mutex_lock", "want"]), "mutex");
        assert_eq!(kind(Reason::Lock, &["pthread_rwlock_wrlock", "want"]), "rwlock");
        assert_eq!(kind(Reason::Lock, &["<std::sys::sync::mutex::futex::Mutex>::lock_contended"]), "mutex");
        assert_eq!(kind(Reason::Lock, &["__cxa_guard_acquire"]), "once");
        assert_eq!(kind(Reason::Lock, &["lock_slow"]), "lock");
        assert_eq!(kind(Reason::Condvar, &["pthread_cond_wait"]), "condvar");
        let aqs = "java.util.concurrent.locks.AbstractQueuedSynchronizer";
        let lock = "java.util.concurrent.locks.ReentrantLock$Sync.lock";
        assert_eq!(
            kind(Reason::Condvar, &["pthread_cond_wait", &format!("{aqs}.acquire"), lock, "App.want"]),
            "lock"
        );
        let awaits = format!("{aqs}$ConditionObject.await");
        assert_eq!(kind(Reason::Condvar, &["pthread_cond_wait", &awaits, "App.take"]), "condvar");
        assert_eq!(kind(Reason::Futex, &["__new_sem_wait_slow64", "sem_wait", "work"]), "semaphore");
        assert_eq!(kind(Reason::Futex, &["__pthread_clockjoin_ex", "main"]), "join");
        assert_eq!(kind(Reason::Futex, &["syscall", "std::thread::park"]), "park");
        assert_eq!(kind(Reason::Futex, &["syscall", "own_futex"]), "futex");
        assert_eq!(kind(Reason::Lock, &["sync.(*Mutex).Lock", "main.want"]), "mutex");
        assert_eq!(kind(Reason::Futex, &["runtime.chanrecv1", "main.work"]), "channel");
        assert_eq!(kind(Reason::Futex, &["sync.(*WaitGroup).Wait", "main.main"]), "wait group");
        assert!(LockKind::Gil.is_held() && !LockKind::Condvar.is_held());
    }
}
