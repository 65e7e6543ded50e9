//! The memory of a process, through /proc/PID/mem.

use crate::runtimes::TargetMemory;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The memory of a process that may end at any time.
#[derive(Debug)]
pub(in crate::record) struct ProcessMemory(File);

impl ProcessMemory {
    /// Opens the memory of a process.
    ///
    /// # Errors
    ///
    /// When the process is gone, or this process may not read it.
    pub(in crate::record) fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/mem")).map(ProcessMemory)
    }
}

impl TargetMemory for ProcessMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.0.read_exact_at(bytes, address).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_read_and_unmapped_memory_is_refused() {
        let memory = ProcessMemory::open(std::process::id()).expect("it is this process");
        let word = Box::new(0x1234_5678_9abc_def0_u64);
        assert_eq!(memory.u64(&raw const *word as u64), Some(*word));
        assert_eq!(memory.u64(0), None);
        assert_eq!(memory.u64(u64::MAX - 3), None);
    }
}
