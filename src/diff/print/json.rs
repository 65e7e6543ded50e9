//! JSON output, `prof.diff/1`.

use super::order::ordered;
use super::values::{per_word, rounded, unit_word};
use crate::diff::comparison::{Comparison, DiffRow};
use crate::diff::difference::{ALPHA, DiffOutcome, Difference};
use crate::diff::gate::verdicts::{GateVerdict, exit_status};
use crate::diff::options::{DiffOptions, DiffView};
use crate::diff::per::Per;
use crate::diff::side::{DiffSide, RowValue};
use crate::diff::statistics::contrast::POWER;
use crate::report::{NameStyle, document};
use serde::Serialize;

/// Name and version of the schema.
const SCHEMA: &str = "prof.diff/1";

#[derive(Debug, Serialize)]
struct DiffJson {
    schema: &'static str,
    event: String,
    /// Unit of all values: `ns`, `count`, `bytes`, or `share` (a part of 1).
    unit: &'static str,
    /// Divisor of the values: `run`, `second`, `share`, `work`.
    per: &'static str,
    /// Work of a run of the base and of the new side, for `work`.
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<[f64; 2]>,
    /// Whether the spread is that within one recording, which does not include the variation from run to run.
    within_run_only: bool,
    alpha: f64,
    power: f64,
    base: SideJson,
    new: SideJson,
    total: DifferenceJson,
    counts: CountsJson,
    rows: Vec<RowJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<Vec<PathJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<GateJson>,
}

#[derive(Debug, Serialize)]
struct SideJson {
    runs: usize,
    files: Vec<String>,
    target: String,
    /// Mean over the runs, ns.
    duration_ns: u64,
    samples: u64,
    lost: u64,
    rate_hz: u32,
    /// From when to when the runs are that are parts by the clock, where the user is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    clock_spans: Vec<String>,
    /// Design effect of the slices, if the side has one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    design_effect: Option<f64>,
}

impl SideJson {
    fn of(side: &DiffSide) -> Self {
        let runs = &side.runs;
        let length: u128 = runs.iter().map(|run| u128::from(run.facts.duration_ns)).sum();
        SideJson {
            runs: runs.len(),
            files: runs.iter().map(|run| run.facts.file.clone()).collect(),
            clock_spans: runs.iter().filter_map(|run| run.facts.clock_span.clone()).collect(),
            target: runs.first().map_or(String::new(), |run| run.facts.target.clone()),
            duration_ns: u64::try_from(length / runs.len().max(1) as u128).unwrap_or(u64::MAX),
            samples: runs.iter().map(|run| run.total.count).sum::<f64>().round() as u64,
            lost: runs.iter().map(|run| run.facts.lost).fold(0, u64::saturating_add),
            rate_hz: runs.iter().map(|run| run.facts.rate_hz).max().unwrap_or(0),
            design_effect: side.blocks().map(|blocks| rounded(blocks.design)),
        }
    }
}

/// Number of functions by outcome, for self and total values.
#[derive(Debug, Serialize)]
struct CountsJson {
    #[serde(rename = "self")]
    own: OutcomesJson,
    total: OutcomesJson,
}

#[derive(Debug, Serialize)]
struct OutcomesJson {
    changed: usize,
    new: usize,
    gone: usize,
    noise: usize,
    untested: usize,
    /// Number of values that were tested together.
    tests: usize,
}

impl OutcomesJson {
    fn of(comparison: &Comparison, value: RowValue) -> Self {
        let count = |wanted| comparison.count(value, |outcome| outcome == wanted);
        OutcomesJson {
            changed: count(DiffOutcome::Changed),
            new: count(DiffOutcome::New),
            gone: count(DiffOutcome::Gone),
            noise: count(DiffOutcome::Noise),
            untested: count(DiffOutcome::Untested),
            tests: comparison.tests[usize::from(value == RowValue::Total)],
        }
    }
}

/// A value on both sides. Unknown fields are `null`.
#[derive(Debug, Serialize)]
struct DifferenceJson {
    base: f64,
    new: f64,
    delta: f64,
    /// The new value divided by the base.
    ratio: Option<f64>,
    /// The 95 % confidence interval of the ratio.
    ci: Option<[f64; 2]>,
    /// Probability of such a difference without a change.
    p: Option<f64>,
    /// The same, adjusted for all tests.
    p_adj: Option<f64>,
    /// The smallest growth that would have been detected, as a part of the base.
    mde: Option<f64>,
    /// Design effects of the base and of the new side: variance relative to that of independent samples.
    d: [Option<f64>; 2],
    /// Number of runs of the base and of the new side.
    k: [usize; 2],
    outcome: &'static str,
}

impl DifferenceJson {
    fn of(difference: &Difference, runs: [usize; 2]) -> Self {
        let contrast = difference.contrast;
        let has_ratio = difference.ratio().is_some();
        DifferenceJson {
            base: rounded(difference.base),
            new: rounded(difference.new),
            delta: rounded(difference.delta()),
            ratio: difference.ratio().map(rounded),
            ci: contrast.filter(|_| has_ratio).map(|contrast| contrast.interval().map(rounded)),
            p: contrast.map(|contrast| rounded(contrast.p())),
            p_adj: difference.p_adjusted.map(rounded),
            mde: difference.least_found.map(|ratio| rounded(ratio - 1.0)),
            d: difference.design.map(|design| design.map(rounded)),
            k: runs,
            outcome: difference.outcome.key(),
        }
    }
}

#[derive(Debug, Serialize)]
struct RowJson {
    function: String,
    raw_name: String,
    module: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(rename = "self")]
    own: DifferenceJson,
    total: DifferenceJson,
}

#[derive(Debug, Serialize)]
struct PathJson {
    depth: u32,
    function: String,
    module: String,
    self_base: f64,
    self_new: f64,
    total_base: f64,
    total_new: f64,
    /// The total of the new side divided by that of the base, as tested. Like the next two unknown if it is too small for a test.
    ratio: Option<f64>,
    /// The 95 % confidence interval of the ratio.
    ci: Option<[f64; 2]>,
    /// Probability of such a difference without a change, adjusted for all tests of paths.
    p_adj: Option<f64>,
    outcome: &'static str,
}

#[derive(Debug, Serialize)]
struct GateJson {
    status: u8,
    verdicts: Vec<VerdictJson>,
}

#[derive(Debug, Serialize)]
struct VerdictJson {
    rule: String,
    verdict: &'static str,
    /// Growth that counts, as a part of the base.
    min: f64,
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    needed: Option<String>,
    /// Functions that grew.
    functions: Vec<String>,
}

/// The comparison as a JSON document.
///
/// # Errors
///
/// Fails when a value cannot be serialized.
pub(super) fn json(
    comparison: &Comparison,
    verdicts: &[GateVerdict],
    options: &DiffOptions,
) -> anyhow::Result<String> {
    let [base, new] = &comparison.sides;
    let runs = [base.runs.len(), new.runs.len()];
    let names = options.common.names.unwrap_or(NameStyle::Full);
    let row = |row: &DiffRow| {
        let label = comparison.label(row);
        let line = label.key.line.as_ref();
        RowJson {
            function: label.name_in(names),
            raw_name: label.raw_name.clone(),
            module: label.key.module.clone(),
            file: line.map(|source| source.file.clone()),
            line: line.map(|source| source.line).filter(|line| *line > 0),
            own: DifferenceJson::of(&row.own, runs),
            total: DifferenceJson::of(&row.total, runs),
        }
    };
    let rows = ordered(comparison, options, true);
    document(&DiffJson {
        schema: SCHEMA,
        event: comparison.measure.event.name.clone(),
        unit: unit_word(comparison),
        per: per_word(comparison.measure.per),
        work: match comparison.measure.per {
            Per::Work(work) => Some(work),
            _ => None,
        },
        within_run_only: comparison.is_within_run(),
        alpha: ALPHA,
        power: POWER,
        base: SideJson::of(base),
        new: SideJson::of(new),
        total: DifferenceJson::of(&comparison.total, runs),
        counts: CountsJson {
            own: OutcomesJson::of(comparison, RowValue::Own),
            total: OutcomesJson::of(comparison, RowValue::Total),
        },
        rows: rows.into_iter().take(options.most_rows()).map(row).collect(),
        tree: (options.view == DiffView::Tree).then(|| paths(comparison, options, names)),
        gate: (!verdicts.is_empty()).then(|| gate(comparison, verdicts)),
    })
}

fn paths(comparison: &Comparison, options: &DiffOptions, names: NameStyle) -> Vec<PathJson> {
    let Some(tree) = &comparison.tree else { return Vec::new() };
    let least = options.min_percent.unwrap_or(0.0) / 100.0 * comparison.total.base.max(comparison.total.new);
    let order = tree.walk(|node| node.larger() >= least);
    (order.into_iter().take(options.most_rows()))
        .map(|id| {
            let node = tree.node(id);
            let label = &comparison.labels[node.row as usize];
            let tested = node.tested.filter(Difference::is_tested);
            let tested = tested.map(|tested| DifferenceJson::of(&tested, [0, 0]));
            PathJson {
                depth: node.depth,
                function: label.text(names),
                module: label.key.module.clone(),
                self_base: rounded(node.own[0]),
                self_new: rounded(node.own[1]),
                total_base: rounded(node.total[0]),
                total_new: rounded(node.total[1]),
                ratio: tested.as_ref().and_then(|tested| tested.ratio),
                ci: tested.as_ref().and_then(|tested| tested.ci),
                p_adj: tested.as_ref().and_then(|tested| tested.p_adj),
                outcome: tested.as_ref().map_or(DiffOutcome::Untested.key(), |tested| tested.outcome),
            }
        })
        .collect()
}

fn gate(comparison: &Comparison, verdicts: &[GateVerdict]) -> GateJson {
    let verdict = |verdict: &GateVerdict| VerdictJson {
        rule: verdict.rule.clone(),
        verdict: verdict.outcome.key(),
        min: rounded(verdict.least),
        why: verdict.why.clone(),
        needed: verdict.needed.clone(),
        functions: (verdict.rows.iter())
            .map(|row| comparison.label(&comparison.rows[*row]).key.name.clone())
            .collect(),
    };
    GateJson { status: exit_status(verdicts), verdicts: verdicts.iter().map(verdict).collect() }
}
