//! The kernel side as this process has it: the BPF object, its maps and rings, perf events, unwind tables in the kernel's
//! memory. It knows bytes, numbers and times, and nothing of processes, modules or the profile.

pub(crate) mod attach;
mod blocks;
pub(crate) mod capacity;
pub(crate) mod cpus;
pub(crate) mod drain;
pub(crate) mod load;
pub(crate) mod perf;
pub(crate) mod perf_event;
pub(crate) mod rings;
pub(crate) mod sideband;
pub(crate) mod span;
pub(crate) mod stopper;
pub(crate) mod table_space;
pub(crate) mod unwind_tables;
pub(crate) mod wait_config;
pub(crate) mod wait_programs;
