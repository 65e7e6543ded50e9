//! Live tests: the real binary records real programs, from the fixtures and from the distribution.
//!
//! They need root and a kernel with BTF, and say `skipped: reason` where something is missing. A few of them
//! record at a time, since most of that time they sleep. What they assert is what has to be true however busy
//! the machine is: that some stack contains `main` → `a` → `b`, a share within three times the printed margin,
//! an exit status, never a time.

mod accounts;
mod annotate;
#[path = "../common/chromium.rs"]
mod chromium;
mod commands;
mod compared;
mod containers;
mod counters;
mod debug_information;
mod descriptors;
mod fixture;
mod fixtures_recorded;
mod generated_code;
mod held_up;
mod languages;
mod layouts;
mod machine;
mod mappings;
mod oracle;
mod pane;
mod places;
mod postgres;
mod profiler;
mod real_programs;
mod refusals;
mod rights;
mod running;
mod screens;
mod stack_shapes;
#[path = "../support/mod.rs"]
mod support;
mod svg;
mod targets;
mod terminal;
mod terminal_given_back;
mod terminal_live;
mod unrecorded;
mod waits;
mod waits_in_rust;
mod waits_recorded;
mod waits_refused;
mod waits_targets;
mod waits_under_load;
mod watched;
