//! Events by the names that perf and pprof have for them.

use crate::profile::EventKind;
use crate::record::PerfCounter;

/// Longest name of an event that is kept, characters.
const MAX_NAME_CHARS: usize = 200;

/// Whether the period of perf's event `name` is time that a thread ran, ns: `cpu-clock`, `task-clock:u`.
pub(super) fn is_clock(name: &str) -> bool {
    let name = name.split(':').next().unwrap_or_default();
    matches!(name, "cpu-clock" | "task-clock" | "on-cpu")
}

/// The kind of perf's event `name`. Without a period clocks do not tell time: each of their samples is one.
pub(super) fn of_perf(name: &str, has_period: bool) -> EventKind {
    if is_clock(name) && has_period {
        return EventKind::ON_CPU;
    }
    if name == EventKind::OFF_CPU.name && has_period {
        return EventKind::OFF_CPU;
    }
    counted(name)
}

/// A kind whose weights are numbers of what `name` says.
pub(super) fn counted(name: &str) -> EventKind {
    let name: String = name.trim().chars().take(MAX_NAME_CHARS).collect();
    let name = match name.as_str() {
        "" => "events".to_owned(),
        // These names have a meaning of their own.
        "on-cpu" | "off-cpu" | "wall" => format!("{name}-samples"),
        _ => name,
    };
    match PerfCounter::parse(&name) {
        Ok(counter) => counter.kind,
        Err(_) => EventKind::counted(name.clone(), name),
    }
}
