//! Tables and walks against rules that were written by hand, against other readers of the same files, and against files that
//! lack what they should have.

#![allow(clippy::print_stdout, reason = "a test says what it skips")]

mod gaps;
mod rules;
#[path = "../../../tests/support/mod.rs"]
mod support;
mod table;
mod walk;
