//! What is read of an interpreter for a sample, and by whom: a language's reader, of which nothing is known here.

use crate::bpf::{InterpreterFrames, NewCodeEvent, REGISTERS, StackRoot};
use std::fmt::Debug;

/// A thread that was sampled.
#[derive(Debug)]
pub(crate) struct SampledThread<'a> {
    pub(crate) tid: u32,
    /// CLOCK_MONOTONIC, ns.
    pub(crate) time_ns: u64,
    /// By DWARF number, then the program counter.
    pub(crate) registers: &'a [u64; REGISTERS],
    /// What is next to the leaf, from the stack pointer on.
    pub(crate) stack: &'a [u8],
    /// Bytes of stack that the sample has, at the most.
    pub(crate) copy_bytes: u64,
}

/// What an interpreter runs, and what goes with that.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadFunctions {
    pub(crate) frames: InterpreterFrames,
    /// Code objects of these frames, as their memory was: some are gone soon.
    pub(crate) codes: Vec<NewCodeEvent>,
    /// What is next to the root of the stack, where the copy of the sample does not reach to it.
    pub(crate) root: Option<StackRoot>,
}

/// Reads what an interpreter runs in one process.
pub(crate) trait FunctionReader: Debug + Send + Sync {
    /// The functions that a thread is in by the memory of now; `None` if the interpreter does not know the thread, or its stack
    /// is not that of the sample any more.
    fn read(&self, thread: &SampledThread<'_>) -> Option<ReadFunctions>;
}

/// What was read for a sample.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FunctionRead {
    pub(super) tid: u32,
    /// Time of the sample, CLOCK_MONOTONIC, ns, as the others.
    pub(super) time_ns: u64,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) functions: ReadFunctions,
}
