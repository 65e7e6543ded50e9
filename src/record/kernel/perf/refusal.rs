//! Why events of tasks cannot be opened, in words.

use crate::base::failure::{Failure, status};
use crate::profile::AddressSettings;
use crate::record::counter::PerfCounter;
use crate::record::environment::rights::{lacks, sysctl_advice};
use crate::record::environment::{descriptors, seccomp};
use std::io;

/// `kernel.perf_event_paranoid` from which on some kernels refuse all events to who has no CAP_PERFMON: a patch of Debian and
/// Ubuntu.
const ALL_REFUSED: i32 = 3;

/// What could not be opened.
#[derive(Debug)]
pub(crate) enum EventRefusal {
    /// A ring.
    Ring(io::Error),
    /// The events of a task, or of all of them.
    Events {
        /// Process of the task.
        tgid: Option<u32>,
        error: io::Error,
    },
    /// The events of a counter.
    Counter { counter: PerfCounter, error: io::Error },
    /// No task is there any more.
    NoTask,
}

impl EventRefusal {
    /// Whether a right is missing.
    pub(crate) fn is_denied(&self) -> bool {
        let (EventRefusal::Ring(error)
        | EventRefusal::Events { error, .. }
        | EventRefusal::Counter { error, .. }) = self
        else {
            return false;
        };
        matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::ENOSYS))
    }

    /// The failure to sample `what`.
    pub(crate) fn failure(&self, what: &str) -> Failure {
        let cannot = format!("cannot sample {what}");
        if let EventRefusal::Counter { counter, error } = self
            && let Some(failure) = counter.lack(error)
        {
            return failure;
        }
        let error = match self {
            EventRefusal::NoTask => {
                return Failure::new(status::FAILED, format!("{cannot}: it has ended"));
            }
            EventRefusal::Ring(error)
            | EventRefusal::Events { error, .. }
            | EventRefusal::Counter { error, .. } => error,
        };
        if descriptors::is_lack(error) {
            return descriptors::lack(&cannot);
        }
        if self.is_denied() && seccomp::filtered_calls().contains(&"perf_event_open") {
            return Failure::new(
                status::NOT_PERMITTED,
                format!("{cannot}: a seccomp filter refuses perf_event_open"),
            )
            .hint("start the container with --security-opt seccomp=unconfined, or with a profile that allows it");
        }
        // Memory is refused by EPERM: this is the event that the ring is of.
        if let EventRefusal::Ring(error) = self
            && error.raw_os_error() == Some(libc::EACCES)
        {
            return denied(&cannot, None);
        }
        if let EventRefusal::Ring(error) = self {
            return Failure::new(status::FAILED, format!("{cannot}: no memory for its records: {error}"))
                .hint(
                    "others of this user's events have locked what kernel.perf_event_mlock_kb allows: end them",
                )
                .hint(format!("or raise the limit: {}, or ulimit -l", sysctl_advice("kernel.perf_event_mlock_kb=4096")));
        }
        match (error.raw_os_error(), self) {
            (Some(libc::EACCES | libc::EPERM), EventRefusal::Events { tgid, .. }) => denied(&cannot, *tgid),
            (Some(libc::EACCES | libc::EPERM), EventRefusal::Counter { counter, .. }) => {
                let why = format!("{cannot}: `{}` counts what happens in the kernel", counter.kind.name);
                Failure::new(status::NOT_PERMITTED, why).hint("run prof with sudo")
            }
            _ => Failure::new(status::FAILED, format!("{cannot}: perf_event_open: {error}"))
                .hint("see what this kernel lacks: prof doctor"),
        }
    }
}

/// The failure where the kernel refuses the events of a process to this user.
fn denied(cannot: &str, tgid: Option<u32>) -> Failure {
    let settings = AddressSettings::of_this_kernel(false).map(|settings| settings.perf_event_paranoid);
    // Some kernels with that patch want more: then no process's events are the reason.
    let right =
        if lacks("CAP_PERFMON") { Some("CAP_PERFMON") } else { tgid.is_none().then_some("CAP_SYS_ADMIN") };
    if let Some((value, right)) = settings.filter(|value| *value >= ALL_REFUSED).zip(right) {
        let why = format!(
            "{cannot}: kernel.perf_event_paranoid is {value}, which refuses every event to users without {right}"
        );
        return Failure::new(status::NOT_PERMITTED, why)
            .hint(format!(
                "allow users to sample their own processes: {}",
                sysctl_advice("kernel.perf_event_paranoid=2")
            ))
            .hint("or run prof with sudo");
    }
    let why = match tgid {
        Some(pid) => format!("{cannot}: pid {pid} belongs to another user, or may not be looked at"),
        None => format!("{cannot}: the kernel refuses it"),
    };
    Failure::new(status::NOT_PERMITTED, why).hint("run prof with sudo, or as the user of the process")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_is_refused_is_no_lack_of_memory() {
        let said =
            |error: i32| EventRefusal::Ring(io::Error::from_raw_os_error(error)).failure("pid 7").to_string();
        assert!(said(libc::EPERM).contains("no memory for its records"));
        let refused = said(libc::EACCES);
        assert!(refused.starts_with("cannot sample pid 7: "), "{refused}");
        assert!(!refused.contains("memory"), "{refused}");
    }
}
