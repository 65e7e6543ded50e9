//! Everything that the views draw, computed from one recording and one query. It owns its data, so it outlives both.

use crate::base::failure::Failure;
use crate::report::{
    Amount, Analysis, BoxOf, CallTree, CommonOptions, Direction, FilterOptions, FunctionRow, FunctionTable,
    HeapPart, LabelId, LabelKey, Labels, LighterThreads, LockSheet, Metric, NamedSince, PathStart, Quality,
    SamplesAt, Sandwich, Selection, SourceLine, Step, ThreadFilter, ThreadRow, ThreadSplit, TimeRange,
    Timeline, Totals, has_locks, label_of, thread_rows, thread_rows_with_times,
};
use crate::tui::app::query::{Query, SamplesQuery};
use crate::tui::app::tree_path::{NamedTree, TreePath};
use crate::tui::compute::change::{Change, ChangeOf};
use crate::tui::compute::event_title::EventTitle;
use crate::tui::compute::modules::FollowedModules;
use crate::tui::compute::paths::{Paths, waiting_nodes};
use crate::tui::compute::sides::{ChangeSides, HeapBase};
use crate::tui::compute::source_sheet::SourceSheet;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// A call tree and everything that the views draw of it.
#[derive(Debug)]
pub struct Picture {
    /// The query that the picture answers.
    pub query: Query,
    /// The recording that it was computed from, or the part of that it is of.
    pub(crate) recording: Arc<Analysis>,
    /// That part, where it is of the heap.
    pub(crate) heap: Option<HeapPart>,
    /// The same of what it is compared with.
    pub(crate) heap_base: Option<HeapBase>,
    /// The event.
    pub(crate) event: EventTitle,
    /// The metrics that the recording has, in the order of `m`.
    pub(crate) metrics: Vec<Metric>,
    /// Labels of all nodes and rows below.
    pub(crate) labels: Labels,
    /// Rank of each label in the order of names.
    pub(crate) name_rank: Vec<u32>,
    /// The call tree, with threads as roots unless all threads are merged.
    pub tree: CallTree,
    /// Whether each node holds only waits, by node.
    pub(crate) is_waiting: Vec<bool>,
    /// Number of threads of each label that is a thread name.
    pub(crate) threads_of: FxHashMap<LabelId, u64>,
    /// The threads that share a tree, since a tree for each would be too much.
    pub(crate) lighter_threads: Option<LighterThreads>,
    /// Row of each label in the table, by label.
    row_of: Vec<Option<u32>>,
    /// Number of nodes of each label in the tree, by label.
    pub(crate) places_of: Vec<u32>,
    /// One row for each function.
    pub(crate) table: FunctionTable,
    /// One row for each class of threads, thread or process.
    pub(crate) threads: Vec<ThreadRow>,
    /// Total time of all threads by state, if the recording has waits.
    pub(crate) totals: Option<Totals>,
    /// Weight that passed the filters.
    pub(crate) total: Amount,
    /// Weight of all samples, whatever the filters.
    pub(crate) whole: Amount,
    /// Number of samples and waits that passed the filters, as the report counts them.
    pub(crate) count: u64,
    /// Number of threads, as the report counts them.
    pub(crate) thread_count: u64,
    /// Counts that say how far to trust the picture.
    pub(crate) quality: Quality,
    /// Notes on the recording: what is wrong, how much it matters, how to fix it. Foreign text.
    pub(crate) notes: Vec<String>,
    /// Why there is nothing to show.
    pub(crate) empty: Option<Failure>,
    /// Length of the recording, ns.
    pub(crate) duration_ns: u64,
    /// Share of the frames whose names are still being read, percent.
    pub(crate) to_name_percent: f64,
    /// End of the part of the recording that is rolled up into sums per bucket of time, if the picture includes some of it,
    /// ns.
    pub(crate) rollup_until_ns: Option<u64>,
    /// Callers and callees of the pivot function.
    pub(crate) pivot: Option<Pivot>,
    /// Difference to the base, if the query has one.
    pub(crate) change: Option<Change>,
    /// The source of a function, if asked for.
    pub(crate) source: Option<SourceSheet>,
    /// Times at which threads ran and waited, if that was asked for.
    pub(crate) timeline: Option<Arc<Timeline>>,
    /// The table of locks, if that was asked for.
    pub(crate) locks: Option<LockSheet>,
    /// Whether waits say for which lock they were.
    pub(crate) has_locks: bool,
    /// The listed samples, if the query asks for them.
    pub(crate) samples_at: Option<SamplesAt>,
    /// The modules of the other side of a comparison, as they are here.
    modules: FollowedModules,
}

impl Picture {
    /// Computes a picture.
    ///
    /// # Errors
    ///
    /// Fails for a bad pattern, and for a metric that the recording does not have.
    pub fn new(recording: &Arc<Analysis>, query: &Query) -> Result<Self, Failure> {
        Picture::after(recording, query, None)
    }

    /// Computes a picture, and reuses what has not changed since the previous one.
    ///
    /// # Errors
    ///
    /// The same as for [`Picture::new`].
    pub(crate) fn after(
        recording: &Arc<Analysis>,
        query: &Query,
        before: Option<&Picture>,
    ) -> Result<Self, Failure> {
        let heap_before = before.and_then(|before| before.heap.as_ref());
        let heap = HeapPart::of(recording, &query.common, heap_before)?;
        let Some((heap, common)) = heap else { return Picture::of(recording, query, None, before) };
        let base_before = before.and_then(|before| before.heap_base.as_ref());
        let base = HeapBase::of(recording, query, base_before)?;
        let of_blocks = Query { common, ..query.clone() };
        let picture = Picture::of(heap.blocks(), &of_blocks, base.as_ref(), before)?;
        let metrics = Metric::all_of(&heap.whole().profile);
        Ok(Picture { query: query.clone(), metrics, heap: Some(heap), heap_base: base, ..picture })
    }

    /// The picture of what is recorded, whatever it is.
    fn of(
        recording: &Arc<Analysis>,
        query: &Query,
        base: Option<&HeapBase>,
        before: Option<&Picture>,
    ) -> Result<Self, Failure> {
        let sides = ChangeSides::of(recording, query, base);
        let (recording, options, modules) = shown(recording, sides.as_ref(), query);
        let (timeline, picture) = rayon::join(
            || timeline(recording, query, before),
            || Picture::without_timeline(recording, (sides.as_ref(), options, modules), query, before),
        );
        Ok(Picture { timeline: timeline?, ..picture? })
    }

    /// The same without the timeline, of `recording`, which is one of the `sides` if there are two.
    fn without_timeline(
        recording: &Arc<Analysis>,
        (sides, options, modules): (Option<&ChangeSides>, CommonOptions, FollowedModules),
        query: &Query,
        before: Option<&Picture>,
    ) -> Result<Self, Failure> {
        let mut selection = Selection::new(recording, recording.shown(options.metric)?, &options)?;
        let threads = query.threads();
        let (thread_steps, lighter_threads) = thread_steps(&mut selection, threads, sides.is_some());
        let (totals, selection) = (Totals::of(recording, &options)?, &selection);
        let steps = thread_steps.as_deref();
        let table = || (FunctionTable::new(selection, query.sort), name_ranks(&selection.labels));
        let rows = || rows_of_threads(selection, totals.as_ref(), threads);
        let about = || (rows(), notes(recording, selection, &options));
        let (paths, ((table, name_rank), (threads, mut notes))) =
            rayon::join(|| Paths::of(selection, query, steps), || rayon::join(table, about));
        let source = source(recording, selection, &options, query, &modules)?;
        let pivot = query.pivot.as_ref().and_then(|key| Pivot::new(selection, &modules.key(key)));
        let sandwich = pivot.as_ref().map(|pivot| &pivot.sandwich);
        let of = ChangeOf { selection, tree: &paths.tree, threads: steps, sandwich, source: source.as_ref() };
        let change = change(sides, &of, query, before, &mut notes)?;
        Ok(Picture {
            change,
            modules,
            pivot,
            source,
            timeline: None,
            locks: locks(recording, &options, query, before)?,
            has_locks: has_locks_in(recording, &options),
            samples_at: samples_at(recording, &options, query)?,
            query: query.clone(),
            recording: Arc::clone(recording),
            heap: None,
            heap_base: None,
            event: EventTitle::of(&selection.shown, &recording.profile.meta),
            metrics: Metric::all_of(&recording.profile),
            name_rank,
            is_waiting: paths.is_waiting,
            lighter_threads,
            threads_of: threads_of(selection, steps.unwrap_or_default()),
            row_of: rows_of(&table, selection.labels.len()),
            places_of: paths.places_of,
            tree: paths.tree,
            table,
            threads,
            thread_count: selection.thread_count(totals.as_ref()),
            count: selection.count(),
            totals,
            total: selection.total,
            whole: selection.whole,
            quality: selection.quality.clone(),
            notes,
            empty: selection.total.is_empty().then(|| recording.no_match(selection, &options)),
            duration_ns: recording.profile.duration_ns(),
            to_name_percent: selection.quality.percent_with(&recording.names_to_come),
            rollup_until_ns: rollup_until_ns(recording, options.filter.time),
            labels: selection.labels.clone(),
        })
    }

    /// The recording that it was computed from, also where it is of a part.
    pub(crate) fn whole_recording(&self) -> &Arc<Analysis> {
        self.heap.as_ref().map_or(&self.recording, HeapPart::whole)
    }

    /// Half the width of the 95 % confidence interval of the share of `own` in the total, in percentage points.
    pub(crate) fn error_points(&self, own: Amount) -> f64 {
        own.share_error_points(self.total, self.event.has_waits)
    }

    /// Source line where most of the time of a label was sampled.
    pub(crate) fn source_of(&self, label: LabelId) -> Option<&SourceLine> {
        self.row(label)?.source.as_ref()
    }

    /// The row of a label in the table.
    pub(crate) fn row(&self, label: LabelId) -> Option<&FunctionRow> {
        let row = (*self.row_of.get(label.index())?)?;
        self.table.rows.get(row as usize)
    }

    /// `weight` with its unit, formatted for a column that adds up to the total.
    pub(crate) fn weight_text(&self, weight: u64) -> String {
        crate::base::units::weight(self.event.unit, weight, self.total.weight)
    }

    /// The path of `what`.
    pub(crate) fn path_of(&self, what: &BoxOf) -> TreePath {
        self.named_tree().path_of(what)
    }

    /// The box at `path`, or its nearest ancestor that is in this picture.
    pub(crate) fn find(&self, path: &TreePath) -> BoxOf {
        self.named_tree().find(path)
    }

    /// The label of `key` in this picture.
    pub(crate) fn label_of(&self, key: &LabelKey) -> Option<LabelId> {
        let key = self.modules.key(key);
        label_of(&self.recording.profile, &self.labels, &self.quality.samples_of_frame, &key)
    }

    /// Replaces an address by the function name it has in this picture, if it has one, and the module of the other side of a
    /// comparison by that of this one.
    pub(crate) fn rename(&self, key: &mut LabelKey) {
        self.modules.follow(key);
        if let LabelKey::Address { .. } = key
            && let Some(label) = self.label_of(key)
        {
            *key = self.labels.get(label).key();
        }
    }

    /// The functions at those of `keys` that are addresses and have been named since.
    pub(crate) fn named_since<'k>(&self, keys: impl IntoIterator<Item = &'k LabelKey>) -> NamedSince<'k> {
        NamedSince::new(&self.recording.profile, &self.labels, &self.quality.samples_of_frame, keys)
    }

    /// The call tree with its names.
    pub(crate) fn named_tree(&self) -> NamedTree<'_> {
        let start = match self.query.direction {
            Direction::TopDown => PathStart::Root,
            Direction::BottomUp => PathStart::Leaf,
        };
        self.named(&self.tree, start, false)
    }

    fn named<'p>(&'p self, tree: &'p CallTree, start: PathStart, has_middle: bool) -> NamedTree<'p> {
        NamedTree {
            tree,
            labels: &self.labels,
            profile: &self.recording.profile,
            samples_of_frame: &self.quality.samples_of_frame,
            start,
            has_middle,
            modules: &self.modules,
        }
    }
}

/// Side of the pivot function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Side {
    /// Above the pivot.
    #[default]
    Callers,
    /// Below the pivot.
    Callees,
}

/// One function with its callers and callees.
#[derive(Debug)]
pub(crate) struct Pivot {
    /// Call trees of the callers and of the callees.
    pub(crate) sandwich: Sandwich,
    /// Whether each node of the callees holds only waits, by node.
    pub(crate) is_waiting: Vec<bool>,
}

impl Pivot {
    /// The tree of one side, with the names of its picture.
    pub(crate) fn named<'p>(&'p self, picture: &'p Picture, side: Side) -> NamedTree<'p> {
        match side {
            Side::Callers => picture.named(&self.sandwich.callers, PathStart::Leaf, true),
            Side::Callees => picture.named(&self.sandwich.callees, PathStart::Root, true),
        }
    }

    fn new(selection: &Selection<'_>, key: &LabelKey) -> Option<Self> {
        let samples_of_frame = &selection.quality.samples_of_frame;
        let label = label_of(selection.profile, &selection.labels, samples_of_frame, key)?;
        let sandwich = Sandwich::new(selection, label)?;
        let is_waiting = waiting_nodes(&sandwich.callees, &selection.labels, Direction::TopDown);
        Some(Pivot { sandwich, is_waiting })
    }
}

/// The recording that the picture is of, with its samples counted, the options for it, and the modules of the other side: of one
/// side, if there are two.
fn shown<'r>(
    recording: &'r Arc<Analysis>,
    sides: Option<&'r ChangeSides>,
    query: &Query,
) -> (&'r Arc<Analysis>, CommonOptions, FollowedModules) {
    let (recording, options) = match sides.map(ChangeSides::shown) {
        Some((recording, options)) => (recording, options.clone()),
        None => (recording, query.options(recording.profile.duration_ns())),
    };
    recording.prepare();
    (recording, options, sides.map(|sides| sides.modules().clone()).unwrap_or_default())
}

/// A step for each thread, unless all are merged, and the threads that share one.
fn thread_steps(
    selection: &mut Selection<'_>,
    threads: ThreadSplit,
    is_compared: bool,
) -> (Option<Vec<Step>>, Option<LighterThreads>) {
    let mut steps = (threads != ThreadSplit::None).then(|| selection.thread_steps(threads));
    // Both sides of a comparison have the same threads.
    let to_merge = steps.as_deref_mut().filter(|_| threads == ThreadSplit::Each && !is_compared);
    let lighter = to_merge.and_then(|steps| selection.merge_lighter_threads(steps));
    (steps, lighter)
}

/// Returns the difference of what is shown to the other side, if there is one; adds to `notes` what limits it.
fn change(
    sides: Option<&ChangeSides>,
    of: &ChangeOf<'_, '_>,
    query: &Query,
    before: Option<&Picture>,
    notes: &mut Vec<String>,
) -> Result<Option<Change>, Failure> {
    let Some(sides) = sides else { return Ok(None) };
    let change = Change::new(sides, of, query, before.and_then(|before| before.change.as_ref()))?;
    notes.extend(change.notes());
    Ok(Some(change))
}

/// The source of a function, if the query asks for one.
fn source(
    recording: &Analysis,
    selection: &Selection<'_>,
    options: &CommonOptions,
    query: &Query,
    modules: &FollowedModules,
) -> Result<Option<SourceSheet>, Failure> {
    let key = query.source.as_ref().map(|key| modules.key(key));
    let sheet = key.map(|key| SourceSheet::new(recording, selection, options, &key, &query.source_dirs));
    Ok(sheet.transpose()?.flatten())
}

/// The listed samples, if the query asks for some.
fn samples_at(
    recording: &Analysis,
    options: &CommonOptions,
    query: &Query,
) -> Result<Option<SamplesAt>, Failure> {
    let asked = query.samples_at.as_ref();
    asked.map(|asked| SamplesAt::new(recording, &samples_options(asked, options), MOST_BEHIND)).transpose()
}

/// Limit on the number of listed samples.
const MOST_BEHIND: usize = 1_000;

/// Buckets of a timeline: more than a screen has columns.
const BUCKETS: usize = 960;

/// The timeline of the window, if the query asks for it. The same whichever time range is selected.
fn timeline(
    recording: &Arc<Analysis>,
    query: &Query,
    before: Option<&Picture>,
) -> Result<Option<Arc<Timeline>>, Failure> {
    if !query.timeline {
        return Ok(None);
    }
    let filters_of = |query: &Query| {
        let filter = FilterOptions { time: TimeRange::default(), ..query.common.filter.clone() };
        let CommonOptions { metric, inline, runtime, .. } = query.common;
        (query.window, filter, metric, inline, runtime, query.threads())
    };
    let known = before.filter(|before| {
        Arc::ptr_eq(&before.recording, recording) && filters_of(&before.query) == filters_of(query)
    });
    if let Some(timeline) = known.and_then(|before| before.timeline.clone()) {
        return Ok(Some(timeline));
    }
    let start_ns = query.window.range(recording.profile.duration_ns()).from_ns.unwrap_or(0);
    Timeline::new(recording, &query.common, BUCKETS, start_ns).map(|timeline| Some(Arc::new(timeline)))
}

/// Whether there is a table of locks: not of chains, which are made of waits and leave some over.
fn has_locks_in(recording: &Analysis, options: &CommonOptions) -> bool {
    !options.chains && has_locks(&recording.profile)
}

/// The table of locks, if the query asks for it and there is one.
fn locks(
    recording: &Arc<Analysis>,
    options: &CommonOptions,
    query: &Query,
    before: Option<&Picture>,
) -> Result<Option<LockSheet>, Failure> {
    let Some(by) = query.locks.filter(|_| has_locks_in(recording, options)) else { return Ok(None) };
    let before = before.and_then(|before| before.locks.as_ref());
    LockSheet::new(recording, options, by, before).map(Some)
}

/// Whether part of `time` is rolled up into sums per bucket of time.
fn is_partly_rolled_up(recording: &Analysis, time: TimeRange) -> bool {
    let until_ns = recording.rollup_time().until_ns();
    until_ns.is_some_and(|until_ns| until_ns > time.from_ns.unwrap_or(0))
}

fn rows_of_threads(selection: &Selection<'_>, totals: Option<&Totals>, split: ThreadSplit) -> Vec<ThreadRow> {
    match totals {
        Some(totals) => thread_rows_with_times(selection, totals, split),
        None => thread_rows(selection, split),
    }
}

/// End of the rolled-up part of the recording, if `time` includes some of it.
fn rollup_until_ns(recording: &Analysis, time: TimeRange) -> Option<u64> {
    recording.rollup_time().until_ns().filter(|_| is_partly_rolled_up(recording, time))
}

/// Notes on what is shown.
fn notes(recording: &Analysis, selection: &Selection<'_>, options: &CommonOptions) -> Vec<String> {
    let mut notes = recording.notes(selection, options);
    if is_partly_rolled_up(recording, options.filter.time) {
        notes.extend(recording.rollup_time().note(recording.profile.duration_ns()));
    }
    notes
}

/// The filters for the listed samples.
pub(crate) fn samples_options(asked: &SamplesQuery, options: &CommonOptions) -> CommonOptions {
    let mut options = options.clone();
    options.filter.time = asked.time;
    options.filter.threads.extend(asked.row.clone().map(ThreadFilter::Row));
    options
}

fn name_ranks(labels: &Labels) -> Vec<u32> {
    let mut order: Vec<LabelId> = labels.ids().collect();
    order.sort_by_cached_key(|id| {
        let label = labels.get(*id);
        (label.name.clone(), label.module.clone(), id.index())
    });
    let mut ranks = vec![0; order.len()];
    for (rank, id) in order.iter().enumerate() {
        ranks[id.index()] = rank as u32;
    }
    ranks
}

fn threads_of(selection: &Selection<'_>, steps: &[Step]) -> FxHashMap<LabelId, u64> {
    let mut seen: FxHashSet<(LabelId, u32, u32)> = FxHashSet::default();
    let mut counts: FxHashMap<LabelId, u64> = FxHashMap::default();
    for (id, task) in selection.tasks() {
        let Some(step) = steps.get(id.index()) else { continue };
        if seen.insert((step.label, task.tid, task.generation)) {
            *counts.entry(step.label).or_default() += 1;
        }
    }
    counts
}

fn rows_of(table: &FunctionTable, labels: usize) -> Vec<Option<u32>> {
    let mut rows = vec![None; labels];
    for (number, row) in table.rows.iter().enumerate() {
        rows[row.label.index()] = u32::try_from(number).ok();
    }
    rows
}
