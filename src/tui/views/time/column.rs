//! One column of a stacked picture: which state of the threads fills which eighth of which line.

use crate::report::TimelineState;

/// Eighths of a line, the steps of a bar.
pub(super) const EIGHTHS: usize = 8;

/// Content of one line of a column. A terminal has two colours for such a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cell {
    /// The state at the bottom of the line, and how many eighths of it it fills.
    pub(super) lower: Option<(TimelineState, usize)>,
    /// The state that fills the rest.
    pub(super) upper: Option<TimelineState>,
}

/// The lines of a column, the lowest first: `parts`, with the lowest first, lie on each other; `full` of them fills all
/// `lines`. What is there has an eighth at least.
pub(super) fn cells(parts: &[(TimelineState, u64)], full: u64, lines: usize) -> Vec<Cell> {
    let whole = lines * EIGHTHS;
    let mut sum = 0u128;
    let mut spans = Vec::with_capacity(parts.len());
    let mut from = 0;
    for (state, weight) in parts.iter().filter(|(_, weight)| *weight > 0) {
        sum += u128::from(*weight);
        let full = u128::from(full.max(1));
        let to = usize::try_from((2 * sum * whole as u128 + full) / (2 * full)).unwrap_or(whole).min(whole);
        spans.push((*state, *weight, from..to));
        from = to;
    }
    if from == 0
        && let Some((state, weight, _)) = spans.iter().max_by_key(|(_, weight, _)| *weight).cloned()
        && whole > 0
    {
        spans = vec![(state, weight, 0..1)];
    }
    (0..lines).map(|line| cell(&spans, line * EIGHTHS)).collect()
}

/// The line whose lowest eighth is `start`.
fn cell(spans: &[(TimelineState, u64, std::ops::Range<usize>)], start: usize) -> Cell {
    let mut here: Vec<(TimelineState, usize)> = Vec::new();
    for (state, _, span) in spans {
        let eighths = span.end.min(start + EIGHTHS).saturating_sub(span.start.max(start));
        if eighths > 0 {
            here.push((*state, eighths));
        }
    }
    let filled: usize = here.iter().map(|(_, eighths)| eighths).sum();
    let empty = EIGHTHS - filled;
    // Two colours: the two that take the most, or the one that takes the most and nothing.
    while here.len() > 2 {
        let least = (0..here.len()).min_by_key(|at| here[*at].1).unwrap_or(0);
        here.remove(least);
    }
    match here[..] {
        [] => Cell::default(),
        [(state, _)] => Cell { lower: Some((state, filled)), upper: None },
        [lower, upper] if empty < upper.1.min(lower.1) => {
            let eighths = lower.1 * EIGHTHS / (lower.1 + upper.1);
            Cell { lower: Some((lower.0, eighths.max(1))), upper: Some(upper.0) }
        }
        [lower, upper, ..] => {
            let state = if upper.1 > lower.1 { upper.0 } else { lower.0 };
            Cell { lower: Some((state, filled)), upper: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Reason;
    use proptest::prelude::*;

    const RUNS: TimelineState = TimelineState::Running;
    const WANTS: TimelineState = TimelineState::NoCpu;
    const LOCK: TimelineState = TimelineState::Blocked(Reason::Lock);

    fn lower(state: TimelineState, eighths: usize) -> Cell {
        Cell { lower: Some((state, eighths)), upper: None }
    }

    #[test]
    fn states_lie_on_each_other() {
        let cells = |parts: &[(TimelineState, u64)], lines| cells(parts, 32, lines);
        assert_eq!(cells(&[], 2), [Cell::default(); 2]);
        assert_eq!(cells(&[(RUNS, 32)], 2), [lower(RUNS, 8), lower(RUNS, 8)]);
        assert_eq!(cells(&[(RUNS, 16), (LOCK, 16)], 2), [lower(RUNS, 8), lower(LOCK, 8)]);
        let both = Cell { lower: Some((RUNS, 4)), upper: Some(LOCK) };
        assert_eq!(cells(&[(RUNS, 8), (LOCK, 16)], 2), [both, lower(LOCK, 4)]);
        assert_eq!(cells(&[(RUNS, 12), (LOCK, 20)], 1), [Cell { lower: Some((RUNS, 3)), upper: Some(LOCK) }]);
        // A third one in one line gives way.
        assert_eq!(
            cells(&[(RUNS, 12), (WANTS, 4), (LOCK, 16)], 1),
            [Cell { lower: Some((RUNS, 3)), upper: Some(LOCK) }]
        );
        // Where half of the line is empty, there is one colour.
        assert_eq!(cells(&[(RUNS, 12), (LOCK, 4)], 1), [lower(RUNS, 4)]);
        // What is there is seen.
        assert_eq!(cells(&[(RUNS, 0), (LOCK, 1)], 2), [lower(LOCK, 1), Cell::default()]);
        // More than fits.
        assert_eq!(cells(&[(RUNS, 100)], 1), [lower(RUNS, 8)]);
    }

    proptest! {
        #[test]
        fn a_column_is_as_high_as_its_sum(runs in 0u64..1_000, wants in 0u64..1_000, locks in 0u64..1_000, lines in 1usize..6) {
            let (sum, full) = (runs + wants + locks, 3_000);
            let found = cells(&[(RUNS, runs), (WANTS, wants), (LOCK, locks)], full, lines);
            prop_assert_eq!(found.len(), lines);
            let height: usize = found.iter().map(|cell| match cell.upper {
                Some(_) => EIGHTHS,
                None => cell.lower.map_or(0, |(_, eighths)| eighths),
            }).sum();
            let due = sum as f64 * (lines * EIGHTHS) as f64 / full as f64;
            // A line of two colours is full.
            prop_assert!((height as f64 - due).abs() <= 4.5, "{height} of {due}: {found:?}");
            prop_assert!(sum == 0 || height > 0);
        }
    }
}
