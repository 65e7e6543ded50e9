//! A worker that another copy of this process asks: the opener, which has rights, and so parses nothing itself.

use super::connection::WorkerProcess;
use super::message::WorkerJob;
use super::pool::{self, WorkerEnd};
use super::process::WorkerUsage;
use crate::base::deadline::Deadline;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, PoisonError};

/// A worker that is not in the pool, and can ask for no files. One that has ended is not made again: the pool, which could, is another process's.
#[derive(Debug)]
pub(crate) struct LentWorker {
    /// `None` once it has ended, or where there are no workers.
    worker: Mutex<Option<WorkerProcess>>,
}

impl LentWorker {
    /// Makes one; `None` where this process has no workers.
    ///
    /// # Errors
    ///
    /// When no process can be made.
    pub(crate) fn make() -> io::Result<Option<Self>> {
        let worker = pool::make_apart().transpose()?;
        Ok(worker.map(|worker| LentWorker { worker: Mutex::new(Some(worker)) }))
    }

    /// The descriptors by which it is reached, for a copy of this process that closes all others.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let of_worker = |worker: &WorkerProcess| {
            [Some(&worker.jobs), worker.stop.as_ref()].map(|end| end.map(AsRawFd::as_raw_fd))
        };
        worker.iter().flat_map(of_worker).flatten().collect()
    }

    /// Has it do a job.
    ///
    /// # Errors
    ///
    /// When there is no answer until the deadline, or ever: then the worker is gone.
    pub(crate) fn work(&self, job: &WorkerJob<'_>, deadline: &Deadline) -> Result<Vec<u8>, WorkerEnd> {
        let mut held = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let worker = held.as_mut().ok_or(WorkerEnd::Forgotten)?;
        let ended = match worker.work(job, deadline) {
            Ok(answer) => match WorkerUsage::split(&answer) {
                Some((_, body)) => return Ok(body.to_vec()),
                None => WorkerEnd::Died("has ended".to_owned()),
            },
            Err(true) => WorkerEnd::Died("has ended".to_owned()),
            Err(false) => WorkerEnd::TooLong,
        };
        // Its process of origin has not waited for it yet: the number is not another's.
        // SAFETY: kill takes numbers.
        unsafe { libc::kill(worker.pid.cast_signed(), libc::SIGKILL) };
        *held = None;
        Err(ended)
    }
}
