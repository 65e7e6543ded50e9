//! Go benchmark results, one line per run, to compare with `benchstat -col side FILE`.
//!
//! The format is specified at <https://go.dev/design/14313-benchmark-format>: configuration lines `side: base`, then
//! `BenchmarkNAME N VALUE UNIT`.

use crate::base::safe_text;
use crate::diff::comparison::Comparison;
use crate::diff::difference::TESTED_SHARE;
use crate::diff::options::DiffOptions;
use crate::diff::per::Per;
use crate::diff::print::order::ordered;
use crate::diff::print::values::{per_word, rounded};
use crate::diff::side::{RowValue, SideValues};
use crate::profile::Unit;
use crate::report::NameStyle;

/// All runs of both sides: the total, and the functions that are large enough to be tested.
pub(in crate::diff::print) fn gobench(comparison: &Comparison, options: &DiffOptions) -> String {
    let names = options.common.names.unwrap_or(NameStyle::Full);
    let unit = unit(comparison);
    let rows: Vec<_> = ordered(comparison, options, true).into_iter().take(options.most_rows()).collect();
    let mut out = String::from("pkg: prof\n");
    for (side, name) in ["base", "new"].into_iter().enumerate() {
        out.push_str(&format!("side: {name}\n"));
        push_lines(&mut out, "Total", &comparison.sides[side].values_of_total(), &unit);
        for row in &rows {
            let name = benchmark_name(&comparison.label(row).text(names));
            for (prefix, value) in [("Self", RowValue::Own), ("Cum", RowValue::Total)] {
                if comparison.share(row, value) >= TESTED_SHARE {
                    let [base, new] = comparison.values(row, value);
                    let values = if side == 0 { base } else { new };
                    push_lines(&mut out, &format!("{prefix}/{name}"), &values, &unit);
                }
            }
        }
    }
    out
}

fn push_lines(out: &mut String, name: &str, values: &SideValues, unit: &str) {
    for value in values.by_run() {
        out.push_str(&format!("Benchmark{name} 1 {} {unit}\n", rounded(value)));
    }
}

/// Unit of the values: benchstat knows time as `ns/op` and prints it in seconds.
fn unit(comparison: &Comparison) -> String {
    let unit = match comparison.measure.event.unit {
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "B",
        _ => "events",
    };
    match comparison.measure.per {
        Per::Run | Per::Work(_) => format!("{unit}/op"),
        Per::Share => "share".to_owned(),
        per @ Per::Second => format!("{unit}/{}", per_word(per)),
    }
}

/// Replaces what has a meaning in benchmark names: blanks, slashes, and a number after a dash at the end, which would
/// be the number of CPUs.
fn benchmark_name(name: &str) -> String {
    let safe = |letter: char| match letter {
        letter if letter.is_whitespace() || letter.is_control() => '_',
        '/' => '|',
        letter => letter,
    };
    let mut name: String = safe_text::terminal(name).chars().map(safe).collect();
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    if digits > 0 && name[..name.len() - digits].ends_with('-') {
        name.push('_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_be_taken_for_something_else() {
        assert_eq!(
            benchmark_name("std::map<int, x>::find(int const&)"),
            "std::map<int,_x>::find(int_const&)"
        );
        assert_eq!(benchmark_name("main/x.Run\n1 5 ns/op"), r"main|x.Run\x0a1_5_ns|op");
        assert_eq!(benchmark_name("worker-8"), "worker-8_");
        assert_eq!(benchmark_name("a8"), "a8");
    }
}
