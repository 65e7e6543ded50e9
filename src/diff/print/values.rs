//! Values of a comparison as text, with units.

use crate::base::units::{bytes, count, duration_in, percent_text};
use crate::diff::comparison::Comparison;
use crate::diff::per::Per;
use crate::profile::Unit;
use crate::report::Metric;

/// Unit and scale of values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueStyle {
    unit: Unit,
    is_share: bool,
    /// The larger total of both sides: it chooses the time unit, so that all values have the same.
    whole: f64,
}

impl ValueStyle {
    pub(crate) fn of(comparison: &Comparison) -> Self {
        ValueStyle {
            unit: comparison.measure.event.unit,
            is_share: comparison.measure.per == Per::Share,
            whole: comparison.total.base.max(comparison.total.new),
        }
    }

    /// A value: `1.10 s`.
    pub(crate) fn value(&self, value: f64) -> String {
        // The cast saturates; larger values cannot be real.
        let whole = |value: f64| value.round() as u64;
        match self.unit {
            _ if self.is_share => percent_text(value * 100.0),
            Unit::Nanoseconds => duration_in(whole(value), whole(self.whole)),
            Unit::Bytes => bytes(whole(value)),
            _ if value > 0.0 && value < 100.0 && value.fract() != 0.0 => format!("{value:.2}"),
            _ => count(whole(value)),
        }
    }

    /// The same in a table cell, with a dash for 0.
    pub(crate) fn cell(&self, value: f64) -> String {
        if value > 0.0 { self.value(value) } else { "-".to_owned() }
    }

    /// A difference: `-0.98 s`; of shares in percentage points.
    pub(crate) fn delta(&self, delta: f64) -> String {
        let sign = if delta < 0.0 { '-' } else { '+' };
        // A sign has no room for another one.
        let size = self.value(delta.abs()).replace("<0.001", "0.000");
        if self.is_share {
            format!("{sign}{} pt", size.trim_end_matches('%'))
        } else {
            format!("{sign}{size}")
        }
    }
}

/// Description of the values: `CPU s per run`.
pub(crate) fn words(comparison: &Comparison) -> String {
    let event = &comparison.measure.event;
    let what = match (event.metric, event.unit) {
        (Metric::ON_CPU, _) if comparison.measure.per == Per::Share => "CPU time".to_owned(),
        (Metric::ON_CPU, _) => "CPU s".to_owned(),
        (_, Unit::Nanoseconds) => format!("s {}", event.title),
        _ => event.title.clone(),
    };
    match comparison.measure.per {
        Per::Run => format!("{what} per run"),
        Per::Second => format!("{what} per second"),
        Per::Share => format!("share of all {what}"),
        Per::Work(_) => format!("{what} per unit of work"),
    }
}

/// Unit of numbers in documents: `ns`, `count`, `bytes`, or `share`.
pub(super) fn unit_word(comparison: &Comparison) -> &'static str {
    match comparison.measure.event.unit {
        _ if comparison.measure.per == Per::Share => "share",
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "bytes",
        _ => "count",
    }
}

/// Word for the divisor of the values, in documents.
pub(super) fn per_word(per: Per) -> &'static str {
    match per {
        Per::Run => "run",
        Per::Second => "second",
        Per::Share => "share",
        Per::Work(_) => "work",
    }
}

/// A number rounded to nine significant digits, which is all that is meaningful.
pub(super) fn rounded(value: f64) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return if value.is_finite() { value } else { f64::MAX };
    }
    let digits = 9 - 1 - value.abs().log10().floor() as i32;
    match digits {
        // Nanoseconds are integers.
        ..=0 => value.round(),
        digits if digits > 300 => value,
        digits => format!("{value:.*}", digits as usize).parse().unwrap_or(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_nine_digits_at_most() {
        assert_eq!(rounded(0.1 + 0.2), 0.3);
        assert_eq!(rounded(1_234_567_890_123.4), 1_234_567_890_123.0);
        assert_eq!(rounded(1.234_567_890_12e-7), 1.234_567_89e-7);
        assert_eq!((rounded(0.0), rounded(f64::INFINITY)), (0.0, f64::MAX));
    }

    #[test]
    fn shares_differ_by_points() {
        let style = ValueStyle { unit: Unit::Nanoseconds, is_share: true, whole: 1.0 };
        assert_eq!((style.value(0.109), style.delta(0.009)), ("10.9%".to_owned(), "+0.9 pt".to_owned()));
        let style = ValueStyle { unit: Unit::Nanoseconds, is_share: false, whole: 9e9 };
        assert_eq!((style.cell(0.0), style.delta(-0.98e9)), ("-".to_owned(), "-0.98 s".to_owned()));
        assert_eq!((style.value(2e5), style.delta(2e5)), ("<0.001 s".to_owned(), "+0.000 s".to_owned()));
        assert_eq!((style.value(8.9e6), style.value(2.1e6)), ("0.01 s".to_owned(), "0.002 s".to_owned()));
        let style = ValueStyle { unit: Unit::Count, is_share: false, whole: 9e9 };
        assert_eq!((style.value(1.5), style.value(f64::MAX)), ("1.50".to_owned(), count(u64::MAX)));
    }
}
