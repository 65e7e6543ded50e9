//! Spans of time by the clock where the user is: `14:00..14:10`, `2026-11-29T14:00..`.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;

const SECOND_NS: u64 = 1_000_000_000;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// The forms of spans, for messages.
pub(crate) const SPAN_FORMS: &str =
    "by the clock 14:00..14:10, 14:00:30.., ..14:10 or 2026-11-29T23:50..2026-11-30T00:10";

/// A moment as people write it: without a date it is the last such moment that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockTime {
    /// Year, month and day.
    date: Option<(i32, i32, i32)>,
    /// Seconds since midnight.
    second: i64,
}

/// A span of time by the clock; open ends are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSpan {
    from: Option<ClockTime>,
    to: Option<ClockTime>,
}

impl ClockSpan {
    /// Reads `14:00..14:10`; `None` when neither end is a time of a clock.
    pub(crate) fn read(text: &str) -> Option<Result<Self, String>> {
        let (from, to) = text.split_once("..")?;
        let is_clock = |text: &str| text.contains(':');
        if !is_clock(from) && !is_clock(to) {
            return None;
        }
        // The zone is read while this process may still read files.
        load_zone();
        let end = |text: &str| match text.trim() {
            "" => Ok(None),
            text => ClockTime::read(text)
                .map(Some)
                .ok_or_else(|| format!("`{text}` is no time: write 14:00, 14:00:30 or 2026-11-29T14:00")),
        };
        Some(end(from).and_then(|from| Ok(ClockSpan { from, to: end(to)? })))
    }

    /// The moments that are meant, of what was recorded in `parts`, in ns since the Unix epoch, which are in order of time: without
    /// dates they are the last of which there is something. An end at an earlier time of day than the beginning is on the next day only
    /// if there is something on both sides of that midnight.
    ///
    /// # Errors
    ///
    /// When the span ends before it begins.
    pub(super) fn resolve(self, parts: &[Range<u64>]) -> Result<ClockMoments, EndsBefore> {
        let last = parts.iter().map(|part| seconds(part.end)).max().unwrap_or(0);
        match (self.from, self.to) {
            (Some(from), Some(to)) => between(from, to, parts),
            (Some(from), None) => Ok(ClockMoments::new(Some(from.last_before(last)), None)),
            (None, to) => {
                let to = to.map(|to| to.last_before(last.saturating_add(DAY_SECONDS / 2)));
                Ok(ClockMoments::new(None, to))
            }
        }
    }
}

impl ClockSpan {
    /// Whether no date says when its end is.
    pub(super) fn is_without_date(self) -> bool {
        self.to.is_some_and(|to| to.date.is_none())
    }
}

/// The span as it is written.
impl fmt::Display for ClockSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |time: Option<ClockTime>| time.map_or(String::new(), |time| time.to_string());
        write!(f, "{}..{}", end(self.from), end(self.to))
    }
}

impl fmt::Display for ClockTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((year, month, day)) = self.date {
            write!(f, "{year:04}-{month:02}-{day:02}T")?;
        }
        write!(f, "{:02}:{:02}", self.second / 3600, self.second / 60 % 60)?;
        match self.second % 60 {
            0 => Ok(()),
            second => write!(f, ":{second:02}"),
        }
    }
}

/// A span that ends before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EndsBefore;

/// A span in ns since the Unix epoch; open ends are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ClockMoments {
    pub(super) from_ns: Option<u64>,
    pub(super) to_ns: Option<u64>,
    /// The midnight that it reaches beyond, if it is meant so only where something was recorded before and after that.
    pub(super) midnight_ns: Option<u64>,
}

impl ClockMoments {
    fn new(from: Option<i64>, to: Option<i64>) -> Self {
        ClockMoments { from_ns: from.map(nanoseconds), to_ns: to.map(nanoseconds), midnight_ns: None }
    }

    /// Whether something in `part` is in it.
    pub(super) fn touches(self, part: &Range<u64>) -> bool {
        self.to_ns.is_none_or(|to_ns| part.start < to_ns)
            && self.from_ns.is_none_or(|from_ns| part.end > from_ns)
    }

    /// Whether it is what is meant, if just these parts were recorded.
    pub(super) fn is_meant(self, parts: &[Range<u64>]) -> bool {
        let has = |moments: ClockMoments| parts.iter().any(|part| moments.touches(part));
        let (before, after) = self.midnight_ns.map_or((self, self), |midnight_ns| {
            let before = ClockMoments { to_ns: Some(midnight_ns), ..self };
            (before, ClockMoments { from_ns: Some(midnight_ns), ..self })
        });
        has(before) && has(after)
    }
}

/// The span between two times.
fn between(from: ClockTime, to: ClockTime, parts: &[Range<u64>]) -> Result<ClockMoments, EndsBefore> {
    // The midnight at the end of a day, not the one at its beginning.
    let second = if to.date.is_none() && to.second == 0 { DAY_SECONDS } else { to.second };
    let on = |date| ClockMoments::new(Some(moment(date, from.second)), Some(moment(date, second)));
    let past_midnight = |midnight: i64| ClockMoments {
        from_ns: Some(nanoseconds(moment(date_of(midnight - 1), from.second))),
        to_ns: Some(nanoseconds(moment(date_of(midnight), second))),
        midnight_ns: Some(nanoseconds(midnight)),
    };
    match (from.date, to.date) {
        (_, Some(date)) => {
            let to = moment(date, second);
            let from = from.last_before(to - 1);
            if from < to { Ok(ClockMoments::new(Some(from), Some(to))) } else { Err(EndsBefore) }
        }
        (Some(date), None) if second > from.second => Ok(on(date)),
        (Some(date), None) => {
            let moments = past_midnight(moment(date, DAY_SECONDS));
            if moments.is_meant(parts) { Ok(moments) } else { Err(EndsBefore) }
        }
        (None, None) if second > from.second => {
            // The last such day on which each part has a moment after the beginning.
            let of_part = |part: &Range<u64>| {
                let moments = on(date_of(from.last_before(last_second(part))));
                moments.touches(part).then_some(moments)
            };
            let of_last = || parts.last().map(|part| on(date_of(from.last_before(last_second(part)))));
            Ok(parts.iter().rev().find_map(of_part).or_else(of_last).unwrap_or_default())
        }
        (None, None) => {
            let mut known = None;
            let mut of_part = |part: &Range<u64>| {
                let midnight = moment(date_of(last_second(part)), 0);
                let moments = past_midnight(midnight);
                let is_new = moments.touches(part) && known.replace(midnight) != Some(midnight);
                (is_new && moments.is_meant(parts)).then_some(moments)
            };
            parts.iter().rev().find_map(&mut of_part).ok_or(EndsBefore)
        }
    }
}

/// Seconds since the Unix epoch.
fn seconds(unix_ns: u64) -> i64 {
    (unix_ns / SECOND_NS).try_into().unwrap_or(i64::MAX)
}

/// The last second of which something is in a part.
fn last_second(part: &Range<u64>) -> i64 {
    seconds(part.end.saturating_sub(1))
}

fn nanoseconds(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(SECOND_NS)
}

impl ClockTime {
    fn read(text: &str) -> Option<Self> {
        let (date, time) = match text.split_once(['T', ' ']) {
            Some((date, time)) => (Some(date), time),
            None => (None, text),
        };
        let numbers = |text: &str, separator: char| -> Option<Vec<i32>> {
            let digits = |part: &str| {
                (!part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())).then_some(())
            };
            text.split(separator).map(|part| digits(part).and_then(|()| part.parse().ok())).collect()
        };
        let date = match date.map(|date| numbers(date.trim(), '-')) {
            None => None,
            Some(Some(parts)) => match parts[..] {
                [year @ 1970..=9999, month @ 1..=12, day @ 1..=31] => Some((year, month, day)),
                _ => return None,
            },
            Some(None) => return None,
        };
        let second = match numbers(time.trim(), ':')?[..] {
            [hour @ 0..=24, minute @ 0..=59] => hour * 3600 + minute * 60,
            [hour @ 0..=24, minute @ 0..=59, second @ 0..=60] => hour * 3600 + minute * 60 + second,
            _ => return None,
        };
        Some(ClockTime { date, second: second.into() })
    }

    /// The last such moment that is not after `last`, seconds since the Unix epoch.
    fn last_before(self, last: i64) -> i64 {
        if let Some(date) = self.date {
            return moment(date, self.second);
        }
        let today = moment(date_of(last), self.second);
        if today <= last { today } else { moment(date_of(last - DAY_SECONDS), self.second) }
    }
}

/// Has the C library read the zone of the user.
fn load_zone() {
    date_of(0);
}

/// The date at a moment where the user is.
fn date_of(seconds: i64) -> (i32, i32, i32) {
    let parts = local(seconds);
    (parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday)
}

/// A moment in parts where the user is.
fn local(seconds: i64) -> libc::tm {
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: the call fills the structure that is given to it, or returns null and leaves it; all-zero it is valid.
    unsafe {
        libc::localtime_r(&seconds, parts.as_mut_ptr());
        parts.assume_init()
    }
}

/// A moment where the user is, in ns since the Unix epoch: its date, its time of day, and how far that is from UTC: `+01:00`.
pub(super) fn local_words(unix_ns: u64) -> [String; 3] {
    let seconds = seconds(unix_ns);
    let parts = local(seconds);
    let (year, month, day) = (parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
    let minutes = parts.tm_gmtoff / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    [
        format!("{year:04}-{month:02}-{day:02}"),
        format!("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec),
        format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60),
    ]
}

/// The difference to UTC in words: `UTC`, `UTC+01:00`.
pub(super) fn zone_words(offset: &str) -> String {
    if offset == "+00:00" { "UTC".to_owned() } else { format!("UTC{offset}") }
}

/// The second that begins at a moment or next: the end of a span in whole seconds that has all of it.
pub(super) fn whole_end(to_ns: u64) -> u64 {
    to_ns.saturating_add(SECOND_NS - 1)
}

/// From one moment to another where the user is, in whole seconds: `2026-11-29 14:00:00..14:10:00 (UTC+01:00)`. As it is written, the span
/// has all of it.
pub(super) fn span_words(from_ns: u64, to_ns: u64) -> String {
    let to_ns = whole_end(to_ns);
    let [from_date, from_time, _] = local_words(from_ns);
    let [to_date, to_time, offset] = local_words(to_ns);
    let to_date = if to_date == from_date { String::new() } else { format!("{to_date} ") };
    format!("{from_date} {from_time}..{to_date}{to_time} ({})", zone_words(&offset))
}

/// The moment `second` seconds after midnight of a date where the user is.
fn moment((year, month, day): (i32, i32, i32), second: i64) -> i64 {
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: all-zero the structure is valid; the call reads and completes it.
    unsafe {
        let parts = parts.assume_init_mut();
        (parts.tm_year, parts.tm_mon, parts.tm_mday) = (year - 1900, month - 1, day);
        (parts.tm_hour, parts.tm_min) = ((second / 3600) as i32, (second / 60 % 60) as i32);
        (parts.tm_sec, parts.tm_isdst) = ((second % 60) as i32, -1);
        libc::mktime(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ClockSpan {
        ClockSpan::read(text).expect("it is one of a clock").expect("it is well written")
    }

    /// A time of November 2026, ns.
    fn at(day: i32, hour: i64, minute: i64) -> u64 {
        nanoseconds(moment((2026, 11, day), hour * 3600 + minute * 60))
    }

    /// A span, each end as date and seconds since midnight, of what was recorded in these parts.
    fn resolved(text: &str, parts: &[Range<u64>]) -> [Option<(i32, i64)>; 2] {
        let moments = read(text).resolve(parts).unwrap_or_else(|_| panic!("{text} has a sense"));
        [moments.from_ns, moments.to_ns].map(|end| {
            end.map(|end| {
                let end = i64::try_from(end / SECOND_NS).unwrap();
                let date = date_of(end);
                (date.2, end - moment(date, 0))
            })
        })
    }

    #[test]
    fn a_time_of_day_is_the_last_that_was_recorded() {
        let parts = [at(27, 10, 0)..at(28, 20, 0), at(28, 20, 0)..at(29, 12, 30)];
        let resolved = |text: &str| resolved(text, &parts);
        assert_eq!(resolved("12:00..12:10"), [Some((29, 43_200)), Some((29, 43_800))]);
        assert_eq!(resolved("14:00..14:10"), [Some((28, 50_400)), Some((28, 51_000))]);
        assert_eq!(resolved("23:50..00:10:30"), [Some((28, 85_800)), Some((29, 630))]);
        assert_eq!(resolved("2026-11-27T23:50..00:10"), [Some((27, 85_800)), Some((28, 600))]);
        assert_eq!(resolved("2026-11-27T14:00..15:00"), [Some((27, 50_400)), Some((27, 54_000))]);
        assert_eq!(resolved("14:00..2026-11-27T15:00"), [Some((27, 50_400)), Some((27, 54_000))]);
        assert_eq!(resolved("12:20.."), [Some((29, 44_400)), None]);
        assert_eq!(resolved("..12:20"), [None, Some((29, 44_400))]);
    }

    #[test]
    fn a_day_without_a_recording_at_that_time_is_passed_over() {
        let parts =
            [at(27, 13, 0)..at(27, 15, 0), at(28, 14, 5)..at(28, 14, 6), at(29, 16, 0)..at(29, 17, 0)];
        assert_eq!(resolved("14:00..14:10", &parts), [Some((28, 50_400)), Some((28, 51_000))]);
        assert_eq!(resolved("14:50..15:10", &parts), [Some((27, 53_400)), Some((27, 54_600))]);
        assert_eq!(resolved("16:30..00:00", &parts), [Some((29, 59_400)), Some((30, 0))]);
    }

    #[test]
    fn an_end_before_the_beginning_is_past_midnight_only_where_that_was_recorded() {
        let one_morning = [at(29, 5, 20)..at(29, 5, 25), at(29, 5, 25)..at(29, 5, 30)];
        let over_midnight = [at(28, 23, 40)..at(28, 23, 55), at(29, 0, 5)..at(29, 0, 20)];
        for text in ["05:27:05..05:26:50", "05:29..05:29", "2026-11-29T05:29..05:25", "23:50..00:10"] {
            assert_eq!(read(text).resolve(&one_morning), Err(EndsBefore), "{text}");
        }
        assert_eq!(resolved("23:50..00:10", &over_midnight), [Some((28, 85_800)), Some((29, 600))]);
        for text in
            ["23:57..00:10", "23:50..00:03", "2026-11-29T23:50..00:10", "2026-11-29T01:00..2026-11-28T02:00"]
        {
            assert_eq!(read(text).resolve(&over_midnight), Err(EndsBefore), "{text}");
        }
    }

    #[test]
    fn spans_are_written_as_they_are_read() {
        for text in ["14:00..14:10", "23:50:01..", "..2026-11-29T14:00", "2026-11-27T23:50..00:10"] {
            assert_eq!(read(text).to_string(), text);
        }
        let words = span_words(at(29, 14, 0), at(29, 14, 10));
        assert!(words.starts_with("2026-11-29 14:00:00..14:10:00 (UTC"), "{words}");
        // What is cut at a moment ends with the last sample before it.
        let words = span_words(at(29, 14, 0) + 2_000_000, at(29, 14, 10) - 2_000_000);
        assert!(words.starts_with("2026-11-29 14:00:00..14:10:00 (UTC"), "{words}");
        let words = span_words(at(29, 23, 50), at(30, 0, 10));
        assert!(words.starts_with("2026-11-29 23:50:00..2026-11-30 00:10:00 (UTC"), "{words}");
        assert_eq!([zone_words("+00:00"), zone_words("-03:30")], ["UTC", "UTC-03:30"]);
    }

    #[test]
    fn other_ranges_are_left_to_others_and_bad_times_are_named() {
        assert!(ClockSpan::read("2s..5s").is_none() && ClockSpan::read("14:00").is_none());
        for bad in ["14:61..15:00", "14:00..x:y", "2026-13-01T14:00..", "25:00..", "1:2:3:4.."] {
            let refused = ClockSpan::read(bad).expect("it is meant as a time").expect_err(bad);
            assert!(refused.contains("14:00:30"), "{refused}");
        }
    }
}
