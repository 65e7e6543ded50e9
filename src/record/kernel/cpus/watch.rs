//! Which CPUs have come and gone since they were looked at last.

use crate::base::failure::io_words;
use crate::base::units;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A CPU whose events lack more time than this between two looks was off meanwhile, ns.
const LEAST_OFF_NS: u64 = 250_000_000;
/// Less time of a CPU without samples is not worth a word, ns.
const LEAST_NS: u64 = 10_000_000;

/// The CPUs of a recording.
#[derive(Debug)]
pub(crate) struct CpuWatch {
    /// Those that are sampled, with the time for which their events had been enabled when they were looked at last, ns.
    sampled: BTreeMap<u32, Option<u64>>,
    /// Those that are not, with the time since when, ns.
    off: BTreeMap<u32, u64>,
    /// Those that were not for a part of the recording, with the sum of these parts, ns.
    gaps: BTreeMap<u32, u64>,
    /// Those that were not there at the start.
    late: BTreeSet<u32>,
    last_look_ns: u64,
    /// They are looked at this often, ns.
    interval_ns: u64,
    /// A CPU that is online cannot be sampled, and that was said.
    has_refused: bool,
}

/// What is to be done about CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CpuChanges {
    /// Their events are gone, or of no use.
    pub(crate) gone: Vec<u32>,
    /// They are to be sampled from now on.
    pub(crate) came: Vec<u32>,
}

impl CpuWatch {
    /// Watches for changes to these CPUs, which are online and have events. They are looked at each `interval`.
    pub(crate) fn new(online: &[u32], interval: Duration) -> Self {
        CpuWatch {
            sampled: online.iter().map(|cpu| (*cpu, None)).collect(),
            off: BTreeMap::new(),
            gaps: BTreeMap::new(),
            late: BTreeSet::new(),
            last_look_ns: 0,
            interval_ns: interval.as_nanos() as u64,
            has_refused: false,
        }
    }

    /// Whether it is time for another look.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_look_ns) >= self.interval_ns
    }

    /// Compares the CPUs that are online now with those before. `enabled_ns` is the time for which the events of a CPU have been
    /// enabled, if that is known: it stands still from when the CPU goes off, although it may be back.
    pub(crate) fn look(
        &mut self,
        online: &[u32],
        now_ns: u64,
        enabled_ns: impl Fn(u32) -> Option<u64>,
    ) -> CpuChanges {
        let mut gone = Vec::new();
        let passed_ns = now_ns.saturating_sub(self.last_look_ns);
        for (cpu, before) in &mut self.sampled {
            let now = enabled_ns(*cpu);
            let enabled_ns = now.zip(*before).map(|(now, before)| now.saturating_sub(before));
            if !online.contains(cpu)
                || enabled_ns.is_some_and(|enabled_ns| enabled_ns + LEAST_OFF_NS < passed_ns)
            {
                gone.push(*cpu);
            }
            *before = now;
        }
        let since_ns = self.last_look_ns.max(now_ns.saturating_sub(2 * self.interval_ns)).min(now_ns);
        for cpu in &gone {
            self.sampled.remove(cpu);
            self.off.insert(*cpu, since_ns);
        }
        let came = online.iter().copied().filter(|cpu| !self.sampled.contains_key(cpu)).collect();
        self.last_look_ns = now_ns;
        CpuChanges { gone, came }
    }

    /// A CPU is sampled from now on.
    pub(crate) fn is_sampled(&mut self, cpu: u32, now_ns: u64) {
        self.sampled.insert(cpu, None);
        match self.off.remove(&cpu) {
            Some(since_ns) => *self.gaps.entry(cpu).or_default() += now_ns.saturating_sub(since_ns),
            None => _ = self.late.insert(cpu),
        }
    }

    /// A CPU that is online cannot be sampled. Returns what is to be said of it, once.
    pub(crate) fn is_refused(&mut self, cpu: u32, error: &anyhow::Error) -> Option<String> {
        let is_first = !std::mem::replace(&mut self.has_refused, true);
        is_first.then(|| {
            format!(
                "CPU {cpu} came online and cannot be sampled: {}; what runs on it has no samples until a new recording is started",
                words(error)
            )
        })
    }

    /// Number of CPUs that have been sampled.
    pub(crate) fn count(&self) -> usize {
        self.sampled.len() + self.off.len()
    }

    /// Says, at the end, which CPUs lack samples since they were offline.
    pub(crate) fn lack(&self, now_ns: u64) -> Option<String> {
        let mut gaps = self.gaps.clone();
        for (cpu, since_ns) in &self.off {
            *gaps.entry(*cpu).or_default() += now_ns.saturating_sub(*since_ns);
        }
        gaps.retain(|_, gap_ns| *gap_ns >= LEAST_NS);
        let longest_ns = gaps.values().copied().max();
        let off = longest_ns.map(|longest_ns| {
            let (time, most) = (units::duration(longest_ns), if gaps.len() > 1 { "at most " } else { "" });
            format!(
                "{} offline for {most}{time} of the recording, without samples of that time",
                were(gaps.keys())
            )
        });
        let late = (!self.late.is_empty())
            .then(|| format!("{} offline at the start, and sampled once online", were(self.late.iter())));
        let parts: Vec<String> = off.into_iter().chain(late).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Why a CPU cannot be sampled.
fn words(error: &anyhow::Error) -> String {
    error.downcast_ref().map_or_else(|| format!("{error:#}"), io_words)
}

/// CPUs as the subject of a sentence.
fn were<'a>(cpus: impl Iterator<Item = &'a u32>) -> String {
    let cpus: Vec<String> = cpus.map(u32::to_string).collect();
    match cpus.as_slice() {
        [cpu] => format!("CPU {cpu} was"),
        _ => format!("CPUs {} were", cpus.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const INTERVAL: Duration = Duration::from_millis(500);

    fn changes(gone: &[u32], came: &[u32]) -> CpuChanges {
        CpuChanges { gone: gone.to_vec(), came: came.to_vec() }
    }

    #[test]
    fn a_cpu_that_goes_off_and_comes_back_is_sampled_again() {
        let mut watch = CpuWatch::new(&[0, 1], INTERVAL);
        let all = |second: u64| move |_| Some(second * SECOND_NS);
        assert_eq!(watch.look(&[0, 1], 5 * SECOND_NS, all(1)), changes(&[], &[]));
        assert!(!watch.is_due(5 * SECOND_NS + 1) && watch.is_due(6 * SECOND_NS));
        assert_eq!(watch.look(&[0], 6 * SECOND_NS, all(2)), changes(&[1], &[]));
        assert_eq!(watch.look(&[0], 7 * SECOND_NS, all(3)), changes(&[], &[]));
        assert_eq!(watch.look(&[0, 1], 8 * SECOND_NS, all(4)), changes(&[], &[1]));
        assert_eq!(watch.look(&[0, 1], 9 * SECOND_NS, all(5)), changes(&[], &[1]), "it was not opened");
        watch.is_sampled(1, 9 * SECOND_NS);
        assert_eq!(watch.look(&[0, 1], 10 * SECOND_NS, all(6)), changes(&[], &[]));
        assert_eq!(watch.count(), 2);
        let said = watch.lack(10 * SECOND_NS).expect("it was off");
        assert_eq!(said, "CPU 1 was offline for 4.00 s of the recording, without samples of that time");
    }

    #[test]
    fn a_cpu_that_was_off_between_two_looks_shows_in_its_events() {
        let mut watch = CpuWatch::new(&[0, 1, 2], INTERVAL);
        let enabled = |second: u64| {
            move |cpu| match cpu {
                0 => Some(second * SECOND_NS),
                // It went off some time after the first look.
                1 => Some((second * SECOND_NS).min(SECOND_NS * 13 / 10)),
                // It has none of its own: those of tasks come back with it.
                _ => None,
            }
        };
        assert_eq!(
            watch.look(&[0, 1, 2], SECOND_NS, enabled(1)),
            changes(&[], &[]),
            "a first look knows nothing"
        );
        assert_eq!(watch.look(&[0, 1, 2], 2 * SECOND_NS, enabled(2)), changes(&[1], &[1]));
        watch.is_sampled(1, 2 * SECOND_NS);
        assert_eq!(
            watch.look(&[0, 1, 2], 3 * SECOND_NS, enabled(3)),
            changes(&[], &[]),
            "its events are new ones"
        );
    }

    #[test]
    fn a_cpu_that_was_off_for_a_part_of_a_long_interval_shows() {
        let mut watch = CpuWatch::new(&[0, 1], Duration::from_secs(2));
        assert!(!watch.is_due(SECOND_NS) && watch.is_due(2 * SECOND_NS));
        let on_for = |zero_ms: u64, one_ms: u64| {
            move |cpu| Some(if cpu == 0 { zero_ms } else { one_ms } * (SECOND_NS / 1_000))
        };
        watch.look(&[0, 1], 2 * SECOND_NS, on_for(2_000, 2_000));
        // Late looks and clocks that differ by a little are no gap; half a second is.
        assert_eq!(watch.look(&[0, 1], 4 * SECOND_NS, on_for(3_900, 3_990)), changes(&[], &[]));
        assert_eq!(watch.look(&[0, 1], 6 * SECOND_NS, on_for(5_900, 5_490)), changes(&[1], &[1]));
    }

    #[test]
    fn a_cpu_that_is_off_at_the_start_is_sampled_when_it_comes() {
        let mut watch = CpuWatch::new(&[0], INTERVAL);
        assert_eq!(watch.lack(SECOND_NS), None);
        assert_eq!(watch.look(&[0, 3], SECOND_NS, |_| None), changes(&[], &[3]));
        let error = anyhow::Error::from(std::io::Error::from_raw_os_error(libc::EACCES));
        let said = watch.is_refused(3, &error).expect("it is the first");
        assert!(said.starts_with("CPU 3 came online and cannot be sampled: permission denied; "), "{said}");
        assert_eq!(watch.is_refused(3, &error), None, "it was said");
        watch.is_sampled(3, 2 * SECOND_NS);
        assert_eq!(watch.count(), 2);
        assert_eq!(
            watch.lack(3 * SECOND_NS).expect("it came"),
            "CPU 3 was offline at the start, and sampled once online"
        );
    }

    #[test]
    fn cpus_that_do_not_come_back_lack_samples_to_the_end() {
        let mut watch = CpuWatch::new(&[0, 1, 2], INTERVAL);
        watch.look(&[0, 1, 2], SECOND_NS, |_| None);
        watch.look(&[0], 2 * SECOND_NS, |_| None);
        let said = watch.lack(5 * SECOND_NS).expect("they are off");
        assert_eq!(
            said,
            "CPUs 1, 2 were offline for at most 4.00 s of the recording, without samples of that time"
        );
        assert_eq!(watch.count(), 3);
    }
}
