//! Values of options that are times: durations, parts of a recording, how long windows are and are kept.

use crate::record::Keep;
use crate::report::{ClockSpan, SPAN_FORMS, TimeRange};
use std::time::Duration;

/// Fewest bytes of windows that are kept.
const SMALLEST_KEPT_BYTES: u64 = 1 << 20;

/// Longest time that makes sense anywhere: a hundred days.
const LONGEST: Duration = Duration::from_secs(100 * 24 * 60 * 60);

/// `30s`, `1m 30s`, `500ms`; a plain number means seconds.
pub(in crate::cli) fn duration(text: &str) -> Result<Duration, String> {
    let form = "write 30s, 500ms or 1m30s";
    let parsed = match text.trim().parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| form.to_owned())?,
        Err(_) => humantime::parse_duration(text.trim()).map_err(|_| form.to_owned())?,
    };
    if parsed > LONGEST { Err("longer than 100 days".to_owned()) } else { Ok(parsed) }
}

/// As [`duration`], but not nothing.
pub(in crate::cli) fn positive_duration(text: &str) -> Result<Duration, String> {
    let parsed = duration(text)?;
    if parsed.is_zero() { Err("must be longer than 0".to_owned()) } else { Ok(parsed) }
}

/// As [`duration`], with its unit: where others mean microseconds, a plain number would be taken for seconds.
pub(in crate::cli) fn duration_with_unit(text: &str) -> Result<Duration, String> {
    match text.trim().parse::<f64>() {
        Ok(number) if number != 0.0 => Err("write the unit: 5us, 20ms or 1s".to_owned()),
        _ => duration(text),
    }
}

/// A part of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum TimePart {
    /// By the time since its start.
    Since(TimeRange),
    /// By the clock.
    Clock(ClockSpan),
}

/// As [`time_range`], or by the clock: `14:00..14:10`.
pub(in crate::cli) fn time_part(text: &str) -> Result<TimePart, String> {
    match ClockSpan::read(text) {
        Some(span) => span.map(TimePart::Clock),
        None => range_or(text, &format!("{RANGE_FORMS}, or {SPAN_FORMS}")).map(TimePart::Since),
    }
}

/// The forms of ranges, for messages.
const RANGE_FORMS: &str = "2s..5s, 2s.. or ..5s";

/// `2s..5s`, `2s..`, `..5s`.
pub(in crate::cli) fn time_range(text: &str) -> Result<TimeRange, String> {
    range_or(text, RANGE_FORMS)
}

/// Reads a range; what is none is answered with the forms that could have been meant.
fn range_or(text: &str, forms: &str) -> Result<TimeRange, String> {
    let form = || format!("write {forms}");
    let (from, to) = text.split_once("..").ok_or_else(form)?;
    let end = |text: &str| -> Result<Option<u64>, String> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let nanoseconds = duration(text).map_err(|_| form())?.as_nanos();
        Ok(Some(u64::try_from(nanoseconds).map_err(|_| form())?))
    };
    let range = TimeRange { from_ns: end(from)?, to_ns: end(to)? };
    match range {
        TimeRange { from_ns: None, to_ns: None } => Err(form()),
        TimeRange { from_ns: Some(from), to_ns: Some(to) } if from >= to => {
            Err("the range ends before it begins".to_owned())
        }
        range => Ok(range),
    }
}

/// A bound on windows that are kept: an age, a size, or both: `24h,2GB`.
pub(in crate::cli) fn keep(text: &str) -> Result<Keep, String> {
    let mut keep = Keep::default();
    for part in text.split(',').map(str::trim) {
        let age = duration_with_unit(part).ok().filter(|age| !age.is_zero());
        let bytes =
            part.parse::<bytesize::ByteSize>().ok().map(|size| size.as_u64()).filter(|_| age.is_none());
        match (age, bytes) {
            (Some(age), _) if keep.age.is_none() => keep.age = Some(age),
            (None, Some(bytes)) if keep.bytes.is_none() && bytes >= SMALLEST_KEPT_BYTES => {
                keep.bytes = Some(bytes)
            }
            (None, Some(bytes)) if bytes < SMALLEST_KEPT_BYTES => {
                return Err("keep at least 1MiB".to_owned());
            }
            _ => return Err("write an age, a size or both: 24h,2GB".to_owned()),
        }
    }
    Ok(keep)
}

/// Length of a window: a second at least.
pub(in crate::cli) fn window(text: &str) -> Result<Duration, String> {
    let window = duration(text)?;
    if window < Duration::from_secs(1) { Err("must be at least 1s".to_owned()) } else { Ok(window) }
}
