//! The bytes of a request.

use super::target::PushProtocol;
use crate::report::{SeriesBatch, SeriesChunk, otlp_profiles, otlp_request, pprof_profile};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use std::io::Write;

/// Most bytes of the profiles of a request before they are compressed. Pyroscope refuses profiles of more than 4 MiB, and for
/// ever a request that is larger than what it takes at once, by default 2 MiB.
const LARGEST_RAW: usize = 15 << 17;

/// `push.v1.PushRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PushRequestMessage {
    #[prost(message, repeated, tag = "1")]
    pub(super) series: Vec<RawProfileSeries>,
}

/// `push.v1.RawProfileSeries`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RawProfileSeries {
    #[prost(message, repeated, tag = "1")]
    pub(super) labels: Vec<LabelPair>,
    #[prost(message, repeated, tag = "2")]
    pub(super) samples: Vec<RawSample>,
}

/// `types.v1.LabelPair`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LabelPair {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

/// `push.v1.RawSample`: a profile of pprof.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RawSample {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) profile: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) id: String,
}

/// A request, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PushBody {
    /// Compressed by gzip.
    pub(super) bytes: Vec<u8>,
    /// Size of its profiles before compression, bytes.
    pub(super) raw_bytes: usize,
    /// Its series in the order in which servers count them; empty where that is not known.
    pub(super) series: Vec<PlacedSeries>,
}

/// A series of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlacedSeries {
    /// The part of the request that it belongs to.
    pub(super) part: usize,
    /// The id that it is sent with; `None` where servers give it another one.
    pub(super) id: Option<String>,
}

/// The request that sends these parts; `None` if it would be larger than servers take.
pub(super) fn body_of(
    protocol: PushProtocol,
    batch: &SeriesBatch,
    chunks: &[SeriesChunk],
) -> Option<PushBody> {
    body_within(protocol, batch, chunks, LARGEST_RAW)
}

/// The same whatever its size.
pub(super) fn any_body_of(
    protocol: PushProtocol,
    batch: &SeriesBatch,
    chunks: &[SeriesChunk],
) -> Option<PushBody> {
    body_within(protocol, batch, chunks, usize::MAX)
}

fn body_within(
    protocol: PushProtocol,
    batch: &SeriesBatch,
    chunks: &[SeriesChunk],
    most: usize,
) -> Option<PushBody> {
    if protocol == PushProtocol::Otlp {
        let raw = otlp_request(batch, chunks);
        let raw_bytes = raw.len();
        let series = || otlp_series(batch, chunks).unwrap_or_default();
        return (raw_bytes <= most).then(|| PushBody { bytes: packed(&raw), raw_bytes, series: series() });
    }
    let mut series: Vec<RawProfileSeries> = Vec::new();
    let mut places = Vec::with_capacity(chunks.len());
    let mut raw_bytes = 0;
    for same in chunks.chunk_by(|a, b| a.series == b.series) {
        let mut samples = Vec::with_capacity(same.len());
        for chunk in same {
            let (raw, id) = pprof_profile(batch, chunk);
            raw_bytes += raw.len();
            if raw_bytes > most {
                return None;
            }
            places.push(PlacedSeries { part: places.len(), id: Some(id.clone()) });
            samples.push(RawSample { profile: raw, id });
        }
        let labels = batch.series[same[0].series].all_labels().into_iter();
        let labels = labels.map(|(name, value)| LabelPair { name, value }).collect();
        series.push(RawProfileSeries { labels, samples });
    }
    // As a whole: services have the functions of the kernel and of libraries in common.
    let bytes = packed(&PushRequestMessage { series }.encode_to_vec());
    Some(PushBody { bytes, raw_bytes, series: places })
}

/// The series that Pyroscope makes of a request of OTLP: each profile is one, unless its samples have services of their own.
fn otlp_series(batch: &SeriesBatch, chunks: &[SeriesChunk]) -> Option<Vec<PlacedSeries>> {
    let mut places = Vec::with_capacity(chunks.len());
    for (part, chunk) in chunks.iter().enumerate() {
        let profiles = otlp_profiles(batch, chunk)?;
        places.extend((0..profiles).map(|_| PlacedSeries { part, id: None }));
    }
    Some(places)
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    // A thirtieth less than by default, for a few milliseconds a window.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Memory takes whatever is written.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}
