//! A part of a series as pprof's protobuf. The main program is the first mapping, since readers show it as the file.

use super::batch::SeriesBatch;
use super::chunks::SeriesChunk;
use super::code_tables::SentModule;
use super::events::UnitName;
use super::identity::{uuid, uuid_text};
use super::rows::{TRACE, signed};
use crate::report::export::tools::pprof::messages::{
    PprofFunction, PprofLabel, PprofLine, PprofLocation, PprofMapping, PprofSample, ValueType,
};
use crate::report::export::tools::stacks::Numbered;
use crate::report::naming::name::module_file;
use prost::Message;

/// `Profile` of pprof.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SentPprof {
    #[prost(message, repeated, tag = "1")]
    pub(super) types: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(super) samples: Vec<PprofSample>,
    #[prost(message, repeated, tag = "3")]
    pub(super) mappings: Vec<PprofMapping>,
    #[prost(message, repeated, tag = "4")]
    pub(super) locations: Vec<PprofLocation>,
    #[prost(message, repeated, tag = "5")]
    pub(super) functions: Vec<PprofFunction>,
    #[prost(string, repeated, tag = "6")]
    pub(super) strings: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(super) time_ns: i64,
    #[prost(int64, tag = "10")]
    pub(super) duration_ns: i64,
    #[prost(message, optional, tag = "11")]
    pub(super) period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub(super) period: i64,
    #[prost(int64, repeated, tag = "13")]
    pub(super) comments: Vec<i64>,
    #[prost(int64, tag = "14")]
    pub(super) default_type: i64,
}

/// Rows of the tables of one profile, by their numbers in the batch.
struct PprofBuilder<'b> {
    batch: &'b SeriesBatch,
    strings: Numbered<String>,
    functions: Numbered<u32>,
    locations: Numbered<u32>,
}

impl PprofBuilder<'_> {
    fn text(&mut self, text: &str) -> i64 {
        i64::from(self.strings.number(text.to_owned()))
    }

    fn value_type(&mut self, what: &UnitName) -> ValueType {
        ValueType { kind: self.text(&what.name), unit: self.text(what.unit) }
    }

    fn samples(&mut self, chunk: &SeriesChunk) -> Vec<PprofSample> {
        let batch = self.batch;
        let rows = &batch.series[chunk.series].rows[chunk.rows.clone()];
        let mut samples = Vec::with_capacity(rows.len());
        for row in rows {
            let locations = batch.code.stack(row.stack).iter();
            let locations = locations.map(|at| u64::from(self.locations.number(*at)) + 1).collect();
            let labels = batch.label_sets.items[row.labels as usize].iter();
            // Servers would make a series of each trace.
            let labels = labels.filter(|(key, _)| key != TRACE).map(|(key, value)| PprofLabel {
                key: self.text(key),
                text: self.text(value),
                ..PprofLabel::default()
            });
            samples.push(PprofSample { locations, values: row.values.clone(), labels: labels.collect() });
        }
        samples
    }

    /// The modules of all locations, the one of this program first, and the locations.
    fn code(&mut self, program: &str) -> (Vec<PprofMapping>, Vec<PprofLocation>) {
        let code = &self.batch.code;
        let mut modules: Numbered<u32> = Numbered::default();
        let used = self.locations.items.iter().filter_map(|at| code.location(*at).module);
        let mut used: Vec<u32> = used.collect();
        if let Some(main) = used.iter().copied().find(|at| is_file_of(code.module(*at), program)) {
            used.insert(0, main);
        }
        used.into_iter().for_each(|at| {
            modules.number(at);
        });
        let mut locations = Vec::with_capacity(self.locations.items.len());
        for (index, at) in self.locations.items.clone().into_iter().enumerate() {
            let location = code.location(at);
            let (mapping, address) = location.module.map_or((0, 0), |module| {
                (u64::from(modules.number(module)) + 1, code.module(module).address(location.address))
            });
            let line = |&(function, line): &(u32, u32)| PprofLine {
                function: u64::from(self.functions.number(function)) + 1,
                line: i64::from(line),
            };
            let lines = location.lines.iter().map(line).collect();
            locations.push(PprofLocation { id: index as u64 + 1, mapping, address, lines });
        }
        let mappings = modules.items.iter().enumerate();
        let mappings = mappings.map(|(index, at)| self.mapping(index as u64 + 1, code.module(*at)));
        (mappings.collect(), locations)
    }

    fn mapping(&mut self, id: u64, module: &SentModule) -> PprofMapping {
        let [has_functions, has_filenames, has_line_numbers] = module.known;
        PprofMapping {
            id,
            start: module.start,
            limit: module.limit,
            file_offset: 0,
            file: self.text(&module.file),
            build_id: self.text(&module.build_id),
            has_functions,
            has_filenames,
            has_line_numbers,
            // Lines and inlined functions come from the same debug information.
            has_inline_frames: has_line_numbers,
        }
    }

    fn function_rows(&mut self) -> Vec<PprofFunction> {
        let functions = self.functions.items.clone().into_iter().enumerate();
        let row = |(index, at): (usize, u32)| {
            let function = self.batch.code.function(at);
            // No `system_name`: mangled names are a tenth of what is sent, the same number once more is a twentieth, and servers
            // show the others.
            PprofFunction {
                id: index as u64 + 1,
                name: self.text(&function.name),
                system_name: 0,
                file: self.text(&function.file),
            }
        };
        functions.map(row).collect()
    }
}

/// Whether a module is the file of a program: its name may have a version, `python3.11`.
fn is_file_of(module: &SentModule, program: &str) -> bool {
    let file = module_file(&module.file);
    !program.is_empty() && file.starts_with(program) && !file.contains(".so")
}

/// The profile of a part of a series, and its identity as text.
pub(crate) fn encode(batch: &SeriesBatch, chunk: &SeriesChunk) -> (Vec<u8>, String) {
    let series = &batch.series[chunk.series];
    let (strings, functions, locations) = Default::default();
    let mut tables = PprofBuilder { batch, strings, functions, locations };
    tables.text("");
    let types: Vec<ValueType> = series.event.values.iter().map(|(what, _)| tables.value_type(what)).collect();
    let period_type = series.event.period.as_ref().map(|(what, _)| tables.value_type(what));
    let samples = tables.samples(chunk);
    let (mappings, locations) = tables.code(&series.program);
    let functions = tables.function_rows();
    let comments = batch.comments.iter().map(|line| tables.text(line)).collect();
    let default_type = types.last().map_or(0, |last| last.kind);
    let time_ns = batch.time_of(series, chunk.rows.start);
    let message = SentPprof {
        types,
        samples,
        mappings,
        locations,
        functions,
        time_ns: signed(time_ns),
        duration_ns: batch.signed_duration_ns(),
        period_type,
        period: series.event.period.as_ref().map_or(0, |(_, period)| signed(*period)),
        comments,
        default_type,
        strings: tables.strings.items,
    };
    let id = uuid(time_ns, &series.all_labels(), (chunk.rows.start, chunk.rows.end));
    (message.encode_to_vec(), uuid_text(id))
}
