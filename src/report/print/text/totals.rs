//! The line that says where the whole time of the threads went.

use crate::base::units::{count, duration};
use crate::report::model::totals::Totals;

/// Share of the whole, in thousandths, above which the part that the kinds of time miss is printed.
const NOTABLE_THOUSANDTHS: u64 = 1;

/// A unit in which all parts of a sum are written, so that they can be added up at a glance.
#[derive(Debug, Clone, Copy)]
struct SumUnit {
    ns: f64,
    decimals: usize,
    name: &'static str,
}

impl SumUnit {
    /// The unit for parts of `whole_ns`.
    fn of(whole_ns: u64) -> Self {
        match whole_ns {
            0..10_000_000 => SumUnit { ns: 1e3, decimals: 0, name: "us" },
            10_000_000..1_000_000_000 => SumUnit { ns: 1e6, decimals: 1, name: "ms" },
            1_000_000_000..10_000_000_000 => SumUnit { ns: 1e9, decimals: 2, name: "s" },
            _ => SumUnit { ns: 1e9, decimals: 1, name: "s" },
        }
    }

    fn text(self, ns: i64) -> String {
        let text = format!("{:.*}", self.decimals, ns as f64 / self.ns);
        // What rounds to nothing has no sign.
        let is_zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
        if is_zero { text.trim_start_matches('-').to_owned() } else { text }
    }

    fn unsigned(self, ns: u64) -> String {
        self.text(i64::try_from(ns).unwrap_or(i64::MAX))
    }
}

/// `on-CPU 9.9 + no CPU 1.5 + blocked 9.3 + idle 99.3 (hidden, --idle) = 120.0 s`
pub(in crate::report) fn totals_text(totals: &Totals, is_idle_hidden: bool) -> String {
    let times = &totals.times;
    let whole_ns = if times.lifetime_ns > 0 { times.lifetime_ns } else { times.sum_ns() };
    let unit = SumUnit::of(whole_ns);
    let sampled = match totals.is_by_scheduler {
        true if times.sampled_ns > 0 => format!(" ({} by samples)", unit.unsigned(times.sampled_ns)),
        true => String::new(),
        false => " (by samples)".to_owned(),
    };
    let hidden = if is_idle_hidden && times.idle_ns() > 0 { " (hidden, --idle)" } else { "" };
    let mut parts = vec![
        format!("on-CPU {}{sampled}", unit.unsigned(times.on_cpu_ns)),
        format!("no CPU {}", unit.unsigned(times.no_cpu_ns)),
        format!("blocked {}", unit.unsigned(times.blocked_ns())),
        format!("idle {}{hidden}", unit.unsigned(times.idle_ns())),
    ];
    let missed_ns = times.unaccounted_ns();
    if missed_ns.unsigned_abs() > whole_ns / 1000 * NOTABLE_THOUSANDTHS {
        parts.push(format!("not accounted {}", unit.text(missed_ns)));
    }
    format!("{} = {} {}", parts.join(" + "), unit.unsigned(whole_ns), unit.name)
}

/// `10.0 s x 12 threads = 120.0 thread-seconds`, or what is known of it.
pub(super) fn whole_text(totals: &Totals, threads: u64, duration_ns: u64) -> String {
    let noun = if threads == 1 { "thread" } else { "threads" };
    let length = duration(duration_ns);
    if threads == 0 {
        return length;
    }
    let lifetime_ns = totals.times.lifetime_ns;
    if lifetime_ns == 0 {
        return format!("{length}, {} {noun}", count(threads));
    }
    let seconds = lifetime_ns as f64 / 1e9;
    let product = duration_ns.saturating_mul(threads);
    // Threads that came or went in between make the sum less than the product.
    let sign = if product.abs_diff(lifetime_ns) <= product / 1000 { "x" } else { "and" };
    format!("{length} {sign} {} {noun} = {seconds:.1} thread-seconds", count(threads))
}
