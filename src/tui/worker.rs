//! The thread that computes: of several queries only the newest counts, and the screen never waits for it.

use super::pace::Pace;
use super::picture::Picture;
use super::query::Query;
use crate::failure::Failure;
use crate::report::{ExportJob, Recording};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// What the worker is asked to do.
#[derive(Debug)]
pub enum Job {
    /// Another recording, or a newer state of it: compute the last query again.
    Recording(Arc<Recording>),
    /// Another query.
    Query(Query),
    /// Write a file, which holds what is said of it.
    Export(ExportJob, String),
    /// Take a picture apart that is no longer shown: with many boxes that takes a while.
    Forget(Arc<Picture>),
}

/// What the worker has done. Pictures lie in [`Worker::take`], since only the newest is of use.
#[derive(Debug)]
pub enum Done {
    /// There is a new picture.
    Picture,
    /// A query could not be answered.
    Problem(Box<Query>, Failure),
    /// An export ended: the file and what it holds, or why there is none. Foreign text.
    Exported(Result<(PathBuf, String), String>),
    /// It ended, which it never should.
    Ended,
}

type Slot = Arc<Mutex<Option<Arc<Picture>>>>;

/// The worker's handle; it ends when this is dropped.
#[derive(Debug)]
pub struct Worker {
    jobs: Sender<Job>,
    slot: Slot,
}

impl Worker {
    /// Starts it. `tell` is called from its thread.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn start(tell: impl Fn(Done) + Send + 'static) -> std::io::Result<Self> {
        let (jobs, inbox) = channel();
        let slot = Slot::default();
        let out = Arc::clone(&slot);
        thread::Builder::new().name("prof-picture".into()).spawn(move || {
            let told = Told { tell };
            work(&inbox, &out, &told.tell);
        })?;
        Ok(Worker { jobs, slot })
    }

    /// Asks for something. When the worker is gone, [`Done::Ended`] has been told already.
    pub fn ask(&self, job: Job) {
        let _ = self.jobs.send(job);
    }

    /// Somebody else may ask, too.
    pub fn sender(&self) -> Sender<Job> {
        self.jobs.clone()
    }

    /// The newest picture, if it was not taken yet.
    pub fn take(&self) -> Option<Arc<Picture>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Says that the worker ended, whichever way.
struct Told<F: Fn(Done)> {
    tell: F,
}

impl<F: Fn(Done)> Drop for Told<F> {
    fn drop(&mut self) {
        (self.tell)(Done::Ended);
    }
}

fn work(inbox: &Receiver<Job>, slot: &Slot, tell: &impl Fn(Done)) {
    let mut recording: Option<Arc<Recording>> = None;
    let mut query: Option<Query> = None;
    let mut last: Option<Arc<Picture>> = None;
    let mut pace = Pace::default();
    // The recording has grown since the last picture.
    let mut has_grown = false;
    loop {
        let first = if has_grown && query.is_some() {
            match inbox.recv_timeout(pace.left(Instant::now())) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        } else {
            let Ok(job) = inbox.recv() else { break };
            Some(job)
        };
        let mut is_asked = false;
        let (mut exports, mut forgotten) = (Vec::new(), Vec::new());
        for job in first.into_iter().chain(inbox.try_iter()) {
            match job {
                Job::Recording(newest) => (recording, has_grown) = (Some(newest), true),
                Job::Query(newest) => (query, is_asked) = (Some(newest), true),
                Job::Export(job, what) => exports.push((job, what)),
                Job::Forget(picture) => forgotten.push(picture),
            }
        }
        let (Some(recording), Some(query)) = (&recording, &query) else { continue };
        let began = Instant::now();
        if is_asked || (has_grown && pace.left(began).is_zero()) {
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
            pace.worked(began, Instant::now());
        }
        for (job, what) in exports {
            let written = job.run(recording).map(|path| (path, what));
            tell(Done::Exported(written.map_err(|error| format!("{error:#}"))));
        }
    }
}
