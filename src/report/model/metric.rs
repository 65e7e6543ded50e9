//! What a view shows: running time, waiting time, both, or another kind of event; and the events of the profile that hold it.

use crate::base::failure::{Failure, status};
use crate::base::safe_text;
use crate::base::units::count;
use crate::profile::{Event, EventKind, Meta, Profile, Unit};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The name of running and waiting time together.
const WALL: &str = "wall";

/// Which events are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// The time that threads ran, by samples.
    OnCpu,
    /// The time that threads did not run, by waits.
    OffCpu,
    /// Both: the time that passed.
    Wall,
    /// Another kind of event.
    Event(KindKey),
}

/// A kind of event by its name, of which this is a hash: a profile has few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KindKey(u64);

impl Metric {
    /// The metric that shows one kind of event.
    pub(crate) fn of_kind(kind: &EventKind) -> Self {
        Self::named(&kind.name)
    }

    /// The metric of a name: that of a kind, or `wall`.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            WALL => Metric::Wall,
            name if name == EventKind::ON_CPU.name => Metric::OnCpu,
            name if name == EventKind::OFF_CPU.name => Metric::OffCpu,
            name => {
                let mut hasher = DefaultHasher::new();
                name.hash(&mut hasher);
                Metric::Event(KindKey(hasher.finish()))
            }
        }
    }

    /// Returns the metrics of which a profile has the events, those of time first.
    pub(crate) fn all_of(profile: &Profile) -> Vec<Self> {
        let has = |metric: &Metric| Shown::of(profile, Some(*metric)).is_ok();
        let others = profile.events.iter().map(|event| Metric::of_kind(event.kind()));
        let others = others.filter(|metric| matches!(metric, Metric::Event(_)));
        let time = [Metric::OnCpu, Metric::OffCpu, Metric::Wall].into_iter().filter(has);
        let mut all = Vec::new();
        // Of several events of one name, in a file of someone else's, the first is shown.
        time.chain(others).for_each(|metric| {
            if !all.contains(&metric) {
                all.push(metric)
            }
        });
        all
    }
}

/// The events that a view shows together. All have the same unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown<'p> {
    /// Stable name: that of the kind, or `wall` for running and waiting time.
    pub(crate) name: &'p str,
    /// Name of the weights in titles. Safe to print.
    pub(crate) title: Cow<'p, str>,
    /// The word for one sample. Safe to print.
    pub(crate) noun: Cow<'p, str>,
    /// Unit of the weights.
    pub(crate) unit: Unit,
    /// The event of samples that are no waits.
    pub(crate) sampled: Option<&'p Event>,
    /// The event of waits.
    pub(crate) waits: Option<&'p Event>,
}

impl<'p> Shown<'p> {
    /// A single event.
    pub(crate) fn one(event: &'p Event) -> Self {
        let kind = event.kind();
        Shown {
            name: &kind.name,
            title: safe_text::terminal(&kind.title),
            noun: safe_text::terminal(&kind.noun),
            unit: kind.unit,
            sampled: (!kind.has_duration).then_some(event),
            waits: kind.has_duration.then_some(event),
        }
    }

    /// The events that hold what was asked for; without a wish, the first of running time, of waits, or any other that has
    /// samples.
    ///
    /// # Errors
    ///
    /// Status 3 when the profile was recorded without them.
    pub(crate) fn of(profile: &'p Profile, metric: Option<Metric>) -> Result<Self, Failure> {
        let (on_cpu, off_cpu) = (running_of(profile), waits_of(profile));
        match metric {
            None => {
                let mut events = [on_cpu, off_cpu].into_iter().flatten().chain(&profile.events);
                let first = events.clone().find(|event| !event.is_empty()).or_else(|| events.next());
                first.map(Shown::one).ok_or_else(no_samples)
            }
            Some(Metric::OnCpu) => on_cpu.map(Shown::one).ok_or_else(|| match off_cpu {
                Some(_) => lacks(profile, "running time").hint("to see its waits:  prof report --off-cpu"),
                None => lacks(profile, "running time"),
            }),
            Some(Metric::OffCpu) => off_cpu.map(Shown::one).ok_or_else(|| lacks(profile, "waits")),
            Some(Metric::Wall) => match (on_cpu, off_cpu) {
                (Some(_), Some(_)) => Ok(Shown::time_of(profile)),
                (None, _) => Err(lacks(profile, "running time")),
                (_, None) => Err(lacks(profile, "waits")),
            },
            Some(Metric::Event(_)) => {
                let event = profile.events.iter().find(|event| Some(Metric::of_kind(event.kind())) == metric);
                event.map(Shown::one).ok_or_else(|| no_such_event(profile))
            }
        }
    }

    /// All running and waiting time of a profile, as far as it has some.
    pub(crate) fn time_of(profile: &'p Profile) -> Self {
        Shown {
            name: WALL,
            title: Cow::Borrowed("wall clock"),
            noun: Cow::Borrowed("samples and wait"),
            unit: Unit::Nanoseconds,
            sampled: running_of(profile),
            waits: waits_of(profile),
        }
    }

    /// The events, those of samples first.
    pub(crate) fn events(&self) -> impl Iterator<Item = &'p Event> + use<'p> {
        self.sampled.into_iter().chain(self.waits)
    }

    /// Whether it is a part of that.
    pub(crate) fn is_time_of(&self, profile: &Profile) -> bool {
        let is_part = |part: Option<&Event>, of: Option<&Event>| match (part, of) {
            (Some(part), Some(of)) => std::ptr::eq(part, of),
            (part, _) => part.is_none(),
        };
        is_part(self.sampled, running_of(profile)) && is_part(self.waits, waits_of(profile))
    }

    /// Which they are.
    pub(crate) fn metric(&self) -> Metric {
        match (self.sampled, self.waits) {
            (Some(_), Some(_)) => Metric::Wall,
            _ => Metric::named(self.name),
        }
    }

    /// How often samples were taken, in short: ` at 999 Hz`, `, every 100th`. Nothing of waits, of which each is one.
    pub(crate) fn rate(&self, meta: &Meta) -> String {
        let Some(info) = self.sampled.filter(|_| self.waits.is_none()).map(Event::info) else {
            return String::new();
        };
        match info.period {
            1 if info.kind.unit == Unit::Count => ", each".to_owned(),
            period if info.kind.unit == Unit::Count && period > 0 => format!(", every {}th", count(period)),
            _ if meta.effective_hz > 0 => format!(" at {} Hz", count(meta.effective_hz.into())),
            _ => String::new(),
        }
    }
}

/// The event of waits of a profile.
pub(crate) fn waits_of(profile: &Profile) -> Option<&Event> {
    profile.event_of(&EventKind::OFF_CPU)
}

/// The event of running time of a profile.
pub(super) fn running_of(profile: &Profile) -> Option<&Event> {
    profile.event_of(&EventKind::ON_CPU)
}

fn no_samples() -> Failure {
    Failure::new(status::NO_MATCH, "the recording has no samples: it ended before the first one")
        .hint("to record again:  prof record -d 10s -p PID")
}

fn lacks(profile: &Profile, what: &str) -> Failure {
    let made_with = events_of(profile, EventKind::option);
    let message = format!("the recording has no {what}: it was made with -e {made_with}, or cut short");
    Failure::new(status::NO_MATCH, message).hint("to record both:  prof record -e cpu,off -p PID")
}

fn no_such_event(profile: &Profile) -> Failure {
    let names = events_of(profile, |kind| &kind.name);
    Failure::new(status::NO_MATCH, format!("the recording has no such event: it has {names}"))
        .hint("to see what is in it:  prof info")
}

/// A word for each event, for a message.
fn events_of(profile: &Profile, word: impl Fn(&EventKind) -> &str) -> String {
    let words: Vec<_> =
        profile.events.iter().map(|event| safe_text::terminal(word(event.kind())).into_owned()).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(",") }
}
