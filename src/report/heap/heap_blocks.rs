//! A recording of which only those blocks of the heap are left that are asked for: every view and export shows these alone.

use super::HeapView;
use crate::base::failure::{Failure, status};
use crate::base::units::duration;
use crate::profile::{ALLOCATED_BEFORE, Event, EventInfo, EventKind, HeapBlock, Profile, Sample, StackId};
use crate::report::analysis::Analysis;
use crate::report::model::metric::{Metric, Shown};
use crate::report::options::{CommonOptions, ReportOptions, ReportView};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Name of the event that has all blocks, next to that of the ones that count.
const ALL_BLOCKS: &str = "heap-blocks";
/// A leak's blocks are older than this part of the recording.
const LEAK_AGE_PARTS: u64 = 2;

/// A block with its row.
#[derive(Debug, Clone, Copy)]
struct BlockRow {
    sample: Sample,
    block: HeapBlock,
}

/// Leaves the blocks that count in `recording`, and the sums of all.
///
/// # Errors
///
/// Status 3 if the recording has none.
pub(crate) fn only_heap(recording: Analysis, view: HeapView) -> Result<Analysis, Failure> {
    let mut recording = recording.into_recording();
    let profile = &mut recording.profile;
    let Some(event) = profile.event_of(&EventKind::HEAP) else {
        return Err(Failure::new(
            status::NO_MATCH,
            "the recording has no heap: it was not made with -e heap",
        )
        .hint("to record it:  prof record -e heap -p PID"));
    };
    check_time(view, profile.duration_ns())?;
    let info = event.info().clone();
    let rows = event.samples().filter_map(|sample| Some(BlockRow { sample, block: sample.block? }));
    let rows: Vec<BlockRow> = rows.collect();
    let kept = kept(&rows, view, profile);
    let is_shared = |row: &BlockRow| match view {
        HeapView::LiveAtOneOf(at, other) => {
            [at, other].iter().all(|at_ns| row.block.is_live(row.sample.time_ns, *at_ns))
        }
        _ => false,
    };
    let of_kind = |kind, rows: &[BlockRow]| {
        let mut event = Event::new(EventInfo { kind, ..info.clone() });
        rows.iter().for_each(|row| {
            let mut statistics = row.sample.statistics();
            if is_shared(row) {
                statistics.variance_us2 = 0;
            }
            event.push(Sample { merged: Some(statistics), ..row.sample });
        });
        event
    };
    let shown = EventKind { title: Cow::Borrowed(view.title()), ..EventKind::HEAP };
    let all = EventKind { name: Cow::Borrowed(ALL_BLOCKS), ..EventKind::HEAP };
    profile.events = vec![of_kind(shown, &kept), of_kind(all, &rows)];
    profile.thread_times.clear();
    Ok(Analysis::of(recording))
}

/// Refuses a time after the end, of which nothing is known.
fn check_time(view: HeapView, duration_ns: u64) -> Result<(), Failure> {
    let (HeapView::LiveAt(at_ns) | HeapView::LiveAtOneOf(at_ns, _) | HeapView::Grown(_, Some(at_ns))) = view
    else {
        return Ok(());
    };
    if at_ns <= duration_ns {
        return Ok(());
    }
    let [at, end] = [at_ns, duration_ns].map(duration);
    Err(Failure::usage(format!("what is live at {at} is not known: the recording ended at {end}"))
        .hint("what is live at the end:  --heap without a time"))
}

/// The event of all blocks of a recording of which only some count.
pub(crate) fn all_blocks(profile: &Profile) -> Option<&Event> {
    profile.events.iter().find(|event| event.kind().name == ALL_BLOCKS)
}

/// Whether a block was allocated before the recording: it may be live, but nothing has allocated it in the recording.
pub(crate) fn is_from_before(profile: &Profile) -> impl Fn(&Sample) -> bool + use<> {
    let sets = profile.tables.sets_with(ALLOCATED_BEFORE);
    move |sample| sample.labels.is_some_and(|labels| sets.contains(&labels))
}

fn kept(rows: &[BlockRow], view: HeapView, profile: &Profile) -> Vec<BlockRow> {
    let end_ns = profile.duration_ns();
    let is_from_before = is_from_before(profile);
    let is_new = |row: &&BlockRow| !is_from_before(&row.sample);
    let live_at = |at_ns: u64| move |row: &&BlockRow| row.block.is_live(row.sample.time_ns, at_ns);
    let is_kept: Box<dyn Fn(&&BlockRow) -> bool> = match view {
        HeapView::LiveAtEnd => Box::new(|row: &&BlockRow| row.block.lifetime_ns.is_none()),
        HeapView::LiveAt(at_ns) | HeapView::LiveAtOneOf(at_ns, _) => Box::new(live_at(at_ns)),
        HeapView::LiveAtPeak => Box::new(live_at(peak_ns(rows))),
        HeapView::Allocated => Box::new(is_new),
        HeapView::Grown(from_ns, to_ns) => {
            let is_live = live_at(to_ns.unwrap_or(end_ns));
            let from_ns = from_ns.unwrap_or(0);
            Box::new(move |row: &&BlockRow| row.sample.time_ns >= from_ns && is_new(row) && is_live(row))
        }
        HeapView::Leaks => {
            let rising = rising_stacks(rows, end_ns / LEAK_AGE_PARTS);
            Box::new(move |row: &&BlockRow| {
                let is_old = row.sample.time_ns < end_ns / LEAK_AGE_PARTS && is_new(row);
                row.block.lifetime_ns.is_none() && is_old && rising.contains_key(&row.sample.stack)
            })
        }
        HeapView::Short(most_ns) => Box::new(move |row: &&BlockRow| {
            row.block.lifetime_ns.is_some_and(|lifetime_ns| lifetime_ns <= most_ns)
        }),
    };
    rows.iter().filter(|row| is_kept(row)).copied().collect()
}

/// The time at which most bytes are live, ns; the first of several.
fn peak_ns(rows: &[BlockRow]) -> u64 {
    let weight = |row: &BlockRow| i64::try_from(row.sample.weight).unwrap_or(i64::MAX);
    let begins = rows.iter().map(|row| (row.sample.time_ns, weight(row)));
    let ends = rows
        .iter()
        .filter_map(|row| Some((row.sample.time_ns.saturating_add(row.block.lifetime_ns?), -weight(row))));
    let mut changes: Vec<(u64, i64)> = begins.chain(ends).collect();
    // What is freed at a time is not live with what is allocated then.
    changes.sort_unstable();
    let (mut live, mut most, mut at_ns) = (0i64, 0, 0);
    for (time_ns, change) in changes {
        live = live.saturating_add(change);
        if live > most {
            (most, at_ns) = (live, time_ns);
        }
    }
    at_ns
}

/// Stacks whose blocks from after `half_ns` are live at the end, too: by more than the error of the estimate.
fn rising_stacks(rows: &[BlockRow], half_ns: u64) -> FxHashMap<Option<StackId>, ()> {
    let mut later: FxHashMap<Option<StackId>, (f64, f64)> = FxHashMap::default();
    for row in rows.iter().filter(|row| row.block.lifetime_ns.is_none() && row.sample.time_ns >= half_ns) {
        let (bytes, variance) = later.entry(row.sample.stack).or_default();
        let weight = row.sample.weight as f64;
        *bytes += weight;
        *variance += weight * (weight - row.block.size as f64).max(0.0);
    }
    let is_sure = |(bytes, variance): (f64, f64)| bytes > 1.96 * variance.sqrt();
    later.into_iter().filter(|(_, sums)| is_sure(*sums)).map(|(stack, _)| (stack, ())).collect()
}

impl ReportOptions {
    /// The options for a recording of nothing but the heap, where none ask for anything else.
    pub(crate) fn of_heap(&self, recording: &Analysis) -> Option<ReportOptions> {
        let common = self.common.with_default_heap(recording)?;
        let view = match &self.view {
            ReportView::Overview => ReportView::of_heap(common.grouping),
            view => view.clone(),
        };
        Some(ReportOptions { common, view, ..self.clone() })
    }
}

impl CommonOptions {
    /// The options for a recording of nothing but the heap, where none ask for anything else: what is live at the end counts.
    pub(crate) fn with_default_heap(&self, recording: &Analysis) -> Option<CommonOptions> {
        let asks = self.heap.is_some() || self.locks.is_some();
        let shown = Shown::of(&recording.profile, self.metric).ok().filter(|_| !asks)?;
        let is_heap = shown.metric() == Metric::HEAP;
        is_heap.then(|| CommonOptions { heap: Some(HeapView::LiveAtEnd), ..self.clone() })
    }

    /// The recording, or of it the blocks of the heap that are asked for; and the options for what is left.
    ///
    /// # Errors
    ///
    /// Status 3 if it has none.
    pub(crate) fn of_heap(&self, recording: Analysis) -> Result<(Analysis, CommonOptions), Failure> {
        let Some(view) = self.heap else { return Ok((recording, self.clone())) };
        let options = CommonOptions { metric: Some(Metric::HEAP), ..self.clone() };
        Ok((only_heap(recording, view)?, options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Meta;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Blocks by their time, lifetime and weight.
    fn rows(blocks: &[(u64, Option<u64>, u64)]) -> Vec<BlockRow> {
        let row = |&(time_ns, lifetime_ns, weight)| {
            let block = HeapBlock { size: 10, lifetime_ns };
            BlockRow { sample: Sample { time_ns, weight, block: Some(block), ..Sample::default() }, block }
        };
        blocks.iter().map(row).collect()
    }

    fn weights(rows: &[BlockRow], view: HeapView) -> Vec<u64> {
        let mut profile = Profile::new(Meta::default());
        profile.end = Some(crate::profile::End { duration_ns: 10 * SECOND_NS, ..Default::default() });
        kept(rows, view, &profile).iter().map(|row| row.sample.weight).collect()
    }

    #[test]
    fn blocks_are_kept_by_their_times() {
        let at = |seconds: u64| seconds * SECOND_NS;
        let rows = rows(&[
            (at(1), Some(at(3)), 100),
            (at(2), None, 20),
            (at(5), Some(1_000), 7),
            (at(6), None, 3_000),
        ]);
        assert_eq!(weights(&rows, HeapView::LiveAtEnd), [20, 3_000]);
        assert_eq!(weights(&rows, HeapView::Allocated), [100, 20, 7, 3_000]);
        assert_eq!(weights(&rows, HeapView::LiveAt(at(3))), [100, 20]);
        assert_eq!(weights(&rows, HeapView::LiveAtPeak), [20, 3_000]);
        let grown = HeapView::Grown(Some(at(2)), Some(at(5) + 10_000));
        assert_eq!(weights(&rows, grown), [20], "the one before is gone by then");
        assert_eq!(weights(&rows, HeapView::Short(1_000_000)), [7]);
    }

    #[test]
    fn what_is_live_at_both_times_has_no_error_in_their_difference() {
        let mut profile = Profile::new(Meta::default());
        profile.end = Some(crate::profile::End { duration_ns: 10 * SECOND_NS, ..Default::default() });
        let event = profile.add_event(EventInfo { kind: EventKind::HEAP, ..EventInfo::default() });
        for row in rows(&[(SECOND_NS, None, 40_000), (5 * SECOND_NS, None, 70_000)]) {
            profile.events[event.index()].push(row.sample);
        }
        let recording = || Analysis::new(profile.clone(), Default::default());
        let variances = |at, other| {
            let left = only_heap(recording(), HeapView::LiveAtOneOf(at * SECOND_NS, other * SECOND_NS));
            let left = left.expect("it has a heap");
            left.profile.events[0]
                .samples()
                .map(|sample| sample.statistics().variance_us2)
                .collect::<Vec<_>>()
        };
        assert_eq!(variances(2, 6), [0]);
        assert_eq!(variances(6, 2), [0, 70 * 69]);
    }

    #[test]
    fn what_was_there_before_the_recording_is_live_and_not_allocated_in_it() {
        let at = |seconds: u64| seconds * SECOND_NS;
        let mut profile = Profile::new(Meta::default());
        profile.end = Some(crate::profile::End { duration_ns: 10 * SECOND_NS, ..Default::default() });
        let before = profile.tables.intern_labels(&[ALLOCATED_BEFORE]);
        let mut rows = rows(&[(0, None, 100), (0, Some(at(2)), 20), (0, None, 3)]);
        rows[..2].iter_mut().for_each(|row| row.sample.labels = Some(before));
        let weights =
            |view| kept(&rows, view, &profile).iter().map(|row| row.sample.weight).collect::<Vec<_>>();
        assert_eq!(weights(HeapView::LiveAtEnd), [100, 3]);
        assert_eq!(weights(HeapView::LiveAt(at(1))), [100, 20, 3]);
        assert_eq!(weights(HeapView::Allocated), [3]);
        assert_eq!(weights(HeapView::Grown(None, None)), [3]);
        assert_eq!(weights(HeapView::Leaks), [0; 0]);
    }

    #[test]
    fn what_is_live_after_the_end_is_not_known() {
        let refused = |view| check_time(view, 10 * SECOND_NS).err().map(|failure| failure.message);
        let said = refused(HeapView::LiveAt(11 * SECOND_NS)).expect("it is too late");
        assert_eq!(said, "what is live at 11.0 s is not known: the recording ended at 10.0 s");
        assert!(refused(HeapView::Grown(None, Some(11 * SECOND_NS))).is_some());
        for view in
            [HeapView::LiveAt(10 * SECOND_NS), HeapView::Grown(Some(SECOND_NS), None), HeapView::LiveAtEnd]
        {
            assert_eq!(refused(view), None);
        }
    }

    #[test]
    fn a_leak_is_what_goes_on_being_allocated_and_is_never_freed() {
        let at = |seconds: u64| seconds * SECOND_NS;
        let leaking: Vec<_> = (0..20).map(|second| (at(second) / 2, None, 40)).collect();
        assert_eq!(weights(&rows(&leaking), HeapView::Leaks).len(), 10, "those of the first half");
        let once = [(at(1), None, 40), (at(2), None, 40)];
        assert_eq!(weights(&rows(&once), HeapView::Leaks), [0; 0], "it is what a program keeps");
    }
}
