//! A file that samples blocks itself, whose probes the opener listens to in one process.
//!
//! A probe changes an instruction, and its counter a word, of the process alone. Which ones is not for the recorder to say: the
//! opener finds the file in the process, and a worker without rights reads where its probes are.

use crate::base::failure::io_words;
use crate::base::privilege;
use crate::record::kernel::perf_event;
use crate::record::modules::open_mapped_file;
use crate::record::probes::allocator_probes::{self, AllocatorProbe};
use crate::record::process::proc_fs;
use crate::record::workers::LentWorker;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// A file, and the places of its probes.
#[derive(Debug)]
pub(super) struct ListenedFile {
    file: Arc<File>,
    pub(super) places: Vec<AllocatorProbe>,
}

impl ListenedFile {
    /// The file that has code at an address of a process; `worker` reads its probes.
    ///
    /// # Errors
    ///
    /// Why they cannot be listened to, in words.
    pub(super) fn find(pid: u32, code_at: u64, worker: Option<&LentWorker>) -> Result<Self, String> {
        let mappings = proc_fs::code_mappings(pid).map_err(|error| io_words(&error))?;
        let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&code_at));
        let mapping = mapping.ok_or("the file with its otel_memory probes is not mapped any more")?;
        let file = open_mapped_file(pid, mapping, &mapping.path)
            .map_err(|_| "the file with its otel_memory probes cannot be opened")?;
        let file = Arc::new(file);
        let places = allocator_probes::find(&file, worker)
            .map_err(|why| format!("its otel_memory probes cannot be listened to: {why}"))?;
        Ok(ListenedFile { file, places })
    }

    /// The event of one of its places, in a process.
    ///
    /// # Errors
    ///
    /// As of opening it.
    pub(super) fn event(&self, pid: u32, index: usize) -> io::Result<OwnedFd> {
        let place = self.places.get(index).ok_or(io::ErrorKind::NotFound)?;
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        // The kernel goes by the memory of this thread, which one that has ended has not.
        let thread = proc_fs::thread_to_read(pid);
        let open = || perf_event::open_probe(&path, place.offset, place.semaphore_offset, Some(thread));
        privilege::open_event(open)
    }
}
