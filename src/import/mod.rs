//! Recordings of other profilers as profiles of `prof`: a file or a folder a format, and one table of them.
//!
//! What a format does not keep stays unknown in the profile, and reports say so. Files are foreign: every length is checked
//! before it is used, memory is bounded by what is in the file and by limits, and of a file that is cut what could be read
//! is kept with a note.
//!
//! Knows files of modules and the running kernel only as far as it takes to turn addresses of processes into those of modules;
//! the caller looks names up.

mod error;
mod event_kinds;
mod folded;
mod formats;
mod importer;
mod intake;
mod lines;
mod module_kinds;
mod named_frames;
mod perf_data;
mod perf_script;
mod pprof;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use error::ImportError;
pub(crate) use formats::{ImportFormat, import};
pub(crate) use importer::{FirstElement, FoldedUnit, ImportOptions};
pub(crate) use intake::Imported;
pub(crate) use source::ImportSource;
