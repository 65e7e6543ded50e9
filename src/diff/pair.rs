//! Two recordings in memory, or two parts of one, compared.

use super::comparison::Comparison;
use super::run::{RunSums, RunWishes};
use crate::base::failure::Failure;
use crate::report::{Analysis, CommonOptions, ThreadSplit};

/// What is compared: a recording, or the part of it that passes filters.
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
    let sums = |side: PairSide<'_>| {
        let wishes = RunWishes { common: side.common, paths: false, slices: true, threads };
        RunSums::of(side.recording, side.file.to_owned(), &wishes).map(|sums| vec![sums])
    };
    let [base, new] = sides;
    let (base, new) = rayon::join(|| sums(base), || sums(new));
    Comparison::new([base?, new?], None, &[])
}
