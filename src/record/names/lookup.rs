//! Names for frames while a recording runs: looked up on other threads, and no more often than is worth it.
//!
//! A lookup in a large file takes long, however few the names. New frames of a file therefore wait: at first for twice
//! as long as the last lookup took, then for four times as long, and so on, since most frames of a program are new in
//! its first seconds; in the end for fifty times as long. Frames of a file that has not been read yet do not
//! wait at all.

mod queue;

use super::look::{self, FileToRead, KeptNames, LookupResult};
use super::symbolize::{Addresses, Named};
use crate::base::deadline::Deadline;
use crate::base::memory_budget::MemoryBudget;
use crate::profile::{FrameId, ModuleNotes, SymbolsFrom};
use crate::record::modules::{FileId, ModuleFile, ModuleFiles};
use crate::record::workers::JobUrgency;
use crate::symbols::{PerfMapSource, ResolvedLocation};
use queue::{LookupSource, OpenFile, Origin, Queue, to_close, wait_after};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Nice value of threads that look up names that are not urgent: the target comes first.
const BACKGROUND_PRIORITY: i32 = 19;
/// Files that are looked into at a time in a recording of weeks.
const READERS: usize = 8;
/// Time limit for one lookup in a file.
const LONGEST_LOOK: Duration = Duration::from_secs(60);
/// Most memory for files that are kept open for the next lookup, bytes, all files together.
const MOST_KEPT: u64 = 32 << 20;
/// Time after which frames of a long window have their names, should its recorder be killed.
const LONGEST_UNNAMED: Duration = Duration::from_secs(60);
/// Time that a file is kept open after a lookup.
const LONGEST_KEPT: Duration = Duration::from_secs(20);
/// Time after which a lookup in the background, on a machine that is too busy for it, is started again on the normal
/// thread pool.
const BACKGROUND_PATIENCE: Duration = Duration::from_secs(5);
/// The same when someone is waiting for the names.
const URGENT_PATIENCE: Duration = Duration::from_millis(200);
/// Most frames of generated code that wait per process: their names may never come.
const MOST_GENERATED: usize = 100_000;

/// Result of a lookup. Frames in `named` are indices into the frames asked for.
#[derive(Debug)]
pub(crate) struct Answer {
    origin: Origin,
    look: u64,
    named: Named,
    took: Duration,
    /// The file as it was opened for the lookup.
    kept: Option<KeptNames>,
    /// Messages about what could not be read.
    problems: Vec<String>,
    /// Message about existing names that were not read.
    pub(crate) refused: Option<String>,
    /// Sources of the names.
    notes: Option<Box<ModuleNotes>>,
}

impl Answer {
    /// The file that it is of, if it is of one.
    pub(super) fn file(&self) -> Option<FileId> {
        match self.origin {
            Origin::File(file) => Some(file),
            Origin::Process(_) => None,
        }
    }
}

/// Receives answers, on any thread.
pub(crate) type Deliver = Arc<dyn Fn(Answer) + Send + Sync>;

/// Urgency of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Names can wait until a lookup is worth it.
    Whenever,
    /// Now, except for frames whose last lookup found nothing.
    Now,
    /// Everything is looked up now, for the last time.
    Last,
}

/// All frames without names.
pub(crate) struct Names {
    queues: FxHashMap<Origin, Queue>,
    deliver: Deliver,
    /// Thread pool for lookups that are not urgent; `None`: they run on the normal pool.
    background: Option<rayon::ThreadPool>,
    /// Threads for the others where files are read for months; `None`: the normal pool. Each waits for a worker, and slow ones must not
    /// hold up the rest.
    readers: Option<rayon::ThreadPool>,
    /// Number of the last lookup: none has that of another, whatever became of its queue.
    last_look: u64,
    longest_wait: Duration,
    shortest_wait: Duration,
    longest_kept: Duration,
    /// Messages about what could not be read, without duplicates.
    problems: Vec<String>,
    /// Messages about maps of generated code that were not read, without duplicates.
    refused: Vec<String>,
    /// Sources that could not be read in full.
    unread: FxHashSet<Origin>,
    /// Sources of the names of files.
    notes: FxHashMap<FileId, ModuleNotes>,
    /// Folders to look for debug files in, besides the usual places.
    folders: Arc<[PathBuf]>,
    stop: Arc<AtomicBool>,
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").field("queues", &self.queues).finish_non_exhaustive()
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Names {
    /// Makes the queues for a live view: answers go to `deliver`. In the long run, large files are looked into rarely.
    pub(crate) fn to_be_shown(deliver: Deliver) -> Self {
        Names {
            queues: FxHashMap::default(),
            deliver,
            background: None,
            readers: None,
            last_look: 0,
            longest_wait: Duration::from_secs(60),
            shortest_wait: Duration::ZERO,
            longest_kept: LONGEST_KEPT,
            problems: Vec::new(),
            refused: Vec::new(),
            unread: FxHashSet::default(),
            notes: FxHashMap::default(),
            folders: Arc::from([]),
            stop: Arc::default(),
        }
    }

    /// Makes the queues for a recording, which should have its names even if the recorder is killed: none waits longer
    /// than `longest_wait`, and all are looked up by a thread of the lowest priority.
    pub(super) fn to_be_written(deliver: Deliver, longest_wait: Duration, folders: &[PathBuf]) -> Self {
        let background = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .thread_name(|_| "prof-names".to_owned())
            .start_handler(|_| {
                crate::base::privilege::keep_watching_or_end();
                // Lowering one's own priority is always allowed.
                let _ = rustix::process::setpriority_process(None, BACKGROUND_PRIORITY);
            })
            .build();
        let mut names = Names::to_be_shown(deliver);
        // Without that thread, lookups run on the normal pool.
        names.background = background.ok();
        names.longest_wait = longest_wait;
        names.folders = Arc::from(folders);
        names
    }

    /// There is a window of time after the other, of this length, each with its names at its end: once in each is enough, and what was
    /// opened for one is of use for the next one.
    pub(super) fn expect_windows(&mut self, length: Duration) {
        let readers =
            rayon::ThreadPoolBuilder::new().num_threads(READERS).thread_name(|_| "prof-reader".to_owned());
        let readers = readers.start_handler(|_| crate::base::privilege::keep_watching_or_end());
        self.readers = readers.build().ok();
        let length = length.min(LONGEST_UNNAMED);
        self.longest_wait = length;
        self.shortest_wait = length / 2;
        self.longest_kept = LONGEST_KEPT.max(length * 2);
    }

    /// Makes running lookups end early.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Folders to look for debug files in, besides the usual places.
    pub(super) fn folders(&self) -> Arc<[PathBuf]> {
        Arc::clone(&self.folders)
    }

    /// Messages about what could not be read of files, each with its path.
    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Messages about maps of generated code that were not read.
    pub(crate) fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Sources of the names of a file, if any were looked up.
    pub(crate) fn notes(&self, file: FileId) -> Option<&ModuleNotes> {
        self.notes.get(&file)
    }

    /// Number of files that could not be read in full.
    pub(crate) fn unread_files(&self) -> u64 {
        self.unread.len() as u64
    }

    /// Numbers of sources: those with nothing left to do, and all.
    pub(crate) fn progress(&self) -> (usize, usize) {
        let is_done = |queue: &&Queue| queue.asked.is_empty() && !queue.is_ready();
        (self.queues.values().filter(is_done).count(), self.queues.len())
    }

    fn queue(&mut self, origin: Origin) -> &mut Queue {
        self.queues.entry(origin).or_default()
    }

    /// Adds frames in a file.
    pub(crate) fn add_file(&mut self, id: FileId, file: ModuleFile, frames: Addresses) {
        let queue = self.queue(Origin::File(id));
        if queue.bytes == 0 {
            queue.bytes = file.length();
        }
        queue.source = Some(LookupSource::File(Box::new(file)));
        queue.waiting.extend(frames);
    }

    /// Adds frames of code that process `pid` generated.
    pub(crate) fn add_generated(&mut self, pid: u32, map: Option<Arc<PerfMapSource>>, frames: Addresses) {
        let queue = self.queue(Origin::Process(pid));
        queue.source = map.map(LookupSource::Map).or(queue.source.take());
        let room = MOST_GENERATED.saturating_sub(queue.waiting.len());
        queue.vain = if frames.is_empty() { queue.vain } else { 0 };
        queue.waiting.extend(frames.into_iter().take(room));
    }

    /// Returns the time at which the next lookup is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.queues.values().filter(|queue| queue.is_ready()).map(|queue| queue.due).min()
    }

    /// Whether nothing is being looked up or waiting, except for frames whose last lookup found nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.queues.values().all(|queue| queue.asked.is_empty() && (!queue.is_ready() || queue.vain > 0))
    }

    /// Whether frames are being looked up or wait for that, and not only code whose frames are gone by now.
    pub(super) fn is_awaited(&self) -> bool {
        self.queues.values().any(Queue::is_awaited)
    }

    /// The frames whose names are yet to come: not those whose last lookup found nothing, because theirs may never
    /// come.
    pub(crate) fn to_come(&self) -> impl Iterator<Item = FrameId> + '_ {
        let queues = self.queues.values().filter(|queue| queue.vain == 0);
        queues.flat_map(|queue| {
            // Frames that wait without a source have no name as far as is known.
            let waiting = queue.waiting.iter().filter(|_| queue.source.is_some()).map(|(_, frame)| *frame);
            waiting.chain(queue.asked.iter().filter_map(|(_, frame)| *frame))
        })
    }

    /// Starts the lookups that are due, or more if it is urgent: small files first, so that a lookup cut short only
    /// costs the names of a few large ones.
    pub(crate) fn look_up(&mut self, urgency: Urgency) {
        let now = Instant::now();
        self.let_go(now);
        let mut queues: Vec<(&Origin, &mut Queue)> = self.queues.iter_mut().collect();
        queues.sort_unstable_by_key(|(_, queue)| queue.bytes);
        for (&origin, queue) in queues {
            let is_due = match urgency {
                Urgency::Whenever => queue.due <= now,
                Urgency::Now => queue.due <= now || queue.vain == 0,
                Urgency::Last => true,
            };
            if queue.is_ready() && is_due {
                // One that starves is begun again under its number: whichever has the answer first has answered.
                self.last_look += 1;
                queue.ask(self.last_look);
            } else {
                let patience = match urgency {
                    Urgency::Whenever => BACKGROUND_PATIENCE,
                    Urgency::Now | Urgency::Last => URGENT_PATIENCE,
                };
                let starves = |since| now.saturating_duration_since(since) > patience;
                if !queue.in_background_since.is_some_and(starves) {
                    continue;
                }
            }
            let Some(source) = queue.source.clone() else { continue };
            let background = self.background.as_ref().filter(|_| {
                // A lookup that starved once would starve again.
                urgency == Urgency::Whenever && queue.in_background_since.is_none()
            });
            queue.in_background_since = background.map(|_| now);
            let look = queue.look;
            let frames: Addresses =
                queue.asked.iter().zip(0..).map(|((address, _), place)| (*address, FrameId(place))).collect();
            let kept = queue.kept.take().map(|(names, _)| names);
            queue.was_kept = kept.is_some();
            let (deliver, stop) = (Arc::clone(&self.deliver), Arc::clone(&self.stop));
            let folders = Arc::clone(&self.folders);
            let of_job = if background.is_some() { JobUrgency::Background } else { JobUrgency::Ordinary };
            let work = move || {
                let begun = Instant::now();
                let looked = look_up(&source, kept, frames, &folders, of_job, &stop);
                let LookupResult { named, kept, problems, refused, notes } = looked;
                let took = begun.elapsed();
                deliver(Answer { origin, look, named, took, kept, problems, refused, notes });
            };
            match background {
                Some(background) => background.spawn(work),
                None => match &self.readers {
                    Some(readers) => readers.spawn(work),
                    None => rayon::spawn(work),
                },
            }
        }
    }

    /// Closes files that have not been used for long, or all of them when memory is short.
    fn let_go(&mut self, now: Instant) {
        let is_short = MemoryBudget::shared().wanted_bytes() > 0;
        let longest_kept = self.longest_kept;
        for queue in self.queues.values_mut() {
            queue.kept = (queue.kept.take())
                .filter(|(_, at)| !is_short && now.saturating_duration_since(*at) < longest_kept);
        }
    }

    /// Makes room for a file that takes `bytes` while it is open, and whose lookup has just taken `took`, by closing others. Returns
    /// whether there is room.
    fn make_room(&mut self, origin: Origin, bytes: u64, took: Duration) -> bool {
        let cost = self.queues.get(&origin).map_or(0, |queue| queue.cost_per_byte(bytes, took));
        let others = self.queues.iter().filter(|(other, _)| **other != origin);
        let kept = others.filter_map(|(of, queue)| {
            let bytes = queue.kept.as_ref()?.0.memory_bytes();
            Some(OpenFile { of: *of, bytes, cost: queue.cost_per_byte(bytes, Duration::ZERO) })
        });
        let closed = to_close(kept.collect(), &OpenFile { of: origin, bytes, cost }, MOST_KEPT);
        for other in closed.iter().flatten() {
            self.queues.entry(*other).and_modify(|queue| queue.kept = None);
        }
        closed.is_some()
    }

    /// The addresses that an answer is about, also those whose frames are gone by now, and their names; none if the lookup
    /// has been answered.
    pub(super) fn answered<'a>(
        &self,
        answer: &'a Answer,
    ) -> impl Iterator<Item = (u64, &'a [ResolvedLocation])> {
        let queue = self.queues.get(&answer.origin).filter(|queue| queue.awaits(answer.look));
        // A lookup that could not read the file says nothing of what it would have found.
        let queue = queue.filter(|_| answer.problems.is_empty());
        let names: FxHashMap<usize, &[ResolvedLocation]> =
            answer.named.iter().map(|(place, locations)| (place.index(), &**locations)).collect();
        let asked = queue.map_or(&[][..], |queue| &queue.asked);
        asked
            .iter()
            .enumerate()
            .map(move |(place, (address, _))| (*address, names.get(&place).copied().unwrap_or_default()))
    }

    /// Takes an answer; returns the names of frames.
    pub(crate) fn take(&mut self, answer: Answer) -> Named {
        // It was started again because it took too long, and has been answered.
        if self.queues.get(&answer.origin).is_none_or(|queue| !queue.awaits(answer.look)) {
            return Vec::new();
        }
        if !answer.problems.is_empty() {
            self.unread.insert(answer.origin);
        }
        if let (Origin::File(file), Some(notes)) = (answer.origin, answer.notes) {
            let known = self.notes.entry(file).or_default();
            match notes.symbols {
                // Nothing was read this time.
                SymbolsFrom::Unknown => known.add_problems(notes.problems),
                _ => {
                    let before = std::mem::replace(known, *notes);
                    // Found only while the process lived that had the file.
                    if known.package.is_empty() {
                        (known.package, known.distribution) = (before.package, before.distribution);
                    }
                }
            }
        }
        if let Some(refused) = answer.refused.filter(|refused| !self.refused.contains(refused)) {
            self.refused.push(refused);
        }
        for problem in answer.problems {
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        let kept =
            answer.kept.filter(|names| self.make_room(answer.origin, names.memory_bytes(), answer.took));
        let Some(queue) = self.queues.get_mut(&answer.origin) else { return Vec::new() };
        queue.note_opening(answer.took);
        queue.kept = kept.map(|names| (names, Instant::now()));
        queue.in_background_since = None;
        let (named, unnamed) = queue.take_names(answer.named);
        if matches!(answer.origin, Origin::Process(_)) {
            // Names of generated code may still be written.
            queue.vain = if named.is_empty() { (queue.vain + 1).min(6) } else { 0 };
            queue.waiting.extend(unnamed);
        }
        queue.looks = queue.looks.saturating_add(1);
        let wait = wait_after(queue.looks, queue.vain, answer.took).max(self.shortest_wait);
        queue.due = Instant::now() + wait.min(self.longest_wait);
        named
    }

    /// Takes the file `id`, with what was read of it for names; no more names can be looked up in it afterwards.
    pub(super) fn take_file(&mut self, id: FileId) -> Option<(Box<ModuleFile>, Option<KeptNames>)> {
        let queue = self.queues.get_mut(&Origin::File(id))?;
        match queue.source.take() {
            Some(LookupSource::File(file)) => Some((file, queue.kept.take().map(|(names, _)| names))),
            _ => None,
        }
    }

    /// Forgets all frames, and what is known of files that are closed.
    pub(super) fn begin_window(&mut self, files: &ModuleFiles) {
        for queue in self.queues.values_mut() {
            queue.forget_frames();
        }
        // How long lookups in a file take stays known while it is open: else each window would begin with several.
        self.queues.retain(|origin, queue| {
            queue.is_of_use() || matches!(origin, Origin::File(file) if files.is_open(*file))
        });
        self.notes.retain(|file, _| files.is_open(*file));
        self.unread.retain(|origin| matches!(origin, Origin::File(file) if files.is_open(*file)));
        self.problems.clear();
        self.refused.clear();
    }

    /// Gives frames new numbers; frames without one are dropped.
    pub(crate) fn renumber(&mut self, number: impl Fn(FrameId) -> Option<FrameId>) {
        for queue in self.queues.values_mut() {
            queue.waiting = queue
                .waiting
                .drain(..)
                .filter_map(|(address, frame)| Some((address, number(frame)?)))
                .collect();
            queue.asked.iter_mut().for_each(|(_, frame)| *frame = frame.and_then(&number));
        }
        self.queues.retain(|_, queue| queue.is_of_use());
    }
}

/// Looks up names in `source`, using the file `kept` open by the last lookup.
fn look_up(
    source: &LookupSource,
    kept: Option<KeptNames>,
    frames: Addresses,
    folders: &[PathBuf],
    urgency: JobUrgency,
    stop: &Arc<AtomicBool>,
) -> LookupResult {
    let deadline = Deadline::after(LONGEST_LOOK, stop);
    match source {
        LookupSource::File(file) => {
            FileToRead { file, kept, folders, urgency, deadline: &deadline }.look_up(frames)
        }
        LookupSource::Map(map) => look::in_map(map, frames, &deadline),
    }
}

#[cfg(test)]
mod tests;
