//! How often a picture is computed that nobody has asked for: that of a recording which has grown.

use std::time::{Duration, Instant};

/// After such work there is a rest of so many times its length: it takes 3 % of the time at most.
const REST: u32 = 30;
/// The longest rest, whatever the work has cost.
const LONGEST_REST: Duration = Duration::from_secs(3);

/// When the next picture may be computed.
#[derive(Debug, Default)]
pub(super) struct Pace {
    rests_until: Option<Instant>,
}

impl Pace {
    /// A picture was computed until `ended`, which took so much CPU time: on a busy machine it takes longer, and costs no more.
    pub(super) fn worked(&mut self, cpu_time: Duration, ended: Instant) {
        self.rests_until = ended.checked_add(cpu_time.saturating_mul(REST).min(LONGEST_REST));
    }

    /// How much longer the rest is.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.rests_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

/// CPU time of this process: a picture is computed by several threads, beside which not much goes on.
pub(super) fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
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
        pace.worked(Duration::from_millis(40), ended);
        assert_eq!(pace.left(ended), Duration::from_millis(1200));
        assert_eq!(pace.left(ended + Duration::from_millis(1100)), Duration::from_millis(100));
        assert_eq!(pace.left(ended + Duration::from_secs(2)), Duration::ZERO);
        pace.worked(Duration::from_secs(10), ended);
        assert_eq!(pace.left(ended), LONGEST_REST, "a picture comes in the end");
    }
}
