//! Parts of a batch as OTLP profiles, and the export format of a file with one of these. A profile has one value; the words
//! and the code of all are in one dictionary.

use super::batch::{SentSeries, SeriesBatch};
use super::chunks::SeriesChunk;
use super::events::{SentPart, UnitName};
use super::identity::uuid;
use super::options::{SampleLabel, SeriesOptions};
use super::otlp_messages::{
    OtlpAttribute, OtlpDictionary, OtlpFunction, OtlpKeyValue, OtlpLine, OtlpLink, OtlpLocation, OtlpMapping,
    OtlpProfile, OtlpProfiles, OtlpResource, OtlpResourceProfiles, OtlpSample, OtlpScope, OtlpScopeProfiles,
    OtlpStack, OtlpValue, OtlpValueKind, OtlpValueType,
};
use super::rows::{SPAN, SentRow, TRACE, signed};
use crate::report::export::exporter::{Exporter, Render, Rendered};
use crate::report::export::tools::stacks::{Numbered, common_notes};
use crate::report::model::metric::{Metric, waits_of};
use crate::report::options::ExportOptions;
use prost::Message;

/// Semantic conventions of OpenTelemetry for labels that `prof` calls otherwise.
const CONVENTIONS: [(&str, &str); 8] = [
    ("service_name", SERVICE),
    ("host", "host.name"),
    ("namespace", "k8s.namespace.name"),
    ("pod", "k8s.pod.name"),
    ("container", "container.name"),
    ("thread", "thread.name"),
    ("pid", "process.pid"),
    ("tid", "thread.id"),
];
/// Attribute of a resource or a sample: the service that it is of.
const SERVICE: &str = "service.name";
/// Attribute of a module: its GNU build ID.
const BUILD_ID: &str = "process.executable.build_id.gnu";
/// Attribute of a location: kind of code.
const FRAME_TYPE: &str = "profile.frame.type";

/// The export format.
pub(in crate::report::export) const EXPORTER: Exporter = Exporter {
    name: "otlp",
    endings: &[".otlp.pb", ".otlp"],
    is_binary: true,
    render: Render::Any(|recording, selection, options| {
        let events = events(options, &selection.shown.metric(), waits_of(&recording.profile).is_some());
        let labels = [SampleLabel::Thread, SampleLabel::Pid, SampleLabel::Tid, SampleLabel::Reason];
        let series = SeriesOptions {
            common: options.common.clone(),
            events,
            sample_labels: labels.into(),
            with_addresses: true,
            ..SeriesOptions::default()
        };
        let batch = SeriesBatch::of(recording, &series)?;
        let whole = batch.whole();
        let note = "OTLP has merged stacks, without times, CPUs, wakers, and addresses of what has a name";
        let notes = common_notes(&selection, options).into_iter().chain([note.to_owned()]).collect();
        Ok(Box::new(OtlpFile { bytes: encode(&batch, &whole), notes }))
    }),
    ..Exporter::NONE
};

/// The events of a file: running time with the waits, unless another one was chosen.
fn events(options: &ExportOptions, shown: &Metric, has_waits: bool) -> Vec<Metric> {
    match options.common.metric {
        None if *shown == Metric::ON_CPU && has_waits => vec![Metric::ON_CPU, Metric::OFF_CPU],
        Some(Metric::WALL) => vec![Metric::ON_CPU, Metric::OFF_CPU],
        _ => vec![*shown],
    }
}

/// A file, ready to be written.
struct OtlpFile {
    bytes: Vec<u8>,
    notes: Vec<String>,
}

impl Rendered for OtlpFile {
    fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        out.write_all(&self.bytes)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// Row of the table of attributes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NamedValue {
    key: i32,
    text: String,
    is_number: bool,
}

/// Rows of the tables of the dictionary, by their numbers in the batch; in the messages they come after the row of zeros.
struct OtlpTables<'b> {
    batch: &'b SeriesBatch,
    strings: Numbered<String>,
    attributes: Numbered<NamedValue>,
    links: Numbered<(Vec<u8>, Vec<u8>)>,
    stacks: Numbered<u32>,
    locations: Numbered<u32>,
    functions: Numbered<u32>,
    modules: Numbered<u32>,
}

/// The index in a message's table of a row with this number.
fn after_zero(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX - 1) + 1
}

/// The profiles of parts of a batch, in one message.
pub(crate) fn encode(batch: &SeriesBatch, chunks: &[SeriesChunk]) -> Vec<u8> {
    let (strings, attributes, links) = Default::default();
    let (stacks, locations, functions, modules) = Default::default();
    let mut tables = OtlpTables { batch, strings, attributes, links, stacks, locations, functions, modules };
    tables.text("");
    let mut resources: Vec<OtlpResourceProfiles> = Vec::new();
    for same in chunks.chunk_by(|a, b| batch.series[a.series].labels == batch.series[b.series].labels) {
        let series = &batch.series[same[0].series];
        let profiles = same.iter().flat_map(|chunk| tables.profiles(chunk)).collect();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let scope = Some(OtlpScope { name: "prof".to_owned(), version });
        resources.push(OtlpResourceProfiles {
            resource: Some(resource(series)),
            scopes: vec![OtlpScopeProfiles { scope, profiles }],
        });
    }
    OtlpProfiles { resources, dictionary: Some(tables.dictionary()) }.encode_to_vec()
}

/// How many profiles a part of a batch is; `None` if its samples have services of their own, by which receivers may divide them.
pub(crate) fn profile_count(batch: &SeriesBatch, chunk: &SeriesChunk) -> Option<usize> {
    let series = &batch.series[chunk.series];
    let rows = &series.rows[chunk.rows.clone()];
    let is_service = |(key, _): &(String, String)| conventional(key) == SERVICE;
    let has_service = |row: &SentRow| batch.label_sets.items[row.labels as usize].iter().any(is_service);
    if rows.iter().any(has_service) {
        return None;
    }
    let is_sent = |values: &OtlpValues<'_>| rows.iter().any(|row| (values.value)(row) > 0);
    Some(values_of(series).iter().filter(|values| is_sent(values)).count())
}

fn resource(series: &SentSeries) -> OtlpResource {
    let attribute = |(key, value): &(String, String)| OtlpKeyValue {
        key: conventional(key).to_owned(),
        value: Some(OtlpValue { kind: Some(OtlpValueKind::Text(value.clone())) }),
    };
    OtlpResource { attributes: series.labels.iter().map(attribute).collect() }
}

/// The name that receivers know a label by.
fn conventional(key: &str) -> &str {
    CONVENTIONS.iter().find(|(own, _)| *own == key).map_or(key, |(_, name)| name)
}

/// The values of rows, each with the name, the unit and the period under which receivers find its sum.
struct OtlpValues<'s> {
    what: UnitName,
    period: Option<(UnitName, u64)>,
    value: Box<dyn Fn(&SentRow) -> i64 + 's>,
}

/// The profiles of a series: one for each value.
fn values_of(series: &SentSeries) -> Vec<OtlpValues<'_>> {
    let event = &series.event;
    if event.is_on_cpu {
        return vec![on_cpu_values(series)];
    }
    let values = event.values.iter().enumerate();
    // Of most events the weights say all.
    let is_sent = |part: SentPart| event.name == "memory" || event.values.len() == 1 || !part.is_count();
    let values = values.filter(|(_, (_, part))| is_sent(*part) || event.name_is_of_contentions());
    let values = values.map(|(at, (what, _))| OtlpValues {
        what: what.clone(),
        // By the name of the period's type the server finds the name of what it does not know.
        period: (event.name != "off_cpu")
            .then(|| (UnitName { name: event.name.clone(), unit: what.unit }, 1)),
        value: Box::new(move |row| row.values[at]),
    });
    values.collect()
}

/// Running time: receivers multiply the number of samples by the period. Where the samples have different weights, the period is
/// 1 ns, so that nothing is rounded.
fn on_cpu_values(series: &SentSeries) -> OtlpValues<'_> {
    let event = &series.event;
    let (what, period) = match &event.period {
        Some((what, period)) => (what.clone(), *period),
        None => (UnitName { name: "cpu".to_owned(), unit: "nanoseconds" }, 0),
    };
    let period = signed(period);
    let is_even = period > 0 && series.rows.iter().all(|row| row.values[1] % period == 0);
    let period = if is_even { period } else { 1 };
    OtlpValues {
        what: UnitName { name: "samples".to_owned(), unit: "count" },
        period: Some((what, period.unsigned_abs())),
        value: Box::new(move |row| row.values[1] / period),
    }
}

impl super::events::SentEvent {
    fn name_is_of_contentions(&self) -> bool {
        self.values.iter().any(|(what, _)| what.name == "contentions")
    }
}

impl OtlpTables<'_> {
    fn text(&mut self, text: &str) -> i32 {
        i32::try_from(self.strings.number(text.to_owned())).unwrap_or(0)
    }

    fn attribute(&mut self, key: &str, text: &str, is_number: bool) -> i32 {
        let key = self.text(key);
        after_zero(self.attributes.number(NamedValue { key, text: text.to_owned(), is_number }))
    }

    fn value_type(&mut self, what: &UnitName) -> OtlpValueType {
        OtlpValueType { kind: self.text(&what.name), unit: self.text(what.unit) }
    }

    /// The profiles of a part of a series.
    fn profiles(&mut self, chunk: &SeriesChunk) -> Vec<OtlpProfile> {
        let batch = self.batch;
        let series = &batch.series[chunk.series];
        let time_unix_ns = batch.time_of(series, chunk.rows.start);
        let mut profiles = Vec::new();
        for values in values_of(series) {
            let mut labels = series.all_labels();
            labels.push((values.what.name.clone(), values.what.unit.to_owned()));
            let id = uuid(time_unix_ns, &labels, (chunk.rows.start, chunk.rows.end));
            let mut samples = Vec::with_capacity(chunk.rows.len());
            for row in &series.rows[chunk.rows.clone()] {
                let value = (values.value)(row);
                if value > 0 {
                    samples.push(self.sample(row, value));
                }
            }
            let period = values.period.as_ref();
            profiles.push(OtlpProfile {
                sample_type: Some(self.value_type(&values.what)),
                samples,
                time_unix_ns,
                duration_ns: batch.duration_ns,
                period_type: period.map(|(what, _)| self.value_type(what)),
                period: period.map_or(0, |(_, period)| signed(*period)),
                id: id.to_vec(),
            });
        }
        profiles.retain(|profile| !profile.samples.is_empty());
        profiles
    }

    fn sample(&mut self, row: &SentRow, value: i64) -> OtlpSample {
        let labels = &self.batch.label_sets.items[row.labels as usize];
        let (mut attributes, mut trace, mut span) = (Vec::new(), Vec::new(), Vec::new());
        for (key, text) in labels {
            match key.as_str() {
                TRACE => trace = bytes_of(text),
                SPAN => span = bytes_of(text),
                key => attributes.push(self.attribute(conventional(key), text, key == "pid" || key == "tid")),
            }
        }
        let has_link = !span.is_empty();
        let link = if has_link { after_zero(self.links.number((trace, span))) } else { 0 };
        OtlpSample { stack: after_zero(self.stacks.number(row.stack)), attributes, link, values: vec![value] }
    }

    fn dictionary(mut self) -> OtlpDictionary {
        let stacks = self.stacks.items.clone().into_iter().map(|stack| {
            let locations = self.batch.code.stack(stack).iter();
            OtlpStack { locations: locations.map(|at| after_zero(self.locations.number(*at))).collect() }
        });
        let stacks = std::iter::once(OtlpStack::default()).chain(stacks).collect();
        let mut locations = vec![OtlpLocation::default()];
        for at in self.locations.items.clone() {
            locations.push(self.location(at));
        }
        let mut mappings = vec![OtlpMapping::default()];
        for at in self.modules.items.clone() {
            mappings.push(self.mapping(at));
        }
        let mut functions = vec![OtlpFunction::default()];
        for at in self.functions.items.clone() {
            let function = self.batch.code.function(at);
            functions.push(OtlpFunction {
                name: self.text(&function.name),
                system_name: 0,
                file: self.text(&function.file),
            });
        }
        let link = |(trace, span): (Vec<u8>, Vec<u8>)| OtlpLink { trace, span };
        let links = std::iter::once(OtlpLink::default()).chain(self.links.items.into_iter().map(link));
        let attributes = self.attributes.items.into_iter().map(|attribute| {
            let number = attribute.text.parse().ok().filter(|_| attribute.is_number);
            let kind = number.map_or(OtlpValueKind::Text(attribute.text), OtlpValueKind::Number);
            OtlpAttribute { key: attribute.key, value: Some(OtlpValue { kind: Some(kind) }) }
        });
        OtlpDictionary {
            stacks,
            locations,
            mappings,
            functions,
            links: links.collect(),
            attributes: std::iter::once(OtlpAttribute::default()).chain(attributes).collect(),
            strings: self.strings.items,
        }
    }

    fn location(&mut self, at: u32) -> OtlpLocation {
        let location = self.batch.code.location(at);
        let (mapping, address) = location.module.map_or((0, 0), |module| {
            let address = self.batch.code.module(module).address(location.address);
            (after_zero(self.modules.number(module)), address)
        });
        let line = |&(function, line): &(u32, u32)| OtlpLine {
            function: after_zero(self.functions.number(function)),
            line: i64::from(line),
        };
        let lines = location.lines.iter().map(line).collect();
        let code = (!location.code.is_empty()).then(|| self.attribute(FRAME_TYPE, location.code, false));
        OtlpLocation { mapping, address, lines, attributes: code.into_iter().collect() }
    }

    fn mapping(&mut self, at: u32) -> OtlpMapping {
        let module = self.batch.code.module(at);
        let build_id =
            (!module.build_id.is_empty()).then(|| self.attribute(BUILD_ID, &module.build_id, false));
        OtlpMapping {
            start: module.start,
            limit: module.limit,
            file: self.text(&module.file),
            attributes: build_id.into_iter().collect(),
        }
    }
}

/// The bytes of hexadecimal digits.
fn bytes_of(digits: &str) -> Vec<u8> {
    let digit = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..digits.len()).step_by(2).filter_map(digit).collect()
}
