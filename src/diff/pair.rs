//! Two recordings in memory, or two parts of one, compared.

use super::comparison::{Comparison, compare_parts_of};
use super::difference::Difference;
use super::options::DiffOptions;
use super::print::output::{self, PrintedDiff, page_of_file};
use super::sums::run::{PathSums, RunOptions, RunSums};
use crate::base::failure::Failure;
use crate::report::{Analysis, CommonOptions, Group, Selection, Step, ThreadSplit};
use rustc_hash::FxHashMap;

/// One side of a comparison: a recording, or the part of it that passes filters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PairSide<'r> {
    /// The recording.
    pub(crate) recording: &'r Analysis,
    /// Which of its samples count.
    pub(crate) common: &'r CommonOptions,
    /// Name of its file. Foreign text.
    pub(crate) file: &'r str,
}

/// Compares the functions of the base and of the new side, or with `threads` their threads, merged so.
///
/// # Errors
///
/// Status 3 when one of them lacks the metric, status 1 when their events differ; a usage error for a bad pattern.
pub(crate) fn compare(sides: [PairSide<'_>; 2], threads: Option<ThreadSplit>) -> Result<Comparison, Failure> {
    compared(sides, threads, PathSums::None)
}

/// Renders what `prof diff` writes into a file with these options: of the functions and paths of both sides, or with
/// `threads` of their threads, merged so.
///
/// # Errors
///
/// As [`compare`]; status 3 when no sample of either side passes, and when there is nothing to draw.
pub(crate) fn render(
    sides: [PairSide<'_>; 2],
    threads: Option<ThreadSplit>,
    options: &DiffOptions,
) -> anyhow::Result<PrintedDiff> {
    let paths = if threads.is_none() { options.path_sums() } else { PathSums::None };
    let comparison = compared(sides, threads, paths)?;
    comparison.check_has_some(&options.common.filter)?;
    output::render(&comparison, &[], options, &page_of_file(options))
}

/// Cost of each part of a side.
pub(crate) struct PartSums(RunSums);

impl PartSums {
    /// Sums up `selection`, which was made of the recording and the options of `side`. `parts` fills a list with the numbers of
    /// the parts that samples of a path and group are in, each once, from the whole to the smallest, in which they end; with
    /// `has_threads` those of one path may be in other parts if they are of another thread. Both sides give one number to what
    /// is compared.
    pub(crate) fn of(
        side: PairSide<'_>,
        selection: &Selection<'_>,
        has_threads: bool,
        parts: impl FnMut(&[Step], &Group, &mut Vec<u64>),
    ) -> Self {
        let PairSide { recording, common, file } = side;
        PartSums(RunSums::of_parts(
            selection,
            (recording, common),
            file.to_owned(),
            (has_threads, true),
            parts,
        ))
    }
}

/// Compares the parts of the base and of the new side, which should be large enough to be tested: differences by number, of all
/// samples in the part.
///
/// # Errors
///
/// Status 1 when the events of the sides differ.
pub(crate) fn compare_parts(sides: [PartSums; 2]) -> Result<FxHashMap<u64, Difference>, Failure> {
    compare_parts_of(sides.map(|side| vec![side.0]), None, |_| true)
}

fn compared(
    sides: [PairSide<'_>; 2],
    threads: Option<ThreadSplit>,
    paths: PathSums,
) -> Result<Comparison, Failure> {
    let sums = |side: PairSide<'_>| {
        let run = RunOptions { common: side.common, paths, slices: true, threads };
        RunSums::of(side.recording, side.file.to_owned(), &run).map(|sums| vec![sums])
    };
    let [base, new] = sides;
    let (base, new) = rayon::join(|| sums(base), || sums(new));
    Comparison::new([base?, new?], None, &[])
}
