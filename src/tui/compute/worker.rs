//! The thread that computes pictures: of several queries only the newest counts, and the screen never waits for it.

use super::export::ScreenExport;
use super::picture::Picture;
use crate::base::failure::{self, Failure};
use crate::base::mailbox::{Mail, MailKind, MailReceiver, MailSender, mailbox};
use crate::base::pace::{Pace, process_cpu_time};
use crate::report::Analysis;
use crate::tui::app::query::Query;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Instant;

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

/// A reply of the worker.
#[derive(Debug)]
pub(crate) enum Done {
    /// A new picture.
    Picture(Arc<Picture>),
    /// A query could not be answered.
    Problem(Box<Query>, Failure),
    /// An export ended with a file, or with the reason for its failure. Foreign text.
    Exported(Result<Exported, String>),
    /// The worker ended, which it never should.
    Ended,
}

impl Mail for Done {
    fn kind(&self) -> MailKind {
        let (rank, most) = match self {
            Done::Picture(_) => (0, 1),
            Done::Problem(..) => (1, 1),
            Done::Exported(_) => (2, usize::MAX),
            Done::Ended => (3, 1),
        };
        MailKind { rank, most }
    }
}

impl Mail for Job {
    fn kind(&self) -> MailKind {
        let (rank, most) = match self {
            Job::Recording(_) | Job::Hold(_) => (0, 1),
            Job::Query(_) => (1, 1),
            Job::Export(..) => (2, usize::MAX),
            Job::Forget(_) => (3, usize::MAX),
        };
        MailKind { rank, most }
    }
}

/// Handle to the worker thread, which ends when the handle is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    jobs: MailSender<Job>,
    done: MailReceiver<Done>,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Fails when the system cannot create a thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (jobs, inbox) = mailbox();
        let (sender, done) = mailbox();
        thread::Builder::new().name("prof-picture".into()).spawn(move || {
            let reporter = Reporter(sender);
            WorkerState::default().work(&inbox, &reporter.0);
        })?;
        Ok(Worker { jobs, done })
    }

    /// Sends a request. If the worker is gone, [`Done::Ended`] has been sent already.
    pub(crate) fn ask(&self, job: Job) {
        self.jobs.send(job);
    }

    /// Replies of the worker, of which only the newest picture is kept.
    pub(crate) fn done(&self) -> &MailReceiver<Done> {
        &self.done
    }
}

/// Reports that the worker ended, by a panic or otherwise.
struct Reporter(MailSender<Done>);

impl Drop for Reporter {
    fn drop(&mut self) {
        self.0.send(Done::Ended);
    }
}

/// Data that the worker computes pictures from.
#[derive(Debug, Default)]
struct WorkerState {
    recording: Option<Arc<Analysis>>,
    query: Option<Query>,
    last: Option<Arc<Picture>>,
    /// Whether the recording has grown since the last picture.
    has_grown: bool,
    /// Whether the query has come since the last picture.
    is_asked: bool,
    exports: Vec<(Box<ScreenExport>, String)>,
}

impl WorkerState {
    fn work(mut self, inbox: &MailReceiver<Job>, done: &MailSender<Done>) {
        let mut pace = Pace::new(PICTURE_REST);
        loop {
            let patience = (self.has_grown && self.query.is_some()).then(|| pace.left(Instant::now()));
            match inbox.receive(patience) {
                Ok(job) => self.take(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Of all that came meanwhile the last counts.
            while let Some(job) = inbox.take(|_| true) {
                self.take(job);
            }
            let (began, used) = (Instant::now(), process_cpu_time());
            if self.is_asked || (self.has_grown && pace.left(began).is_zero()) {
                self.compute(done);
                pace.worked(process_cpu_time().saturating_sub(used), Instant::now());
            }
            for (job, what) in self.exports.drain(..) {
                let written = job.run().map(|(path, notes)| Exported { path, what, notes });
                let why = |error| failure::without_error_numbers(&format!("{error:#}"));
                done.send(Done::Exported(written.map_err(why)));
            }
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Recording(newest) => (self.recording, self.has_grown) = (Some(newest), true),
            Job::Hold(seen) => (self.recording, self.has_grown) = (Some(seen), false),
            Job::Query(newest) => (self.query, self.is_asked) = (Some(*newest), true),
            Job::Export(job, what) => self.exports.push((job, what)),
            Job::Forget(picture) => drop(picture),
        }
    }

    /// Computes a picture, once there are a recording and a query.
    fn compute(&mut self, done: &MailSender<Done>) {
        let (Some(recording), Some(query)) = (&self.recording, &self.query) else { return };
        (self.has_grown, self.is_asked) = (false, false);
        match Picture::after(recording, query, self.last.as_deref()) {
            Ok(picture) => {
                let newest = Arc::new(picture);
                let before = self.last.replace(Arc::clone(&newest));
                done.send(Done::Picture(newest));
                // Dropping a picture takes time: the new one is sent first.
                drop(before);
            }
            Err(failure) => done.send(Done::Problem(Box::new(query.clone()), failure)),
        }
    }
}

#[cfg(test)]
mod tests;
