//! What time a view shows: running, waiting, or both; and the events of the profile that hold it.

use crate::base::failure::{Failure, status};
use crate::profile::{Event, Profile, Unit};

/// Name of the event of samples that were taken while threads ran.
const ON_CPU: &str = "on-cpu";
/// Name of the event of waits.
const OFF_CPU: &str = "off-cpu";

/// What stands for both of them.
const WALL: &str = "wall";

/// Which time is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// The time that threads ran, by samples.
    OnCpu,
    /// The time that threads did not run, by waits.
    OffCpu,
    /// Both: the time that passed.
    Wall,
}

/// The events that a view shows together. All have the same unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown<'p> {
    /// Stable name: that of the event, or `wall` for running and waiting time.
    pub name: &'p str,
    /// Unit of the weights.
    pub unit: Unit,
    /// The event of samples that are no waits.
    pub sampled: Option<&'p Event>,
    /// The event of waits.
    pub waits: Option<&'p Event>,
}

impl<'p> Shown<'p> {
    /// A single event.
    pub fn one(event: &'p Event) -> Self {
        let info = event.info();
        let is_waits = info.name == OFF_CPU || event.has_waits();
        Shown {
            name: &info.name,
            unit: info.unit,
            sampled: (!is_waits).then_some(event),
            waits: is_waits.then_some(event),
        }
    }

    /// The events that hold the time that was asked for; without a wish, the first of running time, any other event.
    ///
    /// # Errors
    ///
    /// Status 3 when the profile was recorded without them.
    pub(crate) fn of(profile: &'p Profile, metric: Option<Metric>) -> Result<Self, Failure> {
        let on_cpu = profile.event_named(ON_CPU);
        let off_cpu = profile.event_named(OFF_CPU);
        let on_cpu = match metric {
            None => on_cpu.filter(|event| !event.is_empty()).or(off_cpu.filter(|event| !event.is_empty())),
            _ => on_cpu,
        };
        match metric {
            None => (on_cpu.or(profile.event_named(ON_CPU)).or(profile.events.first()))
                .map(Shown::one)
                .ok_or_else(no_samples),
            Some(Metric::OnCpu) => on_cpu.map(Shown::one).ok_or_else(|| {
                lacks("running time", "off").hint("the waits that it holds:  prof report --off-cpu")
            }),
            Some(Metric::OffCpu) => off_cpu.map(Shown::one).ok_or_else(|| lacks("waits", "cpu")),
            Some(Metric::Wall) => match (on_cpu, off_cpu) {
                (Some(_), Some(_)) => Ok(Shown::time_of(profile)),
                (None, _) => Err(lacks("running time", "off")),
                (_, None) => Err(lacks("waits", "cpu")),
            },
        }
    }

    /// All running and waiting time of a profile, as far as it has some.
    pub(crate) fn time_of(profile: &'p Profile) -> Self {
        Shown { name: WALL, unit: Unit::Nanoseconds, sampled: running_of(profile), waits: waits_of(profile) }
    }

    /// Whether it is a part of that.
    pub(crate) fn is_time_of(&self, profile: &Profile) -> bool {
        let is_part = |part: Option<&Event>, of: Option<&Event>| match (part, of) {
            (Some(part), Some(of)) => std::ptr::eq(part, of),
            (part, _) => part.is_none(),
        };
        is_part(self.sampled, running_of(profile)) && is_part(self.waits, waits_of(profile))
    }

    /// Which time it is; `None` for events that are neither.
    pub fn metric(&self) -> Option<Metric> {
        match (self.sampled, self.waits) {
            (Some(_), Some(_)) => Some(Metric::Wall),
            (None, Some(_)) => Some(Metric::OffCpu),
            (Some(event), None) if event.info().name == ON_CPU => Some(Metric::OnCpu),
            _ => None,
        }
    }

    /// The word for `samples` of it.
    pub fn noun(&self) -> &'static str {
        match (self.sampled, self.waits) {
            (None, Some(_)) => "wait",
            (Some(_), Some(_)) => "samples and wait",
            _ => "sample",
        }
    }
}

/// The event of waits of a profile.
pub(crate) fn waits_of(profile: &Profile) -> Option<&Event> {
    profile.event_named(OFF_CPU)
}

/// The event of running time of a profile.
pub(super) fn running_of(profile: &Profile) -> Option<&Event> {
    profile.event_named(ON_CPU)
}

fn no_samples() -> Failure {
    Failure::new(status::NO_MATCH, "the recording holds no samples: it ended before the first one")
        .hint("to record again:  prof record -d 10s -p PID")
}

fn lacks(what: &str, events: &str) -> Failure {
    let message = format!("the recording holds no {what}: it was made with -e {events}, or cut short");
    Failure::new(status::NO_MATCH, message).hint("to record both:  prof record -e cpu,off -p PID")
}
