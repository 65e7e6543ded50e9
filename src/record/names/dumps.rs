//! The jitdumps of all processes, and the frames to be named from them.

use super::dump_reading::DumpReading;
use crate::profile::FrameId;
use crate::record::modules::{FileId, ModuleFile, ModuleFiles};
use crate::symbols::{JitDump, NamingLimits};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Records read at once: this many take a few milliseconds.
const RECORDS_AT_ONCE: usize = 20_000;
/// Time to wait for a piece: samples are named by what is known of a dump when they are taken. One that was not there in time
/// is no longer waited for.
const PATIENCE: Duration = Duration::from_millis(300);

/// A frame whose name is not certain yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingDump {
    pub(super) dump: FileId,
    pub(super) address: u64,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
}

/// All dumps, and the frames to be named from them.
#[derive(Debug, Default)]
pub(crate) struct JitDumps {
    /// Dumps by file; `None` for files that were refused.
    pub(super) dumps: FxHashMap<FileId, Option<Dump>>,
    pub(super) pending: FxHashMap<FrameId, PendingDump>,
    /// Whether names are shown while recording.
    pub(crate) is_watched: bool,
    /// Frames that got their names since they were last taken for display.
    pub(crate) named: Vec<FrameId>,
    /// Files that were refused, and why.
    pub(crate) problems: Vec<String>,
    /// Files that were read in part, and why.
    pub(crate) unread: Vec<String>,
    /// What reads them, once there is one.
    reading: Option<DumpReading>,
}

#[derive(Debug)]
pub(super) struct Dump {
    pub(super) dump: JitDump,
    file: ModuleFile,
    /// A piece of it is being read.
    is_asked: bool,
    /// That takes longer than it is waited for.
    is_late: bool,
    /// More of it was there when the last piece was read.
    has_more: bool,
}

impl JitDumps {
    /// Opens the dump in a file that a process has mapped, unless it is open already, and reads its beginning.
    pub(super) fn open(&mut self, id: FileId, files: &ModuleFiles, uid: u32) {
        if self.dumps.contains_key(&id) {
            return;
        }
        let module = files.get(id);
        let Some(file) = &module.file else { return };
        let dump = match JitDump::new(Arc::clone(file), uid) {
            Ok(dump) => {
                let file = module.without_table();
                Some(Dump { dump, file, is_asked: false, is_late: false, has_more: false })
            }
            Err(error) => {
                self.problems.push(format!("no names from {}: {error}", module.path));
                None
            }
        };
        self.dumps.insert(id, dump);
        self.read();
    }

    pub(super) fn get(&self, id: FileId) -> Option<&JitDump> {
        Some(&self.dumps.get(&id)?.as_ref()?.dump)
    }

    /// Has a piece of each dump read that was written since the last call, and waits for these pieces, but not for long.
    pub(super) fn read(&mut self) {
        let end = Instant::now() + PATIENCE;
        self.take(Instant::now());
        self.ask(|_| true);
        while self.dumps.values().flatten().any(|dump| dump.is_asked && !dump.is_late) && self.take_one(end) {
        }
        for dump in self.dumps.values_mut().flatten() {
            dump.is_late = dump.is_asked;
        }
    }

    /// Reads the dumps as far as they have been written.
    pub(super) fn read_all(&mut self, patience: Duration) {
        let end = Instant::now() + patience;
        self.take(Instant::now());
        self.ask(|_| true);
        while self.dumps.values().flatten().any(|dump| dump.is_asked) && self.take_one(end) {
            self.ask(|dump| dump.has_more);
        }
        for Dump { dump, file, is_asked, has_more, .. } in self.dumps.values_mut().flatten() {
            if *is_asked || *has_more {
                dump.give_up();
                self.unread.push(format!("{}: it was not read to its end: that took too long", file.path));
            }
        }
    }

    /// Asks for a piece of each of these dumps.
    fn ask(&mut self, is_due: impl Fn(&Dump) -> bool) {
        let JitDumps { dumps, reading, .. } = self;
        for (id, dump) in dumps.iter_mut().filter_map(|(id, dump)| Some((id, dump.as_mut()?))) {
            if dump.is_asked || !is_due(dump) {
                continue;
            }
            let Some(begin) = dump.dump.unread() else { continue };
            if reading.is_none() {
                *reading = DumpReading::start();
            }
            let asked = reading
                .as_ref()
                .is_some_and(|reading| reading.ask(*id, dump.file.clone(), begin.clone(), RECORDS_AT_ONCE));
            dump.is_asked = asked;
        }
    }

    /// Takes the pieces that have come.
    fn take(&mut self, now: Instant) {
        while self.take_one(now) {}
    }

    /// Takes a piece that has come, or comes until `end`. Returns whether one has.
    fn take_one(&mut self, end: Instant) -> bool {
        let Some((id, piece)) = self.reading.as_ref().and_then(|reading| reading.next(end)) else {
            return false;
        };
        let Some(Some(dump)) = self.dumps.get_mut(&id) else { return true };
        (dump.is_asked, dump.is_late) = (false, false);
        match piece {
            Ok(piece) => dump.has_more = dump.dump.add_piece(piece, &NamingLimits::default()).has_more,
            Err(why) => {
                dump.has_more = false;
                dump.dump.give_up();
                self.unread.push(format!("no more names from {}: {why}", dump.file.path));
            }
        }
        true
    }

    /// Forgets dumps whose files are closed, and the oldest of what was said of such.
    pub(crate) fn forget_closed(&mut self, files: &ModuleFiles) {
        const MOST_SAID: usize = 50;
        self.dumps.retain(|id, _| files.is_open(*id));
        for said in [&mut self.problems, &mut self.unread] {
            said.drain(..said.len().saturating_sub(MOST_SAID));
        }
    }

    /// Forgets the frames, because the rows of the profile get new numbers.
    pub(crate) fn forget_rows(&mut self) {
        self.pending.clear();
        self.named.clear();
    }

    /// Lines about the dumps, for `-v`.
    pub(crate) fn describe(&self) -> Vec<String> {
        let dumps = self.dumps.values().flatten();
        let of_dump = |Dump { dump, file, .. }: &Dump| {
            let path = &file.path;
            let cut = if dump.is_cut() { "; it was not read to its end" } else { "" };
            format!("{path}: {} pieces of code, {} bad records{cut}", dump.len(), dump.bad_records())
        };
        dumps.map(of_dump).chain(self.problems.iter().chain(&self.unread).cloned()).collect()
    }
}
