//! Several recordings as one: windows of a recording, one after the other.

mod cut;
mod rows;

use crate::profile::code::function_code::FunctionCode;
use crate::profile::code::source_text::SourceText;
use crate::profile::contents::{End, Profile};
use crate::profile::event::{Event, EventId, EventInfo};
use crate::profile::rows::{ModuleId, ModuleNotes, TaskId};
use crate::profile::wait::{ShortWaits, ThreadTime};
pub(crate) use cut::cut;
pub(crate) use rows::TakenRows;
use rustc_hash::{FxHashMap, FxHashSet};

/// Most notices of all windows that are kept, each once.
const MOST_NOTICES: usize = 100;
/// Most samples of a profile that is joined: some gigabytes.
pub(crate) const MOST_JOINED: usize = 40_000_000;

/// Profiles that become one.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    profile: Profile,
    /// Profiles so far.
    count: u32,
    samples: usize,
    /// Times of threads, by thread.
    times: FxHashMap<TaskId, usize>,
    /// End of the last one, ns since the start of the first.
    end_ns: u64,
    /// The ends that are there, added up: their length is that of what has one.
    ends: Option<End>,
    /// Whether the last one has an end.
    has_last_end: bool,
    /// Code that is there, by module and start.
    codes: FxHashSet<(ModuleId, u64)>,
}

impl Joined {
    /// Adds what was recorded after all that is there, by its wall clock: where that was set back in between, right after it. Returns
    /// whether there was room for all of its samples.
    pub(crate) fn add(&mut self, mut other: Profile) -> bool {
        let samples: usize = other.events.iter().map(Event::len).sum();
        if self.samples + samples > MOST_JOINED {
            return false;
        }
        self.samples += samples;
        let end = other.end.take();
        let duration_ns = other.duration_ns().max(end.as_ref().map_or(0, |end| end.duration_ns));
        let start_ns = self.start_of(&other);
        if self.count == 0 {
            self.profile.meta = other.meta.clone();
        }
        let mut rows = TakenRows::new(&other, self.count << 16);
        rows.all_frames(&mut self.profile);
        self.take_samples(&other, &mut rows, start_ns);
        self.take_times(&other, &mut rows, start_ns);
        self.take_code(&other, &mut rows);
        for (name, value) in &other.counters {
            self.profile.count(name, *value);
        }
        let notices = &mut self.profile.meta.notices;
        let new: Vec<String> =
            other.meta.notices.iter().filter(|notice| !notices.contains(notice)).cloned().collect();
        notices.extend(new);
        notices.truncate(MOST_NOTICES);
        self.end_ns = start_ns.saturating_add(duration_ns);
        self.has_last_end = end.is_some();
        if let Some(end) = end {
            self.take_end(end);
        }
        self.count += 1;
        true
    }

    /// The cost of those that have an end, which say it, and the length of these: between them may be times without a recorder.
    pub(crate) fn known_cost(&self) -> Option<End> {
        self.ends.clone()
    }

    /// All of them as one; without any it is empty. A last end that is missing is missing of all.
    pub(crate) fn into_profile(mut self) -> Profile {
        let end = self.ends.take().filter(|_| self.has_last_end);
        self.profile.end = end.map(|end| End { duration_ns: self.end_ns, ..end });
        let threads = self.profile.tables.tasks().iter().map(|task| (task.pid, task.tid));
        let threads = threads.collect::<FxHashSet<_>>().len();
        if let Some(end) = &mut self.profile.end {
            end.threads = end.threads.max(u32::try_from(threads).unwrap_or(u32::MAX));
        }
        self.profile
    }

    /// When another one began, ns since the first.
    fn start_of(&self, other: &Profile) -> u64 {
        let (first, next) = (&self.profile.meta, &other.meta);
        if self.count == 0 {
            return 0;
        }
        let is_same = first.recorder_pid == next.recorder_pid && first.hostname == next.hostname;
        // Windows of one recording have a clock that no one sets.
        let of_recording = next.start_mono_ns.checked_sub(first.start_mono_ns).filter(|_| is_same);
        let by_wall = next.start_unix_ns.saturating_sub(first.start_unix_ns);
        of_recording.filter(|start_ns| *start_ns >= self.end_ns).unwrap_or(by_wall).max(self.end_ns)
    }

    fn event(&mut self, info: &EventInfo) -> EventId {
        let known = self.profile.events.iter().position(|event| event.kind().is(&info.kind));
        known.map_or_else(|| self.profile.add_event(info.clone()), |index| EventId(index as u32))
    }

    fn take_samples(&mut self, other: &Profile, rows: &mut TakenRows<'_>, start_ns: u64) {
        for event in &other.events {
            let id = self.event(event.info());
            for sample in event.samples() {
                let mut new = rows.sample(sample, &mut self.profile);
                new.time_ns = new.time_ns.saturating_add(start_ns);
                self.profile.events[id.index()].push(new);
            }
        }
    }

    /// Adds up the times of threads: a thread that is there in several windows has the time of all of them.
    fn take_times(&mut self, other: &Profile, rows: &mut TakenRows<'_>, start_ns: u64) {
        for time in &other.thread_times {
            let task = rows.task(time.task, &mut self.profile);
            let (from_ns, to_ns) =
                (time.from_ns.saturating_add(start_ns), time.to_ns.saturating_add(start_ns));
            let new = ThreadTime { task, from_ns, to_ns, ..time.clone() };
            match self.times.get(&task) {
                Some(&at) => add_time(&mut self.profile.thread_times[at], &new),
                None => {
                    self.times.insert(task, self.profile.thread_times.len());
                    self.profile.thread_times.push(new);
                }
            }
        }
    }

    fn take_code(&mut self, other: &Profile, rows: &mut TakenRows<'_>) {
        for (module, notes) in &other.module_notes {
            let module = rows.module(*module, &mut self.profile);
            let known: &mut ModuleNotes = self.profile.module_notes.entry(module).or_default();
            known.clone_from(notes);
        }
        for code in &other.code {
            let module = rows.module(code.module, &mut self.profile);
            if !self.codes.insert((module, code.address)) {
                continue;
            }
            let mut new = FunctionCode {
                module,
                function: rows.function(code.function, &mut self.profile),
                ..code.clone()
            };
            for run in &mut new.runs {
                run.file = rows.string(run.file, &mut self.profile);
            }
            for call in &mut new.inlined {
                call.function = rows.function(call.function, &mut self.profile);
                call.file = rows.string(call.file, &mut self.profile);
            }
            for target in &mut new.targets {
                target.function = rows.function(target.function, &mut self.profile);
            }
            self.profile.code.push(new);
        }
        for source in &other.sources {
            let new = SourceText { file: rows.string(source.file, &mut self.profile), ..source.clone() };
            if !self.profile.sources.contains(&new) {
                self.profile.sources.push(new);
            }
        }
    }

    /// Adds up the ends.
    fn take_end(&mut self, end: End) {
        let Some(before) = self.ends.take() else {
            self.ends = Some(end);
            return;
        };
        let mut notices = before.notices;
        notices.extend(
            end.notices.iter().filter(|notice| !notices.contains(notice)).cloned().collect::<Vec<_>>(),
        );
        notices.truncate(MOST_NOTICES);
        let recording_cpu_ns = before.recording_cpu_ns.zip(end.recording_cpu_ns);
        self.ends = Some(End {
            duration_ns: before.duration_ns.saturating_add(end.duration_ns),
            cpu_ns: before.cpu_ns.saturating_add(end.cpu_ns),
            recording_cpu_ns: recording_cpu_ns.map(|(before_ns, ns)| before_ns.saturating_add(ns)),
            bpf_ns: before.bpf_ns.saturating_add(end.bpf_ns),
            bpf_runs: before.bpf_runs.saturating_add(end.bpf_runs),
            max_rss_bytes: before.max_rss_bytes.max(end.max_rss_bytes),
            threads: before.threads.max(end.threads),
            notices,
            ..end
        });
    }
}

/// Adds the time of the same thread in a later window.
fn add_time(sum: &mut ThreadTime, later: &ThreadTime) {
    sum.to_ns = sum.to_ns.max(later.to_ns);
    sum.from_ns = sum.from_ns.min(later.from_ns);
    for (sum, later) in [
        (&mut sum.on_cpu_ns, later.on_cpu_ns),
        (&mut sum.no_cpu_ns, later.no_cpu_ns),
        (&mut sum.blocked_ns, later.blocked_ns),
        (&mut sum.switches, later.switches),
    ] {
        *sum = sum.saturating_add(later);
    }
    sum.has_ended = later.has_ended;
    for waits in &later.short_waits {
        match sum.short_waits.iter_mut().find(|known| known.reason == waits.reason) {
            Some(ShortWaits { count, time_ns, .. }) => {
                *count = count.saturating_add(waits.count);
                *time_ns = time_ns.saturating_add(waits.time_ns);
            }
            None => sum.short_waits.push(*waits),
        }
    }
}

#[cfg(test)]
mod tests;
