//! Estimates in Criterion's form (`base/estimates.json`, `new/estimates.json`, `change/estimates.json`), all in one
//! document.

use crate::diff::comparison::Comparison;
use crate::diff::difference::Difference;
use crate::diff::difference::TESTED_SHARE;
use crate::diff::options::DiffOptions;
use crate::diff::print::order::ordered;
use crate::diff::print::values::rounded;
use crate::diff::side::{RowValue, SideValues};
use crate::diff::statistics::estimate::mean_and_variance;
use crate::diff::statistics::student::mean_interval;
use crate::report::{NameStyle, document};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Serialize)]
struct ConfidenceInterval {
    confidence_level: f64,
    lower_bound: f64,
    upper_bound: f64,
}

#[derive(Debug, Serialize)]
struct PointEstimate {
    confidence_interval: ConfidenceInterval,
    point_estimate: f64,
    standard_error: f64,
}

/// Criterion's estimates for one side.
#[derive(Debug, Serialize)]
struct SideEstimates {
    mean: PointEstimate,
    median: PointEstimate,
    std_dev: PointEstimate,
}

/// Criterion's estimate of the change, as a part of the base.
#[derive(Debug, Serialize)]
struct ChangeEstimates {
    mean: PointEstimate,
}

#[derive(Debug, Serialize)]
struct BenchmarkEstimates {
    base: SideEstimates,
    new: SideEstimates,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<ChangeEstimates>,
}

/// The document as JSON, by benchmark.
///
/// # Errors
///
/// Fails when a value cannot be serialized.
pub(in crate::diff::print) fn criterion(
    comparison: &Comparison,
    options: &DiffOptions,
) -> anyhow::Result<String> {
    let names = options.common.names.unwrap_or(NameStyle::Full);
    let mut benchmarks: BTreeMap<String, BenchmarkEstimates> = BTreeMap::new();
    let totals = [0, 1].map(|side: usize| comparison.sides[side].values_of_total());
    benchmarks.insert("total".to_owned(), estimates(&comparison.total, &totals));
    for row in ordered(comparison, options, true).into_iter().take(options.most_rows()) {
        for (prefix, value) in [("self", RowValue::Own), ("total", RowValue::Total)] {
            if comparison.share(row, value) >= TESTED_SHARE {
                let name = format!("{prefix}/{}", comparison.label(row).text(names));
                benchmarks.insert(name, estimates(row.value(value), &comparison.values(row, value)));
            }
        }
    }
    document(&benchmarks)
}

fn estimates(difference: &Difference, [base, new]: &[SideValues; 2]) -> BenchmarkEstimates {
    let change = difference.contrast.zip(difference.ratio()).map(|(contrast, ratio)| {
        let [low, high] = contrast.interval();
        ChangeEstimates { mean: point(ratio - 1.0, contrast.error() * ratio, [low - 1.0, high - 1.0]) }
    });
    BenchmarkEstimates { base: side(base), new: side(new), change }
}

fn side(values: &SideValues) -> SideEstimates {
    let mut runs: Vec<f64> = values.by_run().collect();
    runs.sort_by(f64::total_cmp);
    let (mean, variance) = mean_and_variance(&runs);
    let (deviation, count) = (variance.sqrt(), runs.len().max(1) as f64);
    let error = deviation / count.sqrt();
    let half = runs.len() / 2;
    let median = match runs.as_slice() {
        [] => 0.0,
        runs if runs.len() % 2 == 1 => runs[half],
        runs => f64::midpoint(runs[half - 1], runs[half]),
    };
    // Assuming a normal distribution: the standard errors of the median and of the standard deviation.
    let of_median = error * (std::f64::consts::PI / 2.0).sqrt();
    let of_deviation = deviation / (2.0 * (count - 1.0).max(1.0)).sqrt();
    let of_value = |value: f64, error: f64| point(value, error, mean_interval(value, error, runs.len()));
    SideEstimates {
        mean: of_value(mean, error),
        median: of_value(median, of_median),
        std_dev: of_value(deviation, of_deviation),
    }
}

fn point(value: f64, error: f64, [low, high]: [f64; 2]) -> PointEstimate {
    PointEstimate {
        confidence_interval: ConfidenceInterval {
            confidence_level: 0.95,
            lower_bound: rounded(low),
            upper_bound: rounded(high),
        },
        point_estimate: rounded(value),
        standard_error: rounded(error),
    }
}
