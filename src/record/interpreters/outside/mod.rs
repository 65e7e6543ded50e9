//! Reads the functions of an interpreter's threads from outside, in user space: where there are no BPF programs, each while its
//! thread is interrupted by a sample.

mod pages;
mod recent_checks;
mod seen_memory;
mod state;
mod threads;

use super::language::{Language, SideFrame, SideStack};
use super::process_memory::ProcessMemory;
use crate::bpf::{InterpreterFrame, InterpreterFrames, NewCodeEvent, StackRoot, prof_runtime};
use crate::elf::Architecture;
use crate::record::kernel::perf::functions::{FunctionReader, ReadFunctions, SampledThread};
use crate::runtimes::TargetMemory;
use pages::PageMemory;
use recent_checks::{CodeCheck, RecentChecks};
use seen_memory::SeenMemory;
use state::state;
use std::sync::{Arc, Mutex, PoisonError};
use threads::FoundThreads;

/// Bytes next to the root of a stack: those of the functions that start a thread.
const ROOT_BYTES: usize = 8192;
/// Larger stacks are not believed to be one.
const MOST_STACK_BYTES: u64 = 1 << 30;

/// Reads the functions of the threads of one process.
#[derive(Debug)]
pub(crate) struct OutsideReader {
    pid: u32,
    runtime: prof_runtime,
    language: Arc<dyn Language>,
    memory: Arc<ProcessMemory>,
    known: Mutex<KnownProcess>,
}

/// What is known of a process from sample to sample.
#[derive(Debug, Default)]
struct KnownProcess {
    threads: FoundThreads,
    checks: RecentChecks,
}

impl OutsideReader {
    pub(super) fn new(pid: u32, language: Arc<dyn Language>, memory: Arc<ProcessMemory>) -> Self {
        OutsideReader { pid, runtime: language.descriptor(), language, memory, known: Mutex::default() }
    }

    /// A frame with the check of its code object. One that may be gone soon is put into `codes`: others are read when there is
    /// time.
    fn frame(
        &self,
        side: SideFrame,
        time_ns: u64,
        memory: &impl TargetMemory,
        checks: &mut RecentChecks,
        codes: &mut Vec<NewCodeEvent>,
    ) -> InterpreterFrame {
        let SideFrame { code, position, is_entry, is_brief } = side;
        if is_brief {
            checks.forget(code);
        }
        let CodeCheck { value, is_new } = checks.check(code, time_ns, || self.language.check(memory, code));
        if is_brief && value != 0 && checks.is_to_be_sent(code, value, time_ns) {
            let seen = SeenMemory::new(memory);
            let is_read = self.language.read(&seen, code).is_some();
            codes.extend(seen.into_parts().filter(|_| is_read).map(|parts| NewCodeEvent {
                time_ns,
                tgid: self.pid,
                code,
                check: value,
                parts,
            }));
        }
        InterpreterFrame { code, position, check: value, is_checked: is_new, is_entry }
    }
}

impl FunctionReader for OutsideReader {
    fn read(&self, thread: &SampledThread<'_>) -> Option<ReadFunctions> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let KnownProcess { threads, checks } = &mut *known;
        let pages = PageMemory::new(&*self.memory);
        let mut pointer = None;
        let state = state(&pages, &self.runtime, thread.tid == self.pid, || {
            pointer = threads.pointer(thread, &pages);
            pointer
        })?;
        let SideStack { frames, is_cut, holds_lock } = self.language.stack(&pages, state, thread.registers);
        let mut codes = Vec::new();
        let frame = |side| self.frame(side, thread.time_ns, &pages, checks, &mut codes);
        let frames = frames.into_iter().map(frame).collect();
        let frames = InterpreterFrames::of(frames, is_cut, holds_lock);
        let root = pointer.and_then(|pointer| stack_root(&pages, thread, pointer));
        has_same_stack(&*self.memory, thread).then_some(ReadFunctions { frames, codes, root })
    }
}

/// Process address at which the sampled thread's stack begins, next to the leaf.
fn stack_pointer(thread: &SampledThread<'_>) -> u64 {
    thread.registers[usize::from(Architecture::HOST.stack_pointer())]
}

/// Whether the native stack next to the leaf is that of the sample: a thread that runs changes it.
fn has_same_stack(memory: &impl TargetMemory, thread: &SampledThread<'_>) -> bool {
    let mut now = vec![0; thread.stack.len()];
    memory.read(stack_pointer(thread), &mut now) && now == thread.stack
}

/// What is next to the root of the stack, where the sample's copy does not reach to it: Ruby keeps the list of a thread's
/// functions, a megabyte, in the middle. The C library's stacks end with what it keeps of their threads.
fn stack_root(memory: &impl TargetMemory, thread: &SampledThread<'_>, pointer: u64) -> Option<StackRoot> {
    let size = pointer.checked_sub(stack_pointer(thread)).filter(|&size| size <= MOST_STACK_BYTES)?;
    let start = pointer.checked_sub(ROOT_BYTES as u64).filter(|_| size > thread.copy_bytes)?;
    let bytes = memory.range(start, ROOT_BYTES as u64, ROOT_BYTES)?;
    Some(StackRoot { start, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::REGISTERS;
    use crate::record::interpreters::process_memory::Everywhere;

    #[test]
    fn the_root_of_a_stack_is_read_where_the_copy_does_not_reach_to_it() {
        const POINTER: u64 = 0x7000_0000;
        let start_of = |stack_pointer: u64| {
            let mut registers = [0; REGISTERS];
            registers[usize::from(Architecture::HOST.stack_pointer())] = stack_pointer;
            let thread =
                SampledThread { tid: 1, time_ns: 1, registers: &registers, stack: &[], copy_bytes: 0x8000 };
            stack_root(&Everywhere, &thread, POINTER).map(|root| root.start)
        };
        assert_eq!(start_of(POINTER - 0x8000), None, "the copy reaches to it");
        assert_eq!(start_of(POINTER - 0x8001), Some(POINTER - ROOT_BYTES as u64));
        assert_eq!(start_of(POINTER - MOST_STACK_BYTES - 1), None, "it is another stack");
        assert_eq!(start_of(POINTER + 8), None, "it is another stack");
    }
}
