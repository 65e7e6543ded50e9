//! Values of the configuration, each with what is allowed: durations, sizes, shares, numbers, paths.

use crate::agent::sampling::RecordedShare;
use bytesize::ByteSize;
use serde::de::{self, Deserializer, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Takes a text and parses it. What is allowed is said where it is not one, or `parse` refuses it.
struct TextVisitor<F> {
    allowed: String,
    parse: F,
}

impl<T, F: FnOnce(&str) -> Option<T>> Visitor<'_> for TextVisitor<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.allowed)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        let refusal = format!("{text:?} is not allowed: it must be {}", self.allowed);
        (self.parse)(text).ok_or_else(|| E::custom(refusal))
    }
}

fn text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    allowed: impl Into<String>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, D::Error> {
    deserializer.deserialize_str(TextVisitor { allowed: allowed.into(), parse })
}

/// Takes a whole number of a range.
struct NumberVisitor<T> {
    range: RangeInclusive<i64>,
    unit: &'static str,
    of: PhantomData<T>,
}

impl<T: TryFrom<i64>> Visitor<'_> for NumberVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number of {}, {} to {}", self.unit, self.range.start(), self.range.end())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        let value = Some(number)
            .filter(|number| self.range.contains(number))
            .and_then(|number| T::try_from(number).ok());
        let NumberVisitor { range, unit, .. } = self;
        value.ok_or_else(|| {
            let (first, last) = (range.start(), range.end());
            E::custom(format!(
                "{number} is not allowed: it must be a whole number of {unit}, {first} to {last}"
            ))
        })
    }
}

fn number<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    deserializer: D,
    range: RangeInclusive<i64>,
    unit: &'static str,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_i64(NumberVisitor { range, unit, of: PhantomData }).map(Some)
}

fn duration<'de, D: Deserializer<'de>>(
    deserializer: D,
    range: RangeInclusive<Duration>,
) -> Result<Option<Duration>, D::Error> {
    let shown = |duration: &Duration| humantime::format_duration(*duration).to_string();
    let allowed =
        format!("a duration of {} to {}, such as \"{}\"", shown(range.start()), shown(range.end()), "20s");
    let parse = |text: &str| humantime::parse_duration(text).ok().filter(|duration| range.contains(duration));
    text(deserializer, allowed, parse).map(Some)
}

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// Samples a second.
pub(super) fn frequency<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    number(deserializer, 1..=999, "hertz")
}

/// Most series at a time.
pub(super) fn series<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    number(deserializer, 1..=100_000, "series")
}

/// Length of a window.
pub(super) fn window<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer, Duration::from_secs(5)..=minutes(10))
}

/// Age of what waits to be sent.
pub(super) fn buffer_age<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer, minutes(1)..=minutes(55))
}

/// Age of a file that is kept.
pub(super) fn kept_age<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer, minutes(1)..=minutes(366 * 24 * 60))
}

/// Longest time of a request.
pub(super) fn timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer, Duration::from_secs(1)..=minutes(2))
}

/// Room on a disk, bytes.
pub(super) fn room<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let allowed = "a size of 1 MiB to 1 PiB, such as \"256MiB\"";
    let range = (1 << 20)..=(1 << 50);
    let parse = |text: &str| {
        ByteSize::from_str(text).ok().map(|size| size.as_u64()).filter(|size| range.contains(size))
    };
    text(deserializer, allowed, parse).map(Some)
}

/// A share of hosts or windows.
pub(super) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RecordedShare>, D::Error> {
    let allowed = "a percentage above 0% and 100% at most, such as \"5%\"";
    let parse = |text: &str| {
        let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
        RecordedShare::new(percent / 100.0)
    };
    text(deserializer, allowed, parse).map(Some)
}

/// An absolute path.
pub(super) fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    text(deserializer, "an absolute path", absolute).map(Some)
}

/// An absolute path that has to be there.
pub(super) fn needed_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    text(deserializer, "an absolute path", absolute)
}

/// A path without a NUL, from the root.
pub(super) fn absolute(text: &str) -> Option<PathBuf> {
    let path = PathBuf::from(text);
    (path.is_absolute() && !text.contains('\0')).then_some(path)
}

/// Text of one line that is not empty, as in headers.
pub(super) fn line<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let allowed = "a text of 1 to 1,024 characters without control characters";
    text(deserializer, allowed, |text| is_line(text).then(|| text.to_owned())).map(Some)
}

/// Whether a text can be the value of a header or a label.
pub(super) fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= 1024 && !text.chars().any(char::is_control)
}
