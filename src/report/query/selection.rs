//! The samples that a view shows: filtered, equal ones counted together, and their frames named.

use super::filter::{LabelFilter, SampleFilter};
use super::folding::Folding;
use super::groups::{groups_of, sum_of_sampled, without_idle};
use super::stack_filter::StackFilters;
use crate::base::failure::Failure;
use crate::profile::{Event, EventKind, FrameId, Profile, Sample, StackId, Task, TaskId, Wait};
use crate::report::analysis::Analysis;
use crate::report::model::activity::Activity;
use crate::report::model::amount::Amount;
use crate::report::model::group::{Group, GroupKey, SamePath, key_of};
use crate::report::model::label::{Labels, Step};
use crate::report::model::label_kind::LabelKind;
use crate::report::model::metric::{Metric, Shown};
use crate::report::model::quality::Quality;
use crate::report::naming::thread_class::{ThreadClassKey, ThreadClasses};
use crate::report::options::{CommonOptions, FilterOptions, Grouping, Space, ThreadSplit};
use crate::report::query::same_path::{PathGroups, name_groups, short_waits_name};
use crate::report::waits::idle::IdleWaits;
use crate::report::waits::reasons::Reasons;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// The samples that passed all filters, with the names of their frames.
#[derive(Debug)]
pub struct Selection<'p> {
    /// The profile they come from.
    pub(crate) profile: &'p Profile,
    /// The events they are samples of.
    pub(crate) shown: Shown<'p>,
    /// Names of all steps.
    pub(crate) labels: Labels,
    /// Everything that passed the filters.
    pub(crate) total: Amount,
    /// Everything in the events, whatever the filters, but for idle waits that are hidden.
    pub(crate) whole: Amount,
    /// Of the total, waits that were only counted: too short to be sent one by one.
    pub(crate) short: Amount,
    /// Idle waits that would pass the filters on samples, and are hidden.
    pub(crate) hidden_idle: Amount,
    /// Which waits are idle, where they are shown among the others.
    pub(crate) shown_idle: Option<&'p IdleWaits>,
    /// Why threads waited.
    pub(crate) reasons: &'p Reasons,
    /// How far to trust the samples that passed the filters on samples.
    pub(crate) quality: Quality,
    recording: &'p Analysis,
    options: CommonOptions,
    /// The waits of the same threads and time; computed on first use.
    waits: OnceLock<Option<Box<Selection<'p>>>>,
    groups: Arc<Vec<Group>>,
    paths: Vec<SamePath>,
    sample_filter: SampleFilter,
    filter: LabelFilter,
    hidden: Option<Step>,
    /// Which frames are hidden by their functions, where steps are of something else and functions are hidden.
    hidden_frames: Option<Vec<bool>>,
    /// What is shown of interpreters.
    folding: Folding,
    stacks: StackFilters,
    /// Some frames are in generated code that has no names.
    has_unnamed_code: bool,
    /// A step for each thread, where they are to stand in front of the stacks.
    in_front: Option<Vec<Step>>,
}

impl<'p> Selection<'p> {
    /// Filters and counts the samples of `shown`, which are events of `recording`.
    ///
    /// # Errors
    ///
    /// A usage failure for a pattern that is no regular expression.
    pub(crate) fn new(
        recording: &'p Analysis,
        shown: Shown<'p>,
        options: &CommonOptions,
    ) -> Result<Self, Failure> {
        let has_functions = options.grouping.is_of_code();
        if !has_functions && options.filter.is_on_code() {
            // The filters mean functions and their frames, of which rows of other things have none.
            let filter = FilterOptions { stacks: Vec::new(), ..options.filter.clone() };
            let of_functions = CommonOptions { grouping: Grouping::Function, filter, ..options.clone() };
            let label = options.grouping.label();
            return Self::filtered(recording, shown, &of_functions, label)?.regrouped(options);
        }
        Self::filtered(recording, shown, options, options.grouping.label())
    }

    /// The same, where the filters mean what the steps are. Samples that differ in the label of this key are told apart.
    fn filtered(
        recording: &'p Analysis,
        shown: Shown<'p>,
        options: &CommonOptions,
        label: Option<&str>,
    ) -> Result<Self, Failure> {
        let profile = &recording.profile;
        let sample_filter =
            SampleFilter::new(&options.filter, &profile.tables)?.grouped_by(label, &profile.tables);
        let groups = groups_of(recording, &shown, &sample_filter);
        let (mut whole, mut hidden_idle) = (Amount::default(), Amount::default());
        let shown_idle = (options.filter.idle && shown.waits.is_some()).then(|| recording.idle_waits());
        let groups = match shown.waits.filter(|event| event.kind().is(&EventKind::OFF_CPU)) {
            None => groups,
            Some(_) => {
                let idle = recording.idle_waits();
                whole.add(if options.filter.idle { idle.all() } else { idle.all_but_idle() });
                if options.filter.idle { groups } else { without_idle(idle, groups, &mut hidden_idle) }
            }
        };
        let mut labels = Labels::new(profile, options.grouping, options.inline);
        let hidden = options.filter.hides_frames().then(|| labels.nothing_step(true));
        let paths = name_groups(profile, &mut labels, &groups, &short_waits_name(&shown));
        whole.add(sum_of_sampled(&shown, &sample_filter, &groups, &paths));
        let quality = Quality::of(profile, &groups, &paths, &shown);
        let stacks =
            StackFilters::new(&options.filter.stacks, &mut labels, profile, &quality.samples_of_frame)?;
        labels.settle_names();
        let has_unnamed_code = labels.has_unnamed_code();
        let folding = Folding::of(profile, options.runtime).with_labels(&labels);
        let filter = LabelFilter::new(&options.filter, &labels, &profile.tables)?;
        let mut selection = Selection {
            profile,
            shown,
            labels,
            total: Amount::default(),
            short: Amount::default(),
            whole,
            hidden_idle,
            shown_idle,
            reasons: recording.reasons(),
            quality,
            recording,
            options: options.clone(),
            waits: OnceLock::new(),
            groups: Arc::default(),
            paths: Vec::new(),
            sample_filter,
            filter,
            hidden,
            hidden_frames: None,
            folding,
            stacks,
            has_unnamed_code,
            in_front: None,
        };
        selection.keep(groups, paths);
        Ok(selection)
    }

    /// The same samples, filtered by their functions, with steps of something else.
    fn regrouped(self, options: &CommonOptions) -> Result<Self, Failure> {
        let profile = self.profile;
        let mut labels = Labels::new(profile, options.grouping, options.inline);
        let is_step_hidden =
            |step: Option<Step>| step.is_some_and(|step| self.filter.verdict(step.label).is_hidden);
        let groups = Arc::clone(&self.groups);
        let mut paths = name_groups(profile, &mut labels, &groups, &short_waits_name(&self.shown));
        let has_frames = options.grouping == Grouping::Module;
        let hides = options.filter.hides_frames() && has_frames;
        let is_hidden = |frame| {
            let steps = self.labels.steps(FrameId(frame as u32));
            !steps.is_empty() && steps.iter().all(|step| self.filter.verdict(step.label).is_hidden)
        };
        let hidden_frames =
            hides.then(|| (0..profile.tables.frames().len()).map(is_hidden).collect::<Vec<bool>>());
        for path in &mut paths {
            let ends = self.ends_of(path.range.start);
            path.root = path.root.filter(|_| !has_frames || !is_step_hidden(ends.root));
            path.tail = path.tail.filter(|_| !is_step_hidden(ends.tail));
        }
        let hidden = hides.then(|| labels.nothing_step(true));
        let stacks =
            StackFilters::new(&options.filter.stacks, &mut labels, profile, &self.quality.samples_of_frame)?;
        labels.settle_names();
        let has_unnamed_code = labels.has_unnamed_code();
        let folding = self.folding.clone().with_labels(&labels);
        let space = if has_frames { options.filter.space } else { Space::All };
        let filter =
            LabelFilter::new(&FilterOptions { space, ..FilterOptions::default() }, &labels, &profile.tables)?;
        let mut selection = Selection {
            options: options.clone(),
            labels,
            total: Amount::default(),
            short: Amount::default(),
            groups: Arc::default(),
            paths: Vec::new(),
            filter,
            hidden,
            hidden_frames,
            folding,
            stacks,
            has_unnamed_code,
            ..self
        };
        selection.keep(groups, paths);
        Ok(selection)
    }

    /// The groups of the same path as the one at `index`, with what stands at its ends.
    fn ends_of(&self, index: usize) -> &SamePath {
        let at = self.paths.partition_point(|path| path.range.end <= index);
        &self.paths[at]
    }

    /// The analysis that it is of.
    pub(crate) fn analysis(&self) -> &'p Analysis {
        self.recording
    }

    /// What tells the group of a sample.
    pub(crate) fn key_of(&self, sample: &Sample) -> GroupKey {
        key_of(sample, self.reasons, &self.sample_filter)
    }

    /// Which samples count.
    pub(crate) fn sample_filter(&self) -> &SampleFilter {
        &self.sample_filter
    }

    /// Which threads are one, where that was asked for.
    pub(crate) fn thread_split(&self) -> Option<ThreadSplit> {
        self.options.threads
    }

    /// Amount that percentages of a report are of: everything in the events, whatever the filters, unless percentages of
    /// what is left are asked for.
    pub(crate) fn base(&self) -> Amount {
        if self.options.filter.relative { self.total } else { self.whole }
    }

    /// Whether functions that were inlined are steps of their own.
    pub(crate) fn shows_inlined(&self) -> bool {
        self.options.inline
    }

    /// The waits that the same options leave, by function; `None` when none were recorded.
    pub(crate) fn waits(&self) -> Option<&Selection<'p>> {
        if self.shown.is_only_waits() && self.labels.grouping() == Grouping::Function {
            return Some(self);
        }
        let waits = self.waits.get_or_init(|| {
            let shown = self.recording.shown(Some(Metric::OFF_CPU)).ok()?;
            let options = CommonOptions { grouping: Grouping::Function, ..self.options.clone() };
            // The patterns were read without error before.
            Selection::new(self.recording, shown, &options).ok().map(Box::new)
        });
        waits.as_deref()
    }

    /// Takes in the groups that the filters leave something of; `paths` are those of all `groups`.
    fn keep(&mut self, groups: Arc<Vec<Group>>, paths: Vec<SamePath>) {
        let mut steps = Vec::new();
        let ask_for_threads = self.stacks.ask_for_threads();
        // A copy, once something is dropped.
        let mut copy: Option<Vec<Group>> = None;
        for path in paths {
            let list = &groups[path.range.clone()];
            // What is decided by the stack alone is decided once for all threads that have it.
            let kept = match ask_for_threads {
                true => {
                    list.iter().filter(|group| self.fill_path(group, &path, &mut steps)).copied().collect()
                }
                false if self.fill_path(&list[0], &path, &mut steps) => Cow::Borrowed(list),
                false => Cow::Borrowed(&[][..]),
            };
            if kept.len() < list.len() && copy.is_none() {
                copy = Some(groups[..path.range.start].to_vec());
            }
            if kept.is_empty() {
                continue;
            }
            let amount = if kept.len() == list.len() { path.amount } else { Amount::of(&kept) };
            self.total.add(amount);
            if matches!(kept[0].activity, Activity::WaitingShortly(_)) {
                self.short.add(amount);
            }
            let range = match &mut copy {
                None => path.range.clone(),
                Some(copy) => {
                    copy.extend_from_slice(&kept);
                    copy.len() - kept.len()..copy.len()
                }
            };
            self.paths.push(SamePath { range, amount, ..path });
        }
        self.groups = copy.map_or(groups, Arc::new);
    }

    /// Whether there is nothing to show because all that passes the filters are idle waits, which are hidden. Filters on
    /// names are not asked of those: where there are some, no one knows.
    pub(crate) fn is_all_idle(&self, filter: &FilterOptions) -> bool {
        self.total.is_empty() && !self.hidden_idle.is_empty() && !filter.is_on_code()
    }

    /// How many samples and waits passed the filters, without waits that were only counted.
    pub(crate) fn count(&self) -> u64 {
        self.total.count().saturating_sub(self.short.count())
    }

    /// The same of everything in the events, whatever the filters.
    pub(crate) fn count_of_whole(&self) -> u64 {
        let times = if self.shown.waits.is_some() { self.profile.thread_times.as_slice() } else { &[] };
        let shorts = times.iter().flat_map(|time| &time.short_waits);
        let short = shorts.fold(0u64, |sum, short| sum.saturating_add(short.count));
        self.whole.count().saturating_sub(short)
    }

    /// The distinct groups that passed the filters, in a fixed order.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Calls `visit` with every distinct sequence of steps, root first, and the groups that have it (one
    /// for each thread), in a fixed order in which neighbours often share their outer steps.
    pub(crate) fn for_each_path<'s>(&'s self, mut visit: impl FnMut(&[Step], PathGroups<'s>)) {
        let mut steps = Vec::new();
        for path in &self.paths {
            let list = &self.groups[path.range.clone()];
            if self.fill_path(&list[0], path, &mut steps) {
                let (start, amount) = (path.range.start, path.amount);
                visit(&steps, PathGroups { start, list, amount });
            }
        }
    }

    /// The tasks that have groups, in the order of their ids.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (TaskId, &'p Task)> {
        let tasks = self.profile.tables.tasks();
        let mut has_groups = vec![false; tasks.len()];
        self.groups.iter().for_each(|group| has_groups[group.task.index()] = true);
        let ids = (0..).map(TaskId).zip(tasks);
        ids.zip(has_groups).filter(|(_, has_groups)| *has_groups).map(|(task, _)| task)
    }

    /// Calls `visit` with every wait that passes the filters on samples, and how much of it counts. Idle waits and such
    /// that the filters on names drop are among them: they are in none of the groups.
    pub(crate) fn for_each_wait(&self, mut visit: impl FnMut(&Sample, &Wait, Amount)) {
        for sample in self.shown.waits.into_iter().flat_map(Event::samples) {
            if let Some(wait) = &sample.wait
                && let Some(amount) = self.sample_filter.amount(&sample)
            {
                visit(&sample, wait, amount);
            }
        }
    }

    /// Calls `visit` with every sample and wait that passes the filters on samples, its number in its event, and how much
    /// of it counts. As with [`Selection::for_each_wait`], more than what is in the groups.
    pub(crate) fn for_each_sample(&self, mut visit: impl FnMut(usize, &Sample, Amount)) {
        for event in self.shown.events() {
            for (index, sample) in event.samples().enumerate() {
                if let Some(amount) = self.sample_filter.amount(&sample) {
                    visit(index, &sample, amount);
                }
            }
        }
    }

    /// The steps of the group at `index`, root first.
    pub(crate) fn path_of(&self, index: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        let is_kept = self.fill_path(&self.groups[index], self.ends_of(index), &mut steps);
        if is_kept { steps } else { Vec::new() }
    }

    /// Half the width of the 95 % interval around the share that `own` has of [`Selection::base`], in percentage points.
    pub(crate) fn error_points(&self, own: Amount) -> f64 {
        own.share_error_points(self.base(), self.shown.waits.is_some())
    }

    /// A step for each thread, by [`crate::profile::TaskId`], that can stand in front of its stacks: threads that `split`
    /// takes for one share one.
    pub(crate) fn thread_steps(&mut self, split: ThreadSplit) -> Vec<Step> {
        self.titled_thread_steps(split, ThreadClasses::plain_title)
    }

    fn titled_thread_steps(
        &mut self,
        split: ThreadSplit,
        title: impl Fn(&ThreadClasses, ThreadClassKey) -> String,
    ) -> Vec<Step> {
        let classes = ThreadClasses::of(&self.profile.tables, split);
        let step = |task| {
            let class = classes.key_of(task);
            let names = || (title(&classes, class), classes.name(class).to_owned());
            self.labels.thread_step(task, class, names)
        };
        self.profile.tables.tasks().iter().map(step).collect()
    }

    /// Puts threads in front of the stacks of [`CallTree`](crate::report::CallTree)s, named with how many they are.
    pub(crate) fn put_threads_in_front(&mut self, split: ThreadSplit) {
        self.in_front =
            (split != ThreadSplit::None).then(|| self.titled_thread_steps(split, ThreadClasses::title));
    }

    /// The threads in front of the stacks, if there are some: a step for each.
    pub(crate) fn threads_in_front(&self) -> Option<&[Step]> {
        self.in_front.as_deref()
    }

    /// Puts the steps of `group`, which has these `ends`, root first, into `path`; false when the filters drop the group.
    fn fill_path(&self, group: &Group, ends: &SamePath, path: &mut Vec<Step>) -> bool {
        path.clear();
        let space = self.filter.space;
        if let Some(root) = ends.root
            && (space != Space::Kernel || group.stack.is_none())
        {
            path.push(root);
        }
        let has_frames = !matches!(ends.root, Some(root) if self.is_task(root));
        if let Some(stack) = group.stack
            && has_frames
        {
            let start = path.len();
            // Leaf first, then turned round.
            self.push_steps(stack, path);
            path[start..].reverse();
        }
        let mut has_focus = !self.filter.has_focus;
        let mut has_module = !self.filter.has_module;
        for step in path.iter().chain(&ends.tail) {
            let verdict = self.filter.verdict(step.label);
            if verdict.is_ignored {
                return false;
            }
            has_focus |= verdict.is_focus;
            has_module |= verdict.is_of_module;
        }
        if !has_focus || !has_module {
            return false;
        }
        match space {
            Space::All => {}
            Space::User => path.retain(|step| !step.is_kernel),
            Space::Kernel => path.retain(|step| step.is_kernel),
        }
        // All of the frames may be hidden already.
        if path.is_empty() && self.hidden_frames.is_none() {
            return false;
        }
        let is_hidden = |step: &Step| self.filter.verdict(step.label).is_hidden;
        if let Some(hidden) = self.hidden {
            path.retain(|step| !is_hidden(step));
            if path.is_empty() {
                path.push(hidden);
            }
        }
        path.extend(ends.tail.filter(|step| !is_hidden(step)));
        if matches!(self.labels.grouping(), Grouping::Module) {
            path.dedup_by_key(|step| step.label);
        } else if self.has_unnamed_code {
            // Of calls inside of code without names nothing is known but that they are there.
            path.dedup_by(|next, last| next.label == last.label && self.labels.is_unnamed_code(next));
        }
        self.stacks.apply(path, group.task)
    }

    /// Adds the steps of the frames of a stack that are shown, leaf first.
    fn push_steps(&self, stack: StackId, path: &mut Vec<Step>) {
        let hidden = self.hidden_frames.as_deref().unwrap_or_default();
        let is_hidden = |frame: &FrameId| hidden.get(frame.index()).copied().unwrap_or(false);
        let frames = self.profile.tables.stack_frames(stack);
        if self.folding.shows_all() {
            for frame in frames.filter(|frame| !is_hidden(frame)) {
                path.extend(self.labels.steps(frame).iter().rev());
            }
            return;
        }
        let mut frames: Vec<FrameId> = frames.collect();
        let has_run = self.folding.fold(&mut frames);
        frames.retain(|frame| !is_hidden(frame));
        let leaf_stays = has_run && self.folding.is_leaf_in_native(&frames);
        for (at, frame) in frames.into_iter().enumerate() {
            let leaves_out = has_run && !(at == 0 && leaf_stays);
            let steps = self.labels.steps(frame).iter().rev();
            path.extend(steps.filter(|step| !(leaves_out && self.folding.is_call(step))));
        }
    }

    /// The steps of a path that are rows of a flat list. Where reasons are none, waiting is time of what waited, as running
    /// is.
    pub(crate) fn rows_of<'s>(&self, path: &'s [Step]) -> &'s [Step] {
        let is_reason = |step: &Step| matches!(self.labels.get(step.label).kind, LabelKind::Wait(_));
        match path {
            [rest @ .., tail]
                if !self.labels.grouping().has_reasons() && !rest.is_empty() && is_reason(tail) =>
            {
                rest
            }
            whole => whole,
        }
    }

    fn is_task(&self, step: Step) -> bool {
        self.labels.get(step.label).kind == LabelKind::Task
    }
}
