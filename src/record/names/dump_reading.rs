//! Reading of dumps, a piece at a time: by a worker, and on a thread that waits for it, so that no dump can hold the recorder.

use super::look::read_dump;
use crate::base::deadline::Deadline;
use crate::record::modules::{FileId, ModuleFile};
use crate::symbols::{DumpPiece, DumpPosition};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Longest time for one piece.
const LONGEST_READ: Duration = Duration::from_secs(5);

/// A piece that was asked for.
struct AskedPiece {
    id: FileId,
    /// The file without its table.
    file: ModuleFile,
    begin: DumpPosition,
    most: usize,
}

/// A piece, or why there is none.
pub(super) type ReadPiece = (FileId, Result<DumpPiece, String>);

/// The thread that reads dumps, and what it is asked.
#[derive(Debug)]
pub(super) struct DumpReading {
    asked: Sender<AskedPiece>,
    read: Receiver<ReadPiece>,
    stop: Arc<AtomicBool>,
}

impl DumpReading {
    /// Starts the thread; `None` where there can be none.
    pub(super) fn start() -> Option<Self> {
        let (asked, questions) = channel::<AskedPiece>();
        let (answer, read) = channel();
        let stop = Arc::<AtomicBool>::default();
        let stopping = Arc::clone(&stop);
        let answer_all = move || {
            crate::base::privilege::keep_watching_or_end();
            for AskedPiece { id, file, begin, most } in questions {
                let deadline = Deadline::after(LONGEST_READ, &stopping);
                if answer.send((id, read_dump(&file, &begin, most, &deadline))).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("prof-dumps".to_owned()).spawn(answer_all).ok()?;
        Some(DumpReading { asked, read, stop })
    }

    /// Asks for the next piece of a dump. Returns whether it will come.
    pub(super) fn ask(&self, id: FileId, file: ModuleFile, begin: DumpPosition, most: usize) -> bool {
        self.asked.send(AskedPiece { id, file, begin, most }).is_ok()
    }

    /// A piece that has come, or comes until `end`.
    pub(super) fn next(&self, end: Instant) -> Option<ReadPiece> {
        self.read.recv_timeout(end.saturating_duration_since(Instant::now())).ok()
    }
}

impl Drop for DumpReading {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
