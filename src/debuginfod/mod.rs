//! Debug information from debuginfod servers, asked for by build ID: only when the user says so, with the user's own rights,
//! and within limits of time and size. What was had is kept where the other clients of debuginfod keep it, and what they had
//! is used. Protocol and cache: debuginfod(8) and debuginfod_find_debuginfo(3) of elfutils.
//!
//! What comes is a stranger's file like any other. Who asks says how to check that a file is of the build that was asked for: only
//! such files are kept.

// Without a client nothing comes into the cache; what other clients have put there is used.
#[cfg_attr(not(feature = "debuginfod"), allow(dead_code))]
pub(crate) mod asked_cache;
pub(crate) mod authorities;
#[cfg_attr(not(feature = "debuginfod"), allow(dead_code))]
mod cache;
#[cfg(feature = "debuginfod")]
mod client;
pub(crate) mod fetch;
pub(crate) mod settings;
