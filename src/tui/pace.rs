//! How often a picture is computed that nobody has asked for: that of a recording which has grown.

use std::time::{Duration, Instant};

/// After such work there is a rest of so many times its length: it takes 3 % of the time at most.
const REST: u32 = 30;

/// When the next picture may be computed.
#[derive(Debug, Default)]
pub(super) struct Pace {
    rests_until: Option<Instant>,
}

impl Pace {
    /// A picture was computed from `began` to `ended`.
    pub(super) fn worked(&mut self, began: Instant, ended: Instant) {
        self.rests_until = ended.checked_add(ended.saturating_duration_since(began).saturating_mul(REST));
    }

    /// How much longer the rest is.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.rests_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_a_small_part_of_the_time() {
        let mut pace = Pace::default();
        let start = Instant::now();
        assert_eq!(pace.left(start), Duration::ZERO, "nothing has been done yet");
        let ended = start + Duration::from_millis(40);
        pace.worked(start, ended);
        assert_eq!(pace.left(ended), Duration::from_millis(1200));
        assert_eq!(pace.left(ended + Duration::from_millis(1100)), Duration::from_millis(100));
        assert_eq!(pace.left(ended + Duration::from_secs(2)), Duration::ZERO);
    }
}
