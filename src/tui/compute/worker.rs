//! The thread that computes: of several queries only the newest counts, and the screen never waits for it.

use super::picture::Picture;
use crate::base::failure::Failure;
use crate::base::pace::{Pace, process_cpu_time};
use crate::report::{Analysis, ExportJob};
use crate::tui::app::query::Query;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Pictures that no one has asked for take one part in this many of a CPU, 0.5 %.
const PICTURE_REST: u32 = 200;

/// What the worker is asked to do.
#[derive(Debug)]
pub(crate) enum Job {
    /// Another recording, or a newer state of it: compute the last query again.
    Recording(Arc<Analysis>),
    /// Another query.
    Query(Query),
    /// This state again, and no newer one: compute only what is asked of it.
    Hold(Arc<Analysis>),
    /// Write a file of a recording, which holds what is said of it.
    Export(ExportJob, Arc<Analysis>, String),
    /// Take a picture apart that is no longer shown: with many boxes that takes a while.
    Forget(Arc<Picture>),
}

/// A file that was written.
#[derive(Debug)]
pub(crate) struct Exported {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What of the recording it holds. Foreign text.
    pub(crate) what: String,
    /// What the recording has and the file does not, in sentences. Foreign text.
    pub(crate) notes: Vec<String>,
}

impl Exported {
    /// What is said of it.
    pub(crate) fn words(&self) -> String {
        // Where that is depends on where this program was started.
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        let mut words = format!("wrote {}: {}", path.display(), self.what);
        self.notes.iter().for_each(|note| words.push_str(&format!("; note: {note}")));
        words
    }
}

/// What the worker has done. Pictures lie in [`Worker::take`], since only the newest is of use.
#[derive(Debug)]
pub(crate) enum Done {
    /// There is a new picture.
    Picture,
    /// A query could not be answered.
    Problem(Box<Query>, Failure),
    /// An export ended; or why there is no file. Foreign text.
    Exported(Result<Exported, String>),
    /// It ended, which it never should.
    Ended,
}

type Slot = Arc<Mutex<Option<Arc<Picture>>>>;

/// What the worker was asked to do and has not begun: of recordings and queries the last.
#[derive(Debug, Default)]
struct Inbox {
    recording: Option<Arc<Analysis>>,
    /// That recording is newer than the one before.
    has_grown: bool,
    query: Option<Query>,
    exports: Vec<(ExportJob, Arc<Analysis>, String)>,
    forgotten: Vec<Arc<Picture>>,
    /// No one asks any more.
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
        // Nothing is left half-done by a panic while the lock is held.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that was asked for; waits for that, but not longer than `patience`. `None` when it is over.
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

/// The worker's handle; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    shared: Arc<WorkerShared>,
    slot: Slot,
}

impl Worker {
    /// Starts it. `tell` is called from its thread.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub(crate) fn start(tell: impl Fn(Done) + Send + 'static) -> std::io::Result<Self> {
        let (shared, slot) = (Arc::<WorkerShared>::default(), Slot::default());
        let (inbox, out) = (Arc::clone(&shared), Arc::clone(&slot));
        thread::Builder::new().name("prof-picture".into()).spawn(move || {
            let reporter = Reporter { tell };
            work(&inbox, &out, &reporter.tell);
        })?;
        Ok(Worker { shared, slot })
    }

    /// Asks for something. When the worker is gone, [`Done::Ended`] was sent already.
    pub(crate) fn ask(&self, job: Job) {
        let mut inbox = self.shared.lock();
        // Taking a recording apart takes time: not while the lock is held.
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
            Job::Query(newest) => inbox.query = Some(newest),
            Job::Export(job, recording, what) => inbox.exports.push((job, recording, what)),
            Job::Forget(picture) => inbox.forgotten.push(picture),
        }
        drop(inbox);
        self.shared.asked.notify_all();
        drop(old);
    }

    /// The newest picture, if it was not taken yet.
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

/// Says that the worker ended, whichever way.
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
    // The recording has grown since the last picture.
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
                    // Taking an old picture apart takes time, too: not while the lock is held.
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
        for (job, recording, what) in asked.exports {
            let written = job.run(&recording).map(|(path, notes)| Exported { path, what, notes });
            tell(Done::Exported(written.map_err(|error| format!("{error:#}"))));
        }
    }
}
