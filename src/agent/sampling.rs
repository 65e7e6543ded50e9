//! Which hosts and which windows are recorded, where not all are: decided by hashes, so that each host decides for itself, the same at
//! each start, and a fleet of any size has about the wanted share.

use std::time::Duration;

/// Time over which the hosts of a fleet send a window that is longer.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Share of hosts or windows that are recorded: above 0, and 1 at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RecordedShare(f64);

impl RecordedShare {
    /// All of them.
    pub(crate) const ALL: RecordedShare = RecordedShare(1.0);

    /// A share, such as 0.05; `None` if it is not above 0, and 1 at most.
    pub(crate) fn new(share: f64) -> Option<Self> {
        (share > 0.0 && share <= 1.0).then_some(RecordedShare(share))
    }

    /// How many hosts or windows one that is recorded stands for.
    #[cfg(test)]
    pub(crate) fn weight(self) -> f64 {
        1.0 / self.0
    }

    /// Whether a hash is among the first part of all hashes that is this share.
    fn has(self, hash: u64) -> bool {
        self == RecordedShare::ALL || unit(hash) < self.0
    }
}

/// The day, in UTC, of a time since 1970.
pub(crate) fn day_of(since_1970: Duration) -> u64 {
    since_1970.as_secs() / 86_400
}

/// Whether a host is recorded on a day, by number ([`day_of`]). Each day others are.
pub(crate) fn is_recorded_host(host: &str, day: u64, share: RecordedShare) -> bool {
    share.has(hash("host", host, day))
}

/// Whether a host records a window, by the number of the window since 1970. Hosts have different ones.
pub(crate) fn is_recorded_window(host: &str, window: u64, share: RecordedShare) -> bool {
    share.has(hash("window", host, window))
}

/// How long after the end of a window a host sends it, below `window` and a minute: always the same, so that the hosts of a fleet do not
/// all send at the same moment.
pub(crate) fn sending_delay(host: &str, window: Duration) -> Duration {
    window.min(LONGEST_DELAY).mul_f64(unit(hash("delay", host, 0)))
}

/// A hash as a number from 0 to below 1: its first 53 bits, which a float holds exactly.
fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

/// A hash in which each bit depends on all of the input: names of hosts differ in a digit.
fn hash(purpose: &str, host: &str, number: u64) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for part in [purpose.as_bytes(), host.as_bytes()] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.update(&number.to_le_bytes());
    let bytes = hasher.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&bytes.as_bytes()[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a count out of `of` is within five standard deviations of the share.
    fn is_about(count: usize, of: usize, share: f64) -> bool {
        let (of, count) = (of as f64, count as f64);
        (count - of * share).abs() <= 5.0 * (of * share * (1.0 - share)).sqrt()
    }

    #[test]
    fn about_the_wanted_share_of_a_fleet_is_recorded_each_day() {
        for percent in [1.0, 5.0, 50.0, 99.0] {
            let share = RecordedShare::new(percent / 100.0).unwrap();
            for day in [20_000, 20_001, 20_365] {
                let hosts =
                    (0..10_000).filter(|n| is_recorded_host(&format!("node-{n:05}"), day, share)).count();
                assert!(
                    is_about(hosts, 10_000, percent / 100.0),
                    "{hosts} of 10,000 at {percent} % on day {day}"
                );
            }
            let days = (0..10_000).filter(|day| is_recorded_host("node-1", *day, share)).count();
            assert!(is_about(days, 10_000, percent / 100.0), "{days} of 10,000 days at {percent} %");
            let windows = (0..10_000).filter(|n| is_recorded_window("node-1", *n, share)).count();
            assert!(is_about(windows, 10_000, percent / 100.0), "{windows} of 10,000 windows at {percent} %");
        }
    }

    #[test]
    fn days_and_windows_are_independent() {
        let share = RecordedShare::new(0.5).unwrap();
        let hosts: Vec<String> = (0..10_000).map(|n| format!("node-{n}")).collect();
        let both = |first: &dyn Fn(&str) -> bool, second: &dyn Fn(&str) -> bool| {
            hosts.iter().filter(|host| first(host) && second(host)).count()
        };
        let next_day =
            both(&|host| is_recorded_host(host, 1, share), &|host| is_recorded_host(host, 2, share));
        assert!(is_about(next_day, 10_000, 0.25), "{next_day}");
        let window =
            both(&|host| is_recorded_host(host, 1, share), &|host| is_recorded_window(host, 1, share));
        assert!(is_about(window, 10_000, 0.25), "{window}");
    }

    #[test]
    fn a_larger_share_has_all_of_a_smaller_one() {
        let [small, large] = [0.05, 0.1].map(|share| RecordedShare::new(share).unwrap());
        let hosts = (0..2000).map(|n| format!("h{n}"));
        assert!(
            hosts.clone().all(|host| !is_recorded_host(&host, 3, small) || is_recorded_host(&host, 3, large))
        );
        assert!(hosts.clone().all(|host| is_recorded_host(&host, 3, RecordedShare::ALL)));
    }

    #[test]
    fn the_decision_is_the_same_in_every_version() {
        let share = RecordedShare::new(0.5).unwrap();
        let recorded: Vec<u64> = (0..16).filter(|day| is_recorded_host("node-1", *day, share)).collect();
        assert_eq!(recorded, [2, 3, 6, 7, 8, 10, 12, 14]);
    }

    #[test]
    fn hosts_send_at_different_times() {
        for (window, span) in [(15, 15), (600, 60)].map(|both| (both.0, Duration::from_secs(both.1))) {
            let delay = |n: u32| sending_delay(&format!("node-{n}"), Duration::from_secs(window));
            let delays: Vec<Duration> = (0..10_000).map(delay).collect();
            for third in 0..3 {
                let range = span * third / 3..span * (third + 1) / 3;
                let count = delays.iter().filter(|delay| range.contains(delay)).count();
                assert!(is_about(count, 10_000, 1.0 / 3.0), "{count} in {range:?}");
            }
        }
    }

    #[test]
    fn shares_have_bounds() {
        for wrong in [0.0, -0.1, 1.1, f64::NAN] {
            assert_eq!(RecordedShare::new(wrong), None);
        }
        assert_eq!(RecordedShare::new(0.05).unwrap().weight(), 20.0);
        assert_eq!(day_of(Duration::from_secs(86_400 * 3 + 7)), 3);
    }
}
