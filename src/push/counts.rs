//! What was sent and what was not, by reason: shared by the thread that sends and whatever shows it.

use super::reply::PushProblem;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts of recordings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PushedParts {
    /// Profiles: one for each series, or for a part of one.
    pub(crate) profiles: u64,
    /// Their samples, equal ones being one.
    pub(crate) samples: u64,
}

impl PushedParts {
    pub(super) fn add(&mut self, other: Self) {
        self.profiles = self.profiles.saturating_add(other.profiles);
        self.samples = self.samples.saturating_add(other.samples);
    }
}

/// Numbers since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PushNumbers {
    /// Requests that the server took.
    pub(crate) requests: u64,
    /// Bytes of these, compressed.
    pub(crate) bytes: u64,
    /// What is at the server.
    pub(crate) delivered: PushedParts,
    /// What was given up, by reason.
    pub(crate) dropped: BTreeMap<PushProblem, PushedParts>,
    /// Whole recordings that were given up, by reason.
    pub(crate) recordings_dropped: BTreeMap<PushProblem, u64>,
    /// Tries that did not succeed and were repeated, by reason.
    pub(crate) retries: BTreeMap<PushProblem, u64>,
    /// Requests by their answers: the status, or, without an answer, the word for why.
    pub(crate) answers: BTreeMap<String, u64>,
    /// Recordings of which everything was delivered.
    pub(crate) recordings: u64,
    /// Time of the last delivery, ns since the Unix epoch; 0 for none.
    pub(crate) last_unix_ns: u64,
    /// The last thing that went wrong, for people; empty for nothing yet. Quotes foreign words, which are safe.
    pub(crate) last_problem: String,
}

/// Numbers that several threads share.
#[derive(Debug, Default)]
pub(crate) struct PushCounts(Mutex<PushNumbers>);

impl PushCounts {
    /// The numbers now.
    pub(crate) fn numbers(&self) -> PushNumbers {
        self.lock().clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, PushNumbers> {
        // Nothing is left half-done by a panic while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an answer: its status, or why there was none.
    pub(super) fn answered(&self, status: Option<u16>, why: &'static str) {
        let answer = status.map_or_else(|| why.to_owned(), |status| status.to_string());
        *self.lock().answers.entry(answer).or_default() += 1;
    }

    /// Counts a recording that was given up before anything of it could be looked at.
    pub(super) fn drop_recording(&self, problem: PushProblem, words: String) {
        let mut numbers = self.lock();
        *numbers.recordings_dropped.entry(problem).or_default() += 1;
        numbers.last_problem = words;
    }
}
