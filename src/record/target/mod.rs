//! From what the user typed to processes and threads: found by number or name, or started for the recording.
//! It ends where the recording begins.

pub(crate) mod children;
pub(crate) mod launch;
pub(crate) mod run_as;
pub(crate) mod search;
