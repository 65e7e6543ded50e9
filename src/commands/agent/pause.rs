//! Waiting in a process that has something to do now and then.

use rustix::event::{Timespec, poll};
use std::time::Duration;

/// Lets time pass, or less if a signal comes.
pub(super) fn pause(time: Duration) {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    // Whatever it ends by, what is waited for is looked at then.
    let _ = poll(&mut [], Some(&Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() }));
}
