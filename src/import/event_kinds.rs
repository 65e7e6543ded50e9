//! Event kinds for the event names of perf and pprof.

use crate::profile::EventKind;
use crate::record::PerfCounter;

/// Longest event name that is kept, characters.
const MAX_NAME_CHARS: usize = 200;

/// Whether the period of perf's event `name` is running time, ns: `cpu-clock`, `task-clock:u`.
pub(super) fn is_clock(name: &str) -> bool {
    let name = name.split(':').next().unwrap_or_default();
    is_timer(name) || name == EventKind::ON_CPU_NAME
}

/// Whether perf's event `name` is a timer of the kernel.
pub(super) fn is_timer(name: &str) -> bool {
    matches!(name, "cpu-clock" | "task-clock")
}

/// The kind of perf's event `name`. Without a period, a clock does not measure time: each sample counts as one.
pub(super) fn of_perf(name: &str, has_period: bool) -> EventKind {
    if is_clock(name) && has_period {
        return EventKind::ON_CPU;
    }
    if name == EventKind::OFF_CPU.name && has_period {
        return EventKind::OFF_CPU;
    }
    counted(name)
}

/// A kind whose weights are counts of the event `name`.
pub(super) fn counted(name: &str) -> EventKind {
    let name: String = name.trim().chars().take(MAX_NAME_CHARS).collect();
    let name = match name.as_str() {
        "" => "events".to_owned(),
        // These names have a meaning of their own in `prof`.
        "on-cpu" | "off-cpu" | "wall" => format!("{name}-samples"),
        _ => name,
    };
    match PerfCounter::parse(&name) {
        Ok(counter) => counter.kind,
        Err(_) => EventKind::counted(name.clone(), name),
    }
}
