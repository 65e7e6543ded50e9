//! Updates from a recorder: new rows and samples since the last update, and where names can be found.

use crate::profile::{
    End, Event, EventInfo, FRAMES_LEFT_OUT, Frame, FrameId, FrameSpace, LabelSet, Module, Sample, Stack,
    Task, ThreadTime,
};
use crate::record::collect::collector::Collector;
use crate::record::collect::table_reset::MostRows;
use crate::record::modules::{FileId, ModuleFile};
use crate::record::names::symbolize::{Addresses, Named, UserFrames, kernel_location, locations_of};
use crate::record::session::Session;
use crate::record::waits::living::{Living, WaitEnd};
use crate::symbols::{PerfMapSource, ResolvedLocation};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Row counts at which the recorder starts over with new rows. The receiver then has to renumber all of them, so this
/// should be rare.
const MOST_ROWS: MostRows = MostRows { stacks: 1 << 18, frames: 1 << 18, tasks: 1 << 16 };

/// Interval between looks at the blocks that are live.
const BLOCKS_INTERVAL: Duration = Duration::from_millis(300);

/// An update of a recording. Ids of rows are those of the recorder.
#[derive(Debug, Default)]
pub(super) struct Delta {
    /// Whether the recorder starts over with its rows after this update: from the next one on all rows, except modules
    /// and sets of labels, have new ids.
    pub(crate) was_reset: bool,
    /// Rows added since the last update.
    pub(crate) strings: Vec<Box<str>>,
    pub(crate) modules: Vec<Module>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) stacks: Vec<Stack>,
    pub(crate) label_sets: Vec<LabelSet>,
    /// All events: some come once there is something in them.
    pub(crate) events: Vec<EventInfo>,
    /// New samples of each event.
    pub(crate) samples: Vec<Vec<Sample>>,
    /// Waits that are not over, up to the last look at the threads.
    pub(crate) open_waits: Vec<Sample>,
    /// Blocks of memory that are live, if they are sampled and have been looked at again.
    pub(crate) live_blocks: Option<Vec<Sample>>,
    /// The living threads, if they were looked at.
    pub(crate) living: Option<Vec<Living>>,
    /// The last end of a wait of each thread, by thread id, even if its row is yet to come.
    pub(crate) wait_ends: FxHashMap<u32, WaitEnd>,
    /// Times of threads that have ended.
    pub(crate) thread_times: Vec<ThreadTime>,
    /// Names that are known at once.
    pub(crate) named: Named,
    /// New frames, and the file that can name them.
    pub(crate) in_files: Vec<(FileId, ModuleFile, Addresses)>,
    /// New frames of code that a process generated, and the map with its names.
    pub(crate) generated: Vec<(u32, Option<Arc<PerfMapSource>>, Addresses)>,
    /// All counters.
    pub(crate) counters: BTreeMap<String, u64>,
    /// The end record if the recording ended now.
    pub(crate) end: End,
    /// Number of samples lost.
    pub(crate) lost: u64,
    /// Notices for the user.
    pub(crate) notices: Vec<String>,
}

/// Numbers of a recorder's rows that were handed over.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    strings: usize,
    modules: usize,
    tasks: usize,
    frames: usize,
    stacks: usize,
    label_sets: usize,
    /// When live blocks were handed over last; `None` if they were not since the recorder has started over.
    blocks: Option<Instant>,
}

impl Cursor {
    /// Takes everything new from `session`. Starts over with its rows if there are many, or if `reset` is set.
    pub(super) fn take(&mut self, session: &mut Session<'_>, reset: bool) -> anyhow::Result<Delta> {
        let open_waits = session.collector.open_waits();
        let live_blocks = self.live_blocks(&mut session.collector);
        let watched = session.collector.waits.as_mut().map(|waits| (waits.take_living(), waits.take_ends()));
        let (living, wait_ends) = watched.unwrap_or_default();
        let events = session.collector.profile.events.iter().map(Event::info).cloned().collect();
        let mut delta = Delta { open_waits, live_blocks, living, wait_ends, events, ..Delta::default() };
        if reset || MOST_ROWS.are_in(&session.collector.profile.tables) {
            // Existing rows and samples are handed over first, because they have the old ids.
            delta.samples = take_samples(&mut session.collector);
            delta.thread_times = std::mem::take(&mut session.collector.profile.thread_times);
            self.rows(&mut session.collector, &mut delta);
            session.collector.forget_rows();
            self.reset();
            delta.was_reset = true;
        } else {
            delta.samples = take_samples(&mut session.collector);
            delta.thread_times = std::mem::take(&mut session.collector.profile.thread_times);
            self.rows(&mut session.collector, &mut delta);
        }
        (delta.counters, delta.end) = session.so_far()?;
        delta.lost = session.lost();
        delta.notices = std::mem::take(&mut session.notices);
        Ok(delta)
    }

    /// Makes the next update hand over all rows from the first on.
    fn reset(&mut self) {
        *self = Cursor::default();
    }

    /// The blocks that are live, if it is time to look at them again. There may be many.
    fn live_blocks(&mut self, collector: &mut Collector) -> Option<Vec<Sample>> {
        // Those that are live at the end have become samples.
        let is_empty = collector.blocks.as_ref()?.is_empty();
        if !is_empty && self.blocks.is_some_and(|last| last.elapsed() < BLOCKS_INTERVAL) {
            return None;
        }
        self.blocks = Some(Instant::now());
        collector.live_blocks()
    }

    fn rows(&mut self, collector: &mut Collector, delta: &mut Delta) {
        let from = self.frames;
        let tables = &collector.profile.tables;
        delta.strings = tables.strings().skip(self.strings).map(Box::from).collect();
        delta.modules = tables.modules()[self.modules..].to_vec();
        delta.tasks = tables.tasks()[self.tasks..].to_vec();
        delta.frames = tables.frames()[self.frames..].to_vec();
        delta.stacks = tables.stacks()[self.stacks..].to_vec();
        delta.label_sets = tables.label_sets()[self.label_sets..].to_vec();
        *self = Cursor {
            strings: tables.strings().len(),
            modules: tables.modules().len(),
            tasks: tables.tasks().len(),
            frames: tables.frames().len(),
            stacks: tables.stacks().len(),
            label_sets: tables.label_sets().len(),
            blocks: self.blocks,
        };
        let profile = &collector.profile;
        let named = collector.dumps.named.drain(..).map(|id| (id, locations_of(profile, id)));
        delta.named.extend(named);
        if delta.frames.is_empty() {
            return;
        }
        let UserFrames { by_file, generated } = UserFrames::of(tables, &collector.files, from);
        delta.in_files = (by_file.into_iter())
            .map(|(file, frames)| (file, collector.files.get(file).without_table(), frames))
            .collect();
        delta.generated = (generated.into_iter())
            .map(|(pid, frames)| {
                let process = collector.processes.get(pid);
                (pid, process.and_then(|process| process.perf_map.clone()), frames)
            })
            .collect();
        for (index, frame) in delta.frames.iter().enumerate() {
            let id = FrameId((from + index) as u32);
            let module = &collector.profile.tables.module(frame.module);
            if frame.flags.space == FrameSpace::Kernel {
                let name = collector.kernel.name(id);
                delta.named.extend(name.map(|name| (id, vec![kernel_location(&name)])));
            } else if let Some(location) = collector.interpreters.name(frame, &collector.profile.tables) {
                delta.named.push((id, vec![location]));
            } else if collector.profile.tables.string(module.path) == FRAMES_LEFT_OUT {
                delta.named.push((id, vec![left_out()]));
            }
        }
    }
}

fn take_samples(collector: &mut Collector) -> Vec<Vec<Sample>> {
    (collector.profile.events.iter_mut())
        .map(|event| {
            let samples = event.samples().collect();
            event.clear();
            samples
        })
        .collect()
}

/// The location of the frame that replaces those left out.
fn left_out() -> ResolvedLocation {
    kernel_location(FRAMES_LEFT_OUT)
}
