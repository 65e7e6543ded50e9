//! What the recorder has its opener do beyond opening files, since the recorder itself has given up the rights to.

use super::goroutines::GoRateService;
use super::heap::HeapService;
use super::kernel::cpus::CpuEventService;
use super::kernel::table_space::create_table_space;
use super::modules::TableCache;
use super::options::{CallGraph, Output, RecordOptions};
use super::output::service::OutputService;
use super::process::identities::LabelsProcesses;
use super::process::named::NamedProcesses;
use super::workers::LentWorker;
use super::{worker_jobs, workers};
use crate::base::failure::{Failure, status};
use crate::base::opener::{self, Service, Services};
use crate::base::privilege;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

/// Services of one recording.
struct RecorderServices {
    cache: Option<Arc<TableCache>>,
    cpu_events: CpuEventService,
    heap: HeapService,
    go_rates: GoRateService,
    output: OutputService,
    /// Files that a labeller of processes reads.
    host_files: Option<Box<dyn ServesHostFiles>>,
}

/// Who says which labels processes have, and what its opener does for it.
pub(crate) struct Labelling {
    pub(crate) labeller: Box<dyn LabelsProcesses>,
    pub(crate) files: Box<dyn ServesHostFiles>,
}

/// Serves files of the host to a labeller of processes, whose process has given up the rights to open them. What is asked for was
/// decided by the one who wrote the names of containers: it is checked here.
pub(crate) trait ServesHostFiles: Send + Sync {
    /// Answers a request.
    ///
    /// # Errors
    ///
    /// When it asks for no such file, or that cannot be read.
    fn serve(&self, body: &[u8]) -> io::Result<Vec<u8>>;
}

impl Services for RecorderServices {
    fn serve(
        &self,
        service: Service,
        body: &[u8],
        descriptor: Option<OwnedFd>,
    ) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        match service {
            Service::TableSpace => Ok((Vec::new(), Some(create_table_space()?))),
            Service::TableCache => {
                let cache = self.cache.as_ref().ok_or(io::ErrorKind::NotFound)?;
                Ok((Vec::new(), cache.serve(body, descriptor)?))
            }
            Service::CpuEvent => Ok((Vec::new(), Some(self.cpu_events.serve(body)?))),
            Service::Heap => self.heap.serve(body),
            Service::GoRates => self.go_rates.serve(body).map(|()| (Vec::new(), None)),
            Service::Output => self.output.serve(body),
            Service::HostFiles => {
                let files = self.host_files.as_ref().ok_or(io::ErrorKind::PermissionDenied)?;
                Ok((files.serve(body)?, None))
            }
            // Those of commands that read.
            Service::Pager | Service::Editor | Service::Stop | Service::DebugFiles => {
                Err(io::ErrorKind::PermissionDenied.into())
            }
        }
    }

    fn opens_probes(&self) -> bool {
        self.heap.is_wanted()
    }

    fn end(&self) {
        // First: a target must not wait for a file.
        self.heap.end();
        self.go_rates.end();
        self.output.end();
    }
}

/// Starts the processes that read files for a recording, and the opener, if this process has rights to keep there; nothing foreign
/// was read so far. `pids` are the processes that the user has named. Returns the
/// cache of unwind tables, or why there is none.
///
/// # Errors
///
/// When no process can be made.
pub(crate) fn start_opener(
    output: &Output,
    options: &RecordOptions,
    pids: &[u32],
    host_files: Option<Box<dyn ServesHostFiles>>,
) -> Result<TableCacheOrNot, Failure> {
    let cache = match options.call_graph {
        CallGraph::FramePointer => None,
        _ => Some(TableCache::open().map(Arc::new)),
    };
    // Before there is a way to the opener, which is none of theirs.
    workers::start(worker_jobs::new).map_err(|error| no_process("reads files", &error))?;
    if privilege::has_any() {
        let opened = cache.as_ref().and_then(|cache| cache.as_ref().ok());
        let may_change = NamedProcesses::new(pids.to_vec());
        let go_rates = GoRateService::new(options.go_waits().map(|_| may_change.clone()));
        let heap = HeapService::new(may_change, options.heap().is_some());
        let heap = heap.map_err(|error| no_process("reads code", &error))?;
        let examiner = heap.worker().map(LentWorker::descriptors).unwrap_or_default();
        let services = RecorderServices {
            cache: opened.cloned(),
            cpu_events: CpuEventService { counters: options.counters().cloned().collect() },
            heap,
            go_rates,
            output: OutputService::new(output.clone()),
            host_files,
        };
        let kept = opened.iter().map(|cache| cache.as_fd().as_raw_fd());
        let kept: Vec<_> = kept.chain(examiner).collect();
        opener::start(Box::new(services), &kept).map_err(|error| no_process("opens files", &error))?;
    }
    Ok(cache.map(|cache| cache.map_err(|why| why.to_string())))
}

fn no_process(that: &str, error: &io::Error) -> Failure {
    Failure::new(status::FAILED, format!("cannot start the process that {that}: {error}"))
        .hint("a limit on processes may be too low: ulimit -u")
}

/// The cache of unwind tables, or why there is none; `None` where tables are not wanted.
pub(crate) type TableCacheOrNot = Option<Result<Arc<TableCache>, String>>;
