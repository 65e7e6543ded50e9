//! When threads ran and waited, or how the weight of another event came about over time: a row of buckets per thread or class
//! of threads, and a heat map of the whole recording. The
//! filters are those of all views, but the time range is selected here. A sample covers the time before it; a wait, with its
//! weight, and a rolled-up sum ([`crate::report::model::rollup`]) are spread evenly over their time. How any of it is drawn
//! stays outside.

mod passing;
mod rows;
mod timeline_state;

use super::heat_map::HeatMap;
use crate::base::failure::Failure;
use crate::profile::Sample;
use crate::report::analysis::Analysis;
use crate::report::model::group::parts_of;
use crate::report::model::rollup::RollupTime;
use crate::report::model::spread::Spread;
use crate::report::naming::thread_class::ThreadClasses;
use crate::report::options::{CommonOptions, ThreadSplit};
use passing::{Passing, interval};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
#[cfg(test)]
pub(crate) use rows::MOST_ROWS;
use rows::TimelineRows;
pub(crate) use rows::{Busy, TimelineRow};
pub(crate) use timeline_state::TimelineState;

/// Most buckets of a row.
const MOST_BUCKETS: usize = 4_096;

/// The recording, or its last part, in buckets of equal length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    /// Start of the first bucket, ns since the start of the recording.
    pub(crate) start_ns: u64,
    /// Length of the recording, ns.
    pub(crate) duration_ns: u64,
    /// Length of a bucket, ns; at least 1. The last one may end after the recording.
    pub(crate) bucket_ns: u64,
    /// The rows, busiest first.
    pub(crate) rows: Vec<TimelineRow>,
    /// Whether the rows show running and waiting time; otherwise they show the weight of the metric's samples.
    pub(crate) is_time: bool,
    /// Whether the weight of a bucket is that of what was there in the mean (live memory), and not of what came about.
    pub(crate) is_level: bool,
    /// The time of all rows in each bucket.
    pub(crate) sums: Vec<Busy>,
    /// Heat map of the metric, over all rows.
    pub(crate) heat: HeatMap,
}

impl Timeline {
    /// The timeline of `recording` from `start_ns` on in `buckets` buckets. Threads are merged into rows as the options
    /// say, by class by default.
    ///
    /// # Errors
    ///
    /// Returns a usage error for a bad pattern; status 3 when the recording lacks the metric's data.
    pub fn new(
        recording: &Analysis,
        options: &CommonOptions,
        buckets: usize,
        start_ns: u64,
    ) -> Result<Self, Failure> {
        let profile = &recording.profile;
        let duration_ns = profile.duration_ns().max(1);
        let start_ns = start_ns.min(duration_ns - 1);
        let shown = recording.shown(options.metric)?;
        let passing = Passing::new(recording, &shown, options, start_ns)?;
        let buckets = buckets.clamp(1, MOST_BUCKETS);
        let length_ns = duration_ns - start_ns;
        let bucket_ns = length_ns.div_ceil(buckets as u64).max(1);
        let buckets = length_ns.div_ceil(bucket_ns) as usize;
        let rollup = recording.rollup_time();
        let no_time = Spread::new(buckets, bucket_ns).since(start_ns, start_ns);
        let classes = ThreadClasses::of(&profile.tables, options.threads.unwrap_or(ThreadSplit::Class));
        let mut rows = TimelineRows::new(profile, &passing, &classes, no_time);
        let mut heat = HeatMap::spread(start_ns, duration_ns);
        for event in passing.of_rows.events() {
            // Rows always show all time; the heat map shows the metric.
            let is_hot = passing.is_level || shown.events().any(|shown| std::ptr::eq(shown, event));
            let empty = (rows.empty(), HeatMap::spread(start_ns, duration_ns));
            let parts: Vec<(TimelineRows, Spread)> = (parts_of(event).into_par_iter())
                .map(|part| {
                    spread_part(&passing, rollup, is_hot, part.map(|row| event.sample(row)), empty.clone())
                })
                .collect();
            for (part, part_heat) in &parts {
                rows.merge(part);
                heat.merge(part_heat);
            }
        }
        let heat = HeatMap::new(start_ns, duration_ns, heat);
        rows.add_lives(profile, rollup);
        let rows = rows.finish(profile, &classes);
        let mut sums = vec![Busy::default(); buckets];
        for row in &rows {
            sums.iter_mut().zip(&row.buckets).for_each(|(sum, bucket)| sum.add(*bucket));
        }
        Ok(Timeline {
            start_ns,
            duration_ns,
            bucket_ns,
            rows,
            is_time: passing.is_time,
            is_level: passing.is_level,
            sums,
            heat,
        })
    }

    /// The buckets that overlap a part of the recording, each with the length of the overlap, ns.
    fn overlaps(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (usize, u64)> {
        let (bucket_ns, origin_ns) = (self.bucket_ns.max(1), self.start_ns);
        let first = from_ns.saturating_sub(origin_ns) / bucket_ns;
        (first..).map_while(move |number| {
            let start_ns = origin_ns.saturating_add(number.saturating_mul(bucket_ns));
            let end_ns = to_ns.min(start_ns.saturating_add(bucket_ns));
            (start_ns < to_ns).then(|| (number as usize, end_ns.saturating_sub(from_ns.max(start_ns))))
        })
    }

    /// The part of `ns`, of a bucket, in `overlap_ns` of it.
    fn part(&self, ns: u64, overlap_ns: u64) -> u64 {
        (u128::from(ns) * u128::from(overlap_ns) / u128::from(self.bucket_ns.max(1))) as u64
    }

    /// The weight of the samples of a row in a part of the recording, if the metric is no time; of a level the mean. Numbers are small, so parts are
    /// rounded such that those of neighbours add up to the whole.
    pub(crate) fn weight_in(&self, row: &TimelineRow, from_ns: u64, to_ns: u64) -> u64 {
        let until = |weight, bucket: usize, ns: u64| {
            let start_ns = self.start_ns.saturating_add((bucket as u64).saturating_mul(self.bucket_ns));
            self.part(weight, ns.saturating_sub(start_ns).min(self.bucket_ns))
        };
        let parts = self.overlaps(from_ns, to_ns).map_while(|(at, _)| Some((at, *row.weights.get(at)?)));
        let sum = parts.fold(0u64, |sum, (at, weight)| {
            sum.saturating_add(until(weight, at, to_ns) - until(weight, at, from_ns))
        });
        let length_ns = to_ns.min(self.duration_ns).saturating_sub(from_ns).max(1);
        if self.is_level {
            (u128::from(sum) * u128::from(self.bucket_ns) / u128::from(length_ns)) as u64
        } else {
            sum
        }
    }

    /// The time in `buckets` of this timeline in a part of the recording; a bucket that overlaps it partly counts in
    /// proportion.
    pub(crate) fn busy_in(&self, buckets: &[Busy], from_ns: u64, to_ns: u64) -> Busy {
        let mut sum = Busy::default();
        for (bucket, overlap_ns) in self.overlaps(from_ns, to_ns).take_while(|(at, _)| *at < buckets.len()) {
            let (busy, part) = (buckets[bucket], |ns| self.part(ns, overlap_ns));
            sum.add(Busy {
                on_cpu_ns: part(busy.on_cpu_ns),
                no_cpu_ns: part(busy.no_cpu_ns),
                blocked_ns: part(busy.blocked_ns),
                alive_ns: part(busy.alive_ns),
            });
        }
        sum
    }

    /// Time that the threads of a row spent in each state in a part of the recording, ns: running, without a CPU, and by
    /// what they waited for, reasons of one colour side by side. If the metric is no time, the weight of its samples alone.
    pub(crate) fn states_in(&self, row: &TimelineRow, from_ns: u64, to_ns: u64) -> Vec<(TimelineState, u64)> {
        if !self.is_time {
            return vec![(TimelineState::Sampled, self.weight_in(row, from_ns, to_ns))];
        }
        let busy = self.busy_in(&row.buckets, from_ns, to_ns);
        let mut states =
            vec![(TimelineState::Running, busy.on_cpu_ns), (TimelineState::NoCpu, busy.no_cpu_ns)];
        states.extend(row.blocked.iter().map(|(state, buckets)| {
            let parts = self.overlaps(from_ns, to_ns).take_while(|(at, _)| *at < buckets.len());
            let sum = parts
                .fold(0u64, |sum, (at, overlap_ns)| sum.saturating_add(self.part(buckets[at], overlap_ns)));
            (*state, sum)
        }));
        states
    }
}

/// Adds samples to rows, and to the heat map if they are hot.
fn spread_part(
    passing: &Passing<'_>,
    rollup: &RollupTime,
    is_hot: bool,
    samples: impl Iterator<Item = Sample>,
    (mut rows, mut heat): (TimelineRows, Spread),
) -> (TimelineRows, Spread) {
    for sample in samples {
        if passing.is_time && passing.filter.keeps_task(sample.task) {
            rows.note_alive(&sample);
        }
        let Some(state) = passing.state_of(&sample) else { continue };
        match passing.live_until_ns(&sample) {
            Some(until_ns) => rows.add_level(&sample, until_ns, rollup),
            None => rows.add(&sample, state, rollup),
        }
        if is_hot {
            add_heat(&mut heat, &sample, rollup);
        }
    }
    (rows, heat)
}

fn add_heat(heat: &mut Spread, sample: &Sample, rollup: &RollupTime) {
    let (from_ns, to_ns) = interval(sample);
    rollup.spread(heat, from_ns, to_ns - from_ns, sample.weight);
}
