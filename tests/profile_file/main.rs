//! Profile files as a whole, read by the program itself: what a file may cost, and files of earlier versions.

#![allow(clippy::unwrap_used, reason = "all of it is test code; the lint only spares `#[test]` functions")]

mod deep;
mod old;
