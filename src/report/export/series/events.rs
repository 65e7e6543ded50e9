//! What servers call an event: the name of its series, and the names and units of its values.

use crate::profile::{EventInfo, EventKind, Unit};

/// A name and a unit, as in `cpu/nanoseconds`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitName {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
}

/// Part of a sample that a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SentPart {
    /// Number of samples, waits or blocks.
    Count,
    /// Their weight.
    Weight,
    /// Number of the blocks of memory that are still there.
    KeptCount,
    /// Their bytes.
    KeptWeight,
}

impl SentPart {
    /// Whether it is a number of samples, which is known in thousandths.
    pub(super) fn is_count(self) -> bool {
        matches!(self, SentPart::Count | SentPart::KeptCount)
    }
}

/// What an event is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentEvent {
    /// Name of the series: `process_cpu`.
    pub(crate) name: String,
    /// Values of each sample.
    pub(super) values: Vec<(UnitName, SentPart)>,
    /// What happens between two samples, and how often.
    pub(crate) period: Option<(UnitName, u64)>,
    /// Whether it is the time that threads ran.
    pub(super) is_on_cpu: bool,
}

impl SentEvent {
    /// The names of an event. Those that Go programs and the receivers of OpenTelemetry have are kept.
    pub(super) fn of(info: &EventInfo) -> Self {
        let (count, weight) = (SentPart::Count, SentPart::Weight);
        let kind = &info.kind;
        let value = |name: &str, unit, part| (UnitName { name: name.to_owned(), unit }, part);
        let between = |name: &str, unit, period| Some((UnitName { name: name.to_owned(), unit }, period));
        let event = |name: &str, values, period| SentEvent {
            name: name.to_owned(),
            values,
            period,
            is_on_cpu: kind.is(&EventKind::ON_CPU),
        };
        let contentions = |name| {
            let values = vec![value("contentions", COUNT, count), value("delay", NANOSECONDS, weight)];
            event(name, values, between("contentions", COUNT, 1))
        };
        match &*kind.name {
            EventKind::ON_CPU_NAME => event(
                "process_cpu",
                vec![value("samples", COUNT, count), value("cpu", NANOSECONDS, weight)],
                between("cpu", NANOSECONDS, info.period),
            ),
            EventKind::OFF_CPU_NAME => event("off_cpu", vec![value("off_cpu", NANOSECONDS, weight)], None),
            EventKind::LOCK_NAME => contentions("lock"),
            EventKind::GOROUTINE_WAITS_NAME => contentions("block"),
            EventKind::GOROUTINE_HOLDERS_NAME => contentions("mutex"),
            EventKind::HEAP_NAME => event(
                "memory",
                vec![
                    value("alloc_objects", COUNT, count),
                    value("alloc_space", BYTES, weight),
                    value("inuse_objects", COUNT, SentPart::KeptCount),
                    value("inuse_space", BYTES, SentPart::KeptWeight),
                ],
                between("space", BYTES, info.period),
            ),
            other => {
                let name = plain(other);
                let unit = unit_word(kind.unit);
                let values = match info.period {
                    // Each sample is one of what is counted.
                    1 if kind.unit == Unit::Count => vec![value(&name, unit, weight)],
                    _ => vec![value("samples", COUNT, count), value(&name, unit, weight)],
                };
                event(&name, values, between(&name, unit, info.period))
            }
        }
    }
}

const NANOSECONDS: &str = "nanoseconds";
const BYTES: &str = "bytes";
const COUNT: &str = "count";

/// Whether an event is sent: what a recording keeps for readers of its own is not.
pub(crate) fn is_sent(kind: &EventKind) -> bool {
    !kind.is(&EventKind::HEAP_SO_FAR)
}

fn unit_word(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => NANOSECONDS,
        Unit::Bytes => BYTES,
        Unit::Count | Unit::Other(_) => COUNT,
    }
}

/// `text` as the name of a series: letters, digits and `_`. Never empty.
fn plain(text: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let name: String = text.chars().take(100).map(keep).collect();
    match name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => name,
        false => format!("event_{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: EventKind, period: u64) -> String {
        let event = SentEvent::of(&EventInfo { kind, period, ..EventInfo::default() });
        let values = event.values.iter().map(|(value, _)| format!("{}/{}", value.name, value.unit));
        let period = event.period.map(|(what, every)| format!(" every {every} {}/{}", what.name, what.unit));
        format!("{} {}{}", event.name, values.collect::<Vec<_>>().join(" "), period.unwrap_or_default())
    }

    #[test]
    fn events_have_the_names_that_servers_know() {
        let cpu = "process_cpu samples/count cpu/nanoseconds every 7 cpu/nanoseconds";
        assert_eq!(of(EventKind::ON_CPU, 7), cpu);
        assert_eq!(of(EventKind::OFF_CPU, 0), "off_cpu off_cpu/nanoseconds");
        let faults = EventKind::counted("page-faults", "page faults");
        assert_eq!(
            of(faults, 101),
            "page_faults samples/count page_faults/count every 101 page_faults/count"
        );
        let probe = EventKind::counted("uprobe:/bin/a:f", "hits of f");
        assert_eq!(of(probe, 1), "uprobe__bin_a_f uprobe__bin_a_f/count every 1 uprobe__bin_a_f/count");
        let heap = of(EventKind::HEAP, 0);
        assert!(heap.starts_with("memory alloc_objects/count alloc_space/bytes inuse_objects/"), "{heap}");
        assert_eq!(plain("42"), "event_42");
    }
}
