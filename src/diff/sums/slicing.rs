//! A recording in slices of time, for the spread within it.

use super::run_row::{RunFacts, RunRow, SampleSort};
use crate::diff::statistics::slices::SLICES;
use crate::report::{CommonOptions, Selection};
use rustc_hash::FxHashMap;

/// Rows with less than this share of the whole are not sliced.
const LEAST_SHARE: f64 = 0.003;

/// Most rows that are sliced, which bounds the memory.
const MOST_ROWS: usize = 4_000;

/// Least number of samples of a busy CPU in a slice, so that few slices are empty.
const LEAST_SAMPLES: f64 = 16.0;

/// Weights of rows in slices of equal length.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SliceTable {
    /// Everything that passes the filters, by slice.
    pub(crate) total: Vec<f64>,
    /// Samples that end in a row, by row number and slice.
    pub(crate) own: FxHashMap<u32, Vec<f64>>,
    /// Samples with a row on their stack, by row number and slice.
    pub(crate) rows: FxHashMap<u32, Vec<f64>>,
}

/// The rows of every path: those on it, and the one that it ends in.
#[derive(Debug, Default)]
pub(crate) struct PathRows {
    of_sort: FxHashMap<SampleSort, u32>,
    paths: Vec<(Vec<u32>, u32)>,
}

impl PathRows {
    /// Records the rows of samples of this sort.
    pub(crate) fn add(&mut self, sort: SampleSort, (rows, end): (&[u32], u32)) {
        if self.paths.last().is_none_or(|(last, last_end)| last != rows || *last_end != end) {
            self.paths.push((rows.to_vec(), end));
        }
        self.of_sort.insert(sort, self.paths.len() as u32 - 1);
    }
}

/// Divides the samples of `selection` into slices; `None` if the recording is too short.
pub(crate) fn slice(
    selection: &Selection<'_>,
    paths: &PathRows,
    rows: &[RunRow],
    common: &CommonOptions,
    facts: &RunFacts,
) -> Option<SliceTable> {
    let from_ns = common.filter.time.from_ns.unwrap_or(0);
    let period_ns = 1e9 / f64::from(facts.rate_hz.max(1));
    let most = if facts.rate_hz == 0 {
        SLICES as f64
    } else {
        facts.duration_ns as f64 / (period_ns * LEAST_SAMPLES)
    };
    let count = SLICES.min(most as usize);
    if count < 2 || facts.duration_ns == 0 {
        return None;
    }
    let whole = selection.total.weight as f64;
    let [own, all] = [|row: &RunRow| row.own.weight, |row: &RunRow| row.total.weight]
        .map(|weight: fn(&RunRow) -> f64| sliced_rows(rows, weight, whole));
    // Stored slice by slice: samples are nearly in the order of time, so the cells they add to stay in the CPU caches.
    let [mut own_cells, mut all_cells] = [&own, &all].map(|places| vec![0.0; places.count * count]);
    let mut total = vec![0.0; count];
    let paths_sliced: Vec<(Vec<u32>, Option<u32>)> = (paths.paths.iter())
        .map(|(rows, end)| (rows.iter().filter_map(|row| all.at(*row)).collect(), own.at(*end)))
        .collect();
    selection.for_each_sample(|_, sample, amount| {
        let sort = (sample.task, sample.stack, sample.outcome, selection.reasons.activity(sample));
        let Some(path) = paths.of_sort.get(&sort) else { return };
        let since_ns = u128::from(sample.time_ns.saturating_sub(from_ns));
        let at = (since_ns * count as u128 / u128::from(facts.duration_ns)).min(count as u128 - 1) as usize;
        let weight = amount.weight as f64;
        total[at] += weight;
        let (rows, end) = &paths_sliced[*path as usize];
        let cells = &mut all_cells[at * all.count..(at + 1) * all.count];
        for row in rows {
            cells[*row as usize] += weight;
        }
        if let Some(end) = end {
            own_cells[at * own.count + *end as usize] += weight;
        }
    });
    Some(SliceTable { total, own: own.into_rows(&own_cells, count), rows: all.into_rows(&all_cells, count) })
}

/// Which rows are sliced, and the place of each in a slice.
struct SlicedRows {
    place: Vec<Option<u32>>,
    count: usize,
}

impl SlicedRows {
    fn at(&self, row: u32) -> Option<u32> {
        self.place.get(row as usize).copied().flatten()
    }

    fn into_rows(self, cells: &[f64], slices: usize) -> FxHashMap<u32, Vec<f64>> {
        let rows =
            self.place.iter().enumerate().filter_map(|(row, place)| Some((row as u32, (*place)? as usize)));
        let slices_of = |place| (0..slices).map(|at| cells[at * self.count + place]).collect();
        rows.map(|(row, place)| (row, slices_of(place))).collect()
    }
}

fn sliced_rows(rows: &[RunRow], weight: fn(&RunRow) -> f64, whole: f64) -> SlicedRows {
    let mut large: Vec<usize> = (0..rows.len())
        .filter(|&row| weight(&rows[row]) > 0.0 && weight(&rows[row]) >= LEAST_SHARE * whole)
        .collect();
    large.sort_by(|a, b| weight(&rows[*b]).total_cmp(&weight(&rows[*a])).then(a.cmp(b)));
    large.truncate(MOST_ROWS);
    let mut place = vec![None; rows.len()];
    large.iter().enumerate().for_each(|(at, row)| place[*row] = Some(at as u32));
    SlicedRows { place, count: large.len() }
}
