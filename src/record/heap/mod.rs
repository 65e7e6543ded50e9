//! The heap of a process: which functions allocated the memory that it has.
//!
//! A sampler is put into the target (`inject`), to which the functions of its allocator jump (`functions`, found by `finder`).
//! The opener does that, on request (`service`); the recorder cannot. What a target's code says is examined by a worker. The kernel runs programs at the sampler's probes, which
//! send stacks; `blocks` makes rows of what they send. Programs that sample blocks themselves and say so by such probes are listened to
//! (`listened_file`) and not changed otherwise; Go programs, which sample too, are read (`go_samples`).
//! `sampling` is the order of all this in a recording, `sampling_mean` how many blocks are sampled.

mod blocks;
mod collected;
mod finder;
mod functions;
mod go_samples;
mod inject;
mod listened_file;
mod sampling;
mod sampling_mean;
mod service;

pub(in crate::record) use blocks::{BlockPart, LiveBlocks};
pub(in crate::record) use finder::work as find_allocators;
pub(in crate::record) use go_samples::GoHeap;
#[cfg(feature = "testing")]
pub(crate) use inject::examiner::check as check_patched_code;
pub(in crate::record) use inject::examiner::work as examine;
pub(in crate::record) use sampling::{HeapSampling, RefusedProcesses, cannot, of_pids};
pub(in crate::record) use service::HeapService;
