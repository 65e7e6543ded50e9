//! Imports recordings of other profilers as profiles: a file or a folder per format, and one table of formats. What a format
//! does not contain stays unknown in the profile. Files are untrusted: lengths are checked, memory is bounded, and of a truncated
//! file the readable part is kept with a note. Knows modules and the kernel only as far as it takes to find the module of an
//! address and to unwind copied stacks; the caller looks names up.

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
