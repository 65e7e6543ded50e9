//! Writes the protobuf piece by piece: samples as they are counted, then the tables they refer to.

use super::addresses::{PlacedModule, address_of, place};
use super::blocks::CountedBlocks;
use super::messages::{
    PprofFunction, PprofLabel, PprofLine, PprofLocation, PprofMapping, PprofSample, ValueType,
};
use crate::base::safe_text;
use crate::profile::{FrameId, LabelSetId, ModuleId, Profile, StringId, Task, Unit};
use crate::report::export::tools::columns::ValueColumns;
use crate::report::export::tools::label_parts::LabelParts;
use crate::report::export::tools::stacks::{FrameTexts, Numbered, frames_of, named, recorder_lines};
use crate::report::model::group::Group;
use crate::report::model::label::{LabelId, PlaceId, Step, module_text};
use crate::report::naming::style::NameStyle;
use crate::report::options::TimeRange;
use crate::report::query::selection::Selection;
use prost::encoding;
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// A selection to write.
pub(super) struct PprofFile<'r> {
    pub(super) selection: Selection<'r>,
    pub(super) columns: ValueColumns,
    /// Of a selection of all blocks of the heap, those that count.
    pub(super) blocks: CountedBlocks,
    pub(super) names: NameStyle,
    pub(super) time: TimeRange,
    /// Active filters, in words.
    pub(super) filters: Option<String>,
    pub(super) notes: Vec<String>,
}

/// Field numbers of `Profile`.
mod field {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING: u32 = 6;
    pub(super) const TIME_NS: u32 = 9;
    pub(super) const DURATION_NS: u32 = 10;
    pub(super) const PERIOD_TYPE: u32 = 11;
    pub(super) const PERIOD: u32 = 12;
    pub(super) const COMMENT: u32 = 13;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
}

/// Identity of a location: the machine frame, and the functions shown for it, outermost first.
type LocationKey = (Option<FrameId>, Vec<(LabelId, PlaceId)>);

/// Tables that samples refer to.
struct PprofWriter<'f, 'r> {
    file: &'f PprofFile<'r>,
    texts: FrameTexts<'f, 'r>,
    strings: Numbered<String>,
    functions: Numbered<(LabelId, StringId)>,
    locations: FxHashMap<LocationKey, u64>,
    /// Locations in the order of their ids, from 1.
    location_rows: Vec<PprofLocation>,
    modules: Vec<PlacedModule>,
    /// Whether each mapping has functions, files and lines.
    known: Vec<[bool; 3]>,
    /// Bytes not yet written.
    buffer: Vec<u8>,
}

/// Writes the whole profile.
///
/// # Errors
///
/// Returns the errors of `out`.
pub(super) fn write(file: &PprofFile<'_>, out: &mut dyn Write) -> io::Result<()> {
    let modules = place(&file.selection);
    let mut writer = PprofWriter {
        file,
        texts: FrameTexts::new(&file.selection, file.names),
        strings: Numbered::default(),
        functions: Numbered::default(),
        locations: FxHashMap::default(),
        location_rows: Vec::new(),
        known: vec![[false; 3]; modules.len()],
        modules,
        buffer: Vec::new(),
    };
    writer.strings.number(String::new());
    writer.facts();
    writer.samples(out)?;
    writer.mappings();
    writer.flush(out)?;
    for location in std::mem::take(&mut writer.location_rows) {
        encoding::message::encode(field::LOCATION, &location, &mut writer.buffer);
    }
    writer.flush(out)?;
    writer.function_rows();
    for text in &writer.strings.items {
        encoding::string::encode(field::STRING, text, &mut writer.buffer);
    }
    writer.flush(out)
}

impl PprofWriter<'_, '_> {
    fn text(&mut self, text: String) -> i64 {
        i64::from(self.strings.number(text))
    }

    fn value_type(&mut self, name: &str, unit: Unit) -> ValueType {
        ValueType { kind: self.text(name.to_owned()), unit: self.text(unit_word(unit).to_owned()) }
    }

    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the value types, the times and the comments of the recording.
    fn facts(&mut self) {
        let file = self.file;
        let profile = file.selection.profile;
        for column in &file.columns.all {
            let kind = self.value_type(&column.name, column.unit);
            encoding::message::encode(field::SAMPLE_TYPE, &kind, &mut self.buffer);
        }
        let duration_ns = profile.duration_ns();
        let from_ns = file.time.from_ns.unwrap_or(0).min(duration_ns);
        let to_ns = file.time.to_ns.unwrap_or(duration_ns).clamp(from_ns, duration_ns);
        let start_ns = match profile.meta.start_unix_ns {
            0 => 0,
            start => start.saturating_add(from_ns),
        };
        encoding::int64::encode(field::TIME_NS, &signed(start_ns), &mut self.buffer);
        encoding::int64::encode(field::DURATION_NS, &signed(to_ns - from_ns), &mut self.buffer);
        if let Some(event) = file.selection.shown.sampled.filter(|event| event.info().period > 0) {
            // The weight of samples is the column after their count.
            let column = &file.columns.all[1];
            let kind = self.value_type(&column.name, column.unit);
            encoding::message::encode(field::PERIOD_TYPE, &kind, &mut self.buffer);
            encoding::int64::encode(field::PERIOD, &signed(event.info().period), &mut self.buffer);
        }
        let filters = file.filters.as_ref().map(|words| format!("filters: {}", safe_text::message(words)));
        for line in recorder_lines(profile).into_iter().chain(filters) {
            let comment = self.text(line);
            encoding::int64::encode(field::COMMENT, &comment, &mut self.buffer);
        }
        let chosen = self.text(file.columns.all[file.columns.chosen].name.clone());
        encoding::int64::encode(field::DEFAULT_SAMPLE_TYPE, &chosen, &mut self.buffer);
    }

    /// Writes a sample per thread, stack and set of labels.
    fn samples(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let file = self.file;
        let mut columns = file.columns.clone();
        let labels: Vec<Vec<PprofLabel>> =
            file.selection.profile.tables.tasks().iter().map(|task| self.labels(task)).collect();
        let reason_key = self.text("reason".to_owned());
        let sets = self.sets();
        let parts = LabelParts::of(&file.selection);
        let (mut row, mut values) = (PprofSample::default(), Vec::new());
        let mut result = Ok(());
        file.selection.for_each_path(|path, groups| {
            row.locations.clear();
            self.stack(self.texts.without_reason(path), &mut row.locations);
            for (index, group) in (groups.start..).zip(groups) {
                for (set, part) in parts.of_group(index, group) {
                    columns.fill(&part, file.blocks.of(&part, set), &mut values);
                    row.values.clear();
                    row.values.extend(values.iter().map(|value| signed(*value)));
                    row.labels.clear();
                    row.labels.extend_from_slice(&labels[group.task.index()]);
                    row.labels.extend(self.reason(group, reason_key));
                    row.labels.extend_from_slice(set.map_or(&[], |set| &sets[set.index()]));
                    encoding::message::encode(field::SAMPLE, &row, &mut self.buffer);
                }
            }
            if result.is_ok() {
                result = self.flush(out);
            }
        });
        result
    }

    fn labels(&mut self, task: &Task) -> Vec<PprofLabel> {
        let tables = &self.file.selection.profile.tables;
        let texts = [("thread", tables.string(task.comm)), ("process", tables.string(task.process))];
        let numbers = [("tid", task.tid), ("pid", task.pid)];
        let mut labels = Vec::new();
        for (key, text) in texts {
            let text = self.text(named(text));
            labels.push(PprofLabel { key: self.text(key.to_owned()), text, ..PprofLabel::default() });
        }
        for (key, number) in numbers {
            let unit = self.text("id".to_owned());
            let key = self.text(key.to_owned());
            labels.push(PprofLabel { key, number: i64::from(number), unit, ..PprofLabel::default() });
        }
        labels
    }

    /// The labels of each set that samples have.
    fn sets(&mut self) -> Vec<Vec<PprofLabel>> {
        let tables = &self.file.selection.profile.tables;
        let ids = (0..tables.label_sets().len() as u32).map(LabelSetId);
        let label = |writer: &mut Self, (key, value)| PprofLabel {
            key: writer.text(named(key)),
            text: writer.text(named(value)),
            ..PprofLabel::default()
        };
        ids.map(|set| tables.labels(set).map(|texts| label(self, texts)).collect()).collect()
    }

    fn reason(&mut self, group: &Group, key: i64) -> Option<PprofLabel> {
        let text = self.text(group.activity.reason()?.label().to_owned());
        Some(PprofLabel { key, text, ..PprofLabel::default() })
    }

    /// Puts the locations of `path`, which is root first, into `locations`, leaf first.
    fn stack(&mut self, path: &[Step], locations: &mut Vec<u64>) {
        locations.extend(frames_of(path).map(|functions| self.location(functions)));
    }

    /// The id of the location with these functions, outermost first.
    fn location(&mut self, functions: &[Step]) -> u64 {
        let frame = functions.first().and_then(|step| step.frame);
        let key = (frame, functions.iter().map(|step| (step.label, step.place)).collect());
        if let Some(id) = self.locations.get(&key) {
            return *id;
        }
        let lines = functions.iter().rev().map(|step| self.line(step)).collect();
        let id = self.location_rows.len() as u64 + 1;
        let (mapping, address) = frame.map_or((0, 0), |frame| self.place_of(frame, functions));
        self.location_rows.push(PprofLocation { id, mapping, address, lines });
        self.locations.insert(key, id);
        id
    }

    fn line(&mut self, step: &Step) -> PprofLine {
        let place = self.file.selection.labels.places()[step.place.index()];
        let function = u64::from(self.functions.number((step.label, place.file))) + 1;
        PprofLine { function, line: i64::from(place.line) }
    }

    /// The mapping and the address of a frame. Also notes what is known about its module.
    fn place_of(&mut self, frame: FrameId, functions: &[Step]) -> (u64, u64) {
        let selection = &self.file.selection;
        let module = selection.profile.tables.frame(frame).module;
        let Some(at) = self.modules.iter().position(|place| place.module == module) else { return (0, 0) };
        let places = functions.iter().map(|step| selection.labels.places()[step.place.index()]);
        let (mut has_file, mut has_line) = (false, false);
        for place in places {
            has_file |= place.file != StringId(0);
            has_line |= place.line > 0;
        }
        let known = [selection.profile.symbols.is_named(frame), has_file, has_line];
        self.known[at].iter_mut().zip(known).for_each(|(all, one)| *all |= one);
        (at as u64 + 1, address_of(selection, self.modules[at], frame))
    }

    fn mappings(&mut self) {
        for (at, place) in self.modules.clone().into_iter().enumerate() {
            let profile = self.file.selection.profile;
            let file = self.text(named(&module_path(profile, place.module)));
            let build_id = profile.tables.module(place.module).build_id.iter();
            let build_id = self.text(build_id.map(|byte| format!("{byte:02x}")).collect());
            let [has_functions, has_filenames, has_line_numbers] = self.known[at];
            let mapping = PprofMapping {
                id: at as u64 + 1,
                start: place.start,
                limit: place.limit,
                file_offset: 0,
                file,
                build_id,
                has_functions,
                has_filenames,
                has_line_numbers,
                // Lines and inlined functions come from the same debug information.
                has_inline_frames: has_line_numbers && self.file.selection.shows_inlined(),
            };
            encoding::message::encode(field::MAPPING, &mapping, &mut self.buffer);
        }
    }

    fn function_rows(&mut self) {
        let profile = self.file.selection.profile;
        for (at, (label, file)) in self.functions.items.clone().into_iter().enumerate() {
            let label = self.file.selection.labels.get(label);
            let name = named(&label.text(self.file.names));
            // Readers take a system name that equals the name as not demangled yet.
            let system_name = named(&label.raw_name);
            let function = PprofFunction {
                id: at as u64 + 1,
                name: self.text(name),
                system_name: self.text(system_name),
                file: self.text(safe_text::message(profile.tables.string(file)).into_owned()),
            };
            encoding::message::encode(field::FUNCTION, &function, &mut self.buffer);
        }
    }
}

fn module_path(profile: &Profile, module: ModuleId) -> String {
    let module = profile.tables.module(module);
    module_text(profile, module.path, module.kind)
}

/// pprof's name of a unit.
fn unit_word(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "nanoseconds",
        Unit::Bytes => "bytes",
        Unit::Count | Unit::Other(_) => "count",
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
