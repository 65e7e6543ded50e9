//! One worker as its process of origin sees it: jobs go out, answers come in, and what it asks for is opened meanwhile.

use super::message::{JobKind, JobUrgency, WorkerJob, receive, send_job};
use super::process::WorkerUsage;
use crate::base::deadline::Deadline;
use crate::base::opener;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Time between two looks at a deadline.
const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Time that a worker has for an answer once it was told to stop.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A worker and the ways to it.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    pub(super) number: u64,
    pub(super) pid: u32,
    /// Its number by which it shares the memory budget.
    pub(super) share: usize,
    pub(super) jobs: OwnedFd,
    /// `None` where it gets no files.
    pub(super) files: Option<OwnedFd>,
    /// Closed to have it stop.
    pub(super) stop: Option<OwnedFd>,
    pub(super) used: WorkerUsage,
    /// Parts that it keeps for later jobs.
    pub(super) kept: BTreeSet<u64>,
    pub(super) next_part: u64,
}

impl WorkerProcess {
    pub(super) fn forget(&mut self, part: u64) {
        if self.kept.remove(&part) {
            let job = WorkerJob {
                kind: JobKind::Forget,
                urgency: JobUrgency::First,
                part,
                body: &[],
                descriptors: &[],
            };
            // One that has died meanwhile is noticed at its next job.
            let _ = send_job(self.jobs.as_fd(), &job);
        }
    }

    /// Sends a job and waits for the answer, while what the worker asks for is opened.
    pub(super) fn work(&mut self, job: &WorkerJob<'_>, deadline: &Deadline) -> Result<Vec<u8>, bool> {
        if send_job(self.jobs.as_fd(), job).is_err() {
            return Err(true);
        }
        let mut told_to_stop: Option<Instant> = None;
        loop {
            let files = self.files.iter().map(|files| PollFd::new(files, PollFlags::IN));
            let mut ready: Vec<PollFd<'_>> =
                std::iter::once(PollFd::new(&self.jobs, PollFlags::IN)).chain(files).collect();
            let count = match poll(&mut ready, Some(&STEP)) {
                Err(rustix::io::Errno::INTR) => 0,
                polled => polled.map_err(|_| true)?,
            };
            let is_ready = |at: usize| ready.get(at).is_some_and(|one| !one.revents().is_empty());
            let (has_answer, asks) = (is_ready(0), is_ready(1));
            if count > 0 && has_answer {
                let answer = receive(self.jobs.as_fd()).ok().flatten().ok_or(true)?;
                return Ok(answer.body);
            }
            if count > 0 && asks {
                let files = self.files.as_ref().ok_or(true)?;
                if !opener::answer_worker(files.as_fd()).unwrap_or(false) {
                    return Err(true);
                }
            }
            match told_to_stop {
                None if deadline.has_passed() => {
                    self.stop = None;
                    told_to_stop = Some(Instant::now());
                }
                Some(since) if since.elapsed() > LAST_WORDS => return Err(false),
                _ => {}
            }
        }
    }
}
