//! What a live recording tells, on its way to the screen: of each kind only the newest waits, so that nothing piles up while
//! the terminal does not read.

use super::action::{Feed, LiveStatus};
use crate::report::Recording;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Most notes that wait. Each takes the place of the one before on the screen, so of more the oldest are dropped.
const MOST_NOTES: usize = 100;

#[derive(Debug, Default)]
struct Slots {
    status: Option<LiveStatus>,
    notes: VecDeque<String>,
    recording: Option<Arc<Recording>>,
    ended: Option<String>,
    /// Something was put in since the last look.
    has_news: bool,
    /// No one tells anything any more.
    is_closed: bool,
    /// No one listens any more.
    is_gone: bool,
}

#[derive(Debug, Default)]
struct Shared {
    slots: Mutex<Slots>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        // Nothing is left half-done by a panic while the lock is held.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells that no one tells anything any more, when the last sender goes.
#[derive(Debug)]
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

/// Where a live recording tells things. Never waits.
#[derive(Debug, Clone)]
pub struct FeedSender(Arc<Open>);

/// Where the screen hears them.
#[derive(Debug, Clone)]
pub struct FeedReceiver(Arc<Shared>);

/// Both ends of a way from a live recording to the screen.
pub fn feed() -> (FeedSender, FeedReceiver) {
    let shared = Arc::new(Shared::default());
    (FeedSender(Arc::new(Open(Arc::clone(&shared)))), FeedReceiver(shared))
}

impl FeedSender {
    /// Puts it in the place of what no one has heard of its kind. Returns whether somebody listens.
    pub fn send(&self, told: Feed) -> bool {
        let shared = &self.0.0;
        let mut slots = shared.lock();
        if slots.is_gone {
            return false;
        }
        // Taking a recording apart takes time: not while the lock is held.
        let mut old = None;
        match told {
            Feed::Recording(recording) => old = slots.recording.replace(recording),
            Feed::Status(status) => slots.status = Some(status),
            Feed::Note(text) => {
                slots.notes.push_back(text);
                if slots.notes.len() > MOST_NOTES {
                    slots.notes.pop_front();
                }
            }
            Feed::Ended { why } => slots.ended = Some(why),
        }
        slots.has_news = true;
        drop(slots);
        shared.changed.notify_all();
        drop(old);
        true
    }
}

impl FeedReceiver {
    /// Waits until something is told; false when nothing will be any more.
    pub(crate) fn wait(&self) -> bool {
        let mut slots = self.0.lock();
        while !slots.has_news {
            if slots.is_closed {
                return false;
            }
            slots = self.0.changed.wait(slots).unwrap_or_else(PoisonError::into_inner);
        }
        slots.has_news = false;
        true
    }

    /// What has been told and is to be heard next. What the recording has become stays while it `is_frozen`.
    pub(crate) fn take(&self, is_frozen: bool) -> Option<Feed> {
        let mut slots = self.0.lock();
        if let Some(status) = slots.status.take() {
            return Some(Feed::Status(status));
        }
        if let Some(text) = slots.notes.pop_front() {
            return Some(Feed::Note(text));
        }
        if !is_frozen && let Some(recording) = slots.recording.take() {
            return Some(Feed::Recording(recording));
        }
        slots.ended.take().map(|why| Feed::Ended { why })
    }

    /// The newest state of the recording, if it was not taken yet.
    pub(super) fn take_recording(&self) -> Option<Arc<Recording>> {
        self.0.lock().recording.take()
    }

    /// Listens no more.
    pub(super) fn hang_up(&self) {
        let mut slots = self.0.lock();
        slots.is_gone = true;
        let old = slots.recording.take();
        drop(slots);
        drop(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::fixture::ingest;

    #[test]
    fn nothing_piles_up_while_nobody_listens() {
        let (tell, feed) = feed();
        let one = Arc::new(ingest());
        let mut seen = Vec::new();
        for number in 0..1_000u64 {
            let recording = Arc::new(Recording::clone(&one));
            seen.push(Arc::downgrade(&recording));
            assert!(tell.send(Feed::Recording(recording)));
            assert!(tell.send(Feed::Status(LiveStatus { lost: number, ..LiveStatus::default() })));
            assert!(tell.send(Feed::Note(number.to_string())));
        }
        assert_eq!(seen.iter().filter(|recording| recording.upgrade().is_some()).count(), 1);
        assert!(feed.wait());
        assert!(matches!(feed.take(false), Some(Feed::Status(status)) if status.lost == 999));
        for number in 900..1_000 {
            assert!(matches!(feed.take(false), Some(Feed::Note(text)) if text == number.to_string()));
        }
        let newest = seen.pop().and_then(|recording| recording.upgrade()).expect("it is there");
        assert!(matches!(feed.take(false), Some(Feed::Recording(taken)) if Arc::ptr_eq(&taken, &newest)));
        assert!(feed.take(false).is_none());
    }

    #[test]
    fn what_is_frozen_gets_no_newer_recording_but_hears_the_end() {
        let (tell, feed) = feed();
        tell.send(Feed::Recording(Arc::new(ingest())));
        tell.send(Feed::Ended { why: "it ended".into() });
        drop(tell);
        assert!(feed.wait());
        assert!(matches!(feed.take(true), Some(Feed::Ended { .. })));
        assert!(feed.take(true).is_none());
        assert!(matches!(feed.take(false), Some(Feed::Recording(_))));
        assert!(!feed.wait(), "nobody is left to tell anything");
    }

    #[test]
    fn who_tells_hears_that_nobody_listens() {
        let (tell, feed) = feed();
        assert!(tell.send(Feed::Note("a".into())));
        feed.hang_up();
        assert!(!tell.send(Feed::Note("b".into())));
    }
}
