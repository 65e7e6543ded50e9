//! The part of a recording of which only sums are left, one for each bucket of time: what a recording that is watched
//! keeps of its past.
//!
//! Where in its bucket a sample was is not known. All that lies in a bucket is therefore spread evenly over it, whole samples
//! as well as merged ones: a thread then has no more time in a part of the bucket than that part is long.

use super::spread::Spread;
use crate::base::units::{count, duration, duration_brief};
use crate::profile::Profile;

/// One second, ns.
const SECOND_NS: u64 = 1_000_000_000;

/// The buckets of time in which samples were merged; none of a recording that is as it was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RollupTime {
    /// Start and end of each, ns, by time. None touches another with more than its edge.
    buckets: Vec<(u64, u64)>,
}

/// A part of the recording whose buckets are equally long.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RollupPart {
    /// Start of the part, ns.
    pub(crate) from_ns: u64,
    /// End of the part, ns.
    pub(crate) to_ns: u64,
    /// Length of a bucket, ns.
    pub(crate) bucket_ns: u64,
}

impl RollupTime {
    /// The buckets of `profile`.
    pub(crate) fn of(profile: &Profile) -> Self {
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for (start_ns, length_ns) in profile.events.iter().flat_map(crate::profile::Event::merged_buckets) {
            let bucket = (start_ns, start_ns.saturating_add(length_ns));
            // Rows of one bucket stand next to each other.
            if buckets.last() != Some(&bucket) {
                buckets.push(bucket);
            }
        }
        buckets.sort_unstable();
        let mut all: Vec<(u64, u64)> = Vec::new();
        for (start_ns, end_ns) in buckets.into_iter().filter(|(start_ns, end_ns)| start_ns < end_ns) {
            match all.last_mut() {
                // One that was merged again, with others that were not.
                Some(last) if start_ns < last.1 => last.1 = last.1.max(end_ns),
                _ => all.push((start_ns, end_ns)),
            }
        }
        RollupTime { buckets: all }
    }

    /// Whether all is as it was recorded.
    pub(crate) fn is_none(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The end of the last bucket, ns.
    pub(crate) fn until_ns(&self) -> Option<u64> {
        self.buckets.last().map(|(_, end_ns)| *end_ns)
    }

    /// The bucket in which a moment is.
    pub(crate) fn bucket_at(&self, ns: u64) -> Option<(u64, u64)> {
        let after = self.buckets.partition_point(|(start_ns, _)| *start_ns <= ns);
        self.buckets.get(after.checked_sub(1)?).copied().filter(|(_, end_ns)| ns < *end_ns)
    }

    /// The parts with equal buckets, the oldest first. What lies between buckets belongs to the part before it.
    #[cfg(test)]
    pub(crate) fn parts(&self) -> Vec<RollupPart> {
        let mut parts: Vec<RollupPart> = Vec::new();
        for &(from_ns, to_ns) in &self.buckets {
            let bucket_ns = to_ns - from_ns;
            match parts.last_mut() {
                Some(last) if last.bucket_ns == bucket_ns => last.to_ns = to_ns,
                _ => parts.push(RollupPart { from_ns, to_ns, bucket_ns }),
            }
        }
        parts
    }

    /// Returns the length of the buckets in words: `1 s`, or `1 s to 10 s`.
    fn bucket_words(&self) -> Option<String> {
        let lengths = || self.buckets.iter().map(|(start_ns, end_ns)| end_ns - start_ns);
        let (least, most) = (lengths().min()?, lengths().max()?);
        if least == most {
            return Some(bucket_text(least));
        }
        Some(format!("{} to {}", bucket_text(least), bucket_text(most)))
    }

    /// Description of what is rolled up, for a line of a screen.
    pub(crate) fn words(&self) -> Option<String> {
        let until = bucket_text(self.until_ns()?);
        Some(format!("before {until}: in buckets of {}", self.bucket_words()?))
    }

    /// Note on what is rolled up and what that means, for a recording of `duration_ns`.
    pub(crate) fn note(&self, duration_ns: u64) -> Option<String> {
        let until_ns = self.until_ns()?;
        let age = duration(duration_ns.saturating_sub(until_ns));
        Some(format!(
            "samples older than {age} are merged into buckets of {}: sums are exact, but the position within a bucket is \
             lost; Time spreads samples evenly over a bucket, and parts of a bucket are estimates",
            self.bucket_words()?
        ))
    }

    /// Adds `weight` to the interval of `length_ns` from `start_ns` on; what lies in a bucket counts for all of the bucket.
    pub(crate) fn spread(&self, into: &mut Spread, start_ns: u64, length_ns: u64, weight: u64) {
        let end_ns = start_ns.saturating_add(length_ns);
        let first = self.bucket_at(start_ns);
        if let Some((from_ns, to_ns)) = first.filter(|(_, to_ns)| end_ns <= *to_ns) {
            return into.add(from_ns, to_ns - from_ns, weight);
        }
        // An interval of no length is in one bucket at most.
        let Some(last_ns) = end_ns.checked_sub(1).filter(|_| !self.is_none() && length_ns > 0) else {
            return into.add(start_ns, length_ns, weight);
        };
        let share = |part_ns: u64| (u128::from(weight) * u128::from(part_ns) / u128::from(length_ns)) as u64;
        let (mut inner, mut left) = (start_ns..end_ns, weight);
        if let Some((from_ns, to_ns)) = first {
            let part = share(to_ns - start_ns);
            into.add(from_ns, to_ns - from_ns, part);
            (inner.start, left) = (to_ns, left - part);
        }
        if let Some((from_ns, to_ns)) = self.bucket_at(last_ns).filter(|(from_ns, _)| *from_ns >= inner.start)
        {
            let part = share(end_ns - from_ns);
            into.add(from_ns, to_ns - from_ns, part);
            (inner.end, left) = (from_ns, left - part);
        }
        // Buckets that lie in it whole are filled evenly.
        if !inner.is_empty() {
            into.add(inner.start, inner.end - inner.start, left);
        }
    }
}

/// Buckets are whole seconds, and so are their edges.
fn bucket_text(ns: u64) -> String {
    if ns.is_multiple_of(SECOND_NS) { format!("{} s", count(ns / SECOND_NS)) } else { duration_brief(ns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{EventInfo, Merged, Meta, Sample};

    fn merged(time_ns: u64, span_ns: u64) -> Sample {
        let merged = Some(Merged { samples: 2, span_ns, ..Merged::default() });
        Sample { time_ns, merged, ..Sample::default() }
    }

    fn rollup(rows: &[(u64, u64)]) -> RollupTime {
        let mut profile = Profile::new(Meta::default());
        let event = profile.add_event(EventInfo::default());
        for (time_ns, span_ns) in rows {
            profile.events[event.index()].push(merged(*time_ns, *span_ns));
        }
        profile.events[event.index()].push(Sample { time_ns: 500, ..Sample::default() });
        RollupTime::of(&profile)
    }

    #[test]
    fn buckets_are_found_again_from_the_rows_in_them() {
        let rollup = rollup(&[(0, 100), (0, 100), (20, 10), (100, 100), (200, 10), (220, 10)]);
        assert_eq!(rollup.buckets, [(0, 100), (100, 200), (200, 210), (220, 230)]);
        let part = |from_ns, to_ns, bucket_ns| RollupPart { from_ns, to_ns, bucket_ns };
        assert_eq!(rollup.parts(), [part(0, 200, 100), part(200, 230, 10)]);
        assert_eq!((rollup.bucket_at(99), rollup.bucket_at(215)), (Some((0, 100)), None));
        assert_eq!(rollup.until_ns(), Some(230));
        assert_eq!(rollup.bucket_words().unwrap(), "10 ns to 100 ns");
    }

    #[test]
    fn a_recording_as_it_was_made_has_no_buckets() {
        let rollup = rollup(&[]);
        assert!(rollup.is_none());
        assert_eq!((rollup.words(), rollup.note(1), rollup.bucket_at(0)), (None, None, None));
        let mut spread = Spread::new(3, 10);
        rollup.spread(&mut spread, 5, 10, 100);
        assert_eq!(spread.finish(), [50, 50, 0]);
    }

    #[test]
    fn what_lies_in_a_bucket_counts_for_all_of_it() {
        let rollup = rollup(&[(20, 20), (40, 20)]);
        let spread = |start_ns, length_ns, weight| {
            let mut spread = Spread::new(8, 10);
            rollup.spread(&mut spread, start_ns, length_ns, weight);
            spread.finish()
        };
        assert_eq!(spread(25, 0, 100), [0, 0, 50, 50, 0, 0, 0, 0], "a moment");
        assert_eq!(spread(30, 10, 100), [0, 0, 50, 50, 0, 0, 0, 0], "a part of a bucket");
        assert_eq!(spread(0, 30, 30), [10, 10, 5, 5, 0, 0, 0, 0], "into a bucket");
        assert_eq!(spread(50, 30, 30), [0, 0, 0, 0, 5, 5, 10, 10], "out of a bucket");
        assert_eq!(spread(35, 10, 20), [0, 0, 5, 5, 5, 5, 0, 0], "from one bucket into the next");
        assert_eq!(spread(10, 60, 60), [0, 10, 10, 10, 10, 10, 10, 0], "over whole buckets");
        assert_eq!(spread(5, 10, 10), [5, 5, 0, 0, 0, 0, 0, 0], "before all buckets");
    }
}
