//! A comparison as a tab-separated table. Unknown values are empty cells.

use super::order::ordered;
use super::values::{rounded, unit_word};
use crate::base::safe_text;
use crate::diff::comparison::Comparison;
use crate::diff::difference::Difference;
use crate::diff::options::DiffOptions;
use crate::report::NameStyle;

/// Columns of a value; the name of the value is their prefix.
const COLUMNS: [&str; 11] =
    ["base", "new", "delta", "ratio", "ci_low", "ci_high", "p", "p_adj", "mde", "d_base", "d_new"];

/// The table, whose first row is the total.
pub(super) fn tsv(comparison: &Comparison, options: &DiffOptions) -> String {
    let unit = unit_word(comparison);
    let columns = |value: &str| {
        let name = |(at, column): (usize, &&str)| {
            if at < 3 { format!("{value}_{column}_{unit}") } else { format!("{value}_{column}") }
        };
        let names: Vec<String> = COLUMNS.iter().enumerate().map(name).collect();
        format!("{}\t{value}_outcome", names.join("\t"))
    };
    let mut out = format!("function\tmodule\t{}\t{}\n", columns("self"), columns("total"));
    let nothing = "\t".repeat(COLUMNS.len());
    out.push_str(&format!("[total]\t\t{nothing}\t{}\n", cells(&comparison.total)));
    let names = options.common.names.unwrap_or(NameStyle::Full);
    for row in ordered(comparison, options, true).into_iter().take(options.most_rows()) {
        let label = comparison.label(row);
        out.push_str(&format!(
            "{}\t{}\t{}\t{}\n",
            safe_text::tsv(&label.text(names)),
            safe_text::tsv(&label.key.module),
            cells(&row.own),
            cells(&row.total)
        ));
    }
    out
}

fn cells(difference: &Difference) -> String {
    let contrast = difference.contrast;
    let interval = contrast.filter(|_| difference.ratio().is_some()).map(|contrast| contrast.interval());
    let values: [Option<f64>; COLUMNS.len()] = [
        Some(difference.base),
        Some(difference.new),
        Some(difference.delta()),
        difference.ratio(),
        interval.map(|[low, _]| low),
        interval.map(|[_, high]| high),
        contrast.map(|contrast| contrast.p()),
        difference.p_adjusted,
        difference.least_found.map(|ratio| ratio - 1.0),
        difference.design[0],
        difference.design[1],
    ];
    let cell = |value: &Option<f64>| value.map_or(String::new(), |value| rounded(value).to_string());
    let cells: Vec<String> = values.iter().map(cell).collect();
    format!("{}\t{}", cells.join("\t"), difference.outcome.key())
}
