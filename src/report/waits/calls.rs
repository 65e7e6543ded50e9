//! Calls in which programs wait for each other's threads, by the names of the functions.

use crate::profile::Reason;
use crate::report::naming::code::rust_library_file;

/// Calls that wait until work arrives, by a part of their name: semaphores, parked threads, and the end of another
/// thread.
const PARKS: [&str; 15] = [
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
    "pthread_join",
    "pthread_clockjoin",
    "pthread_timedjoin",
    "thread::park",
    "thread_parking",
    "Parker::park",
    "PlatformEvent::park",
    "runtime.futexsleep",
    "runtime.notesleep",
    "runtime.notetsleep",
    "runtime.mPark",
    "absl::Notification::",
];

/// The same that wait for a condition.
const CONDITIONS: [&str; 14] = [
    "pthread_cond_",
    "cond_wait",
    "cond_timedwait",
    "condvar",
    "Condvar",
    "condition_variable",
    "WaitOnAddress",
    "absl::CondVar::",
    "__cnd_wait",
    "ObjectMonitor::wait",
    "PlatformMonitor::wait",
    "ConditionObject.await",
    "sync.(*Cond).Wait",
    "sync.runtime_notifyListWait",
];

/// Calls that wait for one certain lock, by a part of their name: a thread that waits there has work to do.
const LOCKS: [&str; 30] = [
    "mutex_lock",
    "mutex_cond_lock",
    "mutex_timedlock",
    "mutex_clocklock",
    "lll_lock",
    "lock_slow",
    "lock_contended",
    "rwlock",
    "Mutex::lock",
    "Mutex>::lock",
    "RwLock",
    "runtime.lock2",
    "(*Mutex).Lock",
    "(*Mutex).lockSlow",
    "(*RWMutex).",
    "SemacquireMutex",
    "SemacquireRWMutex",
    "take_gil",
    "PyThread_acquire_lock",
    "PyMutex_Lock",
    "Mutex::Lock",
    "spin_lock",
    "__cxa_guard_acquire",
    "pthread_once",
    "down_read",
    "ObjectMonitor::enter",
    "ObjectMonitor::EnterI",
    "ObjectMonitor::ReenterI",
    "AbstractQueuedSynchronizer.acquire",
    "ReentrantLock.lock",
];

/// Locks whose waiters look again each time that a timer wakes them, until they have it.
const RECHECKED_LOCKS: [&str; 3] = ["take_gil", "ObjectMonitor::EnterI", "ObjectMonitor::ReenterI"];

/// Functions that wait for the lock of an interpreter, or for another thread to take it.
const INTERPRETER_LOCKS: [&str; 2] = ["take_gil", "drop_gil"];

/// Locks of which a runtime makes whatever its programs wait for: Python's conditions, queues and ends of threads are its locks.
const LOCKS_FOR_ALL: [&str; 1] = ["PyThread_acquire_lock"];

/// The same by files of Rust's standard library, for inlined functions of which only line tables are there.
const PARK_FILES: [&str; 1] = ["/thread_parking/"];
const CONDITION_FILES: [&str; 1] = ["/condvar"];
const LOCK_FILES: [&str; 3] = ["/mutex/", "/mutex.rs", "/rwlock"];

/// Facts that the name of a function tells of the wait inside of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WaitingCall {
    /// Programs wait for work with the function.
    pub(super) parks: bool,
    /// The function waits for a condition.
    pub(super) is_condition: bool,
    /// The function waits for one certain lock.
    pub(crate) locks: bool,
    /// The function waits until the lock is there, though a timer may wake the thread in between.
    pub(super) is_rechecked: bool,
    /// The wait may be for a condition or for the end of a thread.
    pub(super) may_be_other: bool,
    /// The function waits for the lock of an interpreter.
    pub(super) is_gil: bool,
}

impl WaitingCall {
    /// Finds the facts of the function called `name`, of the source file `file` if that is known; none for most.
    pub(crate) fn of(name: &str, file: &str) -> Self {
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        let file = rust_library_file(file);
        let is_in = |parts: &[&str]| file.is_some_and(|file| parts.iter().any(|part| file.contains(part)));
        let is_condition = has(&CONDITIONS) || is_in(&CONDITION_FILES);
        WaitingCall {
            parks: is_condition || has(&PARKS) || is_in(&PARK_FILES),
            is_condition,
            locks: has(&LOCKS) || is_in(&LOCK_FILES),
            is_rechecked: has(&RECHECKED_LOCKS),
            may_be_other: has(&LOCKS_FOR_ALL),
            is_gil: has(&INTERPRETER_LOCKS),
        }
    }

    /// With what another function says that is part of the same call.
    pub(crate) fn and(self, other: WaitingCall) -> Self {
        WaitingCall {
            parks: self.parks || other.parks,
            is_condition: self.is_condition || other.is_condition,
            locks: self.locks || other.locks,
            is_rechecked: self.is_rechecked || other.is_rechecked,
            may_be_other: self.may_be_other || other.may_be_other,
            is_gil: self.is_gil || other.is_gil,
        }
    }

    /// Whether it says anything.
    pub(super) fn is_any(self) -> bool {
        self.parks || self.locks
    }
}

/// What a function of Ruby waits for, a method or one that is made of C, whatever it does that with. Of a method the name is
/// not enough that others have too: `wait` waits for children, and for files.
pub(super) fn ruby_wait(name: &str, is_method: bool) -> Option<Reason> {
    match (name, is_method) {
        ("sleep", true) => Some(Reason::Sleep),
        ("rb_waitpid", false) => Some(Reason::Child),
        _ => None,
    }
}

/// Whether a function is one of `names`: as they are exported, not as glibc or the compiler call a copy of them
/// (`__GI_getaddrinfo`, `sock_recv_guts.isra.0`).
pub(super) fn is_one_of(name: &str, names: &[&str]) -> bool {
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    let copy = [".isra.", ".constprop.", ".part."].iter().filter_map(|mark| name.find(mark)).min();
    let name = &name[..copy.unwrap_or(name.len())];
    names.contains(&name) || names.contains(&name.trim_start_matches('_'))
}
