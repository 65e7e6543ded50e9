//! Everything seen so far, in memory: the recorder's updates under ids of the archive, bounded however long the
//! recording lasts. Reads no ring, no file and no process, and never asks the recorder for anything.

pub(crate) mod accounts;
pub(crate) mod downsample;
pub(crate) mod renumber;
pub(crate) mod stacks;

use super::delta::Delta;
use crate::profile::{
    End, Event, EventId, EventInfo, EventKind, Frame, FrameId, LabelSetId, Meta, Module, ModuleId, Outcome,
    Profile, Sample, StringId, Task, TaskId, ThreadTime, Waker, counter,
};
use crate::record::names::lookup::Names;
use crate::record::names::symbolize;
use crate::record::names::symbolize::Named;
use crate::record::session::cost;
use crate::record::session::cost::{CostOf, LateCost};
use crate::record::waits::living::Living;
use accounts::Accounts;
use downsample::{DownsampleLimits, Downsampler};
use renumber::renumbered;
use stacks::ArchiveStacks;
use std::collections::BTreeMap;

/// The archive's ids of the recorder's rows.
#[derive(Debug, Default)]
struct Numbers {
    strings: Vec<StringId>,
    modules: Vec<ModuleId>,
    tasks: Vec<TaskId>,
    frames: Vec<FrameId>,
    stacks: ArchiveStacks,
    label_sets: Vec<LabelSetId>,
}

/// Everything seen since the start, or since the archive was cleared.
#[derive(Debug)]
pub(super) struct Archive {
    /// The profile that snapshots copy. Its counters are set from `counters` only in the copies.
    profile: Profile,
    numbers: Numbers,
    /// Frames without names, and their lookup.
    pub(crate) names: Names,
    pub(crate) downsampler: Downsampler,
    /// The usual limits, while tighter ones apply because stacks hardly ever repeat.
    usual_limits: Option<DownsampleLimits>,
    /// Times of living threads, if waits are recorded.
    accounts: Accounts,
    /// Time at which the archive was cleared last, ns since the recorder's start.
    cleared_ns: u64,
    /// Counters now, and at the last clearing.
    counters: BTreeMap<String, u64>,
    counters_before: BTreeMap<String, u64>,
    /// The end record if the recording ended now, and the one at the last clearing.
    end: End,
    end_before: End,
    lost: u64,
    lost_before: u64,
    observed: u64,
    /// Waits that are not over, up to the last look at the threads; times since the recorder's start.
    open_waits: Vec<Sample>,
    /// Blocks of memory that were live at the last look; times since the recorder's start.
    live_blocks: Vec<Sample>,
    /// Number of rows of each event that are being merged on another thread.
    merging: Option<Vec<usize>>,
    /// Number of times that samples were dropped or got new ids.
    epoch: u64,
    /// Whether anything was added, named or merged since the last snapshot.
    has_changes: bool,
    late_cost: LateCost,
}

/// Samples that are being merged apart from the archive, which goes on meanwhile.
#[derive(Debug)]
pub(super) struct Downsampling {
    events: Vec<Event>,
    downsampler: Downsampler,
    now_ns: u64,
    epoch: u64,
}

impl Downsampling {
    /// Merges the samples. This takes long if there are many.
    pub(super) fn run(&mut self) {
        self.downsampler.downsample(&mut self.events, self.now_ns);
    }
}

impl Archive {
    /// Makes an archive for a recording with this metadata and these events.
    pub(super) fn new(meta: Meta, events: Vec<EventInfo>, names: Names) -> Self {
        let mut profile = Profile::new(meta);
        events.into_iter().for_each(|info| {
            profile.add_event(info);
        });
        Archive {
            profile,
            numbers: Numbers::default(),
            names,
            downsampler: Downsampler::default(),
            usual_limits: None,
            accounts: Accounts::default(),
            cleared_ns: 0,
            counters: BTreeMap::new(),
            counters_before: BTreeMap::new(),
            end: End::default(),
            end_before: End::default(),
            lost: 0,
            lost_before: 0,
            observed: 0,
            open_waits: Vec::new(),
            live_blocks: Vec::new(),
            merging: None,
            epoch: 0,
            has_changes: false,
            late_cost: LateCost::default(),
        }
    }

    /// Length of the time that is kept, ns.
    pub(super) fn duration_ns(&self) -> u64 {
        self.end.duration_ns.saturating_sub(self.cleared_ns)
    }

    /// Number of samples and waits so far.
    pub(super) fn observed(&self) -> u64 {
        self.observed
    }

    /// Number of samples lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost.saturating_sub(self.lost_before)
    }

    /// Number of threads seen so far.
    pub(super) fn threads(&self) -> u32 {
        self.end.threads
    }

    /// Number of sample rows.
    pub(super) fn rows(&self) -> usize {
        self.profile.events.iter().map(crate::profile::Event::len).sum()
    }

    /// Whether the rows exceed the limit by enough to downsample.
    pub(super) fn is_full(&self) -> bool {
        self.rows() > self.downsampler.limits.rows / 4 * 5
    }

    /// Number of rows of all tables, which take the memory besides samples.
    pub(super) fn table_rows(&self) -> usize {
        let tables = &self.profile.tables;
        tables.stacks().len() + tables.frames().len() + tables.tasks().len() + tables.strings().len()
    }

    /// Whether anything is new since [`Archive::clear_changes`].
    pub(super) fn has_changes(&self) -> bool {
        self.has_changes
    }

    /// Marks everything as sent.
    pub(super) fn clear_changes(&mut self) {
        self.has_changes = false;
    }

    /// Adds an update of the recorder.
    pub(super) fn apply(&mut self, mut delta: Delta) {
        let Delta { was_reset, counters, end, lost, .. } = &delta;
        let was_reset = *was_reset;
        (self.counters, self.end, self.lost) = (counters.clone(), end.clone(), *lost);
        self.late_cost.note(end.duration_ns, cost::own().0, end.bpf_ns);
        self.add_rows(&delta);
        self.take_names(&mut delta);
        if let Some(living) = delta.living {
            self.look(living);
        }
        let mut seen = Vec::new();
        for (event, samples) in delta.samples.into_iter().enumerate() {
            self.has_changes |= !samples.is_empty();
            for sample in samples {
                let sample = self.numbered(sample);
                if sample.wait.is_none() {
                    seen.push(sample);
                }
                self.add_sample(EventId(event as u32), sample);
            }
        }
        if self.is_looked_at() {
            self.accounts.follow(&delta.wait_ends, &mut seen, &self.profile);
        }
        if self.usual_limits.is_none() && !self.has_whole_stacks() {
            self.usual_limits =
                Some(std::mem::replace(&mut self.downsampler.limits, DownsampleLimits::TIGHT));
        }
        for time in delta.thread_times {
            self.add_thread_time(time);
        }
        self.set_open_waits(delta.open_waits);
        if let Some(blocks) = delta.live_blocks {
            self.has_changes |= !(blocks.is_empty() && self.live_blocks.is_empty());
            self.live_blocks = blocks.into_iter().map(|block| self.numbered(block)).collect();
        }
        if was_reset {
            let mut stacks = std::mem::take(&mut self.numbers.stacks);
            stacks.reset();
            self.numbers = Numbers { stacks, ..Numbers::default() };
            // The next update has them under new ids.
            self.open_waits.clear();
            self.live_blocks.clear();
            self.drop_unused_rows();
        }
    }

    /// Takes the names of an update, and its frames without names.
    fn take_names(&mut self, delta: &mut Delta) {
        let frame = |id: FrameId, numbers: &Numbers| numbers.frames.get(id.index()).copied();
        let named = std::mem::take(&mut delta.named).into_iter();
        let named: Named =
            named.filter_map(|(id, locations)| Some((frame(id, &self.numbers)?, locations))).collect();
        self.name(named);
        let unnamed = |frames: Vec<(u64, FrameId)>, archive: &Archive| -> Vec<(u64, FrameId)> {
            (frames.into_iter())
                .filter_map(|(address, id)| Some((address, frame(id, &archive.numbers)?)))
                .filter(|(_, id)| archive.profile.symbols.locations(*id).is_empty())
                .collect()
        };
        for (file, module, frames) in std::mem::take(&mut delta.in_files) {
            let frames = unnamed(frames, self);
            self.names.add_file(file, module, frames);
        }
        for (pid, source, frames) in std::mem::take(&mut delta.generated) {
            let frames = unnamed(frames, self);
            self.names.add_generated(pid, source, frames);
        }
    }

    /// Takes the result of a look at the living threads.
    fn look(&mut self, mut living: Vec<Living>) {
        for one in &mut living {
            one.time.task = self.numbers.tasks[one.time.task.index()];
        }
        self.accounts.look(living, &self.profile);
    }

    /// Replaces the open waits: those known before are over, or among `waits`.
    fn set_open_waits(&mut self, waits: Vec<Sample>) {
        let waits: Vec<Sample> = waits.into_iter().map(|wait| self.numbered(wait)).collect();
        self.has_changes |= waits != self.open_waits;
        self.open_waits = waits;
    }

    fn add_rows(&mut self, delta: &Delta) {
        for info in delta.events.iter().skip(self.profile.events.len()) {
            self.profile.add_event(info.clone());
        }
        let (tables, numbers) = (&mut self.profile.tables, &mut self.numbers);
        // An id from the recorder always belongs to a row that it has sent.
        let string = |numbers: &Numbers, id: StringId| numbers.strings[id.index()];
        numbers.strings.extend(delta.strings.iter().map(|text| tables.intern_string(text)));
        for module in &delta.modules {
            let path = string(numbers, module.path);
            numbers.modules.push(tables.intern_module(Module { path, ..module.clone() }));
        }
        for task in &delta.tasks {
            let (comm, process) = (string(numbers, task.comm), string(numbers, task.process));
            numbers.tasks.push(tables.intern_task(Task { comm, process, ..*task }));
        }
        for frame in &delta.frames {
            let module = numbers.modules[frame.module.index()];
            numbers.frames.push(tables.intern_frame(Frame { module, ..*frame }));
        }
        numbers.stacks.extend(&delta.stacks);
        for set in &delta.label_sets {
            let label = |&(key, value)| (string(numbers, key), string(numbers, value));
            let set = tables.intern_label_set(set.iter().map(label).collect());
            numbers.label_sets.push(set);
        }
    }

    /// A sample of the recorder, with the ids of the archive.
    fn numbered(&mut self, sample: Sample) -> Sample {
        let Numbers { stacks, frames, tasks, label_sets, .. } = &mut self.numbers;
        let labels = sample.labels.map(|id| label_sets[id.index()]);
        let mut outcome = sample.outcome;
        let stack = sample.stack.map(|id| {
            let (here, becomes) = stacks.of(id, outcome, frames, &mut self.profile);
            outcome = becomes;
            here
        });
        let mut sample = Sample { task: tasks[sample.task.index()], stack, outcome, labels, ..sample };
        if let Some(wait) = &mut sample.wait {
            let task = wait.waker.task.map(|id| tasks[id.index()]);
            let stack =
                wait.waker.stack.map(|id| stacks.of(id, Outcome::Complete, frames, &mut self.profile).0);
            wait.waker = Waker { task, stack, ..wait.waker };
        }
        sample
    }

    fn add_sample(&mut self, event: EventId, sample: Sample) {
        if let Some(sample) = after(sample, self.cleared_ns) {
            self.profile.events[event.index()].push(sample);
            self.observed += 1;
        }
    }

    fn add_thread_time(&mut self, time: ThreadTime) {
        let task = self.numbers.tasks[time.task.index()];
        let tid = self.profile.tables.task(task).tid;
        if let Some(time) = self.accounts.end(tid, ThreadTime { task, ..time }) {
            self.has_changes = true;
            self.profile.thread_times.push(time);
        }
    }

    /// Enters names of frames.
    pub(super) fn name(&mut self, named: Named) {
        self.has_changes |= !named.is_empty();
        symbolize::store(&mut self.profile, named);
    }

    /// Adds names that have arrived since to a copy taken earlier. Does nothing if rows were dropped since the copy was
    /// taken, because its frames have other ids then.
    pub(super) fn add_names(&self, profile: &mut Profile) {
        let (own, copy) = (&self.profile.tables, &profile.tables);
        let is_same_module = |(row, other): (&Module, &Module)| {
            own.string(row.path) == copy.string(other.path) && row.build_id == other.build_id
        };
        let is_older = own.frames().starts_with(copy.frames())
            && own.modules().len() >= copy.modules().len()
            && own.modules().iter().zip(copy.modules()).all(is_same_module);
        if !is_older {
            return;
        }
        let unnamed = (0..copy.frames().len() as u32).map(FrameId).filter(|frame| {
            profile.symbols.locations(*frame).is_empty() && !self.profile.symbols.locations(*frame).is_empty()
        });
        let named: Named =
            unnamed.map(|frame| (frame, symbolize::locations_of(&self.profile, frame))).collect();
        symbolize::store(profile, named);
    }

    /// Prepares the merge for another thread; samples that arrive meanwhile stay as they are. `None` while a merge is
    /// under way.
    pub(super) fn begin_downsampling(&mut self) -> Option<Downsampling> {
        if self.merging.is_some() {
            return None;
        }
        if self.rows() > self.downsampler.limits.rows {
            let frame = self.profile.frame_left_out(0);
            self.downsampler.left_out = Some(self.profile.tables.intern_stack(None, frame));
        }
        let events = self.profile.events.clone();
        self.merging = Some(events.iter().map(Event::len).collect());
        Some(Downsampling {
            events,
            downsampler: self.downsampler.clone(),
            now_ns: self.duration_ns(),
            epoch: self.epoch,
        })
    }

    /// Takes the result of a merge. Returns a notice for the user, if there is any.
    pub(super) fn end_downsampling(&mut self, downsampling: Downsampling) -> Option<String> {
        let before = self.merging.take()?;
        if downsampling.epoch != self.epoch {
            // The merged samples are gone by now, or have other ids.
            return None;
        }
        for ((event, mut merged), before) in
            self.profile.events.iter_mut().zip(downsampling.events).zip(before)
        {
            event.samples().skip(before).for_each(|sample| merged.push(sample));
            *event = merged;
        }
        let (dropped, limits) = (self.downsampler.dropped, self.downsampler.limits);
        self.downsampler = downsampling.downsampler;
        // The limits may have changed meanwhile.
        self.downsampler.limits = limits;
        self.has_changes = true;
        let begins_ns = self.downsampler.begins_ns;
        self.profile.thread_times.retain(|time| time.to_ns >= begins_ns);
        (self.downsampler.dropped > dropped).then(|| {
            format!(
                "memory is full: {} from before {} were dropped",
                crate::base::units::counted(self.downsampler.dropped, "sample"),
                crate::base::units::duration(begins_ns),
            )
        })
    }

    /// Drops rows that no sample refers to any more.
    fn drop_unused_rows(&mut self) {
        self.epoch += 1;
        // Include living threads while renumbering, so that their rows are kept.
        let ended = self.profile.thread_times.len();
        let living = self.accounts.tasks().map(|task| ThreadTime { task: *task, ..ThreadTime::default() });
        self.profile.thread_times.extend(living);
        let mut new = renumbered(&self.profile);
        let living = new.profile.thread_times.split_off(ended);
        self.accounts.tasks().zip(living).for_each(|(task, time)| *task = time.task);
        self.names.renumber(|frame| new.frames.get(frame.index()).copied().flatten());
        self.profile = new.profile;
    }

    /// Forgets everything but the metadata and events of the recording.
    pub(super) fn clear(&mut self) {
        self.epoch += 1;
        self.profile.events.iter_mut().for_each(crate::profile::Event::clear);
        self.profile.thread_times.clear();
        let meta = &mut self.profile.meta;
        let more_ns = self.end.duration_ns - self.cleared_ns.min(self.end.duration_ns);
        meta.start_mono_ns = meta.start_mono_ns.saturating_add(more_ns);
        meta.start_unix_ns = meta.start_unix_ns.saturating_add(more_ns);
        self.cleared_ns = self.end.duration_ns;
        self.accounts.clear(self.cleared_ns);
        self.numbers.stacks.clear();
        self.counters_before = self.counters.clone();
        self.end_before = self.end.clone();
        self.lost_before = self.lost;
        self.observed = 0;
        self.downsampler = Downsampler::new(self.usual_limits.take().unwrap_or(self.downsampler.limits));
        self.has_changes = true;
    }

    /// Forgets living threads, because the times of all threads are known.
    pub(super) fn forget_living(&mut self) {
        self.accounts.forget();
    }

    /// Whether new stacks are kept whole.
    pub(super) fn has_whole_stacks(&self) -> bool {
        self.numbers.stacks.are_whole()
    }

    /// Whether the living threads are looked at.
    pub(super) fn is_looked_at(&self) -> bool {
        self.profile.event_of(&EventKind::OFF_CPU).is_some()
    }

    /// The cost of the last ten seconds, including that of the screen.
    pub(super) fn cost_of_late(&self) -> CostOf {
        self.late_cost.of_late()
    }

    /// A copy of everything as the profile of a recording that ended now. Samples are shared, not copied.
    pub(super) fn profile(&self, reason: &str) -> Profile {
        let mut profile = self.profile.clone();
        let (_, max_rss_bytes) = cost::own();
        // CPU time used while recording counts from the last clearing; that for the start always counts.
        let before_ns = self.end_before.recording_cpu_ns.unwrap_or(0);
        profile.end = Some(End {
            duration_ns: self.duration_ns(),
            reason: reason.to_owned(),
            cpu_ns: self.end.cpu_ns.saturating_sub(before_ns),
            bpf_ns: self.end.bpf_ns.saturating_sub(self.end_before.bpf_ns),
            bpf_runs: self.end.bpf_runs.saturating_sub(self.end_before.bpf_runs),
            recording_cpu_ns: self.end.recording_cpu_ns.map(|used_ns| used_ns.saturating_sub(before_ns)),
            max_rss_bytes,
            ..self.end.clone()
        });
        for (name, value) in &self.counters {
            let before = self.counters_before.get(name).copied().unwrap_or(0);
            profile.count(name, value.saturating_sub(before));
        }
        for (kind, ongoing) in [(EventKind::OFF_CPU, &self.open_waits), (EventKind::HEAP, &self.live_blocks)]
        {
            if let Some(event) = profile.events.iter_mut().find(|event| event.kind().is(&kind)) {
                let since = ongoing.iter().filter_map(|sample| after(*sample, self.cleared_ns));
                since.for_each(|sample| event.push(sample));
            }
        }
        profile.thread_times.extend(self.accounts.times(self.end.duration_ns));
        profile.count(counter::STACKS_SHORTENED, self.numbers.stacks.cut);
        profile.count(counter::SAMPLES_DROPPED, self.downsampler.dropped);
        profile.count(counter::DROPPED_NS, self.downsampler.dropped_weight);
        profile
    }
}

/// The part of a sample after `cleared_ns`, with times since then; `None` if there is none.
fn after(sample: Sample, cleared_ns: u64) -> Option<Sample> {
    if let Some(time_ns) = sample.time_ns.checked_sub(cleared_ns) {
        return Some(Sample { time_ns, ..sample });
    }
    let wait = sample.wait?;
    let duration_ns = (sample.time_ns.saturating_add(wait.duration_ns)).checked_sub(cleared_ns)?;
    if duration_ns == 0 {
        return None;
    }
    // The probability that the wait was kept stays the same.
    let weight = u128::from(sample.weight) * u128::from(duration_ns) / u128::from(wait.duration_ns.max(1));
    Some(Sample {
        time_ns: 0,
        weight: u64::try_from(weight).unwrap_or(u64::MAX),
        wait: Some(crate::profile::Wait { duration_ns, ..wait }),
        ..sample
    })
}
