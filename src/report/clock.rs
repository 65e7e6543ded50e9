//! Spans of time by the clock where the user is: `14:00..14:10`, `2026-11-29T14:00..`.

use std::mem::MaybeUninit;

const SECOND_NS: u64 = 1_000_000_000;
const DAY_SECONDS: i64 = 24 * 60 * 60;

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

    /// The span in ns since the Unix epoch, where the last that was recorded was at `last_unix_ns`.
    pub(crate) fn resolve(self, last_unix_ns: u64) -> (Option<u64>, Option<u64>) {
        let last = (last_unix_ns / SECOND_NS).try_into().unwrap_or(i64::MAX);
        let from = self.from.map(|from| from.last_before(last));
        let to = self.to.map(|to| match from {
            Some(from) if to.date.is_none() => to.first_after(from),
            _ => to.last_before(last.saturating_add(DAY_SECONDS / 2)),
        });
        let nanoseconds = |seconds: i64| u64::try_from(seconds).unwrap_or(0).saturating_mul(SECOND_NS);
        (from.map(nanoseconds), to.map(nanoseconds))
    }
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

    /// The first such moment after `first`.
    fn first_after(self, first: i64) -> i64 {
        let today = moment(date_of(first), self.second);
        if today > first { today } else { moment(date_of(first + DAY_SECONDS), self.second) }
    }
}

/// Has the C library read the zone of the user.
fn load_zone() {
    date_of(0);
}

/// The date at a moment where the user is.
fn date_of(seconds: i64) -> (i32, i32, i32) {
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: the call fills the structure that is given to it, or returns null and leaves it; all-zero it is valid.
    let parts = unsafe {
        libc::localtime_r(&seconds, parts.as_mut_ptr());
        parts.assume_init()
    };
    (parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday)
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

    /// A span, each end as date and seconds since midnight, where the last recorded moment was at 12:30 of 29 November 2026.
    fn resolved(text: &str) -> [Option<(i32, i64)>; 2] {
        let last = moment((2026, 11, 29), 12 * 3600 + 1800);
        let (from, to) = read(text).resolve(u64::try_from(last).unwrap() * SECOND_NS);
        [from, to].map(|end| {
            end.map(|end| {
                let end = i64::try_from(end / SECOND_NS).unwrap();
                let date = date_of(end);
                (date.2, end - moment(date, 0))
            })
        })
    }

    #[test]
    fn a_time_of_day_is_the_last_that_was_recorded() {
        assert_eq!(resolved("12:00..12:10"), [Some((29, 43_200)), Some((29, 43_800))]);
        assert_eq!(resolved("14:00..14:10"), [Some((28, 50_400)), Some((28, 51_000))]);
        assert_eq!(resolved("23:50..00:10:30"), [Some((28, 85_800)), Some((29, 630))]);
        assert_eq!(resolved("2026-11-27T14:00..15:00"), [Some((27, 50_400)), Some((27, 54_000))]);
        assert_eq!(resolved("12:20.."), [Some((29, 44_400)), None]);
        assert_eq!(resolved("..12:20"), [None, Some((29, 44_400))]);
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
