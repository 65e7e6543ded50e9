//! Numbers for people: every one with its unit.

const NS_PER_US: u64 = 1_000;
const NS_PER_MS: u64 = 1_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// Unit of a number of events, such as the weights of samples. Its numbers are stored: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Unit {
    /// Number of things, such as page faults.
    #[default]
    Count,
    /// Time in nanoseconds.
    Nanoseconds,
    /// Memory or data in bytes.
    Bytes,
    /// Stored number of a unit that this version does not know.
    Other(u8),
}

impl Unit {
    /// Returns the stored number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Unit::Count => 0,
            Unit::Nanoseconds => 1,
            Unit::Bytes => 2,
            Unit::Other(code) => code,
        }
    }

    /// Returns the heading of a column of weights.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "TIME",
            Unit::Bytes => "BYTES",
            Unit::Count | Unit::Other(_) => "COUNT",
        }
    }

    /// Returns the unit of a stored number.
    pub(crate) fn from_code(code: u8) -> Self {
        match code {
            0 => Unit::Count,
            1 => Unit::Nanoseconds,
            2 => Unit::Bytes,
            other => Unit::Other(other),
        }
    }
}

/// Shares of one CPU that `prof` itself used over a time, percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CpuShares {
    /// Share of the threads of `prof`, percent.
    pub(crate) cpu_percent: f64,
    /// Share of the BPF programs, percent. They run on the CPUs of what is recorded.
    pub(crate) bpf_percent: f64,
}

impl CpuShares {
    /// Returns the shares of the given CPU times in `length_ns`; `None` for a length of 0.
    pub(crate) fn of(cpu_ns: u64, bpf_ns: u64, length_ns: u64) -> Option<Self> {
        let percent = |ns: u64| ns as f64 * 100.0 / length_ns as f64;
        (length_ns > 0).then(|| CpuShares { cpu_percent: percent(cpu_ns), bpf_percent: percent(bpf_ns) })
    }
}

/// The place of `n` in a row: `1st`, `2nd`, `11th`, `1,001st`.
pub(crate) fn ordinal(n: u64) -> String {
    let ending = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{}{ending}", count(n))
}

/// `n` with thousands separators: `9,871`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `n` things: `1 sample`, `9,871 samples`; of two kinds together, `samples and wait`, one is `1 sample or wait`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    if n == 1 && noun.contains("s and ") {
        return format!("1 {}", noun.replace("s and ", " or "));
    }
    let ending = match n {
        1 => "",
        _ if noun.ends_with(['s', 'x']) => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", count(n))
}

/// A duration of `ns` nanoseconds with three digits that matter: `1.10 s`, `41.0 ms`, `536 us`.
pub(crate) fn duration(ns: u64) -> String {
    let (unit_ns, unit) = match ns {
        0..NS_PER_US => return format!("{ns} ns"),
        // What would be shown as 1000 us is 1.00 ms, as 1000 ms 1.00 s.
        NS_PER_US..999_500 => (NS_PER_US, "us"),
        999_500..999_500_000 => (NS_PER_MS, "ms"),
        _ => (NS_PER_S, "s"),
    };
    let value = ns as f64 / unit_ns as f64;
    match value {
        ..9.995 => format!("{value:.2} {unit}"),
        ..99.95 => format!("{value:.1} {unit}"),
        _ => format!("{} {unit}", count(value.round() as u64)),
    }
}

/// A duration in a column of times that all have the unit of their sum, `whole_ns`, so that they can be compared at a glance:
/// `1.50 s`, `0.05 s`. Small ones have more digits, so that only nothing is 0: `0.002 s`, `<0.001 s`.
pub(crate) fn duration_in(ns: u64, whole_ns: u64) -> String {
    let (unit_ns, unit) = match whole_ns {
        0..NS_PER_US => return format!("{ns} ns"),
        NS_PER_US..999_500 => (NS_PER_US, "us"),
        999_500..999_500_000 => (NS_PER_MS, "ms"),
        _ => (NS_PER_S, "s"),
    };
    let value = ns as f64 / unit_ns as f64;
    // Tenths of a second say too little next to hundredths.
    let two_digits_below = if unit_ns == NS_PER_S { 999.995 } else { 9.995 };
    match value {
        _ if ns > 0 && value < 0.000_5 => format!("<0.001 {unit}"),
        _ if ns > 0 && value < 0.005 => format!("{value:.3} {unit}"),
        _ if value < two_digits_below => format!("{value:.2} {unit}"),
        ..99.95 => format!("{value:.1} {unit}"),
        _ => format!("{} {unit}", count(value.round() as u64)),
    }
}

/// A duration in at most seven columns: `6.0 ms`, `41 ms`, `536 us`.
pub(crate) fn duration_brief(ns: u64) -> String {
    let (unit_ns, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..999_500 => (1e3, "us"),
        999_500..999_500_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = ns as f64 / unit_ns;
    if value < 9.95 {
        format!("{value:.1} {unit}")
    } else {
        format!("{} {unit}", count(value.round() as u64))
    }
}

/// A size of `n` bytes: `3.1 MB` (decimal units).
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if n < 1000 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// The name of a signal: `SIGSEGV`.
pub(crate) fn signal(number: i32) -> String {
    match signal_hook::low_level::signal_name(number) {
        Some(name) => name.to_owned(),
        None => format!("signal {number}"),
    }
}

/// A weight of an event in the event's unit, in a column whose sum is `whole`.
pub(crate) fn weight(unit: Unit, weight: u64, whole: u64) -> String {
    match unit {
        Unit::Nanoseconds => duration_in(weight, whole.max(weight)),
        Unit::Bytes => bytes(weight),
        Unit::Count | Unit::Other(_) => count(weight),
    }
}

/// `part` of `whole` in percent; 0 when there is no whole.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// A percentage with one decimal: `11.1%`.
pub(crate) fn percent_text(percent: f64) -> String {
    format!("{percent:.1}%")
}

/// A percentage that is only shown as 0.0% or 100.0% when it is exactly that: for statements such as
/// "all stacks are complete".
pub(crate) fn honest_percent_text(percent: f64) -> String {
    match percent {
        p if p > 0.0 && p < 0.05 => "<0.1%".to_owned(),
        p if (99.95..100.0).contains(&p) => ">99.9%".to_owned(),
        p => percent_text(p),
    }
}

/// Text on the shares of one CPU that `prof` used: `prof 0.4% + BPF 0.3% of a CPU`.
pub(crate) fn cpu_shares(shares: CpuShares) -> String {
    let [own, bpf] = [shares.cpu_percent, shares.bpf_percent].map(honest_percent_text);
    format!("prof {own} + BPF {bpf} of a CPU")
}

/// The same in fewer words: `prof+BPF 0.7%`.
pub(crate) fn cpu_share_sum(shares: CpuShares) -> String {
    format!("prof+BPF {}", honest_percent_text(shares.cpu_percent + shares.bpf_percent))
}

/// Half the width of the 95 % interval around a share, in percentage points, when `samples` samples
/// were taken independently. Samples follow each other in time, so this is a lower bound.
pub(crate) fn share_error_points(share_percent: f64, samples: u64) -> f64 {
    if samples == 0 {
        return 0.0;
    }
    let p = (share_percent / 100.0).clamp(0.0, 1.0);
    196.0 * (p * (1.0 - p) / samples as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_have_the_endings_of_english() {
        let numbers = [1, 2, 3, 4, 11, 12, 13, 21, 101, 111, 1_002];
        let expected =
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "101st", "111th", "1,002nd"];
        assert_eq!(numbers.map(ordinal), expected);
    }

    #[test]
    fn counts_have_separators() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(counted(1, "sample"), "1 sample");
        assert_eq!(counted(3, "process"), "3 processes");
        assert_eq!(counted(3, "small box"), "3 small boxes");
    }

    #[test]
    fn durations_keep_three_digits_across_units() {
        assert_eq!(duration(0), "0 ns");
        assert_eq!(duration(1_001), "1.00 us");
        assert_eq!(duration(41_000_000), "41.0 ms");
        assert_eq!(duration(999_600), "1.00 ms");
        assert_eq!(duration(999_600_000), "1.00 s");
        assert_eq!(duration(9_999_000_000), "10.0 s");
        assert_eq!(duration(120_000_000_000), "120 s");
        assert_eq!(duration(u64::MAX), "18,446,744,074 s");
    }

    #[test]
    fn brief_durations_have_two_digits_or_three() {
        assert_eq!(duration_brief(999), "999 ns");
        assert_eq!(duration_brief(1_000), "1.0 us");
        assert_eq!(duration_brief(536_100), "536 us");
        assert_eq!(duration_brief(999_600), "1.0 ms");
        assert_eq!(duration_brief(9_960_000), "10 ms");
        assert_eq!(duration_brief(41_000_000), "41 ms");
        assert_eq!(duration_brief(120_000_000_000), "120 s");
        assert_eq!(duration_brief(u64::MAX), "18,446,744,074 s");
    }

    #[test]
    fn a_column_of_seconds_stays_in_seconds() {
        let texts = [2_860_000_000, 890_000_000, 10_000_000, 3_000_000, 300_000, 0]
            .map(|ns| weight(Unit::Nanoseconds, ns, 10 * NS_PER_S));
        assert_eq!(texts, ["2.86 s", "0.89 s", "0.01 s", "0.003 s", "<0.001 s", "0.00 s"]);
        assert_eq!(weight(Unit::Nanoseconds, 890_000_000, 900_000_000), "890 ms");
        // A sum is written as it is elsewhere.
        let sums = [999_400, 999_600, 999_600_000, 12_345_000_000, 1_234_000_000_000];
        let texts = sums.map(|ns| weight(Unit::Nanoseconds, ns, ns));
        assert_eq!(texts, ["999 us", "1.00 ms", "1.00 s", "12.35 s", "1,234 s"]);
    }

    #[test]
    fn a_column_of_times_has_one_unit() {
        let texts =
            [0, 400_000, 2_130_000, 50_000_000, 1_500_000_000].map(|ns| duration_in(ns, 2 * NS_PER_S));
        assert_eq!(texts, ["0.00 s", "<0.001 s", "0.002 s", "0.05 s", "1.50 s"]);
        let texts = [0, 400, 2_130, 536_000, 41_200_000, 324_000_000].map(|ns| duration_in(ns, 900_000_000));
        assert_eq!(texts, ["0.00 ms", "<0.001 ms", "0.002 ms", "0.54 ms", "41.2 ms", "324 ms"]);
        assert_eq!(duration_in(2_130, 900_000), "2.13 us");
        assert_eq!(duration_in(213, 900), "213 ns");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(3_100_000), "3.1 MB");
        assert_eq!(bytes(999_960), "1.0 MB");
        assert_eq!(bytes(u64::MAX), "18.4 EB");
    }

    #[test]
    fn nearly_all_is_not_all() {
        assert_eq!(honest_percent_text(99.97), ">99.9%");
        assert_eq!(honest_percent_text(100.0), "100.0%");
        assert_eq!(honest_percent_text(0.01), "<0.1%");
    }

    /// Detail 5 of the promises: what was lost and what recording cost is on every screen.
    #[test]
    fn both_parts_of_the_cost_are_shares_of_one_cpu() {
        let shares = CpuShares::of(40_000_000, 1_000_000, 10_000_000_000).expect("there was time");
        assert_eq!(cpu_shares(shares), "prof 0.4% + BPF <0.1% of a CPU");
        assert_eq!(cpu_share_sum(shares), "prof+BPF 0.4%");
        assert_eq!(CpuShares::of(1, 1, 0), None);
    }

    /// Detail 6 of the promises: numbers have their error and one unit in a column, and estimates are marked.
    #[test]
    fn the_error_of_a_share_is_that_of_a_binomial() {
        let error = share_error_points(11.1, 9_871);
        assert!((error - 0.62).abs() < 0.005, "{error}");
        assert_eq!(share_error_points(50.0, 0), 0.0);
    }
}
