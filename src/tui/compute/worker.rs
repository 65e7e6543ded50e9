//! The thread that computes pictures: of several queries only the newest counts, and the screen never waits for it.

use super::export::ScreenExport;
use super::picture::Picture;
use crate::base::failure::Failure;
use crate::base::pace::{Pace, process_cpu_time};
use crate::report::Analysis;
use crate::tui::app::query::Query;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// CPU budget for pictures that are only refreshes: one part in this many of a CPU, 0.5 %.
const PICTURE_REST: u32 = 200;

/// A request to the worker.
#[derive(Debug)]
pub(crate) enum Job {
    /// Another recording, or a newer snapshot of it: compute the last query again.
    Recording(Arc<Analysis>),
    /// Another query.
    Query(Box<Query>),
    /// A frozen snapshot: answer queries from it, but do not refresh the picture.
    Hold(Arc<Analysis>),
    /// Write a file; the text says what it holds.
    Export(Box<ScreenExport>, String),
    /// Drop a picture that is no longer shown, which takes a while when it has many boxes.
    Forget(Arc<Picture>),
}

/// A file that was written.
#[derive(Debug)]
pub(crate) struct Exported {
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// Part of the recording that the file holds, in words. Foreign text.
    pub(crate) what: String,
    /// Sentences on what the recording has and the file does not. Foreign text.
    pub(crate) notes: Vec<String>,
}

impl Exported {
    /// Message for the user.
    pub(crate) fn words(&self) -> String {
        // The absolute path, since the user may not remember the working directory.
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        let mut words = format!("wrote {}: {}", path.display(), self.what);
        self.notes.iter().for_each(|note| words.push_str(&format!("; note: {note}")));
        words
    }
}

/// A reply of the worker. Pictures are taken with [`Worker::take`], since only the newest matters.
#[derive(Debug)]
pub(crate) enum Done {
    /// There is a new picture.
    Picture,
    /// A query could not be answered.
    Problem(Box<Query>, Failure),
    /// An export ended with a file, or with the reason for its failure. Foreign text.
    Exported(Result<Exported, String>),
    /// The worker ended, which it never should.
    Ended,
}

type Slot = Arc<Mutex<Option<Arc<Picture>>>>;

/// Pending requests. Of recordings and queries only the last is kept.
#[derive(Debug, Default)]
struct Inbox {
    recording: Option<Arc<Analysis>>,
    /// Whether the recording is newer than the one before.
    has_grown: bool,
    query: Option<Query>,
    exports: Vec<(Box<ScreenExport>, String)>,
    forgotten: Vec<Arc<Picture>>,
    /// The worker has been dropped.
    is_over: bool,
}

impl Inbox {
    fn is_empty(&self) -> bool {
        self.recording.is_none()
            && self.query.is_none()
            && self.exports.is_empty()
            && self.forgotten.is_empty()
    }
}

#[derive(Debug, Default)]
struct WorkerShared {
    inbox: Mutex<Inbox>,
    asked: Condvar,
}

impl WorkerShared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // A panic while the lock is held leaves no request half-written.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all pending requests; waits for one, but not longer than `patience`. `None` once the worker has been
    /// dropped.
    fn take(&self, patience: Option<Duration>) -> Option<Inbox> {
        let mut inbox = self.lock();
        let deadline = patience.map(|patience| Instant::now() + patience);
        loop {
            if inbox.is_over {
                return None;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if !inbox.is_empty() || left.is_some_and(|left| left.is_zero()) {
                return Some(std::mem::take(&mut *inbox));
            }
            inbox = match left {
                Some(left) => self.asked.wait_timeout(inbox, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.asked.wait(inbox).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// Handle to the worker thread, which ends when the handle is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    shared: Arc<WorkerShared>,
    slot: Slot,
}

impl Worker {
    /// Starts the thread. `tell` is called on it.
    ///
    /// # Errors
    ///
    /// Fails when the system cannot create a thread.
    pub(crate) fn start(tell: impl Fn(Done) + Send + 'static) -> std::io::Result<Self> {
        let (shared, slot) = (Arc::<WorkerShared>::default(), Slot::default());
        let (inbox, out) = (Arc::clone(&shared), Arc::clone(&slot));
        thread::Builder::new().name("prof-picture".into()).spawn(move || {
            let reporter = Reporter { tell };
            work(&inbox, &out, &reporter.tell);
        })?;
        Ok(Worker { shared, slot })
    }

    /// Sends a request. If the worker is gone, [`Done::Ended`] has been sent already.
    pub(crate) fn ask(&self, job: Job) {
        let mut inbox = self.shared.lock();
        // Dropping a recording takes time, so it happens after the lock is released.
        let mut old = None;
        match job {
            Job::Recording(newest) => {
                old = inbox.recording.replace(newest);
                inbox.has_grown = true;
            }
            Job::Hold(seen) => {
                old = inbox.recording.replace(seen);
                inbox.has_grown = false;
            }
            Job::Query(newest) => inbox.query = Some(*newest),
            Job::Export(job, what) => inbox.exports.push((job, what)),
            Job::Forget(picture) => inbox.forgotten.push(picture),
        }
        drop(inbox);
        self.shared.asked.notify_all();
        drop(old);
    }

    /// Takes the newest picture, if it was not taken yet.
    pub(crate) fn take(&self) -> Option<Arc<Picture>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.asked.notify_all();
    }
}

/// Reports that the worker ended, by a panic or otherwise.
struct Reporter<F: Fn(Done)> {
    tell: F,
}

impl<F: Fn(Done)> Drop for Reporter<F> {
    fn drop(&mut self) {
        (self.tell)(Done::Ended);
    }
}

fn work(shared: &WorkerShared, slot: &Slot, tell: &impl Fn(Done)) {
    let mut recording: Option<Arc<Analysis>> = None;
    let mut query: Option<Query> = None;
    let mut last: Option<Arc<Picture>> = None;
    let mut pace = Pace::new(PICTURE_REST);
    // Whether the recording has grown since the last picture.
    let mut has_grown = false;
    loop {
        let patience = (has_grown && query.is_some()).then(|| pace.left(Instant::now()));
        let Some(asked) = shared.take(patience) else { return };
        if asked.recording.is_some() {
            (recording, has_grown) = (asked.recording, asked.has_grown);
        }
        let is_asked = asked.query.is_some();
        query = asked.query.or(query);
        let (began, used) = (Instant::now(), process_cpu_time());
        if let (Some(recording), Some(query)) = (&recording, &query)
            && (is_asked || (has_grown && pace.left(began).is_zero()))
        {
            has_grown = false;
            match Picture::after(recording, query, last.as_deref()) {
                Ok(picture) => {
                    let newest = Some(Arc::new(picture));
                    let before = std::mem::replace(&mut last, newest.clone());
                    // Dropping a picture takes time, so it happens after the lock is released.
                    let old = {
                        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
                        std::mem::replace(&mut *slot, newest)
                    };
                    tell(Done::Picture);
                    drop((old, before));
                }
                Err(failure) => tell(Done::Problem(Box::new(query.clone()), failure)),
            }
            pace.worked(process_cpu_time().saturating_sub(used), Instant::now());
        }
        for (job, what) in asked.exports {
            let written = job.run().map(|(path, notes)| Exported { path, what, notes });
            tell(Done::Exported(written.map_err(|error| format!("{error:#}"))));
        }
    }
}
