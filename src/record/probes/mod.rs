//! Probes: instructions of programs (uprobes, USDT) and tracepoints of the kernel, as events.
//!
//! `spec` is what a user writes; `files` finds the files that it means, and `site` the instructions in them, in a worker: names,
//! notes and code of a file are foreign bytes. `instruction` says what a probe at an instruction costs, `price` measures that
//! here. `tracepoint` looks names up in the kernel's types. `plan` puts all of that together before the programs are loaded,
//! `programs` configures them, `attached` attaches them and takes off what costs too much;
//! `call_totals` has the sums of system calls. `allocator_probes` are the probes of allocators that sample blocks themselves (`heap`).

pub(super) mod allocator_probes;
pub(super) mod attached;
pub(super) mod call_totals;
mod files;
mod instruction;
pub(super) mod plan;
pub(super) mod price;
pub(super) mod programs;
pub(super) mod site;
pub(super) mod spec;
mod tracepoint;
mod weight;
