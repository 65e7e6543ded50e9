//! Compares two sides: the difference of every row, with its test.

use super::difference::{DiffOutcome, Difference, TESTED_SHARE, test_together};
use super::gate::rule::{GateRule, RuleSubject};
use super::measure::{Measure, default_per};
use super::per::Per;
use super::row_label::RowLabel;
use super::side::{DiffSide, RowNumbers, RowValue, SideValues};
use super::statistics::wait_lengths::WaitLengths;
use super::sums::parts::number_of_part;
use super::sums::run::RunSums;
use super::tree::{DiffTree, DiffTreeBuilder};
use crate::base::failure::{Failure, status};
use crate::base::safe_text;
use crate::report::FilterOptions;
use rustc_hash::FxHashMap;

/// Number of smaller rows that are tested for a rule that matches no larger row.
const MOST_SMALL: usize = 10;

/// A row with its values on both sides.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DiffRow {
    /// Row number.
    pub(crate) number: u32,
    /// Self values: samples that end in the row.
    pub(crate) own: Difference,
    /// Total values: samples with the row on their stack.
    pub(crate) total: Difference,
}

impl DiffRow {
    /// The difference of the self or the total value.
    pub(crate) fn value(&self, value: RowValue) -> &Difference {
        match value {
            RowValue::Own => &self.own,
            RowValue::Total => &self.total,
        }
    }
}

/// A comparison of two sides.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Event and divisor of the values.
    pub(crate) measure: Measure,
    /// The base, then the new side.
    pub(crate) sides: [DiffSide; 2],
    /// Difference of everything that passes the filters.
    pub(crate) total: Difference,
    /// The rows, indexed by row number.
    pub(crate) rows: Vec<DiffRow>,
    /// Labels of the rows, by row number.
    pub(crate) labels: Vec<RowLabel>,
    /// The call paths, if they were read.
    pub(crate) tree: Option<DiffTree>,
    /// Number of rows that were tested, by self and by total.
    pub(crate) tests: [usize; 2],
}

impl Comparison {
    /// Compares `sides`, each of which has at least one run.
    ///
    /// # Errors
    ///
    /// Status 1 when the recordings hold different events; a usage error when the pattern of a rule is not a regular
    /// expression.
    pub(crate) fn new(
        mut sides: [Vec<RunSums>; 2],
        per: Option<Per>,
        rules: &[GateRule],
    ) -> Result<Self, Failure> {
        let path_parts =
            sides.each_mut().map(|runs| runs.iter_mut().filter_map(take_path_parts).collect::<Vec<_>>());
        let mut comparison = Comparison::untested(sides, per)?;
        test_together(&mut [&mut comparison.total]);
        for (at, value) in [RowValue::Own, RowValue::Total].into_iter().enumerate() {
            let family = comparison.family(value, rules)?;
            comparison.tests[at] = comparison.test(value, &family);
        }
        if let Some(tree) = &mut comparison.tree
            && path_parts.iter().all(|runs| !runs.is_empty())
        {
            tree.test(&comparison.labels, |parts| {
                compare_parts_of(path_parts, per, |part| parts.contains(&part))
            })?;
        }
        Ok(comparison)
    }

    /// The sides with their differences.
    fn untested(sides: [Vec<RunSums>; 2], per: Option<Per>) -> Result<Self, Failure> {
        let measure =
            Measure { per: per.unwrap_or_else(|| default_per(&sides)), event: common_event(&sides)? };
        let has_paths = sides.iter().flatten().any(|run| !run.paths.is_empty());
        let mut numbers = RowNumbers::default();
        let mut tree = DiffTreeBuilder::default();
        let mut made = Vec::with_capacity(2);
        for (side, runs) in sides.into_iter().enumerate() {
            made.push(DiffSide::new(side, runs, &measure, &mut numbers, |side, run, rows, scale| {
                tree.add(side, &run.paths, rows, scale);
            }));
        }
        let sides = <[DiffSide; 2]>::try_from(made).expect("there are two sides");
        let labels = numbers.labels;
        Ok(Comparison {
            total: difference_of_total(&sides, measure.per),
            rows: (0..labels.len() as u32).map(|row| row_of(&sides, row)).collect(),
            tree: has_paths.then(|| tree.finish(&labels)),
            measure,
            sides,
            labels,
            tests: [0; 2],
        })
    }

    /// Refuses a comparison of nothing with nothing, after these filters.
    pub(super) fn check_has_some(&self, filter: &FilterOptions) -> Result<(), Failure> {
        if self.total.base > 0.0 || self.total.new > 0.0 {
            return Ok(());
        }
        let noun = &self.measure.event.noun;
        Err(match crate::report::filters_in_words(filter) {
            Some(words) => {
                Failure::new(status::NO_MATCH, format!("no {noun} of either side matches {words}"))
                    .hint("to see what there is:  prof report -n 0 FILE")
            }
            None => Failure::new(status::NO_MATCH, format!("neither side has any {noun}s"))
                .hint("to see what is in a file:  prof info FILE"),
        })
    }

    /// The label of a row.
    pub(crate) fn label(&self, row: &DiffRow) -> &RowLabel {
        &self.labels[row.number as usize]
    }

    /// Whether a side has only one recording, so that its spread is the spread within that recording.
    pub(crate) fn is_within_run(&self) -> bool {
        self.sides.iter().any(|side| side.runs.len() == 1)
    }

    /// The larger of the row's shares of both sides, a part of 1.
    pub(crate) fn share(&self, row: &DiffRow, value: RowValue) -> f64 {
        let difference = row.value(value);
        let part = |value: f64, whole: f64| if whole > 0.0 { value / whole } else { 0.0 };
        part(difference.base, self.total.base).max(part(difference.new, self.total.new))
    }

    /// Number of rows whose outcome satisfies `is_counted`.
    pub(crate) fn count(&self, value: RowValue, is_counted: impl Fn(DiffOutcome) -> bool) -> usize {
        let has_some = |difference: &&Difference| difference.base > 0.0 || difference.new > 0.0;
        let differences = self.rows.iter().map(|row| row.value(value)).filter(has_some);
        differences.filter(|difference| is_counted(difference.outcome)).count()
    }

    /// The values of a row in all runs of both sides.
    pub(crate) fn values(&self, row: &DiffRow, value: RowValue) -> [SideValues; 2] {
        [0, 1].map(|side| self.sides[side].values(row.number, value, &WaitLengths::default()))
    }

    /// The rows to test: those that are large enough, and those of a rule that matches no large one.
    fn family(&self, value: RowValue, rules: &[GateRule]) -> Result<Vec<usize>, Failure> {
        let mut family: Vec<usize> =
            (0..self.rows.len()).filter(|&row| self.share(&self.rows[row], value) >= TESTED_SHARE).collect();
        for rule in rules {
            let RuleSubject::Functions { value: of, .. } = &rule.subject else { continue };
            if *of != value {
                continue;
            }
            let named = self.named(rule)?;
            if named.iter().any(|row| family.contains(row)) {
                continue;
            }
            family.extend(named.into_iter().take(MOST_SMALL));
        }
        family.sort_unstable();
        family.dedup();
        Ok(family)
    }

    /// The rows that a rule matches, largest first; none for the total.
    pub(crate) fn named(&self, rule: &GateRule) -> Result<Vec<usize>, Failure> {
        let RuleSubject::Functions { pattern, value } = &rule.subject else { return Ok(Vec::new()) };
        let pattern = crate::report::pattern("--fail-on", pattern)?;
        let is_named = |row: &usize| {
            let row = &self.rows[*row];
            let difference = row.value(*value);
            (difference.base > 0.0 || difference.new > 0.0) && self.label(row).matches(&pattern)
        };
        let mut named: Vec<usize> = (0..self.rows.len()).filter(is_named).collect();
        let share = |row: &usize| self.share(&self.rows[*row], *value);
        let key = |row: &usize| &self.label(&self.rows[*row]).key;
        named.sort_by(|a, b| share(b).total_cmp(&share(a)).then_with(|| key(a).cmp(key(b))));
        Ok(named)
    }

    fn test(&mut self, value: RowValue, family: &[usize]) -> usize {
        let mut is_tested = vec![false; self.rows.len()];
        family.iter().for_each(|row| is_tested[*row] = true);
        let rows = self.rows.iter_mut().zip(is_tested).filter(|(_, is_tested)| *is_tested);
        let mut differences: Vec<&mut Difference> = rows
            .map(|(row, _)| match value {
                RowValue::Own => &mut row.own,
                RowValue::Total => &mut row.total,
            })
            .collect();
        test_together(&mut differences)
    }
}

fn take_path_parts(run: &mut RunSums) -> Option<RunSums> {
    run.path_parts.take().map(|parts| *parts)
}

/// Compares parts of both sides: the differences by number of all samples in the parts that `is_tested` and are large enough,
/// which are tested together.
///
/// # Errors
///
/// Status 1 when the events of the sides differ.
pub(super) fn compare_parts_of(
    sides: [Vec<RunSums>; 2],
    per: Option<Per>,
    is_tested: impl Fn(u64) -> bool,
) -> Result<FxHashMap<u64, Difference>, Failure> {
    let mut comparison = Comparison::untested(sides, per)?;
    let number = |comparison: &Comparison, row: usize| number_of_part(&comparison.labels[row]);
    let mut family = comparison.family(RowValue::Total, &[])?;
    family.retain(|row| number(&comparison, *row).is_some_and(&is_tested));
    comparison.test(RowValue::Total, &family);
    Ok((family.into_iter())
        .filter_map(|row| Some((number(&comparison, row)?, comparison.rows[row].total)))
        .collect())
}

/// The event of all recordings, which must be the same.
fn common_event(sides: &[Vec<RunSums>; 2]) -> Result<super::sums::run::RunEvent, Failure> {
    let mut runs = sides.iter().flatten();
    let Some(first) = runs.next() else {
        return Err(Failure::usage("there is nothing to compare").hint("prof diff BASE NEW"));
    };
    for run in runs {
        let same = |run: &RunSums| (run.event.metric, run.event.unit);
        if same(run) != same(first) {
            let [a, b] = [first, run].map(|run| safe_text::terminal(&run.facts.file).into_owned());
            let message = format!("`{a}` is shown by {} and `{b}` by {}", first.event.title, run.event.title);
            return Err(
                Failure::new(status::FAILED, message).hint("say which:  --on-cpu, --off-cpu or -e EVENT")
            );
        }
    }
    Ok(first.event.clone())
}

fn difference_of_total(sides: &[DiffSide; 2], per: Per) -> Difference {
    let values = [0, 1].map(|side: usize| sides[side].values_of_total());
    let is_whole = sides.iter().flat_map(|side| &side.runs).all(|run| run.total.weight == run.whole);
    let unit = unit_of(&values);
    let observed = [0, 1].map(|side: usize| {
        let observed = sides[side].observed(None, &values[side], unit);
        // A share of all samples is always 100 %, which has no spread.
        if per == Per::Share && is_whole {
            super::difference::Observed { estimate: None, ..observed }
        } else {
            observed
        }
    });
    Difference::new(observed)
}

/// The difference of a row. The longest waits are cut at the same length on both sides.
fn row_of(sides: &[DiffSide; 2], number: u32) -> DiffRow {
    let difference = |value: RowValue| {
        let mut lengths = WaitLengths::default();
        sides.iter().for_each(|side| side.add_lengths(number, value, &mut lengths));
        let values = [0, 1].map(|side: usize| sides[side].values(number, value, &lengths));
        let unit = unit_of(&values);
        Difference::new(
            [0, 1].map(|side: usize| sides[side].observed(Some((number, value)), &values[side], unit)),
        )
    };
    DiffRow { number, own: difference(RowValue::Own), total: difference(RowValue::Total) }
}

/// The mean weight of a sample or wait; and half of that if some run has no samples, else 0.
fn unit_of(values: &[SideValues; 2]) -> [f64; 2] {
    let sums = values.iter().map(SideValues::sums);
    let [weight, count] = sums.fold([0.0; 2], |all: [f64; 2], sums| [all[0] + sums[0], all[1] + sums[1]]);
    let unit = if count > 0.0 { weight / count } else { 0.0 };
    [unit, if values.iter().any(SideValues::has_gap) { 0.5 * unit } else { 0.0 }]
}
