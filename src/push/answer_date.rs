//! `Retry-After`: a number of seconds, or a date as HTTP writes it.

use std::time::{Duration, SystemTime};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_SECONDS: u64 = 86_400;

/// The time that a server asks for; `None` if the text is neither.
pub(super) fn wait(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(u64::from(seconds)));
    }
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(unix_seconds(text)?))?;
    Some(at.duration_since(now).unwrap_or_default())
}

/// Seconds since the Unix epoch of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn unix_seconds(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split(' ');
    let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    if words.next() != Some("GMT") || words.next().is_some() {
        return None;
    }
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let (day, year) = (day.parse::<u64>().ok()?, year.parse::<u64>().ok()?);
    let time: Vec<u64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hour, minute, second] = time.as_slice() else { return None };
    let is_date = (1..=31).contains(&day) && (1970..=9999).contains(&year);
    if !is_date || *hour > 23 || *minute > 59 || *second > 60 {
        return None;
    }
    // Years begin in March, so that the day of a leap year is their last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    /// Days from the 1st of March of the year 0 to the Unix epoch.
    const EPOCH_DAYS: u64 = 719_468;
    Some(days.checked_sub(EPOCH_DAYS)? * DAY_SECONDS + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        assert_eq!(unix_seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(unix_seconds("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(unix_seconds("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        for wrong in
            ["", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49 GMT", "Sun, 6 Foo 1994 1:1:1 GMT"]
        {
            assert_eq!(unix_seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_wait_is_never_negative() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(7)));
        assert_eq!(wait("Thu, 01 Jan 1970 00:00:00 GMT", now), Some(Duration::ZERO));
        assert_eq!(wait(" 3 ", now), Some(Duration::from_secs(3)));
        assert_eq!(wait("-3", now), None);
    }
}
