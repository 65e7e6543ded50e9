//! When something is tried again: after longer and longer times, none of which many senders have in common.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The first wait.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait: a server that is back has what waits a minute later.
const LONGEST: Duration = Duration::from_secs(60);

/// Waits between tries.
#[derive(Debug, Clone)]
pub(super) struct PushPace {
    next: Duration,
    state: u64,
}

impl PushPace {
    pub(super) fn new() -> Self {
        // Its keys are different in each process.
        let seed = RandomState::new().build_hasher().finish();
        PushPace { next: FIRST, state: seed | 1 }
    }

    /// Something has been delivered: the next wait is the first.
    pub(super) fn reset(&mut self) {
        self.next = FIRST;
    }

    /// The next wait: half of it to all of it by chance, twice as long as the one before; never shorter than what the server
    /// asks for, and a little longer, since others are asked for the same.
    pub(super) fn wait(&mut self, asked: Option<Duration>) -> Duration {
        let whole = self.next;
        self.next = whole.saturating_mul(2).min(LONGEST);
        let own = whole / 2 + self.part_of(whole / 2);
        let asked = asked.map(|asked| asked + self.part_of(asked / 10 + FIRST));
        asked.map_or(own, |asked| asked.max(own))
    }

    /// A time below `whole`, by chance.
    fn part_of(&mut self, whole: Duration) -> Duration {
        // xorshift64: chance enough to tell senders apart.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        whole.mul_f64((self.state >> 11) as f64 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_begin_again() {
        let mut pace = PushPace::new();
        let waits: Vec<Duration> = (0..20).map(|_| pace.wait(None)).collect();
        assert!(waits[0] >= FIRST / 2 && waits[0] <= FIRST, "{waits:?}");
        assert!(waits[1] >= FIRST && waits[19] >= LONGEST / 2 && waits[19] <= LONGEST, "{waits:?}");
        pace.reset();
        assert!(pace.wait(None) <= FIRST);
    }

    #[test]
    fn what_a_server_asks_for_is_kept_and_spread() {
        let asked = Duration::from_secs(30);
        let waits: Vec<Duration> = (0..50).map(|_| PushPace::new().wait(Some(asked))).collect();
        assert!(waits.iter().all(|wait| *wait >= asked && *wait < Duration::from_secs(34)), "{waits:?}");
        assert!(waits.iter().collect::<std::collections::BTreeSet<_>>().len() > 40);
    }
}
