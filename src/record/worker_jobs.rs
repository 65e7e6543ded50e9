//! What workers of a recording do: headers, unwind tables, names, code and allocators of files, places of probes, code that is to be patched.

use super::heap::{examine, find_allocators};
use super::modules::{make_table, read_headers};
use super::names::look::NameWork;
use super::probes::site::search;
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
            JobKind::Headers => read_headers(job.descriptors),
            JobKind::Probes => search::work(&job.body, job.descriptors),
            JobKind::Allocators => find_allocators(job.descriptors),
            JobKind::Examination => examine(&job.body),
            JobKind::Names | JobKind::Forget => self.names.work(job),
        }
    }
}

/// The jobs of a new worker.
pub(super) fn new() -> Box<dyn Jobs> {
    Box::new(RecorderJobs::default())
}
