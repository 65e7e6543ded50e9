//! Imports recordings of other profilers as profiles of `prof`: a file or a folder per format, and one table of them.
//!
//! What a format does not contain stays unknown in the profile, and reports say so. Files are untrusted: every length
//! is checked before it is used, and memory is bounded by limits and by the size of the file. Of a truncated file, the
//! readable part is kept with a note.
//!
//! Knows files of modules and the running kernel only as far as it takes to turn addresses of processes into those of modules, and
//! to unwind stacks that were copied; the caller looks names up.

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
