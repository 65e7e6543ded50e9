//! A recording as servers of profiles want it: series by service and event, each a profile of its own, and the bytes of
//! these as pprof and as OTLP profiles. Nothing here knows of a network; which samples count is decided outside.

mod batch;
mod chunks;
mod code_tables;
mod events;
mod identity;
mod options;
pub(in crate::report::export) mod otlp;
mod otlp_messages;
mod pprof_bytes;
mod rows;
mod services;
#[cfg(test)]
mod tests;

pub(crate) use batch::SeriesBatch;
pub(crate) use chunks::{SeriesChunk, halves};
pub(crate) use options::{HostLabel, SampleLabel, SeriesOptions, refuse_label};
pub(crate) use otlp::{encode as otlp_request, profile_count as otlp_profiles};
pub(crate) use pprof_bytes::encode as pprof_profile;
