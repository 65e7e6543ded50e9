//! arm64: the walk over recorded stacks, the rules of real files, and the BPF programs compiled for it.
//! None of this needs an arm64 machine.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it skips"
)]

mod bpf;
mod case;
mod kernel;
mod replay;
mod rows;
#[path = "../support/mod.rs"]
mod support;
