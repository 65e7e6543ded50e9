//! What a session remembers of what it has published to the kernel side and read from it.

use crate::profile::counter;
use crate::record::process::mappings::Process;
use crate::record::session::cpu_use::CpuUse;

/// Numbers of what the kernel side did not take.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pub(super) processes: u64,
    pub(super) files: u64,
    /// Mappings beyond those that an entry has room for, of all processes.
    pub(super) mappings: u64,
}

impl Refusals {
    /// The counts, by their names in profiles.
    pub(super) fn counters(&self) -> [(&'static str, u64); 3] {
        [
            (counter::PROCESSES_REFUSED, self.processes),
            (counter::FILES_REFUSED, self.files),
            (counter::MAPPINGS_CUT, self.mappings),
        ]
    }

    /// The entry of `process` lacks this many mappings now. What it lacked before counts no more.
    pub(super) fn cut(&mut self, process: &mut Process, mappings: u64) {
        self.mappings = self.mappings - process.cut + mappings;
        process.cut = mappings;
    }
}

/// Facts that are remembered of the books.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(super) cpu_use: CpuUse,
    /// Threads that were there at the start, and whose accounts had not begun.
    pub(super) unaccounted: u64,
    /// The target had not called exec at the start: its account begins with that.
    pub(super) is_pending: bool,
}
