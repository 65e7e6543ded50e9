//! Processes that the opener may change for the recorder.

use super::proc_fs;

/// Those that the user has named, and children of the recorder, such as its command.
#[derive(Debug, Clone)]
pub(in crate::record) struct NamedProcesses {
    pids: Vec<u32>,
    recorder: u32,
}

impl NamedProcesses {
    /// For a recording of this process.
    pub(in crate::record) fn new(pids: Vec<u32>) -> Self {
        NamedProcesses { pids, recorder: std::process::id() }
    }

    /// Whether it is one of them.
    pub(in crate::record) fn has(&self, pid: u32) -> bool {
        self.pids.contains(&pid) || proc_fs::parent(pid) == Some(self.recorder)
    }
}
