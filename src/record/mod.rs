//! The recorder: from a target to a finished profile.

mod options;

pub use options::{CallGraph, Output, Rate, RecordOptions, Target};
