//! Waiting in a process that has something to do now and then.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Waits that signals end. One that comes between two waits ends the next.
pub(super) struct Pauses {
    came: UnixStream,
}

impl Pauses {
    /// Waits that these signals end. What else is done for them is to be registered before.
    ///
    /// # Errors
    ///
    /// When a signal cannot be taken.
    pub(super) fn ended_by(signals: &[i32]) -> io::Result<Self> {
        let (came, comes) = UnixStream::pair()?;
        came.set_nonblocking(true)?;
        for signal in signals {
            signal_hook::low_level::pipe::register(*signal, comes.try_clone()?)?;
        }
        Ok(Pauses { came })
    }

    /// Lets time pass, or less if a signal comes.
    pub(super) fn pause(&self, time: Duration) {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let time = Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() };
        // Whatever it ends by, what is waited for is looked at then.
        let _ = poll(&mut [PollFd::new(&self.came, PollFlags::IN)], Some(&time));
        let mut bytes = [0; 64];
        while (&self.came).read(&mut bytes).is_ok_and(|length| length > 0) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_signal_ends_one_wait_also_when_it_came_before() {
        const LONG: Duration = Duration::from_secs(600);
        let pauses = Pauses::ended_by(&[libc::SIGUSR2]).expect("signals can be taken");
        let begun = Instant::now();
        signal_hook::low_level::raise(libc::SIGUSR2).expect("it is taken");
        pauses.pause(LONG);
        assert!(begun.elapsed() < LONG);
        let begun = Instant::now();
        pauses.pause(Duration::from_millis(50));
        assert!(begun.elapsed() >= Duration::from_millis(50));
    }
}
