//! Reduces a recording to the sums that a comparison needs, so that its samples can be dropped.

use super::parts::PartRows;
use super::path_finder::PathFinder;
use super::path_parts::PathParts;
use super::rows::{NO_ROW, Rows};
use super::run_row::{RunFacts, RunPath, RunRow, RunSum, SampleSort};
use super::slicing::{PathRows, SliceTable, slice};
use crate::base::failure::Failure;
use crate::diff::row_label::{DiffRowKey, RowLabel};
use crate::diff::statistics::wait_lengths::WaitLengths;
use crate::profile::{End, EventKind, StringId, TaskId, Unit};
use crate::report::{
    Activity, Amount, Analysis, CallTree, ClockPart, CommonOptions, Direction, Group, Grouping, LabelId,
    Metric, Node, NodeId, Selection, Step, ThreadSplit, WaitSite, WaitSites,
};
use rustc_hash::FxHashMap;

/// Sums to compute of call paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathSums {
    /// Paths are not summed up.
    None,
    /// Their costs.
    Costs,
    /// Their costs, and those of large paths with their spread, so that these can be tested.
    Tested,
}

/// Request for what to compute from a recording.
#[derive(Debug, Clone)]
pub(crate) struct RunOptions<'o> {
    /// Samples and frames to include.
    pub(crate) common: &'o CommonOptions,
    /// Sums of call paths; paths have threads in front of them if `common` says which threads are one.
    pub(crate) paths: PathSums,
    /// Whether to compute slices in time, for the spread within the recording.
    pub(crate) slices: bool,
    /// Rows are threads of processes, merged so, instead of what is on stacks.
    pub(crate) threads: Option<ThreadSplit>,
}

/// Event of the weights of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunEvent {
    /// Metric of the event.
    pub(crate) metric: Metric,
    /// Stable name.
    pub(crate) name: String,
    /// Title of the event. Safe to print.
    pub(crate) title: String,
    /// Noun for one sample. Safe to print.
    pub(crate) noun: String,
    /// Unit of the weights.
    pub(crate) unit: Unit,
    /// Whether samples are taken at random, at a rate or one in N events, rather than at each event.
    pub(crate) is_sampled: bool,
    /// Whether waits are among the samples.
    pub(crate) has_waits: bool,
}

impl RunEvent {
    /// Whether it is memory: what was allocated, or is live at a moment.
    pub(crate) fn is_memory(&self) -> bool {
        self.metric == Metric::HEAP
    }
}

/// A recording, reduced to sums.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunSums {
    pub(crate) facts: RunFacts,
    pub(crate) event: RunEvent,
    /// Sum of everything that passes the filters.
    pub(crate) total: RunSum,
    /// Weight of all samples, whatever the filters.
    pub(crate) whole: f64,
    pub(crate) rows: Vec<RunRow>,
    /// Call paths, callers before callees.
    pub(crate) paths: Vec<RunPath>,
    /// The large ones of them as parts, by [`path_key`](super::path_parts::path_key), if they are to be tested.
    pub(crate) path_parts: Option<Box<RunSums>>,
    /// Weights in slices of time, if they were asked for and there are enough samples.
    pub(crate) slices: Option<SliceTable>,
}

impl RunSums {
    /// Sums up a recording.
    ///
    /// # Errors
    ///
    /// Status 3 when the recording lacks the metric; a usage error for a bad pattern. It is not an error if no sample
    /// passes the filters.
    pub(crate) fn of(recording: &Analysis, file: String, options: &RunOptions<'_>) -> Result<Self, Failure> {
        let shown = recording.shown(options.common.metric)?;
        let mut selection = Selection::new(recording, shown, options.common)?;
        let threads = options.threads.map(|split| selection.thread_steps(split));
        let has_paths = options.paths != PathSums::None;
        let in_front = options.common.threads.filter(|split| has_paths && *split != ThreadSplit::None);
        let in_front = in_front.map(|split| selection.thread_steps(split));
        let facts = facts(recording, file.clone(), options.common);
        let mut rows = RowBuilder::new(&selection, threads.as_deref());
        let (total, path_rows) = add_all(&selection, &mut rows, options.slices);
        let slices =
            path_rows.and_then(|paths| slice(&selection, &paths, &rows.rows, options.common, &facts));
        let in_front = in_front.as_deref();
        let paths = if has_paths { call_paths(&selection, in_front, &mut rows) } else { Vec::new() };
        let path_parts = (options.paths == PathSums::Tested).then(|| {
            let parts = PathParts::of(&paths, &rows.rows);
            Box::new(sums_of_paths(&selection, (recording, file), (in_front, &rows), &parts, options))
        });
        let whole = selection.whole.weight as f64;
        let rows = rows.rows;
        Ok(RunSums { event: event(&selection), facts, total, whole, rows, paths, path_parts, slices })
    }

    /// Sums up the samples of `selection`, which was made of `recording` with `common`, by the parts that `parts` says: with it
    /// each path and group comes with an empty list of numbers, which it fills from the whole to the smallest. Unless
    /// `has_threads`, all groups of a path are in the same parts. Rows are called by the numbers
    /// ([`super::parts::number_of_part`]). `slices` says whether to compute slices in time.
    pub(crate) fn of_parts(
        selection: &Selection<'_>,
        (recording, common): (&Analysis, &CommonOptions),
        file: String,
        (has_threads, slices): (bool, bool),
        parts: impl FnMut(&[Step], &Group, &mut Vec<u64>),
    ) -> Self {
        let facts = facts(recording, file, common);
        let mut rows = PartRows::new(has_threads, parts);
        let (total, path_rows) = add_all(selection, &mut rows, slices);
        let rows = rows.into_rows();
        let slices = path_rows.and_then(|paths| slice(selection, &paths, &rows, common, &facts));
        let whole = selection.whole.weight as f64;
        let (paths, path_parts) = (Vec::new(), None);
        RunSums { event: event(selection), facts, total, whole, rows, paths, path_parts, slices }
    }
}

/// Adds all samples of `selection` to `rows`; returns their sum and, with `slices`, the rows of each sort of samples.
fn add_all(selection: &Selection<'_>, rows: &mut impl Rows, slices: bool) -> (RunSum, Option<PathRows>) {
    let lengths = wait_lengths(selection);
    let mut total = RunSum::default();
    let mut path_rows = slices.then(PathRows::default);
    selection.for_each_path(|path, groups| {
        rows.begin_path();
        for group in groups {
            let sort = (group.task, group.stack, group.outcome, group.activity);
            let lengths = lengths.get(&sort);
            total.add(group.amount, lengths);
            rows.add(path, group, lengths);
            if let Some(path_rows) = &mut path_rows {
                path_rows.add(sort, rows.rows_of_last());
            }
        }
    });
    (total, path_rows)
}

/// Lengths of the waits of each group.
fn wait_lengths(selection: &Selection<'_>) -> FxHashMap<SampleSort, WaitLengths> {
    let mut lengths: FxHashMap<SampleSort, WaitLengths> = FxHashMap::default();
    selection.for_each_wait(|sample, wait, amount| {
        let sort = (sample.task, sample.stack, sample.outcome, selection.reasons.activity(sample));
        let count = amount.count_thousandths as f64 / 1e3;
        lengths.entry(sort).or_default().add(wait.duration_ns, count, amount.weight as f64);
    });
    lengths
}

/// Builds the rows of a recording.
struct RowBuilder<'s, 'p> {
    selection: &'s Selection<'p>,
    /// A step for each thread, if rows are threads.
    threads: Option<&'s [Step]>,
    sites: Option<WaitSites<'s>>,
    rows: Vec<RunRow>,
    numbers: FxHashMap<DiffRowKey, u32>,
    /// Row of each label that has occurred.
    of_label: Vec<Option<u32>>,
    of_site: FxHashMap<(Option<LabelId>, Activity), u32>,
    /// Row of each label of threads in a process of this name.
    of_thread: FxHashMap<(LabelId, StringId), u32>,
    /// Index of the path that was last added to each row, from 1.
    last_path: Vec<u32>,
    path: u32,
    /// The rows of the current path, each once, and the row that it ends in.
    on_path: (Vec<u32>, u32),
}

impl<'s, 'p> RowBuilder<'s, 'p> {
    /// Returns the sums of functions, with waits split by site, or of threads: a step for each.
    fn new(selection: &'s Selection<'p>, threads: Option<&'s [Step]>) -> Self {
        let is_of_code = matches!(selection.labels.grouping(), Grouping::Function | Grouping::Line);
        let sites = (selection.shown.waits.is_some() && threads.is_none() && is_of_code)
            .then(|| WaitSites::new(selection.profile, &selection.labels));
        RowBuilder {
            selection,
            threads,
            sites,
            rows: Vec::new(),
            numbers: FxHashMap::default(),
            of_label: vec![None; selection.labels.len()],
            of_site: FxHashMap::default(),
            of_thread: FxHashMap::default(),
            last_path: Vec::new(),
            path: 0,
            on_path: (Vec::new(), 0),
        }
    }

    fn number(&mut self, label: RowLabel) -> u32 {
        let next = self.rows.len() as u32;
        let number = *self.numbers.entry(label.key.clone()).or_insert(next);
        if number == next {
            self.rows.push(RunRow { label, own: RunSum::default(), total: RunSum::default() });
            self.last_path.push(0);
        }
        number
    }

    fn of_label(&mut self, label: LabelId) -> u32 {
        if let Some(number) = self.of_label[label.index()] {
            return number;
        }
        let number = self.number(RowLabel::of(self.selection.labels.get(label)));
        self.of_label[label.index()] = Some(number);
        number
    }

    /// The row that a path ends in. For a wait it is the wait site with the reason, since all waits end in the same few
    /// reasons.
    fn end_of(&mut self, steps: &[Step], path: &[Step], activity: Activity) -> Option<u32> {
        let leaf = steps.last()?.label;
        let Some((sites, reason)) = self.sites.as_ref().zip(activity.reason()) else {
            return Some(self.of_label(leaf));
        };
        let place = match sites.of(path, activity) {
            WaitSite::Call { blocked_in, called_by } => blocked_in.or(called_by),
            WaitSite::NoCpu => None,
            WaitSite::Short => return Some(self.of_label(leaf)),
        };
        if let Some(number) = self.of_site.get(&(place, activity)) {
            return Some(*number);
        }
        let label = match place {
            None => RowLabel::bare(format!("[{}]", reason.label())),
            Some(place) => {
                let mut label = RowLabel::of(self.selection.labels.get(place));
                for name in [&mut label.key.name, &mut label.raw_name] {
                    name.push_str(&format!(" [{}]", reason.label()));
                }
                label
            }
        };
        let number = self.number(label);
        self.of_site.insert((place, activity), number);
        Some(number)
    }

    /// Adds a group of functions with these steps.
    fn add_functions(
        &mut self,
        steps: &[Step],
        path: &[Step],
        activity: Activity,
        amount: Amount,
        lengths: Option<&WaitLengths>,
    ) {
        let Some(end) = self.end_of(steps, path, activity) else {
            self.on_path = (Vec::new(), NO_ROW);
            return;
        };
        if self.on_path.0.is_empty() {
            for step in steps {
                let number = self.of_label(step.label);
                if std::mem::replace(&mut self.last_path[number as usize], self.path) != self.path {
                    self.on_path.0.push(number);
                }
            }
            if std::mem::replace(&mut self.last_path[end as usize], self.path) != self.path {
                self.on_path.0.push(end);
            }
        }
        self.on_path.1 = end;
        self.rows[end as usize].own.add(amount, lengths);
        for number in &self.on_path.0 {
            self.rows[*number as usize].total.add(amount, lengths);
        }
    }

    /// Adds a group of the thread that `step` names.
    fn add_thread(&mut self, step: Step, task: TaskId, amount: Amount, lengths: Option<&WaitLengths>) {
        let profile = self.selection.profile;
        let process = profile.tables.task(task).process;
        let number = match self.of_thread.get(&(step.label, process)) {
            Some(number) => *number,
            None => {
                let mut label = RowLabel::of(self.selection.labels.get(step.label));
                label.key.module = profile.tables.string(process).to_owned();
                let number = self.number(label);
                self.of_thread.insert((step.label, process), number);
                number
            }
        };
        self.on_path = (vec![number], number);
        let row = &mut self.rows[number as usize];
        row.own.add(amount, lengths);
        row.total.add(amount, lengths);
    }
}

impl Rows for RowBuilder<'_, '_> {
    fn begin_path(&mut self) {
        self.path += 1;
        self.on_path.0.clear();
    }

    fn add(&mut self, path: &[Step], group: &Group, lengths: Option<&WaitLengths>) {
        match self.threads {
            Some(threads) => {
                self.add_thread(threads[group.task.index()], group.task, group.amount, lengths);
            }
            None => {
                let steps = self.selection.rows_of(path);
                self.add_functions(steps, path, group.activity, group.amount, lengths);
            }
        }
    }

    fn rows_of_last(&self) -> (&[u32], u32) {
        (&self.on_path.0, self.on_path.1)
    }
}

/// All call paths, as rows; with `threads` in front, a step for each.
fn call_paths(
    selection: &Selection<'_>,
    threads: Option<&[Step]>,
    rows: &mut RowBuilder<'_, '_>,
) -> Vec<RunPath> {
    let tree = match threads {
        Some(threads) => CallTree::by_thread(selection, Direction::TopDown, threads),
        None => CallTree::new(selection, Direction::TopDown),
    };
    let path = |(id, node): (NodeId, &Node)| RunPath {
        parent: node.parent.map(|parent| parent.index() as u32),
        row: rows.of_label(node.label),
        own: tree.own(id).weight as f64,
    };
    tree.nodes().map(path).collect()
}

/// Sums up the `parts` of the paths of `selection`, which have `in_front` steps of threads and the rows of `rows`.
fn sums_of_paths(
    selection: &Selection<'_>,
    (recording, file): (&Analysis, String),
    (in_front, rows): (Option<&[Step]>, &RowBuilder<'_, '_>),
    parts: &PathParts,
    options: &RunOptions<'_>,
) -> RunSums {
    let mut finder = PathFinder::new(&parts.known, &parts.part_of);
    // All steps of paths have rows.
    let row_of = |step: &Step| rows.of_label[step.label.index()].unwrap_or(NO_ROW);
    let how = (in_front.is_some(), options.slices);
    RunSums::of_parts(selection, (recording, options.common), file, how, |path, group, found| {
        let thread = in_front.and_then(|threads| threads.get(group.task.index()));
        let steps = thread.into_iter().chain(path).map(row_of);
        finder.find(steps, |part| found.push(parts.keys[part as usize]));
    })
}

fn event(selection: &Selection<'_>) -> RunEvent {
    let shown = &selection.shown;
    let is_each = shown.sampled.is_some_and(|event| event.info().period == 1);
    RunEvent {
        metric: shown.metric(),
        name: shown.name.to_owned(),
        title: shown.title.to_string(),
        noun: shown.noun.to_string(),
        unit: shown.unit,
        is_sampled: shown.sampled.is_some() && shown.waits.is_none() && !is_each,
        has_waits: shown.waits.is_some(),
    }
}

fn facts(recording: &Analysis, file: String, common: &CommonOptions) -> RunFacts {
    let profile = &recording.profile;
    let end = profile.end.as_ref();
    let ended = |end: &&End| end.command_signal.is_none() && end.is_of_whole_run();
    let status = end.filter(ended).and_then(|end| end.command_status).filter(|_| profile.meta.is_command);
    let whole_ns = profile.duration_ns();
    RunFacts {
        file,
        clock_span: recording.clock_part.as_ref().map(ClockPart::span),
        target: profile.meta.target.clone(),
        duration_ns: common.filter.time.overlap_ns(0, whole_ns).unwrap_or(0),
        rate_hz: profile.event_of(&EventKind::ON_CPU).map_or(0, |_| profile.meta.effective_hz),
        is_whole_command: status.is_some() && common.filter.time.is_everything(),
        failed_with: status.filter(|status| *status != 0),
        lost: profile.lost_samples(&EventKind::ON_CPU),
        is_whole_file: recording.integrity.is_complete,
    }
}
