//! What a view shows: running time, waiting time, both, or another kind of event; and the events of the profile that hold it.

use crate::base::failure::{Failure, status};
use crate::base::safe_text;
use crate::base::units::{count, ordinal};
use crate::profile::{Event, EventKind, KindKey, Meta, Profile, Unit};
use std::borrow::Cow;

/// The name of running and waiting time together.
const WALL: &str = "wall";

/// The kinds of events that are shown together: a single one, or running and waiting time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Metric {
    kind: KindKey,
    and: Option<KindKey>,
}

impl Metric {
    /// The time that threads ran, by samples.
    pub const ON_CPU: Self = Self::of(KindKey::of(EventKind::ON_CPU_NAME));
    /// The time that threads did not run, by waits.
    pub const OFF_CPU: Self = Self::of(KindKey::of(EventKind::OFF_CPU_NAME));
    /// The time that goroutines were in each state, by snapshots.
    pub(crate) const GOROUTINES: Self = Self::of(KindKey::of(EventKind::GOROUTINES_NAME));
    /// Memory: blocks of the heap.
    pub(crate) const HEAP: Self = Self::of(KindKey::of(EventKind::HEAP_NAME));
    /// Both: the time that passed.
    pub const WALL: Self = Self { and: Some(Self::OFF_CPU.kind), ..Self::ON_CPU };

    const fn of(kind: KindKey) -> Self {
        Self { kind, and: None }
    }

    /// The metric that shows one kind of event.
    pub(crate) fn of_kind(kind: &EventKind) -> Self {
        Self::of(kind.key())
    }

    /// The metric of a name: that of a kind, or `wall`.
    pub(crate) fn named(name: &str) -> Self {
        if name == WALL { Self::WALL } else { Self::of(KindKey::of(name)) }
    }

    /// The kinds of events, that of samples first.
    fn kinds(self) -> impl Iterator<Item = KindKey> {
        [self.kind].into_iter().chain(self.and)
    }

    /// Whether it is running time, waiting time, or both.
    pub(crate) fn is_time(self) -> bool {
        Self::WALL.kinds().any(|kind| kind == self.kind)
    }

    /// Returns the metrics of which a profile has the events, those of time first.
    pub(crate) fn all_of(profile: &Profile) -> Vec<Self> {
        let has = |metric: &Metric| Shown::of(profile, Some(*metric)).is_ok();
        let others = profile.events.iter().map(|event| Metric::of_kind(event.kind()));
        let others = others.filter(|metric| !metric.is_time());
        let time = [Metric::ON_CPU, Metric::OFF_CPU, Metric::WALL].into_iter().filter(has);
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
    /// The event of samples that have no length.
    pub(crate) sampled: Option<&'p Event>,
    /// The event of waits, or of another kind with a length.
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

    /// Returns the events that `metric` asks for; if it is `None`, the first of running time, of waits, or any other that has
    /// samples.
    ///
    /// # Errors
    ///
    /// Status 3 when the profile was recorded without them.
    pub(crate) fn of(profile: &'p Profile, metric: Option<Metric>) -> Result<Self, Failure> {
        let Some(metric) = metric else {
            let time = [running_of(profile), waits_of(profile)].into_iter().flatten();
            let mut events = time.chain(&profile.events);
            let first = events.clone().find(|event| !event.is_empty()).or_else(|| events.next());
            return first.map(Shown::one).ok_or_else(no_samples);
        };
        let event_of = |kind| profile.events.iter().find(|event| event.kind().key() == kind);
        let events: Result<Vec<&Event>, KindKey> =
            metric.kinds().map(|kind| event_of(kind).ok_or(kind)).collect();
        match events.as_deref() {
            Ok([event]) => Ok(Shown::one(event)),
            Ok(_) => Ok(Shown::time_of(profile)),
            Err(missing) => Err(lacks(profile, metric, *missing)),
        }
    }

    /// All running and waiting time of a profile, as far as it has some.
    pub(crate) fn time_of(profile: &'p Profile) -> Self {
        let sampled = running_of(profile);
        // What is made of a recording has words of its own.
        let own = sampled.map(Event::kind).filter(|kind| kind.title != EventKind::ON_CPU.title);
        Shown {
            name: WALL,
            title: own.map_or(Cow::Borrowed("wall clock"), |kind| safe_text::terminal(&kind.title)),
            noun: own.map_or(Cow::Borrowed("samples and wait"), |kind| safe_text::terminal(&kind.noun)),
            unit: Unit::Nanoseconds,
            sampled,
            waits: waits_of(profile),
        }
    }

    /// The events, those of samples first.
    pub(crate) fn events(&self) -> impl Iterator<Item = &'p Event> + use<'p> {
        self.sampled.into_iter().chain(self.waits)
    }

    /// Whether all of it has a length: waits, or another kind of interval.
    pub(crate) fn is_only_waits(&self) -> bool {
        self.sampled.is_none() && self.waits.is_some()
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
            (Some(_), Some(_)) => Metric::WALL,
            _ => Metric::named(self.name),
        }
    }

    /// Returns the rate of samples in short: ` at 999 Hz`, `, every 100th`. Empty for waits, of which each is one.
    pub(crate) fn rate(&self, meta: &Meta) -> String {
        let Some(info) = self.sampled.filter(|_| self.waits.is_none()).map(Event::info) else {
            return String::new();
        };
        if info.kind.is(&EventKind::GOROUTINES) || info.kind.is(&EventKind::HEAP) {
            return format!(", {}", safe_text::terminal(&info.sampling));
        }
        match info.period {
            1 if info.kind.unit == Unit::Count || info.kind.is(&EventKind::SYSTEM_CALLS) => {
                ", each".to_owned()
            }
            period if info.kind.unit == Unit::Count && period > 0 => format!(", every {}", ordinal(period)),
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
pub(crate) fn running_of(profile: &Profile) -> Option<&Event> {
    profile.event_of(&EventKind::ON_CPU)
}

fn no_samples() -> Failure {
    Failure::new(status::NO_MATCH, "the recording has no samples: it ended before the first one")
        .hint("to record again:  prof record -d 10s -p PID")
}

/// The failure of a recording that has no event of `missing`, which `metric` needs.
fn lacks(profile: &Profile, metric: Metric, missing: KindKey) -> Failure {
    let missing = Metric::of(missing);
    if !missing.is_time() {
        let names = events_of(profile, |kind| &kind.name);
        let failure =
            Failure::new(status::NO_MATCH, format!("the recording has no such event: it has {names}"));
        let is_lock = missing == Metric::of(KindKey::of(EventKind::LOCK_NAME));
        return match is_lock && waits_of(profile).is_some() {
            true => failure.hint("waits for locks are among all waits:  --locks"),
            false => failure.hint("to see what is in it:  prof info"),
        };
    }
    let what = if missing == Metric::ON_CPU { "running time" } else { "waits" };
    let made_with = events_of(profile, EventKind::option);
    let message = format!("the recording has no {what}: it was made with -e {made_with}, or cut short");
    let failure =
        Failure::new(status::NO_MATCH, message).hint("to record both:  prof record -e cpu,off -p PID");
    match metric == Metric::ON_CPU && waits_of(profile).is_some() {
        true => failure.hint("to see its waits:  prof report --off-cpu"),
        false => failure,
    }
}

/// A word for each event, for a message.
fn events_of(profile: &Profile, word: impl Fn(&EventKind) -> &str) -> String {
    let words: Vec<_> =
        profile.events.iter().map(|event| safe_text::terminal(word(event.kind())).into_owned()).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(",") }
}
