//! Events of a live recording on their way to whoever shows them: of each kind only the newest waits.

use super::events::LiveEvent;
use std::collections::VecDeque;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most notices that wait. Of more the oldest are dropped.
const MOST_NOTICES: usize = 100;

#[derive(Debug, Default)]
struct Slots {
    notices: VecDeque<LiveEvent>,
    status: Option<LiveEvent>,
    snapshot: Option<LiveEvent>,
    ended: Option<LiveEvent>,
    is_closed: bool,
}

impl Slots {
    fn take(&mut self) -> Option<LiveEvent> {
        (self.notices.pop_front())
            .or_else(|| self.status.take())
            .or_else(|| self.snapshot.take())
            .or_else(|| self.ended.take())
    }
}

/// Where the events of a live recording come out. A slow receiver misses snapshots, never the newest one.
#[derive(Debug, Clone, Default)]
pub struct LiveEvents {
    slots: Arc<(Mutex<Slots>, Condvar)>,
}

impl LiveEvents {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        // Nothing is left half-done by a panic while the lock is held.
        self.slots.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an event in the place of the one of its kind that no one has taken.
    pub(super) fn send(&self, event: LiveEvent) {
        let mut slots = self.lock();
        match event {
            LiveEvent::Notice(_) => {
                slots.notices.push_back(event);
                if slots.notices.len() > MOST_NOTICES {
                    slots.notices.pop_front();
                }
            }
            LiveEvent::Status(_) => slots.status = Some(event),
            LiveEvent::Snapshot(_) => slots.snapshot = Some(event),
            LiveEvent::Ended(_) => slots.ended = Some(event),
        }
        self.slots.1.notify_all();
    }

    /// No more events will come.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.slots.1.notify_all();
    }

    /// The next event, if one is there.
    ///
    /// # Errors
    ///
    /// When there is none, or when none will come any more.
    pub fn try_recv(&self) -> Result<LiveEvent, TryRecvError> {
        let mut slots = self.lock();
        let is_closed = slots.is_closed;
        slots.take().ok_or(if is_closed { TryRecvError::Disconnected } else { TryRecvError::Empty })
    }

    /// The next event; waits for it, but not longer than `patience`.
    ///
    /// # Errors
    ///
    /// When none has come, or when none will come any more.
    pub fn recv_timeout(&self, patience: Duration) -> Result<LiveEvent, RecvTimeoutError> {
        let deadline = Instant::now() + patience;
        let mut slots = self.lock();
        loop {
            if let Some(event) = slots.take() {
                return Ok(event);
            }
            if slots.is_closed {
                return Err(RecvTimeoutError::Disconnected);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(RecvTimeoutError::Timeout);
            }
            (slots, _) = self.slots.1.wait_timeout(slots, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::live::events::{Snapshot, Status};

    fn status(samples: u64) -> LiveEvent {
        LiveEvent::Status(Status { samples, ..Status::default() })
    }

    #[test]
    fn of_each_kind_the_newest_wins_and_no_notice_is_lost() {
        let events = LiveEvents::default();
        for number in 0..5 {
            events.send(LiveEvent::Snapshot(Box::new(Snapshot { number, ..Snapshot::default() })));
            events.send(status(number));
            events.send(LiveEvent::Notice(number.to_string()));
        }
        for number in 0..5 {
            assert!(matches!(events.try_recv(), Ok(LiveEvent::Notice(text)) if text == number.to_string()));
        }
        assert!(matches!(events.try_recv(), Ok(LiveEvent::Status(Status { samples: 4, .. }))));
        assert!(matches!(events.try_recv(), Ok(LiveEvent::Snapshot(snapshot)) if snapshot.number == 4));
        assert_eq!(events.try_recv().unwrap_err(), TryRecvError::Empty);
        events.send(status(9));
        events.close();
        assert!(matches!(events.recv_timeout(Duration::ZERO), Ok(LiveEvent::Status(_))));
        assert_eq!(events.recv_timeout(Duration::ZERO).unwrap_err(), RecvTimeoutError::Disconnected);
    }

    #[test]
    fn a_receiver_that_waits_is_woken() {
        let events = LiveEvents::default();
        let waits = events.clone();
        let receiver = std::thread::spawn(move || waits.recv_timeout(Duration::from_secs(60)));
        events.send(status(1));
        assert!(receiver.join().expect("it does not panic").is_ok());
    }
}
