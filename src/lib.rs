//! `prof`: where did this program's time go?
//!
//! Data flows one way:
//!
//! ```text
//! kernel event ─► Sample ─► Stack ─► Profile ─► symbols ─► CallTree ─► views
//!   bpf           record    unwind   profile    symbols    report      report text · export
//! ```
//!
//! Every room may use `base`, which uses no other room. `bpf` and `profile` know none of the others, `unwind` and
//! `symbols` only `elf`; `record` uses all of these; `report` uses `profile`, and `tui` and `diff` use `report`;
//! `commands::live` joins `record` and `tui`. `agent` uses `base` alone. `cli` turns the command line into the options of verbs, and `program` runs
//! the verb: the binary in `main.rs` calls [`main`].

mod agent;
mod base;
mod bpf;
mod cli;
mod commands;
mod debuginfod;
mod diff;
mod elf;
#[cfg(feature = "testing")]
mod fuzzing;
mod import;
mod profile;
mod program;
mod push;
mod record;
mod report;
mod runtimes;
mod symbols;
mod tui;
mod unwind;

pub mod internals;

// Synthetic profiles of benches and tests are built by what both see.
#[cfg(test)]
extern crate self as prof;

pub use program::main;
