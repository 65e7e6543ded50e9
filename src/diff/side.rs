//! The runs of one side, with rows numbered across all runs, and estimates of their values.

use super::difference::Observed;
use super::measure::Measure;
use super::per::Per;
use super::row_label::{DiffRowKey, RowLabel};
use super::statistics::estimate::Estimate;
use super::statistics::slices::Blocks;
use super::statistics::wait_lengths::WaitLengths;
use super::sums::run::RunSums;
use super::sums::run_row::{RunFacts, RunSum};
use rustc_hash::FxHashMap;

/// Relative variance of what is known exactly, so that it has one.
const LEAST_SPREAD: f64 = 1e-12;
/// Degrees of freedom of a variance that is known, and not estimated.
const MANY: f64 = 1e6;

/// The self or total value of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowValue {
    /// Samples that end in the row.
    Own,
    /// Samples with the row on their stack.
    Total,
}

/// Assigns one number to each row across all runs.
#[derive(Debug, Default)]
pub(crate) struct RowNumbers {
    numbers: FxHashMap<DiffRowKey, u32>,
    /// Labels by row number.
    pub(crate) labels: Vec<RowLabel>,
}

impl RowNumbers {
    fn number(&mut self, label: RowLabel) -> u32 {
        let next = self.labels.len() as u32;
        let number = *self.numbers.entry(label.key.clone()).or_insert(next);
        if number == next {
            self.labels.push(label);
        }
        number
    }
}

/// A run without its rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SideRun {
    /// Facts about the recording.
    pub(crate) facts: RunFacts,
    /// Divisor of its values.
    pub(crate) divisor: f64,
    /// Sum of everything that passes the filters.
    pub(crate) total: RunSum,
    /// Weight of all samples, whatever the filters.
    pub(crate) whole: f64,
}

/// A row in one run.
#[derive(Debug)]
struct RunCell {
    run: u32,
    own: RunSum,
    total: RunSum,
}

/// Slices of the only run of a side.
#[derive(Debug)]
struct Slices {
    blocks: Blocks,
    total: Vec<f64>,
    own: FxHashMap<u32, Vec<f64>>,
    rows: FxHashMap<u32, Vec<f64>>,
    is_share: bool,
}

/// A value of a row in all runs of a side.
#[derive(Debug, Default)]
pub(crate) struct SideValues {
    /// Value in each run, divided: as recorded, and with the longest waits cut.
    values: Vec<[f64; 2]>,
    weight: f64,
    count: f64,
    variance: f64,
}

/// The runs of one side.
#[derive(Debug)]
pub(crate) struct DiffSide {
    /// Runs of the side.
    pub(crate) runs: Vec<SideRun>,
    cells: Vec<Vec<RunCell>>,
    is_sampled: bool,
    /// The values are those of one moment, so that there is no spread within a recording: only the error of sampling.
    is_of_moment: bool,
    slices: Option<Slices>,
}

impl DiffSide {
    /// Takes the runs of the base (0) or the new side (1) and numbers their rows. `paths` is called for each run, with
    /// its row numbers and the scale for its weights.
    pub(crate) fn new(
        side: usize,
        runs: Vec<RunSums>,
        measure: &Measure,
        numbers: &mut RowNumbers,
        mut paths: impl FnMut(usize, &RunSums, &[u32], f64),
    ) -> Self {
        let mut made = DiffSide {
            runs: Vec::with_capacity(runs.len()),
            cells: Vec::new(),
            is_sampled: measure.event.is_sampled,
            is_of_moment: measure.event.is_memory(),
            slices: None,
        };
        let is_single = runs.len() == 1;
        let scale = 1.0 / runs.len().max(1) as f64;
        for (at, mut run) in runs.into_iter().enumerate() {
            let divisor = measure.divisor(side, &run);
            let rows = std::mem::take(&mut run.rows);
            let mut number_of = Vec::with_capacity(rows.len());
            for row in rows {
                let number = numbers.number(row.label);
                let needed = (number as usize + 1).max(made.cells.len());
                made.cells.resize_with(needed, Vec::new);
                let (own, total) = (row.own, row.total);
                made.cells[number as usize].push(RunCell { run: at as u32, own, total });
                number_of.push(number);
            }
            paths(side, &run, &number_of, scale / divisor);
            if is_single && !made.is_of_moment {
                made.slices = Slices::of(&run, &number_of, measure);
            }
            let RunSums { facts, total, whole, .. } = run;
            made.runs.push(SideRun { facts, divisor, total, whole });
        }
        made
    }

    /// Blocks of slices, if the spread is that within one recording.
    pub(crate) fn blocks(&self) -> Option<Blocks> {
        self.slices.as_ref().map(|slices| slices.blocks)
    }

    /// The value of a row in all runs. Waits longer than 999 of 1,000 in `lengths` are cut.
    pub(crate) fn values(&self, row: u32, value: RowValue, lengths: &WaitLengths) -> SideValues {
        let cells = self.cells.get(row as usize).map_or(&[][..], Vec::as_slice);
        let sums = cells.iter().map(|cell| (cell.run, cell.sum(value)));
        self.collected(sums, lengths)
    }

    /// The total in all runs.
    pub(crate) fn values_of_total(&self) -> SideValues {
        let sums = self.runs.iter().enumerate().map(|(at, run)| (at as u32, &run.total));
        self.collected(sums, &WaitLengths::default())
    }

    fn collected<'s>(
        &self,
        sums: impl Iterator<Item = (u32, &'s RunSum)>,
        lengths: &WaitLengths,
    ) -> SideValues {
        let cap = lengths.cap();
        let mut values = SideValues { values: vec![[0.0; 2]; self.runs.len()], ..SideValues::default() };
        for (run, sum) in sums {
            let excess = cap.zip(sum.lengths.as_deref()).map_or(0.0, |(cap, lengths)| lengths.excess(cap));
            let divisor = self.runs[run as usize].divisor;
            let value = &mut values.values[run as usize];
            // Two rows of a run can have the same identity.
            value[0] += sum.weight / divisor;
            value[1] += (sum.weight - excess).max(0.0) / divisor;
            values.weight += sum.weight;
            values.count += sum.count;
            values.variance += sum.variance;
        }
        values
    }

    /// Adds the lengths of the waits of a row.
    pub(crate) fn add_lengths(&self, row: u32, value: RowValue, lengths: &mut WaitLengths) {
        for cell in self.cells.get(row as usize).into_iter().flatten() {
            if let Some(own) = &cell.sum(value).lengths {
                lengths.merge(own);
            }
        }
    }

    /// The mean and the estimate of a value. `unit` is the weight of one sample or wait. `floor` is added to every run;
    /// it is nonzero if some run on either side has no samples, so that the logarithm exists. `row` is `None` for the
    /// total.
    pub(crate) fn observed(
        &self,
        row: Option<(u32, RowValue)>,
        values: &SideValues,
        [unit, floor]: [f64; 2],
    ) -> Observed {
        let all: f64 = self.runs.iter().map(|run| run.total.count).sum();
        let share = if row.is_none() || all == 0.0 { 1.0 } else { (values.count / all).min(1.0) };
        let count = values.count + 0.5 * self.runs.len() as f64;
        // Variance of binomial samples.
        let chance = if self.is_sampled { (1.0 - share).max(0.0) / count } else { 0.0 };
        let estimate = match (self.runs.as_slice(), &self.slices) {
            ([run], _) if self.is_of_moment => {
                let log = (values.values[0][1] + floor / run.divisor).ln();
                let spread = values.variance / (values.weight + floor).powi(2);
                let estimate = Estimate::bounded(log, spread.max(LEAST_SPREAD), MANY, 0.0);
                log.is_finite().then_some(estimate)
            }
            ([], _) | ([_], None) => None,
            ([run], Some(slices)) => {
                let log = values.values[0][1] + floor / run.divisor;
                let spread = slices.relative_variance(row, values.weight + floor, unit, share);
                let estimate = Estimate::bounded(log.ln(), spread, slices.blocks.freedom(), chance);
                log.is_finite().then_some(estimate).filter(|_| log > 0.0)
            }
            (runs, _) => {
                let floored = |(value, run): (&[f64; 2], &SideRun)| value[1] + floor / run.divisor;
                let floored: Vec<f64> = values.values.iter().zip(runs).map(floored).collect();
                let is_positive = floored.iter().all(|value| value.is_finite() && *value > 0.0);
                is_positive.then(|| Estimate::of_runs(&floored, chance)).flatten()
            }
        };
        Observed { mean: values.mean(), estimate }
    }
}

impl SideValues {
    /// Mean over the runs.
    pub(crate) fn mean(&self) -> f64 {
        self.values.iter().map(|value| value[0]).sum::<f64>() / self.values.len().max(1) as f64
    }

    /// Whether some run has no samples.
    pub(crate) fn has_gap(&self) -> bool {
        self.values.iter().any(|value| value[1] <= 0.0)
    }

    /// Value of each run.
    pub(crate) fn by_run(&self) -> impl Iterator<Item = f64> {
        self.values.iter().map(|value| value[0])
    }

    /// Sum of the weights, and number of samples or waits.
    pub(crate) fn sums(&self) -> [f64; 2] {
        [self.weight, self.count]
    }
}

impl RunCell {
    fn sum(&self, value: RowValue) -> &RunSum {
        match value {
            RowValue::Own => &self.own,
            RowValue::Total => &self.total,
        }
    }
}

impl Slices {
    fn of(run: &RunSums, number_of: &[u32], measure: &Measure) -> Option<Self> {
        let table = run.slices.as_ref()?;
        let is_share = measure.per == Per::Share;
        let unit = run.total.weight / run.total.count.max(1.0);
        let quantity = |(_, series): (&u32, &Vec<f64>)| {
            let sum: f64 = series.iter().sum();
            let share = if run.total.weight > 0.0 { sum / run.total.weight } else { 0.0 };
            (deviations(series, &table.total, is_share), unit * sum * (1.0 - share).max(0.0))
        };
        let mut quantities: Vec<(Vec<f64>, f64)> = table.own.iter().map(quantity).collect();
        // A program with a single function has only its total.
        quantities.retain(|(_, chance)| *chance > 0.0);
        if quantities.is_empty() {
            quantities.push((deviations(&table.total, &table.total, false), unit * run.total.weight));
        }
        // Sums of floating point numbers depend on the order, and that of a hash table is arbitrary.
        quantities.sort_by(|a, b| {
            a.1.total_cmp(&b.1).then_with(|| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal))
        });
        let blocks = Blocks::choose(&quantities)?;
        let renumbered = |rows: &FxHashMap<u32, Vec<f64>>| {
            rows.iter().map(|(row, series)| (number_of[*row as usize], series.clone())).collect()
        };
        Some(Slices {
            blocks,
            total: table.total.clone(),
            own: renumbered(&table.own),
            rows: renumbered(&table.rows),
            is_share,
        })
    }

    /// Variance of the sum of a value, relative to the square of the sum.
    fn relative_variance(&self, row: Option<(u32, RowValue)>, sum: f64, unit: f64, share: f64) -> f64 {
        let series = match row {
            None => Some(&self.total),
            Some((row, RowValue::Own)) => self.own.get(&row),
            Some((row, RowValue::Total)) => self.rows.get(&row),
        };
        let variance = match series {
            Some(series) => {
                let deviations = deviations(series, &self.total, self.is_share && row.is_some());
                self.blocks.variance_of_sum(&deviations)
            }
            // Too small to be sliced; assumed to be as bursty as the others.
            None => unit * sum * (1.0 - share).max(0.0) * self.blocks.design.max(1.0),
        };
        variance / sum.powi(2)
    }
}

/// Deviation of each slice from its expectation: for shares the row's share of the slice's total, else the mean over
/// all slices.
fn deviations(series: &[f64], total: &[f64], is_share: bool) -> Vec<f64> {
    let sum: f64 = series.iter().sum();
    let whole: f64 = total.iter().sum();
    if is_share && whole > 0.0 {
        let share = sum / whole;
        return series.iter().zip(total).map(|(value, total)| value - share * total).collect();
    }
    let mean = sum / series.len().max(1) as f64;
    series.iter().map(|value| value - mean).collect()
}
