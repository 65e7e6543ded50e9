//! The verdict on each rule, and the exit status that follows.

use super::rule::{GateRule, RuleSubject};
use crate::base::failure::{Failure, status};
use crate::base::units::counted;
use crate::diff::comparison::Comparison;
use crate::diff::difference::Difference;
use crate::diff::options::GateOptions;
use crate::diff::side::RowValue;
use crate::report::{NameStyle, nearest};

/// Least number of runs per side: with fewer, the variation from run to run is unknown.
pub(crate) const LEAST_RUNS: usize = 5;

/// Verdict on a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GateOutcome {
    /// Nothing grew, and growth of the given size would have been detected.
    Pass,
    /// Something grew.
    Tripped,
    /// The data are insufficient for a verdict.
    TooLittle,
}

impl GateOutcome {
    /// Name of the verdict.
    pub(crate) fn key(self) -> &'static str {
        match self {
            GateOutcome::Pass => "pass",
            GateOutcome::Tripped => "tripped",
            GateOutcome::TooLittle => "too little",
        }
    }
}

/// The verdict on one rule.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GateVerdict {
    /// The rule as it was typed.
    pub(crate) rule: String,
    /// The verdict.
    pub(crate) outcome: GateOutcome,
    /// Growth that counts, as a part of the base.
    pub(crate) least: f64,
    /// Why, in words. Quotes foreign names.
    pub(crate) why: String,
    /// Advice on what to do if the data are insufficient. Quotes nothing.
    pub(crate) needed: Option<String>,
    /// Indices in [`Comparison::rows`] of the rows that grew.
    pub(crate) rows: Vec<usize>,
}

/// The exit status for these verdicts.
pub(crate) fn exit_status(verdicts: &[GateVerdict]) -> u8 {
    let has = |outcome| verdicts.iter().any(|verdict| verdict.outcome == outcome);
    match (has(GateOutcome::Tripped), has(GateOutcome::TooLittle)) {
        (true, _) => status::GATE_TRIPPED,
        (_, true) => status::NO_MATCH,
        _ => status::OK,
    }
}

/// Applies all rules to `comparison`.
///
/// # Errors
///
/// Returns a usage error when the pattern of a rule is not a regular expression.
pub(crate) fn apply_rules(
    comparison: &Comparison,
    options: &GateOptions,
) -> Result<Vec<GateVerdict>, Failure> {
    options.rules.iter().map(|rule| verdict(comparison, rule, options)).collect()
}

fn verdict(comparison: &Comparison, rule: &GateRule, options: &GateOptions) -> Result<GateVerdict, Failure> {
    let least = rule.least.unwrap_or(options.least);
    let made = |outcome, why: String, needed: Option<String>, rows| GateVerdict {
        rule: rule.to_string(),
        outcome,
        least,
        why,
        needed,
        rows,
    };
    let named = comparison.named(rule)?;
    if matches!(rule.subject, RuleSubject::Functions { .. }) && named.is_empty() {
        let (why, needed) = nothing_named(comparison, rule)?;
        return Ok(made(GateOutcome::TooLittle, why, Some(needed), Vec::new()));
    }
    if let Some((why, needed)) = too_few_runs(comparison, options) {
        return Ok(made(GateOutcome::TooLittle, why, Some(needed), Vec::new()));
    }
    let subjects = subjects(comparison, rule, &named);
    let grown: Vec<usize> =
        (0..subjects.len()).filter(|&at| subjects[at].difference.has_grown(least)).collect();
    if !grown.is_empty() {
        let why = words(&subjects, &grown);
        let rows = grown.iter().filter_map(|&at| subjects[at].row).collect();
        return Ok(made(GateOutcome::Tripped, why, None, rows));
    }
    // A change is detected most easily in the largest one.
    let largest = subjects.iter().position(|subject| subject.difference.least_found.is_some());
    let Some(largest) = largest else {
        let why = match subjects.first() {
            Some(subject) if subject.row.is_none() => {
                "nothing is known of the spread of the total".to_owned()
            }
            _ => "what it names is too small to be tested".to_owned(),
        };
        return Ok(made(GateOutcome::TooLittle, why, Some("longer or more runs".to_owned()), Vec::new()));
    };
    let missed = subjects.iter().filter(|subject| !subject.would_show(least)).count();
    if !subjects[largest].would_show(least) {
        let found = subjects[largest].difference.least_found.unwrap_or(f64::INFINITY);
        let why = format!(
            "{}: only growth of {} and more would have been found",
            subjects[largest].words(),
            part(found - 1.0)
        );
        let needed = runs_needed(comparison, found, least);
        return Ok(made(GateOutcome::TooLittle, why, Some(needed), Vec::new()));
    }
    let mut why = words(&subjects, &[0]);
    if subjects.len() > 1 && missed > 0 {
        let small = counted(missed as u64, "function");
        why.push_str(&format!("; {small} of {} too small to find {}", subjects.len(), part(least)));
    }
    Ok(made(GateOutcome::Pass, why, None, Vec::new()))
}

/// Why a rule names no row, and what is needed.
fn nothing_named(comparison: &Comparison, rule: &GateRule) -> Result<(String, String), Failure> {
    let mut with_callees = rule.clone();
    if let RuleSubject::Functions { value, .. } = &mut with_callees.subject {
        *value = RowValue::Total;
    }
    if let Some(&row) = comparison.named(&with_callees)?.first() {
        let name = comparison.label(&comparison.rows[row]).name_in(NameStyle::Short);
        let why = format!("{name} has no self time on either side: its time is in what it calls");
        return Ok((why, "leave out `self:` to test it with what it calls".to_owned()));
    }
    let why = format!("no function of either side has such a name{}", nearest_words(comparison, rule));
    Ok((why, "is the name right? prof report -n 0 shows all".to_owned()))
}

/// Names like that of a rule which no function has; empty if there are none.
fn nearest_words(comparison: &Comparison, rule: &GateRule) -> String {
    let RuleSubject::Functions { pattern, .. } = &rule.subject else { return String::new() };
    let names: Vec<String> = comparison.labels.iter().map(|label| label.name_in(NameStyle::Short)).collect();
    match nearest(names.iter().map(String::as_str), pattern)[..] {
        [] => String::new(),
        ref near => format!("; the nearest: {}", near.join(", ")),
    }
}

/// The total or a row that a rule applies to.
struct Subject<'c> {
    row: Option<usize>,
    name: &'c str,
    difference: &'c Difference,
}

impl Subject<'_> {
    /// Whether growth of `least` is ruled out: it would have been detected, or the confidence interval excludes it.
    fn would_show(&self, least: f64) -> bool {
        let is_left_out =
            self.difference.contrast.is_some_and(|contrast| contrast.interval()[1] < 1.0 + least);
        is_left_out || self.difference.least_found.is_some_and(|ratio| ratio <= 1.0 + least)
    }

    /// Name and change: `parse +12.3%`. Foreign text.
    fn words(&self) -> String {
        let change = match (self.difference.ratio(), self.difference.new > 0.0) {
            (Some(ratio), _) => change(ratio),
            (None, true) => "new".to_owned(),
            (None, false) => "gone".to_owned(),
        };
        format!("{} {change}", self.name)
    }
}

fn subjects<'c>(comparison: &'c Comparison, rule: &GateRule, named: &[usize]) -> Vec<Subject<'c>> {
    match &rule.subject {
        RuleSubject::Total => vec![Subject { row: None, name: "total", difference: &comparison.total }],
        RuleSubject::Functions { value, .. } => (named.iter())
            .map(|&at| {
                let row = &comparison.rows[at];
                Subject {
                    row: Some(at),
                    name: &comparison.label(row).key.name,
                    difference: row.value(*value),
                }
            })
            .filter(|subject| subject.difference.p_of_increase.is_some() || named.len() == 1)
            .collect(),
    }
}

/// The subjects at `places` in words, at most three.
fn words(subjects: &[Subject<'_>], places: &[usize]) -> String {
    const MOST: usize = 3;
    let shown: Vec<String> = places.iter().take(MOST).map(|&at| subjects[at].words()).collect();
    let more = places.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

fn too_few_runs(comparison: &Comparison, options: &GateOptions) -> Option<(String, String)> {
    let [base, new] = [0, 1].map(|side: usize| comparison.sides[side].runs.len());
    if base >= LEAST_RUNS && new >= LEAST_RUNS || (base.min(new) == 1 && options.single_run_ok) {
        return None;
    }
    let needed = "prof bench -n 10 --base CMD --new CMD makes ten of each".to_owned();
    if base.min(new) == 1 {
        let why = "one recording says nothing of how runs differ".to_owned();
        return Some((why, format!("{LEAST_RUNS} runs a side or more: {needed}; or --single-run-ok")));
    }
    let why = format!("{base} and {new} runs are too few");
    Some((why, format!("{LEAST_RUNS} runs a side or more: {needed}")))
}

/// Number of runs that would suffice if all are like these: the error shrinks with the square root of their number.
fn runs_needed(comparison: &Comparison, found: f64, least: f64) -> String {
    let runs = comparison.sides.iter().map(|side| side.runs.len()).min().unwrap_or(1);
    let times = (found.ln() / least.ln_1p()).powi(2);
    match times {
        times if !times.is_finite() || times > 1e3 => "much longer or many more runs".to_owned(),
        times if runs > 1 => {
            format!("about {:.0} such runs a side, or longer ones", (runs as f64 * times).ceil())
        }
        times => format!("recordings about {times:.0} times as long"),
    }
}

/// A ratio as a relative change: `+5.0%`.
pub(crate) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent >= 999.5 { format!("x{ratio:.0}") } else { format!("{percent:+.1}%") }
}

/// A part of 1 in percent: `5.0%`.
pub(crate) fn part(part: f64) -> String {
    if part.is_finite() && part < 99.95 { format!("{:.1}%", part * 100.0) } else { "100 times".to_owned() }
}
