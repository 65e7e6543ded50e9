//! What workers of a recording do: unwind tables, names and code of files.

use super::modules::make_table;
use super::names::look::NameWork;
use super::workers::{Ask, JobKind, Jobs};

/// What a worker has from one job to the next.
#[derive(Debug, Default)]
struct RecorderJobs {
    names: NameWork,
}

impl Jobs for RecorderJobs {
    fn work(&mut self, job: Ask) -> Vec<u8> {
        match job.kind {
            JobKind::Table => make_table(&job.body, job.descriptors),
            JobKind::Names | JobKind::Forget => self.names.work(job),
        }
    }
}

/// The jobs of a new worker.
pub(super) fn new() -> Box<dyn Jobs> {
    Box::new(RecorderJobs::default())
}
