//! A mailbox between threads that never fills up: of each kind of message only the newest few wait for the receiver.
//!
//! The sender never waits. Messages of several kinds are taken in the order of their kinds. The mailbox is closed when the
//! last sender is dropped; what is in it can still be taken. A receiver that waits for something else as well is notified.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A message that a mailbox can hold.
pub(crate) trait Mail {
    /// The kind of this message.
    fn kind(&self) -> MailKind;
}

/// A kind of message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MailKind {
    /// Lower ranks are taken first.
    pub(crate) rank: u8,
    /// Most messages of this kind that wait; of more the oldest are dropped.
    pub(crate) most: usize,
}

/// Something to call when a message has come, on the sender's thread.
pub(crate) type Notify = Arc<dyn Fn() + Send + Sync>;

struct Letters<T> {
    by_rank: BTreeMap<u8, VecDeque<T>>,
    has_sender: bool,
    /// Called for each message that is put in.
    notify: Option<Notify>,
}

struct SharedMailbox<T> {
    letters: Mutex<Letters<T>>,
    changed: Condvar,
}

impl<T> fmt::Debug for SharedMailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMailbox").finish_non_exhaustive()
    }
}

impl<T> SharedMailbox<T> {
    fn lock(&self) -> MutexGuard<'_, Letters<T>> {
        // A panic while the lock is held leaves nothing half-done.
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the mailbox when the last sender is dropped.
#[derive(Debug)]
struct SenderGuard<T>(Arc<SharedMailbox<T>>);

impl<T> Drop for SenderGuard<T> {
    fn drop(&mut self) {
        self.0.lock().has_sender = false;
        self.0.changed.notify_all();
    }
}

/// The sending end of a mailbox.
#[derive(Debug)]
pub(crate) struct MailSender<T>(Arc<SenderGuard<T>>);

/// The receiving end of a mailbox.
#[derive(Debug)]
pub struct MailReceiver<T>(Arc<SharedMailbox<T>>);

impl<T> Clone for MailSender<T> {
    fn clone(&self) -> Self {
        MailSender(Arc::clone(&self.0))
    }
}

impl<T> Clone for MailReceiver<T> {
    fn clone(&self) -> Self {
        MailReceiver(Arc::clone(&self.0))
    }
}

/// Both ends of an empty mailbox.
pub(crate) fn mailbox<T>() -> (MailSender<T>, MailReceiver<T>) {
    let letters = Letters { by_rank: BTreeMap::new(), has_sender: true, notify: None };
    let shared = Arc::new(SharedMailbox { letters: Mutex::new(letters), changed: Condvar::new() });
    (MailSender(Arc::new(SenderGuard(Arc::clone(&shared)))), MailReceiver(shared))
}

impl<T: Mail> MailSender<T> {
    /// Puts a message in.
    pub(crate) fn send(&self, message: T) {
        let shared = &self.0.0;
        let mut letters = shared.lock();
        let MailKind { rank, most } = message.kind();
        let same = letters.by_rank.entry(rank).or_default();
        same.push_back(message);
        let dropped = if same.len() > most { same.pop_front() } else { None };
        let notify = letters.notify.clone();
        drop(letters);
        shared.changed.notify_all();
        if let Some(notify) = notify {
            notify();
        }
        // Dropping a recording takes time: not while the lock is held.
        drop(dropped);
    }
}

impl<T> MailReceiver<T> {
    /// Calls `notify` after each message that is put in from now on, and now if there is one.
    pub(crate) fn on_message(&self, notify: Notify) {
        let mut letters = self.0.lock();
        letters.notify = Some(Arc::clone(&notify));
        let has_message = letters.by_rank.values().any(|same| !same.is_empty());
        drop(letters);
        if has_message {
            notify();
        }
    }

    /// Takes the first message that is `wanted`, if there is one; of each kind only the oldest is looked at.
    pub(crate) fn take(&self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut letters = self.0.lock();
        letters.by_rank.values_mut().find(|same| same.front().is_some_and(&wanted))?.pop_front()
    }

    /// Waits for the next message, but not longer than `patience`.
    ///
    /// # Errors
    ///
    /// When none has come, or when none will come any more.
    pub fn recv_timeout(&self, patience: Duration) -> Result<T, RecvTimeoutError> {
        self.receive(Some(patience))
    }

    /// Waits for the next message, but not longer than `patience` if there is one.
    ///
    /// # Errors
    ///
    /// When none has come, or when none will come any more.
    pub(crate) fn receive(&self, patience: Option<Duration>) -> Result<T, RecvTimeoutError> {
        let deadline = patience.map(|patience| Instant::now() + patience);
        let mut letters = self.0.lock();
        loop {
            if let Some(message) = letters.by_rank.values_mut().find_map(VecDeque::pop_front) {
                return Ok(message);
            }
            if !letters.has_sender {
                return Err(RecvTimeoutError::Disconnected);
            }
            let Some(deadline) = deadline else {
                letters = self.0.changed.wait(letters).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(RecvTimeoutError::Timeout);
            }
            (letters, _) = self.0.changed.wait_timeout(letters, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of a rank; those of rank 0 are kept.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Letter(u8, Arc<u64>);

    impl Mail for Letter {
        fn kind(&self) -> MailKind {
            MailKind { rank: self.0, most: if self.0 == 0 { 100 } else { 1 } }
        }
    }

    fn letter(rank: u8, number: u64) -> Letter {
        Letter(rank, Arc::new(number))
    }

    #[test]
    fn the_newest_of_each_kind_waits_and_no_more() {
        let (sender, receiver) = mailbox();
        let mut seen = Vec::new();
        for number in 0..1_000 {
            for rank in 0..3 {
                let letter = letter(rank, number);
                seen.push(Arc::downgrade(&letter.1));
                sender.send(letter);
            }
        }
        assert_eq!(seen.iter().filter(|number| number.upgrade().is_some()).count(), 102);
        for number in 900..1_000 {
            assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(letter(0, number)));
        }
        assert_eq!(receiver.take(|letter| letter.0 != 1), Some(letter(2, 999)));
        assert_eq!(receiver.take(|letter| letter.0 != 1), None);
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(letter(1, 999)));
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
    }

    #[test]
    fn what_was_sent_before_the_last_sender_went_is_received() {
        let (sender, receiver) = mailbox();
        let other = sender.clone();
        sender.send(letter(1, 9));
        drop((sender, other));
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(letter(1, 9)));
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn a_receiver_that_waits_is_woken() {
        let (sender, receiver) = mailbox();
        let waiting = std::thread::spawn(move || receiver.recv_timeout(Duration::from_secs(60)));
        sender.send(letter(1, 1));
        assert_eq!(waiting.join().expect("it does not panic"), Ok(letter(1, 1)));
    }

    #[test]
    fn a_receiver_is_notified_of_each_message_and_of_those_before() {
        let (sender, receiver) = mailbox();
        sender.send(letter(0, 1));
        let (notified, notices) = std::sync::mpsc::channel();
        receiver.on_message(Arc::new(move || notified.send(()).expect("the test listens")));
        assert_eq!(notices.try_iter().count(), 1, "one was there already");
        sender.send(letter(0, 2));
        sender.send(letter(1, 3));
        assert_eq!(notices.try_iter().count(), 2);
        assert_eq!(receiver.take(|_| true), Some(letter(0, 1)));
        assert_eq!(notices.try_iter().count(), 0);
    }

    #[test]
    fn what_is_replaced_is_dropped() {
        let (sender, receiver) = mailbox();
        let held = letter(1, 1);
        sender.send(held.clone());
        sender.send(letter(1, 2));
        assert_eq!(Arc::strong_count(&held.1), 1);
        assert_eq!(receiver.receive(None), Ok(letter(1, 2)));
    }
}
