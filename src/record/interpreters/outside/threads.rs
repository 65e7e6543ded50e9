//! The thread pointers of sampled threads. No one but a thread itself has its own at hand; the kernel knows an address next to it,
//! that of the list of robust locks, which the C library keeps in what it has of each thread.

use crate::record::kernel::perf::functions::SampledThread;
use crate::record::process::proc_fs;
use crate::runtimes::TargetMemory;
use rustc_hash::FxHashMap;

/// What glibc for x86-64 keeps of a thread, bytes from its thread pointer on, since 2.4: the pointer itself twice, the kernel's
/// number of the thread, and the list.
const OWN: u64 = 0;
const OWN_AGAIN: u64 = 0x10;
const NUMBER: u64 = 0x2d0;
const ROBUST_LIST: u64 = 0x2e0;
/// A thread that was not found is looked for again after this time, ns.
const AGAIN_NS: u64 = 100_000_000;
/// Threads that are remembered.
const MOST_THREADS: usize = 65_536;

/// A thread as it was found.
#[derive(Debug, Clone, Copy)]
struct FoundThread {
    pointer: u64,
    /// Its number in the PID namespace that it is in itself.
    own_number: u32,
}

/// The threads that were found, by the numbers that samples have.
#[derive(Debug, Default)]
pub(super) struct FoundThreads {
    found: FxHashMap<u32, FoundThread>,
    /// When those were looked for that were not found, ns.
    unknown: FxHashMap<u32, u64>,
}

impl FoundThreads {
    /// Thread pointer of the sampled thread; `None` where its C library is another. What was found before holds only if it still
    /// does.
    pub(super) fn pointer(&mut self, thread: &SampledThread<'_>, memory: &dyn TargetMemory) -> Option<u64> {
        if let Some(known) = self.found.get(&thread.tid).filter(|known| known.is_there(memory)) {
            return Some(known.pointer);
        }
        self.found.remove(&thread.tid);
        let sought_ns = self.unknown.get(&thread.tid);
        if sought_ns.is_some_and(|sought_ns| thread.time_ns.saturating_sub(*sought_ns) < AGAIN_NS) {
            return None;
        }
        if self.found.len() + self.unknown.len() >= MOST_THREADS {
            *self = FoundThreads::default();
        }
        let found = FoundThread::look(thread.tid, memory);
        match found {
            Some(found) => {
                self.unknown.remove(&thread.tid);
                self.found.insert(thread.tid, found);
            }
            None => {
                self.unknown.insert(thread.tid, thread.time_ns);
            }
        }
        Some(found?.pointer)
    }
}

impl FoundThread {
    fn look(tid: u32, memory: &dyn TargetMemory) -> Option<FoundThread> {
        let own_number = proc_fs::innermost_number(tid)?;
        let pointer = proc_fs::robust_list(tid)?.checked_sub(ROBUST_LIST)?;
        Some(FoundThread { pointer, own_number }).filter(|thread| thread.is_there(memory))
    }

    /// Whether the C library keeps this thread there.
    fn is_there(&self, memory: &dyn TargetMemory) -> bool {
        let place = |offset| self.pointer.checked_add(offset);
        let is_own = |offset| place(offset).and_then(|place| (&memory).u64(place)) == Some(self.pointer);
        is_own(OWN)
            && is_own(OWN_AGAIN)
            && place(NUMBER).and_then(|place| (&memory).u32(place)) == Some(self.own_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::REGISTERS;
    use crate::record::interpreters::process_memory::ProcessMemory;

    #[test]
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    fn each_thread_is_found_where_the_c_library_has_it() {
        let memory = ProcessMemory::open(std::process::id()).expect("it is this process");
        let found_and_own = || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let thread =
                SampledThread { tid, time_ns: 1, registers: &[0; REGISTERS], stack: &[], copy_bytes: 0 };
            // SAFETY: it takes nothing. With this library the handle of a thread is its thread pointer.
            (FoundThreads::default().pointer(&thread, &memory), unsafe { libc::pthread_self() })
        };
        let (found, own) = found_and_own();
        assert_eq!(found, Some(own));
        let other = std::thread::scope(|scope| scope.spawn(found_and_own).join());
        let (other, others_own) = other.expect("it does not panic");
        assert_eq!(other, Some(others_own));
        assert_ne!(other, found);
    }

    #[test]
    fn a_thread_that_is_gone_is_looked_for_again_only_later() {
        let memory = ProcessMemory::open(std::process::id()).expect("it is this process");
        let mut threads = FoundThreads::default();
        let mut look = |time_ns| {
            let thread = SampledThread {
                tid: u32::MAX / 2,
                time_ns,
                registers: &[0; REGISTERS],
                stack: &[],
                copy_bytes: 0,
            };
            let found = threads.pointer(&thread, &memory);
            (found, threads.unknown.get(&thread.tid).copied())
        };
        assert_eq!(look(5), (None, Some(5)));
        assert_eq!(look(5 + AGAIN_NS - 1), (None, Some(5)));
        assert_eq!(look(5 + AGAIN_NS), (None, Some(5 + AGAIN_NS)));
    }
}
