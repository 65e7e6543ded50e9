//! A recording in which each wait is what was waited for: every view and export shows where its time really went.

use super::builder::{ChainBuilder, Piece};
use super::timelines::{TimedWait, Timelines, timed};
use crate::base::failure::{Failure, status};
use crate::profile::{Event, EventInfo, EventKind, Merged, Profile, Sample, Waker};
use crate::report::analysis::Analysis;
use crate::report::locks::lock_waits::{is_of_locks, only_locks, with_waits};
use crate::report::model::metric::{Metric, running_of, waits_of};
use crate::report::options::{CommonOptions, TimeRange};

/// Counter of the time of waits that were too short to be kept, which are not shown, ns.
pub(crate) const SHORT_NS: &str = "chain_short_waits_ns";
/// Counter of the time of waits that were merged, of whose ends no time is known, ns.
pub(crate) const MERGED_NS: &str = "chain_merged_waits_ns";
/// Counter of the time of idle waits that are not shown, ns.
pub(crate) const IDLE_NS: &str = "chain_idle_waits_ns";
/// Counter of parts of waits beyond the longest chain that is followed.
pub(crate) const CUT: &str = "chain_links_cut";
/// Counter of chains that were made without samples of what threads ran.
pub(crate) const NOT_SAMPLED: &str = "chain_without_samples";

/// What the weights are.
const CHAIN_TITLE: &str = "waits by what was waited for";

/// Parts of waits as events: those in which a thread ran, and those in which none did.
#[derive(Debug)]
struct ChainEvents {
    ran: Event,
    waited: Event,
}

/// Makes waits what the threads did that ended them. Idle ones are left out unless they are wanted; `for_locks` leaves those for locks.
///
/// # Errors
///
/// Status 3 if the recording has no waits.
fn only_chains(recording: Analysis, options: &CommonOptions, for_locks: bool) -> Result<Analysis, Failure> {
    let analysis = with_waits(recording)?;
    let timelines = Timelines::of(&analysis.profile);
    let (mut merged_ns, mut idle_ns) = (0u64, 0u64);
    let mut roots: Vec<(Sample, TimedWait)> = Vec::new();
    for sample in waits_of(&analysis.profile).into_iter().flat_map(Event::samples) {
        let Some(wait) = timed(&sample) else { continue };
        let reason = analysis.reasons().reason(&wait.wait, sample.stack);
        let is_idle = || analysis.idle_waits().is_idle(sample.task, sample.stack, reason);
        if for_locks && !is_of_locks(reason) {
            continue;
        }
        if !options.filter.idle && is_idle() {
            idle_ns = idle_ns.saturating_add(sample.weight);
            continue;
        }
        match sample.merged {
            None => roots.push((sample, wait)),
            Some(_) => merged_ns = merged_ns.saturating_add(sample.weight),
        }
    }
    let mut recording = analysis.into_recording();
    let profile = &mut recording.profile;
    let has_samples = running_of(profile).is_some_and(|event| !event.is_empty());
    let mut events = ChainEvents::of(profile);
    let mut builder = ChainBuilder::new(profile, &timelines);
    for (sample, wait) in &roots {
        let Some(time) = part_in(options.filter.time, wait) else { continue };
        let pieces = builder.pieces(wait, &time);
        pieces.into_iter().for_each(|piece| events.add(sample, wait, piece));
    }
    let cut = builder.cut;
    let shorts = profile.thread_times.iter().flat_map(|time| &time.short_waits);
    let short_ns = shorts.fold(0u64, |sum, short| sum.saturating_add(short.time_ns));
    profile.events = vec![events.ran, events.waited];
    profile.thread_times.clear();
    let not_sampled = u64::from(!has_samples);
    let numbers = [
        (SHORT_NS, short_ns),
        (MERGED_NS, merged_ns),
        (IDLE_NS, idle_ns),
        (CUT, cut),
        (NOT_SAMPLED, not_sampled),
    ];
    for (name, number) in numbers.into_iter().filter(|(_, number)| *number > 0) {
        profile.count(name, number);
    }
    Ok(Analysis::of(recording))
}

/// The part of a wait that lies in a time.
fn part_in(time: TimeRange, wait: &TimedWait) -> Option<std::ops::Range<u64>> {
    let overlap_ns = time.overlap_ns(wait.from_ns, wait.to_ns).filter(|overlap_ns| *overlap_ns > 0)?;
    let from_ns = time.from_ns.map_or(wait.from_ns, |from_ns| from_ns.max(wait.from_ns));
    Some(from_ns..from_ns + overlap_ns)
}

impl ChainEvents {
    fn of(profile: &Profile) -> Self {
        let info = |kind: EventKind| {
            let of_waits = waits_of(profile).map(|event| event.info().clone()).unwrap_or_default();
            Event::new(EventInfo { kind, period: 0, ..of_waits })
        };
        let ran = EventKind { title: CHAIN_TITLE.into(), noun: "wait".into(), ..EventKind::ON_CPU };
        ChainEvents { ran: info(ran), waited: info(EventKind::OFF_CPU) }
    }

    /// Adds a part of the wait of `sample`.
    fn add(&mut self, sample: &Sample, wait: &TimedWait, piece: Piece) {
        let share = Share { from_ns: wait.from_ns, length_ns: wait.wait.duration_ns, piece: &piece };
        let whole = Merged::of_one(sample.weight, Some(&wait.wait));
        let merged = Merged {
            samples: 1,
            count_thousandths: share.of(whole.count_thousandths),
            variance_us2: share.of(whole.variance_us2),
            span_ns: 0,
        };
        let part = Sample {
            time_ns: piece.time.start,
            stack: piece.stack,
            weight: share.of(sample.weight),
            merged: Some(merged),
            wait: None,
            ..*sample
        };
        let duration_ns = piece.time.end - piece.time.start;
        match piece.wait {
            None => self.ran.push(part),
            Some(last) => {
                // Who ended it has no part in it: an interrupt, or no one.
                let waker = Waker { task: None, stack: None, ..last.waker };
                self.waited
                    .push(Sample { wait: Some(crate::profile::Wait { duration_ns, waker, ..last }), ..part });
            }
        }
    }
}

/// A piece of a wait as a share of it.
struct Share<'p> {
    from_ns: u64,
    length_ns: u64,
    piece: &'p Piece,
}

impl Share<'_> {
    /// The share of `all`; those of all pieces add up to it.
    fn of(&self, all: u64) -> u64 {
        let until = |ns: u64| {
            let part_ns = u128::from(ns.saturating_sub(self.from_ns).min(self.length_ns));
            // At most `all`.
            (u128::from(all) * part_ns / u128::from(self.length_ns.max(1))) as u64
        };
        until(self.piece.time.end) - until(self.piece.time.start)
    }
}

impl CommonOptions {
    /// The recording, or of it the waits for locks or the chains of waits if only these are asked for; and the options for what is
    /// left.
    ///
    /// # Errors
    ///
    /// Status 3 if it has none.
    pub(crate) fn of_waits(&self, recording: Analysis) -> Result<(Analysis, CommonOptions), Failure> {
        let mut options = self.clone();
        let left = match (self.chains, self.locks) {
            (true, locks) => {
                options.metric = Some(Metric::WALL);
                options.locks = None;
                only_chains(recording, self, locks.is_some())?
            }
            (false, Some(charged_to)) => only_locks(recording, charged_to, self.filter.idle)?,
            (false, None) => return Ok((recording, options)),
        };
        if self.chains && left.profile.events.iter().all(Event::is_empty) {
            return Err(Failure::new(
                status::NO_MATCH,
                "no waits are left to show: all were idle, or not recorded one by one",
            )
            .hint("to see idle ones, too:  --idle"));
        }
        // Idle ones are gone. Among those that are left, others would look idle.
        options.idle_is_gone = !self.filter.idle;
        options.filter.idle = true;
        Ok((left, options))
    }
}
