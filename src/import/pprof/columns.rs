//! Maps the values of a sample to events.

use super::tables::PprofTables;
use crate::import::event_kinds::counted;
use crate::import::intake::Intake;
use crate::profile::{EventId, EventKind, Unit};

/// A value of each sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct ImportColumn {
    pub(super) event: EventId,
    /// Index of the value.
    pub(super) value: usize,
    /// Index of the value with the number of samples.
    pub(super) samples: Option<usize>,
    /// Whether the values are numbers of samples themselves.
    pub(super) is_samples: bool,
    /// Factor from the unit of the value to that of the event.
    pub(super) scale: u64,
}

/// The events of a file.
pub(super) fn columns(tables: &PprofTables<'_>, intake: &mut Intake<'_>) -> Vec<ImportColumn> {
    let types: Vec<(String, String)> =
        tables.sample_types.iter().map(|kind| (tables.text(kind.kind), tables.text(kind.unit))).collect();
    let has = |name: &str| types.iter().any(|(found, _)| found == name);
    // In exports of prof, `wall` is the sum of the two.
    let is_sum = |name: &str| name == "wall" && has("cpu") && has("off_cpu");
    let mut columns = Vec::new();
    let mut samples = None;
    for (value, (name, unit)) in types.iter().enumerate() {
        if is_number_of_samples(name) && value + 1 < types.len() {
            samples = Some(value);
            continue;
        }
        let of_it = samples.take();
        if is_sum(name) {
            continue;
        }
        let (kind, scale) = kind_of(name, unit);
        let is_of_period = tables.period_type.as_ref().is_some_and(|kind| tables.text(kind.kind) == *name);
        let period = u64::try_from(tables.period).unwrap_or(0).saturating_mul(scale);
        let period = if is_of_period { period } else { 0 };
        let is_samples = is_number_of_samples(name);
        if kind == EventKind::ON_CPU && period > 0 {
            let hz = u32::try_from(1_000_000_000 / period).unwrap_or(0);
            (intake.profile.meta.requested_hz, intake.profile.meta.effective_hz) = (hz, hz);
        }
        let is_time = kind.unit == Unit::Nanoseconds;
        // An event without a period is assumed to count exactly, rather than to be an estimate.
        let period = if period == 0 && !is_time { 1 } else { period };
        let event = intake.event(kind, &format!("{name} in {unit}"), period);
        columns.push(ImportColumn { event, value, samples: of_it, is_samples, scale });
    }
    columns
}

/// Whether a type is the number of samples of the next one.
fn is_number_of_samples(name: &str) -> bool {
    matches!(name, "samples" | "sample" | "waits" | "contentions")
}

/// The event kind of a type, and the factor from its unit to that of the event.
fn kind_of(name: &str, unit: &str) -> (EventKind, u64) {
    let (known, scale) = match unit {
        "nanoseconds" | "ns" => (Unit::Nanoseconds, 1),
        "microseconds" | "us" => (Unit::Nanoseconds, 1_000),
        "milliseconds" | "ms" => (Unit::Nanoseconds, 1_000_000),
        "seconds" | "s" => (Unit::Nanoseconds, 1_000_000_000),
        "bytes" | "byte" => (Unit::Bytes, 1),
        "kilobytes" | "kb" => (Unit::Bytes, 1 << 10),
        "megabytes" | "mb" => (Unit::Bytes, 1 << 20),
        _ => (Unit::Count, 1),
    };
    match (name, known) {
        ("cpu" | "on-cpu", Unit::Nanoseconds) => (EventKind::ON_CPU, scale),
        ("off_cpu" | "off-cpu", Unit::Nanoseconds) => (EventKind::OFF_CPU, scale),
        (_, unit) => (EventKind { unit, ..counted(name) }, scale),
    }
}
