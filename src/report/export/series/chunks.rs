//! Parts of a batch, each small enough for a server. Rows are never cut, so the sums of all parts are those of the whole.

use super::batch::SeriesBatch;
use std::ops::Range;

/// Most samples of a profile: what servers take.
const MOST_SAMPLES: usize = 16_000;

/// Rows of a series that are sent as one profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeriesChunk {
    /// Index of the series.
    pub(crate) series: usize,
    /// Its rows.
    pub(crate) rows: Range<usize>,
}

impl SeriesBatch {
    /// All of it, in profiles of no more samples than servers take.
    pub(crate) fn chunks(&self) -> Vec<SeriesChunk> {
        let mut chunks = Vec::new();
        for (series, sent) in self.series.iter().enumerate() {
            for start in (0..sent.rows.len()).step_by(MOST_SAMPLES) {
                chunks.push(SeriesChunk { series, rows: start..sent.rows.len().min(start + MOST_SAMPLES) });
            }
        }
        chunks
    }

    /// All of it, a profile for each series.
    pub(super) fn whole(&self) -> Vec<SeriesChunk> {
        let whole = |(series, sent): (usize, &super::batch::SentSeries)| SeriesChunk {
            series,
            rows: 0..sent.rows.len(),
        };
        self.series.iter().enumerate().map(whole).collect()
    }
}

/// Two parts that are `chunks` together; `None` of what cannot be divided.
pub(crate) fn halves(chunks: &[SeriesChunk]) -> Option<[Vec<SeriesChunk>; 2]> {
    if chunks.len() > 1 {
        let (first, second) = chunks.split_at(chunks.len() / 2);
        return Some([first.to_vec(), second.to_vec()]);
    }
    let SeriesChunk { series, rows } = chunks.first()?.clone();
    let middle = rows.start + rows.len() / 2;
    let half = |rows| vec![SeriesChunk { series, rows }];
    (rows.len() > 1).then(|| [half(rows.start..middle), half(middle..rows.end)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_whole() {
        let chunk = |series, rows| SeriesChunk { series, rows };
        let mut parts = vec![vec![chunk(0, 0..5), chunk(1, 0..1), chunk(2, 3..4)]];
        let mut single = Vec::new();
        while let Some(part) = parts.pop() {
            match halves(&part) {
                Some(halves) => parts.extend(halves.into_iter().rev()),
                None => single.extend(part),
            }
        }
        let rows: Vec<(usize, usize)> = single.iter().map(|chunk| (chunk.series, chunk.rows.start)).collect();
        assert_eq!(rows, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (2, 3)]);
        assert!(single.iter().all(|chunk| chunk.rows.len() == 1) && halves(&[]).is_none());
    }
}
