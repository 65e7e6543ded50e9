//! A recording of which only the waits for locks are left: every view and export shows these alone.

use super::ChargedTo;
use super::place::Locks;
use crate::base::failure::{Failure, status};
use crate::profile::{Event, EventInfo, EventKind, Merged, Profile, Reason, Sample, Wait, Waker, WakerKind};
use crate::report::analysis::Analysis;
use crate::report::model::metric::{Metric, Shown, waits_of};
use crate::report::options::{CommonOptions, Grouping, ReportOptions, ReportView};
use std::borrow::Cow;

/// Counter of waits in futexes that ended by their timeout: sleeps, which are not shown.
pub(crate) const TIMED_OUT: &str = "lock_waits_timed_out";
/// Counter of idle waits that are not shown, and their time, ns.
pub(crate) const IDLE: &str = "lock_waits_idle";
pub(crate) const IDLE_NS: &str = "lock_waits_idle_ns";
/// Counter of waits without one who ended them, which are not charged to anyone.
pub(crate) const UNCHARGED: &str = "lock_waits_uncharged";

/// Waits that are kept, and numbers of others.
#[derive(Debug, Default)]
struct KeptWaits {
    samples: Vec<Sample>,
    timed_out: u64,
    idle: u64,
    idle_ns: u64,
    uncharged: u64,
}

/// Leaves the waits for locks in `recording`, with idle ones if they are wanted. Charged to holders, samples have the stacks of those
/// who ended the waits, and are no waits any more.
///
/// # Errors
///
/// Status 3 if the recording has no waits, or none that says for which lock it was.
pub(crate) fn only_locks(
    recording: Analysis,
    charged_to: ChargedTo,
    with_idle: bool,
) -> Result<Analysis, Failure> {
    let analysis = with_waits(recording)?;
    let waits = waits_in(&analysis)?;
    let locks = Locks::of(&analysis.profile);
    if locks.is_empty() && !waits.is_empty() {
        return Err(Failure::new(
            status::NO_MATCH,
            "no wait of the recording says for which lock it was: there was none, or they were recorded without BPF \
             programs, or by an earlier version",
        )
        .hint("to see all waits:  prof report --off-cpu"));
    }
    let mut kept = KeptWaits::default();
    for sample in waits.samples().filter(|sample| locks.has(sample.labels)) {
        kept.add(&analysis, sample, charged_to, with_idle);
    }
    let side = match charged_to {
        ChargedTo::Waiter => EventKind::GOROUTINE_WAITS,
        ChargedTo::Holder | ChargedTo::EitherSide => EventKind::GOROUTINE_HOLDERS,
    };
    for sample in analysis.profile.event_of(&side).into_iter().flat_map(Event::samples) {
        kept.add_of_goroutines(&analysis, sample, charged_to, with_idle);
    }
    let (info, holders) =
        (waits.info().clone(), analysis.profile.event_of(&EventKind::GOROUTINE_HOLDERS).cloned());
    let mut recording = analysis.into_recording();
    kept.put_into(&mut recording.profile, info, charged_to);
    // Tables of locks name them next to those that waited.
    recording.profile.events.extend(holders.filter(|_| charged_to == ChargedTo::Waiter));
    Ok(Analysis::of(recording))
}

impl KeptWaits {
    fn add(&mut self, analysis: &Analysis, sample: Sample, charged_to: ChargedTo, with_idle: bool) {
        let Some(wait) = sample.wait else { return };
        let reason = analysis.reasons().reason(&wait, sample.stack);
        if reason == Reason::Sleep {
            return self.timed_out += 1;
        }
        if !is_of_locks(reason) {
            return;
        }
        if !with_idle && analysis.idle_waits().is_idle(sample.task, sample.stack, reason) {
            self.idle += 1;
            self.idle_ns = self.idle_ns.saturating_add(sample.weight);
            return;
        }
        // A runtime that looks again after a while is woken by a timer, which holds nothing.
        let is_by_interrupt = matches!(wait.waker.kind, WakerKind::SoftInterrupt | WakerKind::Interrupt);
        if charged_to == ChargedTo::EitherSide && is_by_interrupt {
            return self.uncharged += 1;
        }
        if charged_to != ChargedTo::Holder {
            self.samples.push(sample);
            return;
        }
        let Some(task) = wait.waker.task.filter(|_| wait.waker.kind == WakerKind::Thread) else {
            return self.uncharged += 1;
        };
        let merged = sample.merged.or(Some(Merged::of_one(sample.weight, Some(&wait))));
        let stack = wait.waker.stack.and_then(|stack| analysis.profile.tables.user_part(stack));
        self.samples.push(Sample { task, stack, wait: None, merged, ..sample });
    }

    /// Adds waits of goroutines, or waits for one: each with the side that is known of it. What is no lock counts as idle: the runtime
    /// counts waits for work, too.
    fn add_of_goroutines(
        &mut self,
        analysis: &Analysis,
        sample: Sample,
        charged_to: ChargedTo,
        with_idle: bool,
    ) {
        match (sample.wait, charged_to) {
            (Some(wait), _)
                if !with_idle && analysis.reasons().reason(&wait, sample.stack) != Reason::Lock =>
            {
                self.idle = self.idle.saturating_add(sample.statistics().samples);
                self.idle_ns = self.idle_ns.saturating_add(sample.weight);
            }
            (Some(_), _) | (None, ChargedTo::Holder) => self.samples.push(sample),
            (None, _) => {
                let waker = Waker { kind: WakerKind::Thread, task: Some(sample.task), stack: sample.stack };
                let duration_ns = sample.weight / sample.statistics().samples.max(1);
                let wait = Some(Wait { duration_ns, reason: Reason::Lock, waker });
                self.samples.push(Sample { wait, ..sample });
            }
        }
    }

    /// Makes these the only event of the profile.
    fn put_into(self, profile: &mut Profile, info: EventInfo, charged_to: ChargedTo) {
        let kind = match charged_to {
            ChargedTo::Waiter | ChargedTo::EitherSide => {
                EventKind { title: EventKind::LOCK.title, ..EventKind::OFF_CPU }
            }
            ChargedTo::Holder => EventKind {
                name: Cow::Borrowed("lock-holders"),
                title: Cow::Borrowed("waits by holder"),
                has_duration: false,
                ..EventKind::LOCK
            },
        };
        let mut event = Event::new(EventInfo { kind, ..info });
        self.samples.into_iter().for_each(|sample| event.push(sample));
        profile.events = vec![event];
        profile.thread_times.clear();
        let numbers = [
            (TIMED_OUT, self.timed_out),
            (IDLE, self.idle),
            (IDLE_NS, self.idle_ns),
            (UNCHARGED, self.uncharged),
        ];
        for (name, number) in numbers.into_iter().filter(|(_, number)| *number > 0) {
            profile.count(name, number);
        }
    }
}

/// Whether what is made of a futex was waited for.
pub(crate) fn is_of_locks(reason: Reason) -> bool {
    matches!(reason, Reason::Lock | Reason::Condvar | Reason::Futex | Reason::Gil)
}

/// The recording, in which waits are waiting time where only those for locks were recorded, too: no other is judged to be idle or
/// not.
///
/// # Errors
///
/// Status 3 if it has no waits.
pub(crate) fn with_waits(recording: Analysis) -> Result<Analysis, Failure> {
    let mut recording = recording.into_recording();
    if let Some(event) = recording.profile.events.iter_mut().find(|event| event.kind().is(&EventKind::LOCK)) {
        *event = renamed(event, EventKind::OFF_CPU);
    }
    let analysis = Analysis::of(recording);
    waits_in(&analysis)?;
    Ok(analysis)
}

fn waits_in(analysis: &Analysis) -> Result<&Event, Failure> {
    waits_of(&analysis.profile).ok_or_else(|| match analysis.shown(Some(Metric::OFF_CPU)) {
        Err(failure) => failure.hint("to record waits for locks:  prof record -e lock -p PID"),
        Ok(_) => Failure::new(status::NO_MATCH, "the recording has no waits"),
    })
}

/// The event as one of another kind.
fn renamed(event: &Event, kind: EventKind) -> Event {
    let mut renamed = Event::new(EventInfo { kind, ..event.info().clone() });
    event.samples().for_each(|sample| renamed.push(sample));
    renamed
}

impl ReportOptions {
    /// The options for a recording of nothing but waits for locks, where none ask for anything else.
    pub(crate) fn of_locks(&self, recording: &Analysis) -> Option<ReportOptions> {
        let is_open =
            self.view == ReportView::Overview && self.common.metric.is_none() && self.common.locks.is_none();
        let shown = Shown::of(&recording.profile, None).ok().filter(|_| is_open)?;
        let is_of_locks = shown.waits.is_some_and(|event| event.kind().is(&EventKind::LOCK));
        let common = CommonOptions { locks: Some(ChargedTo::Waiter), ..self.common.clone() };
        is_of_locks.then(|| ReportOptions {
            common,
            view: ReportView::Locks(Grouping::default()),
            ..self.clone()
        })
    }
}
