//! Decodes the output again, for tests.

use super::messages::{PprofFunction, PprofLabel, PprofLocation, PprofMapping, PprofSample, ValueType};
use flate2::read::GzDecoder;
use prost::Message;
use std::fmt::Write;
use std::io::Read;

#[derive(Clone, PartialEq, prost::Message)]
struct WholeProfile {
    #[prost(message, repeated, tag = "1")]
    types: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<PprofSample>,
    #[prost(message, repeated, tag = "3")]
    mappings: Vec<PprofMapping>,
    #[prost(message, repeated, tag = "4")]
    locations: Vec<PprofLocation>,
    #[prost(message, repeated, tag = "5")]
    functions: Vec<PprofFunction>,
    #[prost(string, repeated, tag = "6")]
    strings: Vec<String>,
    #[prost(int64, tag = "9")]
    time_ns: i64,
    #[prost(int64, tag = "10")]
    duration_ns: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comments: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_type: i64,
}

impl WholeProfile {
    fn string(&self, number: i64) -> &str {
        &self.strings[number as usize]
    }

    fn value_type(&self, kind: &ValueType) -> String {
        format!("{}/{}", self.string(kind.kind), self.string(kind.unit))
    }

    fn label(&self, label: &PprofLabel) -> String {
        match label.text {
            0 => format!("{}={} {}", self.string(label.key), label.number, self.string(label.unit)),
            text => format!("{}={}", self.string(label.key), self.string(text)),
        }
    }
}

fn read(packed: &[u8]) -> WholeProfile {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    WholeProfile::decode(&*bytes).unwrap()
}

/// Sum of each column, by name.
pub(in crate::report::export::tools) fn sums(packed: &[u8]) -> Vec<(String, u64)> {
    let profile = read(packed);
    let sum = |at: usize| profile.samples.iter().map(|sample| sample.values[at] as u64).sum();
    (0..profile.types.len()).map(|at| (profile.string(profile.types[at].kind).to_owned(), sum(at))).collect()
}

/// All strings.
pub(in crate::report::export::tools) fn strings(packed: &[u8]) -> Vec<String> {
    read(packed).strings
}

/// The whole profile as text.
pub(in crate::report::export::tools) fn text(packed: &[u8]) -> String {
    let profile = read(packed);
    let mut out = String::new();
    let types: Vec<String> = profile.types.iter().map(|kind| profile.value_type(kind)).collect();
    writeln!(out, "types {} default {}", types.join(" "), profile.string(profile.default_type)).unwrap();
    writeln!(out, "time {} duration {}", profile.time_ns, profile.duration_ns).unwrap();
    let period = profile.period_type.as_ref().map(|kind| profile.value_type(kind));
    writeln!(out, "period {} {period:?}", profile.period).unwrap();
    for comment in &profile.comments {
        writeln!(out, "comment {}", profile.string(*comment)).unwrap();
    }
    for sample in &profile.samples {
        let labels: Vec<String> = sample.labels.iter().map(|label| profile.label(label)).collect();
        writeln!(out, "sample {:?} at {:?} {}", sample.values, sample.locations, labels.join(" ")).unwrap();
    }
    for mapping in &profile.mappings {
        let (file, build_id) = (profile.string(mapping.file), profile.string(mapping.build_id));
        let has = [
            mapping.has_functions,
            mapping.has_filenames,
            mapping.has_line_numbers,
            mapping.has_inline_frames,
        ];
        let (id, start, limit) = (mapping.id, mapping.start, mapping.limit);
        writeln!(out, "mapping {id} {start:#x}..{limit:#x} {file} {build_id} {has:?}").unwrap();
    }
    for location in &profile.locations {
        let line = |line: &super::messages::PprofLine| format!("{}:{}", line.function, line.line);
        let lines: Vec<String> = location.lines.iter().map(line).collect();
        let (id, mapping, address) = (location.id, location.mapping, location.address);
        writeln!(out, "location {id} in {mapping} at {address:#x}: {}", lines.join(" ")).unwrap();
    }
    for function in &profile.functions {
        let [name, system, file] =
            [function.name, function.system_name, function.file].map(|text| profile.string(text));
        writeln!(out, "function {} {name} ({system}) {file}", function.id).unwrap();
    }
    out
}
