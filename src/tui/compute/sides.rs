//! The two sides of a comparison on the screen: which recordings, and which of their samples.

use super::modules::FollowedModules;
use crate::base::failure::Failure;
use crate::diff::{Comparison, DiffOptions, PairSide, PrintedDiff, RowLabel, compare, render};
use crate::report::{
    Analysis, CommonOptions, HeapPart, Label, LabelId, Seen, Selection, ThreadFilter, ThreadSplit, label_of,
    module_file,
};
use crate::tui::app::diff_base::{DiffBase, range_words};
use crate::tui::app::query::Query;
use std::sync::Arc;

/// The two sides of a comparison: the base, then the new side.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChangeSides {
    recordings: [Seen; 2],
    pub(super) options: [CommonOptions; 2],
    names: [String; 2],
    /// The modules of the other side, as they are on each.
    modules: [FollowedModules; 2],
    /// They are two ranges of time of one recording.
    is_of_ranges: bool,
    /// The side that the picture is of.
    pub(super) shown: usize,
}

/// The blocks of the base, where a comparison is of the heap.
#[derive(Debug, Clone)]
pub(crate) struct HeapBase {
    part: HeapPart,
    options: CommonOptions,
    names: [String; 2],
}

impl HeapBase {
    /// The blocks that the base of `query` is of, if it has one: those of the other recording, or what the heap of `newest` grew by
    /// in the other range of time. `before` is what was shown before.
    ///
    /// # Errors
    ///
    /// As of [`HeapPart::of`].
    pub(super) fn of(
        newest: &Arc<Analysis>,
        query: &Query,
        before: Option<&HeapBase>,
    ) -> Result<Option<Self>, Failure> {
        let mut options = query.common.clone();
        let (recording, names) = match &query.base {
            None => return Ok(None),
            Some(DiffBase::Recording(base, name)) => (&base.0, [name.clone(), query.common.input.words()]),
            Some(DiffBase::Range(range)) => {
                options.filter.time = *range;
                (newest, [range_words(*range), range_words(query.common.filter.time)])
            }
        };
        let part = HeapPart::of(recording, &options, before.map(|before| &before.part))?;
        Ok(part.map(|(part, options)| HeapBase { part, options, names }))
    }
}

/// Which of several functions of the other side has the place of one is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeveralTwins;

impl ChangeSides {
    /// The sides of `query`, if it has a base; the new side is of `newest`. Of a comparison of the heap, `heap` is the base.
    pub(crate) fn of(newest: &Arc<Analysis>, query: &Query, heap: Option<&HeapBase>) -> Option<Self> {
        let new = query.options(newest.profile.duration_ns());
        let (recording, base, names) = match (query.base.as_ref()?, heap) {
            (_, Some(HeapBase { part, options, names })) => {
                (Seen(Arc::clone(part.blocks())), options.clone(), names.clone())
            }
            (DiffBase::Recording(base, name), None) => {
                let options = query.options(base.0.profile.duration_ns());
                (base.clone(), options, [name.clone(), query.common.input.words()])
            }
            (DiffBase::Range(range), None) => {
                let mut options = new.clone();
                options.filter.time = *range;
                (Seen(Arc::clone(newest)), options, [range_words(*range), range_words(new.filter.time)])
            }
        };
        let [there, here] = [&recording.0.profile, &newest.profile];
        let modules = match query.base {
            Some(DiffBase::Recording(..)) => {
                [FollowedModules::new(here, there), FollowedModules::new(there, here)]
            }
            _ => Default::default(),
        };
        let recordings = [recording, Seen(Arc::clone(newest))];
        let mut options = [base, new];
        // Filters were chosen on either side.
        for (options, modules) in options.iter_mut().zip(&modules) {
            modules.follow_in(&mut options.filter);
        }
        let shown = usize::from(!query.shows_base);
        let is_of_ranges = matches!(query.base, Some(DiffBase::Range(_)));
        Some(ChangeSides { recordings, options, names, modules, is_of_ranges, shown })
    }

    /// The modules of the other side, as they are on the side that the picture is of.
    pub(super) fn modules(&self) -> &FollowedModules {
        &self.modules[self.shown]
    }

    /// The recording that the picture is of, and which of its samples.
    pub(crate) fn shown(&self) -> (&Arc<Analysis>, &CommonOptions) {
        (&self.recordings[self.shown].0, &self.options[self.shown])
    }

    /// The other recording, and which of its samples.
    pub(super) fn other(&self) -> (&Arc<Analysis>, &CommonOptions) {
        (&self.recordings[1 - self.shown].0, &self.options[1 - self.shown])
    }

    /// Whether they are two ranges of time of one recording.
    pub(crate) fn is_of_ranges(&self) -> bool {
        self.is_of_ranges
    }

    /// Name of a side: its file, or its range of time. Foreign text.
    pub(crate) fn words(&self, side: usize) -> &str {
        module_file(&self.names[side])
    }

    /// Note on filters that mean something on one side only.
    pub(super) fn note(&self) -> Option<String> {
        let is_of_ids = |filter: &ThreadFilter| match filter {
            ThreadFilter::Ids(_) | ThreadFilter::OfProcesses(_) => true,
            ThreadFilter::Row(row) => row.tid.is_some() || row.pid.is_some(),
            _ => false,
        };
        let has_ids = self.shown().1.filter.threads.iter().any(is_of_ids);
        (has_ids && !self.is_of_ranges()).then(|| {
            "a filter on ids of threads or processes keeps nothing of the other run, where they differ"
                .to_owned()
        })
    }

    /// The parts of both sides that a view shows, which of the side that is shown are those of `options`.
    pub(crate) fn narrowed(&self, options: CommonOptions) -> Self {
        let mut sides = self.clone();
        let (shown, other) = (self.shown, 1 - self.shown);
        let mut others = options.clone();
        self.modules[other].follow_in(&mut others.filter);
        if self.is_of_ranges() {
            others.filter.time = self.options[other].filter.time;
        }
        (sides.options[shown], sides.options[other]) = (options, others);
        sides
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
        compare(self.pair(), threads)
    }

    /// Renders the sides as `prof diff` does with these options: their functions and paths, or with `threads` their threads,
    /// merged so.
    ///
    /// # Errors
    ///
    /// As [`ChangeSides::compare`], and when there is nothing to write.
    pub(super) fn render(
        &self,
        threads: Option<ThreadSplit>,
        options: &DiffOptions,
    ) -> anyhow::Result<PrintedDiff> {
        render(self.pair(), threads, options)
    }

    /// The label that a label of the shown side has on the other, of which the samples are `other`: in the module that stands
    /// for its own there, else the function of that name in a module with that file name. Code without a name is found by its
    /// address only.
    ///
    /// # Errors
    ///
    /// When several functions have that name, in modules with that file name.
    pub(super) fn twin(&self, label: &Label, other: &Selection<'_>) -> Result<Option<LabelId>, SeveralTwins> {
        let key = label.key();
        let key = self.modules[1 - self.shown].key(&key);
        let exact = label_of(other.profile, &other.labels, &other.quality.samples_of_frame, &key);
        if exact.is_some() || label.address.is_some() {
            return Ok(exact);
        }
        let key = RowLabel::of(label).key;
        let mut found = other.labels.ids().filter(|id| RowLabel::of(other.labels.get(*id)).key == key);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(SeveralTwins),
            (first, _) => Ok(first),
        }
    }

    /// The base and the new side.
    pub(super) fn pair(&self) -> [PairSide<'_>; 2] {
        [0, 1].map(|side: usize| PairSide {
            recording: &self.recordings[side].0,
            common: &self.options[side],
            file: &self.names[side],
        })
    }
}
