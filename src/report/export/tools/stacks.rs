//! What formats with stacks have in common: the choice of samples, and names of frames.

use crate::base::safe_text::{self, UNNAMED};
use crate::base::units::{counted, duration};
use crate::profile::{Profile, StringId, Tables, Waker, WakerKind};
use crate::report::analysis::Analysis;
use crate::report::export::text_tree;
use crate::report::model::label::{Label, LabelId, Step};
use crate::report::model::label_kind::LabelKind;
use crate::report::model::metric::{Metric, waits_of};
use crate::report::naming::style::NameStyle;
use crate::report::options::{CommonOptions, ExportOptions};
use crate::report::query::selection::Selection;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// The selection for formats that hold several events: waits in addition to running time, unless a metric was chosen.
///
/// # Errors
///
/// The same as for [`Analysis::select`].
pub(in crate::report::export) fn with_waits<'r>(
    recording: &'r Analysis,
    selection: Selection<'r>,
    options: &ExportOptions,
) -> anyhow::Result<Selection<'r>> {
    let is_chosen = options.common.metric.is_some() || selection.shown.metric() != Metric::ON_CPU;
    if is_chosen || waits_of(&recording.profile).is_none() {
        return Ok(selection);
    }
    let both = CommonOptions { metric: Some(Metric::WALL), ..options.common.clone() };
    Ok(recording.select(&both)?)
}

/// Whether running and waiting time were asked for as one.
pub(super) fn is_wall(options: &ExportOptions) -> bool {
    options.common.metric == Some(Metric::WALL)
}

/// Notes on what all of these formats leave out, for people.
pub(in crate::report::export) fn common_notes(
    selection: &Selection<'_>,
    options: &ExportOptions,
) -> Vec<String> {
    let order = "--bottom-up has no effect: stacks are written from the root";
    let order = options.bottom_up.then(|| order.to_owned());
    other_events_note(selection, options).into_iter().chain(order).collect()
}

/// Note that there are samples of other events that were not asked for.
fn other_events_note(selection: &Selection<'_>, options: &ExportOptions) -> Option<String> {
    if options.common.metric.is_some() {
        return None;
    }
    let is_shown = |name: &str| selection.shown.events().any(|event| event.kind().name == name);
    let events =
        selection.profile.events.iter().filter(|event| !event.is_empty() && !is_shown(&event.kind().name));
    let names: Vec<&str> = events.map(|event| event.kind().option()).collect();
    let first = names.first()?;
    let all = names.join(", ");
    Some(format!("{all} samples are not included: export them separately with -e {first}"))
}

/// Note that some waits were only counted and have no time of their own; `fate` says where they went.
pub(super) fn short_waits_note(selection: &Selection<'_>, fate: &str) -> Option<String> {
    let short = selection.short;
    (!short.is_empty()).then(|| {
        let time = duration(short.weight);
        format!("{}, {time} in all, were only counted: {fate}", counted(short.count(), "short wait"))
    })
}

/// Assigns indices to items, in the order in which they first occur.
#[derive(Debug)]
pub(in crate::report::export) struct Numbered<K> {
    ids: FxHashMap<K, u32>,
    pub(in crate::report::export) items: Vec<K>,
}

impl<K> Default for Numbered<K> {
    fn default() -> Self {
        Numbered { ids: FxHashMap::default(), items: Vec::new() }
    }
}

impl<K: Clone + Eq + Hash> Numbered<K> {
    /// The index of `item`, from 0.
    pub(in crate::report::export) fn number(&mut self, item: K) -> u32 {
        let next = self.items.len() as u32;
        *self.ids.entry(item).or_insert_with_key(|item| {
            self.items.push(item.clone());
            next
        })
    }
}

/// Text of the frames of a selection.
#[derive(Debug, Clone, Copy)]
pub(in crate::report::export) struct FrameTexts<'s, 'p> {
    pub(in crate::report::export) selection: &'s Selection<'p>,
    pub(in crate::report::export) style: NameStyle,
}

impl<'s, 'p> FrameTexts<'s, 'p> {
    pub(in crate::report::export) fn new(selection: &'s Selection<'p>, style: NameStyle) -> Self {
        FrameTexts { selection, style }
    }

    pub(super) fn label(self, step: &Step) -> &'s Label {
        self.selection.labels.get(step.label)
    }

    /// Name of a step, safe to print and never empty.
    pub(super) fn name(self, step: &Step) -> String {
        self.name_of(step.label)
    }

    /// Name of a label, safe to print and never empty.
    pub(super) fn name_of(self, label: LabelId) -> String {
        named(&self.selection.labels.get(label).text(self.style))
    }

    /// Source file of a step, if known (foreign text), and the line, or 0 if unknown.
    pub(super) fn source(self, step: &Step) -> Option<(&'p str, u32)> {
        let place = self.selection.labels.places()[step.place.index()];
        (place.file != StringId(0)).then(|| (self.selection.profile.tables.string(place.file), place.line))
    }

    /// `path` without the reason at its end, if it has one.
    pub(in crate::report::export) fn without_reason(self, path: &[Step]) -> &[Step] {
        match path {
            [rest @ .., last] if matches!(self.label(last).kind, LabelKind::Wait(_)) => rest,
            whole => whole,
        }
    }
}

/// `text` on one line, without characters that terminals or browsers interpret, and never empty.
pub(in crate::report::export) fn named(text: &str) -> String {
    let safe = safe_text::message(text);
    let trimmed = safe.trim();
    if trimmed.is_empty() { UNNAMED.to_owned() } else { trimmed.to_owned() }
}

/// Name of each task's threads: merged by name or class, single, or merged by process.
pub(super) fn thread_names(selection: &Selection<'_>) -> Vec<String> {
    let tables = &selection.profile.tables;
    let names = text_tree::thread_names(selection);
    if names.is_empty() {
        return tables.tasks().iter().map(|task| named(tables.string(task.process))).collect();
    }
    names.iter().map(|name| named(name)).collect()
}

/// Who ended a wait, in words; `None` if unknown.
pub(super) fn waker_words(tables: &Tables, waker: &Waker) -> Option<String> {
    match (waker.kind, waker.task) {
        (WakerKind::Thread, Some(task)) => {
            let task = tables.task(task);
            Some(format!("{} (tid {})", safe_text::message(tables.string(task.comm)), task.tid))
        }
        (WakerKind::SoftInterrupt, _) => Some("a softirq".to_owned()),
        (WakerKind::Interrupt, _) => Some("an interrupt".to_owned()),
        _ => None,
    }
}

/// The command line of the recorder, quoted for a shell; its target; and the version.
pub(in crate::report::export) fn recorder_lines(profile: &Profile) -> Vec<String> {
    let meta = &profile.meta;
    let command = safe_text::shell_line(meta.command.iter().map(String::as_str));
    let mut lines = Vec::new();
    lines.extend((!command.is_empty()).then_some(command));
    lines
        .extend((!meta.target.is_empty()).then(|| format!("recorded: {}", safe_text::message(&meta.target))));
    lines.push(format!("prof {}", env!("CARGO_PKG_VERSION")));
    lines
}

/// The distinct stacks of a selection as lists of frame indices, root first.
#[derive(Debug, Default)]
pub(super) struct StackLists {
    frames: Vec<u32>,
    /// Start of each list, followed by the end of the last.
    starts: Vec<usize>,
    /// Index of the list of each group.
    of_group: Vec<u32>,
}

impl StackLists {
    /// The lists of all groups of `selection`; `fill` appends the frame indices of a path.
    pub(in crate::report::export) fn new(
        selection: &Selection<'_>,
        mut fill: impl FnMut(&[Step], &mut Vec<u32>),
    ) -> Self {
        let mut lists = StackLists { starts: vec![0], ..StackLists::default() };
        selection.for_each_path(|path, groups| {
            let number = lists.starts.len() as u32 - 1;
            fill(path, &mut lists.frames);
            lists.starts.push(lists.frames.len());
            lists.of_group.extend(groups.into_iter().map(|_| number));
        });
        lists
    }

    /// Number of distinct stacks.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Frame indices of a stack, root first.
    pub(super) fn list(&self, number: usize) -> &[u32] {
        &self.frames[self.starts[number]..self.starts[number + 1]]
    }

    /// Index of the stack of a group.
    pub(super) fn of_group(&self, group: usize) -> usize {
        self.of_group[group] as usize
    }
}

/// The functions of each frame of `path`, which is root first: the leaf's frame first, and in each the outermost function first.
pub(in crate::report::export) fn frames_of(path: &[Step]) -> impl Iterator<Item = &[Step]> {
    let mut rest = path;
    std::iter::from_fn(move || {
        let last = rest.last()?;
        // An inlined function belongs to the frame of the function before it.
        let is_inside = |at: usize| rest[at].is_inlined && at > 0 && rest[at - 1].frame == last.frame;
        let mut start = rest.len() - 1;
        while is_inside(start) && last.frame.is_some() {
            start -= 1;
        }
        let (outer, functions) = rest.split_at(start);
        rest = outer;
        Some(functions)
    })
}
