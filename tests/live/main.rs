//! Live tests: the real binary records real programs, from the fixtures and from the distribution.
//!
//! They need root and a kernel with BTF, and say `skipped: reason` where something is missing. A few of them
//! record at a time, since most of that time they sleep. What they assert is what has to be true however busy
//! the machine is: that some stack contains `main` → `a` → `b`, a share within three times the printed margin,
//! an exit status, never a time.

#[path = "../support/chromium.rs"]
mod chromium;
mod harness;
mod languages;
mod output;
mod stacks;
#[path = "../support/mod.rs"]
mod support;
mod targets;
mod terminal;
mod waits;
