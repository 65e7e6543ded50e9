//! The samples that a view shows: filtered, and equal ones counted together.
//!
//! A million samples usually hold some ten thousand distinct (thread, stack, outcome). They are
//! counted first; names, trees and tables only ever see the distinct ones.

use super::filter::{LabelFilter, SampleFilter};
use super::label::{Labels, Step};
use super::options::{CommonOptions, Grouping, Space};
use super::quality::Quality;
use crate::failure::Failure;
use crate::profile::{Event, FrameId, FrameSpace, Outcome, Profile, StackId, TaskId};
use rustc_hash::FxHashMap;

/// Equal samples, counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// The thread.
    pub task: TaskId,
    /// The stack; `None` when nothing is known of it.
    pub stack: Option<StackId>,
    /// How the walk of the user stack ended.
    pub outcome: Outcome,
    /// Sum of the weights, in the event's unit.
    pub weight: u64,
    /// Number of samples.
    pub samples: u64,
    /// Stands before the outermost frame, or for the whole stack.
    root: Option<Step>,
}

/// A weight and the samples behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// In the event's unit.
    pub weight: u64,
    /// Number of samples.
    pub samples: u64,
}

impl Amount {
    /// The sum over `groups`.
    pub fn of(groups: &[Group]) -> Self {
        let mut sum = Amount::default();
        for group in groups {
            sum.add(group.amount());
        }
        sum
    }

    /// Adds another amount; sums stop at the largest number.
    pub fn add(&mut self, other: Amount) {
        self.weight = self.weight.saturating_add(other.weight);
        self.samples = self.samples.saturating_add(other.samples);
    }
}

impl Group {
    /// The group's weight and number of samples.
    pub fn amount(&self) -> Amount {
        Amount { weight: self.weight, samples: self.samples }
    }

    /// Whether both have the same steps.
    fn has_path_of(&self, other: &Group) -> bool {
        (self.stack, self.outcome, self.root) == (other.stack, other.outcome, other.root)
    }
}

/// The samples that passed all filters, with the names of their frames.
#[derive(Debug)]
pub struct Selection<'p> {
    /// The profile they come from.
    pub profile: &'p Profile,
    /// The event they are samples of.
    pub event: &'p Event,
    /// Names of all steps.
    pub labels: Labels,
    /// Everything that passed the filters.
    pub total: Amount,
    /// Everything in the event, whatever the filters.
    pub whole: Amount,
    /// How far to trust the samples that passed the filters on samples.
    pub quality: Quality,
    groups: Vec<Group>,
    filter: LabelFilter,
    hidden: Option<Step>,
}

impl<'p> Selection<'p> {
    /// Filters and counts the samples of `event`.
    ///
    /// # Errors
    ///
    /// A usage failure for a pattern that is no regular expression.
    pub fn new(profile: &'p Profile, event: &'p Event, options: &CommonOptions) -> Result<Self, Failure> {
        let sample_filter = SampleFilter::new(&options.filter, &profile.tables)?;
        let mut groups = count_equal(event, &sample_filter);
        let mut labels = Labels::new(profile, options.grouping, options.inline);
        let hidden = options.filter.hide.is_some().then(|| labels.nothing_step(true));
        for group in &mut groups {
            group.root = name_stack(profile, &mut labels, group, options.grouping);
        }
        let quality = Quality::of(profile, &groups);
        let filter = LabelFilter::new(&options.filter, &labels)?;
        let whole = Amount {
            weight: event.weights().iter().fold(0, |sum: u64, weight| sum.saturating_add(*weight)),
            samples: event.len() as u64,
        };
        let mut selection = Selection {
            profile,
            event,
            labels,
            total: Amount::default(),
            whole,
            quality,
            groups: Vec::new(),
            filter,
            hidden,
        };
        let mut path = Vec::new();
        for same in groups.chunk_by(Group::has_path_of) {
            if selection.fill_path(&same[0], &mut path) {
                selection.total.add(Amount::of(same));
                selection.groups.extend_from_slice(same);
            }
        }
        Ok(selection)
    }

    /// The distinct groups that passed the filters, in a fixed order.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Calls `visit` with every distinct sequence of steps, root first, and the groups that have it (one
    /// for each thread), in a fixed order in which neighbours often share their outer steps.
    pub fn for_each_path(&self, mut visit: impl FnMut(&[Step], &[Group])) {
        let mut path = Vec::new();
        for groups in self.groups.chunk_by(Group::has_path_of) {
            if self.fill_path(&groups[0], &mut path) {
                visit(&path, groups);
            }
        }
    }

    /// Puts the steps of `group`, root first, into `path`; false when the filters drop the group.
    fn fill_path(&self, group: &Group, path: &mut Vec<Step>) -> bool {
        path.clear();
        let space = self.filter.space;
        if let Some(root) = group.root
            && (space != Space::Kernel || group.stack.is_none())
        {
            path.push(root);
        }
        let has_frames = !matches!(group.root, Some(root) if self.is_task(root));
        if let Some(stack) = group.stack
            && has_frames
        {
            let start = path.len();
            // Leaf first, then turned round: frames and the steps inside each of them.
            for frame in self.profile.tables.stack_frames(stack) {
                path.extend(self.labels.steps(frame).iter().rev());
            }
            path[start..].reverse();
        }
        let mut has_focus = !self.filter.has_focus;
        for step in path.iter() {
            let verdict = self.filter.verdict(step.label);
            if verdict.is_ignored {
                return false;
            }
            has_focus |= verdict.is_focus;
        }
        if !has_focus {
            return false;
        }
        match space {
            Space::All => {}
            Space::User => path.retain(|step| !step.is_kernel),
            Space::Kernel => path.retain(|step| step.is_kernel),
        }
        if path.is_empty() {
            return false;
        }
        if let Some(hidden) = self.hidden {
            path.retain(|step| !self.filter.verdict(step.label).is_hidden);
            if path.is_empty() {
                path.push(hidden);
            }
        }
        if matches!(self.labels.grouping(), Grouping::Module) {
            path.dedup_by_key(|step| step.label);
        }
        true
    }

    fn is_task(&self, step: Step) -> bool {
        self.labels.get(step.label).kind == super::label::LabelKind::Task
    }
}

/// Counts equal samples together, in the order of (stack, outcome, task).
fn count_equal(event: &Event, filter: &SampleFilter) -> Vec<Group> {
    let mut counts: FxHashMap<(TaskId, Option<StackId>, Outcome), Amount> = FxHashMap::default();
    for sample in event.samples() {
        if filter.keeps(&sample) {
            let amount = Amount { weight: sample.weight, samples: 1 };
            counts.entry((sample.task, sample.stack, sample.outcome)).or_default().add(amount);
        }
    }
    let mut groups: Vec<Group> = (counts.into_iter())
        .map(|((task, stack, outcome), amount)| Group {
            task,
            stack,
            outcome,
            weight: amount.weight,
            samples: amount.samples,
            root: None,
        })
        .collect();
    groups.sort_unstable_by_key(|group| (group.stack, group.outcome, group.task));
    groups
}

/// Names the frames of a group's stack; returns the step that stands before them or for all of them.
fn name_stack(profile: &Profile, labels: &mut Labels, group: &Group, grouping: Grouping) -> Option<Step> {
    if matches!(grouping, Grouping::Thread | Grouping::Process) {
        return Some(labels.task_step(profile, profile.tables.task(group.task)));
    }
    for frame in group.stack.iter().flat_map(|stack| profile.tables.stack_frames(*stack)) {
        labels.resolve(profile, frame);
    }
    if !group.outcome.is_complete() && !group.outcome.has_root() {
        return Some(labels.cut_step(profile, group.outcome, outermost_user_frame(profile, group.stack)));
    }
    group.stack.is_none().then(|| labels.nothing_step(false))
}

/// The outermost frame of a stack, when it is user code.
pub(super) fn outermost_user_frame(profile: &Profile, stack: Option<StackId>) -> Option<FrameId> {
    let outermost = profile.tables.stack_frames(stack?).last()?;
    (profile.tables.frame(outermost).flags.space == FrameSpace::User).then_some(outermost)
}
