//! `prof`: where did this program's time go?
//!
//! Data flows one way:
//!
//! ```text
//! kernel event ─► Sample ─► Stack ─► Profile ─► symbols ─► CallTree ─► views
//!   bpf           record    unwind   profile    symbols    report      report text · export
//! ```
//!
//! `bpf`, `unwind`, `profile` and `symbols` know none of the others; `record` uses those four; `report`
//! uses `profile`, and `tui` uses `report`; `commands::live` joins `record` and `tui`. The binary in `main.rs` only parses, dispatches, and prints one error chain.

pub mod base;
pub mod bpf;
pub mod cli;
pub mod commands;
pub mod profile;
pub mod record;
pub mod report;
pub mod symbols;
pub mod tui;
pub mod unwind;
