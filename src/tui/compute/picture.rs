//! Everything that the views draw, computed from one recording and one query; owned, so that it outlives both.

use crate::base::failure::Failure;
use crate::profile::{Meta, Unit};
use crate::report::{
    Amount, Analysis, BoxOf, CallTree, CommonOptions, Direction, FilterOptions, FunctionRow, FunctionTable,
    LabelId, LabelKey, LabelKind, Labels, Metric, NamedSince, NodeId, PathStart, Quality, SamplesAt,
    Sandwich, Selection, Shown, SourceLine, Step, ThreadFilter, ThreadRow, ThreadSplit, TimeRange, Timeline,
    Totals, label_of, thread_rows, thread_rows_with_times,
};
use crate::tui::app::query::{Query, SamplesQuery};
use crate::tui::app::tree_path::{NamedTree, TreePath};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Which event is shown, without the recording it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventTitle {
    /// What the weights are: `on-CPU`, `off-CPU`, `wall clock`, `page faults`. Safe to print.
    pub(crate) title: String,
    /// Unit of the weights.
    pub(crate) unit: Unit,
    /// Which events they are.
    pub(crate) metric: Metric,
    /// The word for one sample of it. Safe to print.
    pub(crate) noun: String,
    /// How often samples were taken: ` 999 Hz`.
    pub(crate) rate: String,
    /// Waits are among its samples.
    pub(crate) has_waits: bool,
}

impl EventTitle {
    fn of(shown: &Shown<'_>, meta: &Meta) -> Self {
        EventTitle {
            title: shown.title.to_string(),
            unit: shown.unit,
            metric: shown.metric(),
            noun: shown.noun.to_string(),
            rate: shown.rate(meta).replacen(" at ", " ", 1),
            has_waits: shown.waits.is_some(),
        }
    }
}

/// Where the call tree came from and what the views draw of it.
#[derive(Debug)]
pub struct Picture {
    /// What was asked for.
    pub query: Query,
    /// Of which recording.
    pub(crate) recording: Arc<Analysis>,
    /// The event.
    pub(crate) event: EventTitle,
    /// The metrics that the recording has, in the order of `m`.
    pub(crate) metrics: Vec<Metric>,
    /// Names of everything below.
    pub(crate) labels: Labels,
    /// Place of each label in the order of names.
    pub(crate) name_rank: Vec<u32>,
    /// The call tree, threads in front unless they are all one.
    pub tree: CallTree,
    /// Whether nothing but waits is in a node, by node.
    pub(crate) is_waiting: Vec<bool>,
    /// Threads with each label of a thread name.
    pub(crate) threads_of: FxHashMap<LabelId, u64>,
    /// The row of each label in the table, by label.
    row_of: Vec<Option<u32>>,
    /// In how many places of the tree each label is, by label.
    pub(crate) places_of: Vec<u32>,
    /// One row for each function.
    pub(crate) table: FunctionTable,
    /// One row for each class of threads, thread or process.
    pub(crate) threads: Vec<ThreadRow>,
    /// Where the whole time of all threads went, if the recording has waits.
    pub(crate) totals: Option<Totals>,
    /// Everything that passed the filters.
    pub(crate) total: Amount,
    /// Everything in the events, whatever the filters.
    pub(crate) whole: Amount,
    /// How many samples and waits passed the filters, as the report counts them.
    pub(crate) count: u64,
    /// How many threads there are, as the report counts them.
    pub(crate) thread_count: u64,
    /// How far to trust it.
    pub(crate) quality: Quality,
    /// What is wrong, how much it matters, what would fix it. Foreign text.
    pub(crate) notes: Vec<String>,
    /// Why nothing is left to show.
    pub(crate) empty: Option<Failure>,
    /// Length of the recording, ns.
    pub(crate) duration_ns: u64,
    /// Share of the frames whose names are still being read, percent.
    pub(crate) to_name_percent: f64,
    /// The moment before which only sums of steps of time are left, if that matters for what is shown, ns.
    pub(crate) coarse_until_ns: Option<u64>,
    /// Callers and callees of the function that was asked for.
    pub(crate) pivot: Option<Pivot>,
    /// When threads ran and waited, if that was asked for.
    pub(crate) timeline: Option<Arc<Timeline>>,
    /// The samples that were asked for.
    pub(crate) samples_at: Option<SamplesAt>,
}

impl Picture {
    /// Computes everything.
    ///
    /// # Errors
    ///
    /// For a bad pattern, and for a metric that the recording does not have.
    pub fn new(recording: &Arc<Analysis>, query: &Query) -> Result<Self, Failure> {
        Picture::after(recording, query, None)
    }

    /// The same, with what is as it was in the picture before.
    ///
    /// # Errors
    ///
    /// As for [`Picture::new`].
    pub(crate) fn after(
        recording: &Arc<Analysis>,
        query: &Query,
        before: Option<&Picture>,
    ) -> Result<Self, Failure> {
        let duration_ns = recording.profile.duration_ns();
        let options = query.options(duration_ns);
        recording.count_once();
        let mut selection = Selection::new(recording, recording.shown(options.metric)?, &options)?;
        let empty = selection.total.is_empty().then(|| recording.no_match(&selection, &options));
        let threads = query.threads();
        let thread_steps = (threads != ThreadSplit::None).then(|| selection.thread_steps(threads));
        let totals = Totals::of(recording, &options)?;
        let selection = &selection;
        let ((tree, table), (rows, notes)) = rayon::join(
            || (tree(selection, query, thread_steps.as_deref()), FunctionTable::new(selection, query.sort)),
            || {
                let rows = rows_of_threads(selection, totals.as_ref(), threads);
                (rows, notes(recording, selection, &options))
            },
        );
        let samples_at = (query.samples_at.as_ref())
            .map(|asked| SamplesAt::new(recording, &samples_options(asked, &options), MOST_BEHIND));
        Ok(Picture {
            pivot: query.pivot.as_ref().and_then(|key| Pivot::new(selection, key)),
            timeline: timeline(recording, query, before)?,
            samples_at: samples_at.transpose()?,
            query: query.clone(),
            recording: Arc::clone(recording),
            event: EventTitle::of(&selection.shown, &recording.profile.meta),
            metrics: Metric::all_of(&recording.profile),
            name_rank: name_ranks(&selection.labels),
            is_waiting: waiting_nodes(&tree, &selection.labels, query.direction),
            threads_of: threads_of(selection, thread_steps.as_deref().unwrap_or_default()),
            row_of: rows_of(&table, selection.labels.len()),
            places_of: places_of(&tree, selection.labels.len()),
            tree,
            table,
            threads: rows,
            thread_count: selection.thread_count(totals.as_ref()),
            count: selection.count(),
            totals,
            total: selection.total,
            whole: selection.whole,
            quality: selection.quality.clone(),
            notes,
            empty,
            duration_ns,
            to_name_percent: selection.quality.percent_with(&recording.names_to_come),
            coarse_until_ns: coarse_until_ns(recording, options.filter.time),
            labels: selection.labels.clone(),
        })
    }

    /// Half the width of the 95 % interval around the share that `own` has of the total, in percentage points.
    pub(crate) fn error_points(&self, own: Amount) -> f64 {
        own.share_error_points(self.total, self.event.has_waits)
    }

    /// Where in its source most of the time of a label was seen.
    pub(crate) fn source_of(&self, label: LabelId) -> Option<&SourceLine> {
        self.row(label)?.source.as_ref()
    }

    /// The row of a label in the table.
    pub(crate) fn row(&self, label: LabelId) -> Option<&FunctionRow> {
        let row = (*self.row_of.get(label.index())?)?;
        self.table.rows.get(row as usize)
    }

    /// `weight` with its unit, in a column whose sum is the total.
    pub(crate) fn weight_text(&self, weight: u64) -> String {
        crate::base::units::weight(self.event.unit, weight, self.total.weight)
    }

    /// Where `what` is, by names.
    pub(crate) fn path_of(&self, what: &BoxOf) -> TreePath {
        self.named_tree().spot_of(what)
    }

    /// What is at the end of `path`: as much of the way as there is here.
    pub(crate) fn find(&self, path: &TreePath) -> BoxOf {
        self.named_tree().find(path)
    }

    /// The label that `key` means here.
    pub(crate) fn label_of(&self, key: &LabelKey) -> Option<LabelId> {
        label_of(&self.recording.profile, &self.labels, &self.quality.samples_of_frame, key)
    }

    /// Gives a function that had no name when it was chosen the one that it has here.
    pub(crate) fn rename(&self, key: &mut LabelKey) {
        if let LabelKey::Address { .. } = key
            && let Some(label) = self.label_of(key)
        {
            *key = self.labels.get(label).key();
        }
    }

    /// What is here at those of `keys` that are addresses and have names.
    pub(crate) fn named_since<'k>(&self, keys: impl IntoIterator<Item = &'k LabelKey>) -> NamedSince<'k> {
        NamedSince::new(&self.recording.profile, &self.labels, &self.quality.samples_of_frame, keys)
    }

    /// The tree with its names.
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
        }
    }
}

/// On which side of the function something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Side {
    /// Above.
    #[default]
    Callers,
    /// Below.
    Callees,
}

/// One function with its callers and callees.
#[derive(Debug)]
pub(crate) struct Pivot {
    /// The boxes.
    pub(crate) sandwich: Sandwich,
    /// Whether nothing but waits is in a node of the callees, by node.
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

/// Samples that are listed at most.
const MOST_BEHIND: usize = 1_000;

/// Buckets of a timeline: more than a screen has columns.
const BUCKETS: usize = 960;

/// The timeline of the window, if the query asks for it. It does not depend on the chosen time.
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
        (query.window, filter, query.common.metric, query.common.inline, query.threads())
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

/// Whether only sums of steps are left of a part of `time`.
fn is_partly_rolled_up(recording: &Analysis, time: TimeRange) -> bool {
    let until_ns = recording.rollup_time().until_ns();
    until_ns.is_some_and(|until_ns| until_ns > time.from_ns.unwrap_or(0))
}

/// The call tree, with `threads` in front of their stacks if there are any.
fn tree(selection: &Selection<'_>, query: &Query, threads: Option<&[Step]>) -> CallTree {
    match threads {
        Some(steps) => CallTree::by_thread(selection, query.direction, steps),
        None => CallTree::new(selection, query.direction),
    }
}

fn rows_of_threads(selection: &Selection<'_>, totals: Option<&Totals>, split: ThreadSplit) -> Vec<ThreadRow> {
    match totals {
        Some(totals) => thread_rows_with_times(selection, totals, split),
        None => thread_rows(selection, split),
    }
}

/// The moment before which only sums of steps are left, if it matters for `time`.
fn coarse_until_ns(recording: &Analysis, time: TimeRange) -> Option<u64> {
    recording.rollup_time().until_ns().filter(|_| is_partly_rolled_up(recording, time))
}

/// What is to be known of what is shown.
fn notes(recording: &Analysis, selection: &Selection<'_>, options: &CommonOptions) -> Vec<String> {
    let mut notes = recording.notes(selection, options);
    if is_partly_rolled_up(recording, options.filter.time) {
        notes.extend(recording.rollup_time().note(recording.profile.duration_ns()));
    }
    notes
}

/// The filters for the samples that are listed.
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

/// A wait's stack ends in its reason: what only leads to reasons only waits. Read upwards, what stands on a reason.
fn waiting_nodes(tree: &CallTree, labels: &Labels, direction: Direction) -> Vec<bool> {
    let is_reason: Vec<bool> = labels.iter().map(|label| matches!(label.kind, LabelKind::Wait(_))).collect();
    let mut is_waiting = vec![false; tree.nodes().len()];
    let nodes: Vec<NodeId> = tree.nodes().map(|(id, _)| id).collect();
    match direction {
        Direction::BottomUp => {
            for id in nodes {
                let node = tree.node(id);
                let above = node.parent.is_some_and(|parent| is_waiting[parent.index()]);
                is_waiting[id.index()] = above || is_reason[node.label.index()];
            }
        }
        Direction::TopDown => {
            // Parents come before their children.
            for id in nodes.into_iter().rev() {
                let node = tree.node(id);
                let leads_to_waits = node.own.is_empty()
                    && node.has_children()
                    && tree.children(id).iter().all(|child| is_waiting[child.index()]);
                is_waiting[id.index()] = leads_to_waits || is_reason[node.label.index()];
            }
        }
    }
    is_waiting
}

fn threads_of(selection: &Selection<'_>, steps: &[Step]) -> FxHashMap<LabelId, u64> {
    let mut seen: FxHashSet<(LabelId, u32, u32)> = FxHashSet::default();
    let mut counts: FxHashMap<LabelId, u64> = FxHashMap::default();
    for group in selection.groups() {
        let Some(step) = steps.get(group.task.index()) else { continue };
        let task = selection.profile.tables.task(group.task);
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

fn places_of(tree: &CallTree, labels: usize) -> Vec<u32> {
    let mut places = vec![0u32; labels];
    for (_, node) in tree.nodes() {
        places[node.label.index()] += 1;
    }
    places
}
