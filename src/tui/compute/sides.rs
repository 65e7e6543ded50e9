//! The two sides of a comparison on the screen: which recordings, and which of their samples.

use super::seen::Seen;
use crate::base::failure::Failure;
use crate::diff::{Comparison, PairSide, compare};
use crate::report::{Analysis, CommonOptions, ThreadSplit};
use crate::tui::app::diff_base::{DiffBase, range_words};
use crate::tui::app::query::Query;
use std::sync::Arc;

/// The two sides of a comparison: the base, then the new side.
#[derive(Debug, Clone)]
pub(crate) struct ChangeSides {
    recordings: [Seen; 2],
    pub(super) options: [CommonOptions; 2],
    names: [String; 2],
    /// The side that the picture is of.
    pub(super) shown: usize,
}

impl ChangeSides {
    /// The sides of `query`, if it has a base; the new side is of `newest`.
    pub(crate) fn of(newest: &Arc<Analysis>, query: &Query) -> Option<Self> {
        let new = query.options(newest.profile.duration_ns());
        let (recording, base, names) = match query.base.as_ref()? {
            DiffBase::Recording(base, name) => {
                let options = query.options(base.0.profile.duration_ns());
                (base.clone(), options, [name.clone(), query.common.input.words()])
            }
            DiffBase::Range(range) => {
                let mut options = new.clone();
                options.filter.time = *range;
                (Seen(Arc::clone(newest)), options, [range_words(*range), range_words(new.filter.time)])
            }
        };
        let recordings = [recording, Seen(Arc::clone(newest))];
        Some(ChangeSides { recordings, options: [base, new], names, shown: usize::from(!query.shows_base) })
    }

    /// The recording that the picture is of, and which of its samples.
    pub(crate) fn shown(&self) -> (&Arc<Analysis>, &CommonOptions) {
        (&self.recordings[self.shown].0, &self.options[self.shown])
    }

    /// The other recording, and which of its samples.
    pub(super) fn other(&self) -> (&Arc<Analysis>, &CommonOptions) {
        (&self.recordings[1 - self.shown].0, &self.options[1 - self.shown])
    }

    /// Whether what functions and threads cost is the same as for `before`.
    pub(super) fn has_same_costs(&self, before: &ChangeSides) -> bool {
        self.recordings == before.recordings && self.options == before.options
    }

    /// Compares their functions, or with `threads` their threads, merged so.
    ///
    /// # Errors
    ///
    /// When one of them lacks the metric.
    pub(super) fn compare(&self, threads: Option<ThreadSplit>) -> Result<Comparison, Failure> {
        let side = |side: usize| PairSide {
            recording: &self.recordings[side].0,
            common: &self.options[side],
            file: &self.names[side],
        };
        compare([side(0), side(1)], threads)
    }
}
