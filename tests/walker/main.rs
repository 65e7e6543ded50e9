//! The kernel's walker, compiled for the host from its own source, on cases that are stated or recorded.
//!
//! `walker.h` makes a program of `src/bpf/c/walk/unwind.bpf.h`: helper functions and maps become plain ones that
//! read a case. The sanitizers watch every access. Here cases are written, walked by that program and by
//! `src/unwind/walk/walker.rs`, and compared. docs/unwinding.md says how to add one.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking and says what it cannot do"
)]

mod case;
mod differential;
mod fuzz;
mod host;
mod process;
mod record;
mod recorded;
mod segment;
mod stated;
mod text;

/// Cases for the fuzzer to start from.
fn seeds() -> Vec<case::Case> {
    let mut seeds = differential::some_cases(20);
    seeds.extend(stated::some_cases());
    seeds.extend(recorded::cases().into_iter().map(|(_, recorded)| recorded.case));
    seeds
}
