//! Bencher Metric Format: the values of the new side with the confidence interval of their mean, for Bencher.

use crate::diff::comparison::Comparison;
use crate::diff::difference::TESTED_SHARE;
use crate::diff::options::DiffOptions;
use crate::diff::per::Per;
use crate::diff::print::order::ordered;
use crate::diff::print::values::rounded;
use crate::diff::side::{RowValue, SideValues};
use crate::diff::statistics::estimate::Estimate;
use crate::profile::Unit;
use crate::report::{NameStyle, document};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Serialize)]
struct Measured {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

impl Measured {
    fn of(values: &SideValues) -> Self {
        let runs: Vec<f64> = values.by_run().filter(|value| *value > 0.0).collect();
        // A run without a value has no logarithm; the mean is given without an interval then.
        let estimate = Estimate::of_runs(&runs, 0.0).filter(|_| runs.len() == values.by_run().count());
        let interval = estimate.map(|estimate| estimate.interval());
        Measured {
            value: rounded(values.mean()),
            lower_value: interval.map(|[low, _]| rounded(low)),
            upper_value: interval.map(|[_, high]| rounded(high)),
        }
    }
}

/// The document as JSON.
///
/// # Errors
///
/// Fails when a value cannot be serialized.
pub(in crate::diff::print) fn bmf(comparison: &Comparison, options: &DiffOptions) -> anyhow::Result<String> {
    let names = options.common.names.unwrap_or(NameStyle::Full);
    let measure = measure(comparison);
    let mut benchmarks: BTreeMap<String, BTreeMap<&str, Measured>> = BTreeMap::new();
    let mut add = |name: String, values: &SideValues| {
        benchmarks.entry(name).or_default().insert(measure, Measured::of(values));
    };
    add("total".to_owned(), &comparison.sides[1].values_of_total());
    for row in ordered(comparison, options, true).into_iter().take(options.most_rows()) {
        for (prefix, value) in [("self", RowValue::Own), ("total", RowValue::Total)] {
            let [_, values] = comparison.values(row, value);
            if comparison.share(row, value) >= TESTED_SHARE && row.value(value).new > 0.0 {
                add(format!("{prefix}/{}", comparison.label(row).text(names)), &values);
            }
        }
    }
    document(&benchmarks)
}

/// Bencher's name of the measure, or one of our own.
fn measure(comparison: &Comparison) -> &'static str {
    match (comparison.measure.per, comparison.measure.event.unit) {
        (Per::Share, _) => "share",
        (Per::Run | Per::Work(_), Unit::Nanoseconds) => "latency",
        (Per::Second, Unit::Nanoseconds) => "ns-per-second",
        (_, Unit::Bytes) => "bytes",
        _ => "events",
    }
}
