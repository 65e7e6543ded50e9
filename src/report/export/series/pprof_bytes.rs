//! A part of a series as pprof's protobuf. The main program is the first mapping, since readers show it as the file.

use super::batch::SeriesBatch;
use super::chunks::SeriesChunk;
use super::code_tables::{CodeTables, SentModule};
use super::events::UnitName;
use super::identity::{uuid, uuid_text};
use super::rows::{SentRow, TRACE, signed};
use crate::report::export::tools::pprof::messages::{
    PprofFunction, PprofLabel, PprofLine, PprofLocation, PprofMapping, PprofSample, ValueType,
};
use crate::report::export::tools::stacks::Numbered;
use crate::report::naming::name::module_file;
use prost::Message;
use rustc_hash::{FxHashMap, FxHashSet};

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
///
/// Gzip finds what it has seen before, and counts in order are new each time: a function has the number of its name, a location that of
/// its function, and functions of one file, places of one function and stacks of one root stand together. With this, it is a twentieth
/// less that is sent.
struct PprofBuilder<'b> {
    batch: &'b SeriesBatch,
    strings: Numbered<String>,
    functions: FxHashMap<u32, u64>,
    locations: FxHashMap<u32, u64>,
}

/// Ids that are given, each once.
#[derive(Debug)]
struct PprofIds {
    given: FxHashSet<u64>,
    /// The next one where what is wanted was given before.
    next: u64,
}

impl PprofIds {
    /// Those above `most` are given where another one was wanted twice.
    fn above(most: usize) -> Self {
        PprofIds { given: FxHashSet::default(), next: most as u64 + 1 }
    }

    fn give(&mut self, wanted: u64) -> u64 {
        // 0 is no id.
        if wanted != 0 && self.given.insert(wanted) {
            return wanted;
        }
        self.next += 1;
        self.next - 1
    }
}

impl PprofBuilder<'_> {
    fn text(&mut self, text: &str) -> i64 {
        i64::from(self.strings.number(text.to_owned()))
    }

    fn value_type(&mut self, what: &UnitName) -> ValueType {
        ValueType { kind: self.text(&what.name), unit: self.text(what.unit) }
    }

    /// The functions of these locations, whose ids are known from then on.
    fn functions(&mut self, used: &[u32]) -> Vec<PprofFunction> {
        let code = &self.batch.code;
        let mut of_locations: Numbered<u32> = Numbered::default();
        for (function, _) in used.iter().flat_map(|at| &code.location(*at).lines) {
            of_locations.number(*function);
        }
        let mut functions = of_locations.items;
        functions.sort_by_key(|at| &code.function(*at).file);
        let names: Vec<i64> = functions.iter().map(|at| self.text(&code.function(*at).name)).collect();
        let mut ids = PprofIds::above(self.strings.items.len());
        let mut rows = Vec::with_capacity(functions.len());
        for (at, name) in functions.into_iter().zip(names) {
            let id = ids.give(name as u64);
            self.functions.insert(at, id);
            // No `system_name`: mangled names are a tenth of what is sent, the same number once more is a twentieth, and servers
            // show the others.
            rows.push(PprofFunction { id, name, system_name: 0, file: self.text(&code.function(at).file) });
        }
        rows
    }

    /// These locations, whose functions have ids, and whose own ids are known from then on.
    fn locations(&mut self, used: &[u32], modules: &mut Numbered<u32>) -> Vec<PprofLocation> {
        let code = &self.batch.code;
        let mut rows = Vec::with_capacity(used.len());
        for at in used {
            let location = code.location(*at);
            let (mapping, address) = location.module.map_or((0, 0), |module| {
                (u64::from(modules.number(module)) + 1, code.module(module).address(location.address))
            });
            let line = |(function, line): &(u32, u32)| PprofLine {
                function: self.functions.get(function).copied().unwrap_or_default(),
                line: i64::from(*line),
            };
            let lines: Vec<PprofLine> = location.lines.iter().map(line).collect();
            rows.push((*at, PprofLocation { id: 0, mapping, address, lines }));
        }
        let first = |row: &PprofLocation| row.lines.first().map_or((0, 0), |line| (line.function, line.line));
        rows.sort_by_key(|(_, row)| first(row));
        let most = self.functions.values().copied().max().unwrap_or_default();
        let mut ids = PprofIds::above(most as usize);
        let numbered = rows.into_iter().map(|(at, row)| {
            let id = ids.give(first(&row).0);
            self.locations.insert(at, id);
            PprofLocation { id, ..row }
        });
        numbered.collect()
    }

    /// The samples of a part, whose locations have ids.
    fn samples(&mut self, rows: &[SentRow]) -> Vec<PprofSample> {
        let batch = self.batch;
        let mut samples = Vec::with_capacity(rows.len());
        for row in rows {
            let locations = batch.code.stack(row.stack).iter();
            let locations = locations.filter_map(|at| self.locations.get(at).copied()).collect();
            let labels = batch.label_sets.items[row.labels as usize].iter();
            // Servers would make a series of each trace.
            let labels = labels.filter(|(key, _)| key != TRACE).map(|(key, value)| PprofLabel {
                key: self.text(key),
                text: self.text(value),
                ..PprofLabel::default()
            });
            samples.push(PprofSample { locations, values: row.values.clone(), labels: labels.collect() });
        }
        samples.sort_by(|a, b| a.locations.iter().rev().cmp(b.locations.iter().rev()));
        samples
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
}

/// The modules of these locations, the one of this program first.
fn modules_of(code: &CodeTables, used: &[u32], program: &str) -> Numbered<u32> {
    let mut modules = Numbered::default();
    let of_locations = || used.iter().filter_map(|at| code.location(*at).module);
    let main = of_locations().find(|at| is_file_of(code.module(*at), program));
    main.into_iter().chain(of_locations()).for_each(|at| {
        modules.number(at);
    });
    modules
}

/// Whether a module is the file of a program: its name may have a version, `python3.11`.
fn is_file_of(module: &SentModule, program: &str) -> bool {
    let file = module_file(&module.file);
    !program.is_empty() && file.starts_with(program) && !file.contains(".so")
}

/// The profile of a part of a series, and its identity as text.
pub(crate) fn encode(batch: &SeriesBatch, chunk: &SeriesChunk) -> (Vec<u8>, String) {
    let series = &batch.series[chunk.series];
    let rows = &series.rows[chunk.rows.clone()];
    let (strings, functions, locations) = Default::default();
    let mut tables = PprofBuilder { batch, strings, functions, locations };
    tables.text("");
    let types: Vec<ValueType> = series.event.values.iter().map(|(what, _)| tables.value_type(what)).collect();
    let period_type = series.event.period.as_ref().map(|(what, _)| tables.value_type(what));
    let mut used: Numbered<u32> = Numbered::default();
    for at in rows.iter().flat_map(|row| batch.code.stack(row.stack)) {
        used.number(*at);
    }
    let mut modules = modules_of(&batch.code, &used.items, &series.program);
    let mappings = (1..).zip(&modules.items);
    let mappings = mappings.map(|(id, at)| tables.mapping(id, batch.code.module(*at))).collect();
    let functions = tables.functions(&used.items);
    let locations = tables.locations(&used.items, &mut modules);
    let samples = tables.samples(rows);
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
