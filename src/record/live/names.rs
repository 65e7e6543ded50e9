//! Names for frames while a recording runs: looked up on other threads, and not more often than it is worth.
//!
//! Looking names up in a large file takes long, however few they are. New frames of a file therefore wait: at first twice
//! as long as it took the last time, then twice that, since most frames of a program are new in its first seconds; at
//! last [`PATIENCE`] times as long. Those of a file that has not been read yet do not wait at all.

use super::keeper::Message;
use crate::profile::FrameId;
use crate::record::modules::{FileId, ModuleFile};
use crate::record::symbolize::{Addresses, Named, name_module, read_perf_map};
use crate::symbols::PerfMapSource;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// So many times as long as looking names up took is waited at most before it is done again.
const PATIENCE: u32 = 50;
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The shortest wait between two looks into one file, after its first few.
const SHORTEST_WAIT: Duration = Duration::from_millis(500);
/// Most frames of generated code that wait in one process: their names may never come.
const MOST_GENERATED: usize = 100_000;

/// Where names come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    /// A file.
    File(FileId),
    /// The map of a process that generates code.
    Process(u32),
}

#[derive(Debug, Clone)]
enum Source {
    File(Box<ModuleFile>),
    Map(Arc<PerfMapSource>),
}

#[derive(Debug)]
struct Queue {
    source: Option<Source>,
    waiting: Addresses,
    /// Those that are being looked up; `None` for what is no longer needed.
    asked: Vec<(u64, Option<FrameId>)>,
    due: Instant,
    /// Looks that have found nothing.
    vain: u32,
    /// Looks so far.
    looks: u32,
}

/// An answer: names by the place of their frame in what was asked.
#[derive(Debug)]
pub(super) struct Answer {
    pub origin: Origin,
    pub named: Named,
    pub took: Duration,
    /// What is to be said of names that are there and are not read.
    pub refused: Option<String>,
}

/// All frames without names.
#[derive(Debug)]
pub(super) struct Names {
    queues: FxHashMap<Origin, Queue>,
    sender: Sender<Message>,
    stop: Arc<AtomicBool>,
}

impl Drop for Names {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Names {
    /// Answers go to `sender`.
    pub(super) fn new(sender: Sender<Message>) -> Self {
        Names { queues: FxHashMap::default(), sender, stop: Arc::default() }
    }

    /// Where answers go.
    pub(super) fn sender(&self) -> Sender<Message> {
        self.sender.clone()
    }

    fn queue(&mut self, origin: Origin) -> &mut Queue {
        self.queues.entry(origin).or_insert_with(|| Queue {
            source: None,
            waiting: Vec::new(),
            asked: Vec::new(),
            due: Instant::now(),
            vain: 0,
            looks: 0,
        })
    }

    /// Frames in a file.
    pub(super) fn add_file(&mut self, id: FileId, file: ModuleFile, frames: Addresses) {
        let queue = self.queue(Origin::File(id));
        queue.source = Some(Source::File(Box::new(file)));
        queue.waiting.extend(frames);
    }

    /// Frames of code that process `pid` has generated.
    pub(super) fn add_generated(&mut self, pid: u32, map: Option<Arc<PerfMapSource>>, frames: Addresses) {
        let queue = self.queue(Origin::Process(pid));
        queue.source = map.map(Source::Map).or(queue.source.take());
        let room = MOST_GENERATED.saturating_sub(queue.waiting.len());
        queue.vain = if frames.is_empty() { queue.vain } else { 0 };
        queue.waiting.extend(frames.into_iter().take(room));
    }

    /// When something is to be looked up next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.queues.values().filter(|queue| queue.is_ready()).map(|queue| queue.due).min()
    }

    /// Whether nothing is being looked up, nor waits for that but in vain.
    pub(super) fn is_idle(&self) -> bool {
        self.queues.values().all(|queue| queue.asked.is_empty() && (!queue.is_ready() || queue.vain > 0))
    }

    /// The frames whose names are still to come: not those that were looked for in vain, which may never come.
    pub(super) fn to_come(&self) -> impl Iterator<Item = FrameId> + '_ {
        let queues = self.queues.values().filter(|queue| queue.vain == 0);
        queues.flat_map(|queue| {
            // What waits without a source has no name, as far as is known.
            let waiting = queue.waiting.iter().filter(|_| queue.source.is_some()).map(|(_, frame)| *frame);
            waiting.chain(queue.asked.iter().filter_map(|(_, frame)| *frame))
        })
    }

    /// Begins to look up what is due, or all if it is not to wait.
    pub(super) fn look_up(&mut self, may_wait: bool) {
        let now = Instant::now();
        for (&origin, queue) in &mut self.queues {
            let is_due = queue.due <= now || (!may_wait && queue.vain == 0);
            if !queue.is_ready() || !is_due {
                continue;
            }
            let Some(source) = queue.source.clone() else { continue };
            queue.waiting.sort_unstable();
            queue.waiting.dedup();
            let frames: Addresses = (queue.waiting.iter().zip(0..))
                .map(|((address, _), place)| (*address, FrameId(place)))
                .collect();
            queue.asked = queue.waiting.drain(..).map(|(address, frame)| (address, Some(frame))).collect();
            let (sender, stop) = (self.sender.clone(), Arc::clone(&self.stop));
            rayon::spawn(move || {
                let begun = Instant::now();
                let (named, refused) = match look_up(&source, frames, &stop) {
                    Ok(named) => (named, None),
                    Err(refused) => (Vec::new(), Some(refused)),
                };
                // Nobody may be there any more to whom the names matter.
                let _ = sender.send(Message::Named(Answer { origin, named, took: begun.elapsed(), refused }));
            });
        }
    }

    /// Takes an answer; returns the names of frames.
    pub(super) fn take(&mut self, answer: Answer) -> Named {
        let Some(queue) = self.queues.get_mut(&answer.origin) else { return Vec::new() };
        let mut asked = std::mem::take(&mut queue.asked);
        let named: Named = (answer.named.into_iter())
            .filter_map(|(place, locations)| {
                let frame = asked.get_mut(place.index())?.1.take()?;
                Some((frame, locations))
            })
            .collect();
        if matches!(answer.origin, Origin::Process(_)) {
            // Names of generated code may still be written.
            queue.vain = if named.is_empty() { (queue.vain + 1).min(6) } else { 0 };
            let unnamed = asked.into_iter().filter_map(|(address, frame)| Some((address, frame?)));
            queue.waiting.extend(unnamed);
        }
        queue.looks = queue.looks.saturating_add(1);
        queue.due = Instant::now() + wait_after(queue.looks, queue.vain, answer.took);
        named
    }

    /// Gives frames new numbers; those without one are forgotten.
    pub(super) fn renumber(&mut self, number: impl Fn(FrameId) -> Option<FrameId>) {
        for queue in self.queues.values_mut() {
            queue.waiting = queue
                .waiting
                .drain(..)
                .filter_map(|(address, frame)| Some((address, number(frame)?)))
                .collect();
            queue.asked.iter_mut().for_each(|(_, frame)| *frame = frame.and_then(&number));
        }
        self.queues.retain(|_, queue| !queue.waiting.is_empty() || !queue.asked.is_empty());
    }
}

impl Queue {
    fn is_ready(&self) -> bool {
        !self.waiting.is_empty() && self.asked.is_empty() && self.source.is_some()
    }
}

/// How long it is waited after so many looks, the last ones in `vain`, of which the last one took so long.
fn wait_after(looks: u32, vain: u32, took: Duration) -> Duration {
    let times = 2u32.checked_pow(looks).map_or(PATIENCE, |times| times.min(PATIENCE));
    let least = if vain == 0 { SHORTEST_WAIT / (16 >> looks.min(4)) } else { SHORTEST_WAIT * (1 << vain) };
    (took * times).max(least).min(LONGEST_WAIT)
}

fn look_up(source: &Source, mut frames: Addresses, stop: &Arc<AtomicBool>) -> Result<Named, String> {
    match source {
        // What cannot be read has no names.
        Source::File(file) => Ok(name_module(file, &mut frames, stop).unwrap_or_default()),
        Source::Map(map) => read_perf_map(map, &frames),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_in_the_first_seconds_has_its_names_soon() {
        let took = Duration::from_millis(200);
        let looks = |number: u32| wait_after(number, 0, took) + took;
        // The first look is at once; the next three are within five seconds, not fifty times as long apart.
        assert!(took + looks(1) <= Duration::from_secs(1), "{:?}", looks(1));
        assert!(took + (1..=3).map(looks).sum::<Duration>() <= Duration::from_secs(5));
        assert_eq!(wait_after(20, 0, took), took * PATIENCE, "in the long run it costs little");
        assert_eq!(wait_after(u32::MAX, 0, Duration::from_secs(9)), LONGEST_WAIT);
        assert_eq!(wait_after(1, 2, Duration::ZERO), SHORTEST_WAIT * 4, "names that may never come");
        let least: Vec<Duration> = (1..=5).map(|looks| wait_after(looks, 0, Duration::ZERO)).collect();
        assert!(least.is_sorted() && least[0] < Duration::from_millis(100), "{least:?}");
        assert_eq!(least[3..], [SHORTEST_WAIT; 2]);
    }
}
