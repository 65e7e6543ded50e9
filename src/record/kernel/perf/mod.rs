//! Sampling by perf events of tasks, with copies of stacks: for those who may not load BPF programs, and kernels that cannot run
//! them. What comes out of it is what the BPF programs send: samples, whose stacks are walked here from their copies, waits and
//! times of threads. It knows tasks by their numbers, and nothing of modules or the profile.

mod exchange;
pub(crate) mod functions;
pub(crate) mod open;
mod reader;
mod record;
pub(crate) mod refusal;
pub(super) mod ring;
pub(crate) mod side;
mod source;
mod thinning;
mod threads;
mod witness;
