//! The parts of `prof agent` that need no recording: what a process is called for a server of profiles (identity, rules), the file
//! that says what to do (config), which hosts and windows are recorded (sampling), and what the agent says of itself (metrics).

pub(crate) mod config;
pub(crate) mod identity;
pub(crate) mod metrics;
pub(crate) mod rules;
pub(crate) mod sampling;
