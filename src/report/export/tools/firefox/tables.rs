//! The tables of a thread: stacks, frames, functions, resources and strings, each a list of columns.

use crate::base::safe_text;
use crate::profile::{FrameId, ModuleId, StringId};
use crate::report::export::tools::json_text::{array_of, push_number, string};
use crate::report::export::tools::stacks::{FrameTexts, Numbered, named};
use crate::report::model::label::{LabelId, Step, module_text};
use crate::report::model::label_kind::LabelKind;
use crate::report::naming::name::module_file;
use std::io::{self, Write};

/// Categories of frames with their colours, the default first.
pub(super) const CATEGORIES: [(&str, &str); 7] = [
    ("Other", "grey"),
    ("Program", "yellow"),
    ("Library", "lightblue"),
    ("Kernel", "orange"),
    ("JIT", "green"),
    ("Waiting", "blue"),
    ("Interpreted", "purple"),
];

/// Limit up to which JavaScript represents all integers exactly.
const MOST_EXACT: u64 = 1 << 53;

/// The category of a label of this kind.
fn category(kind: LabelKind) -> u64 {
    match kind {
        LabelKind::Task | LabelKind::Cut | LabelKind::Nothing => 0,
        LabelKind::Program => 1,
        LabelKind::Library => 2,
        LabelKind::Kernel => 3,
        LabelKind::Jit => 4,
        LabelKind::Wait(_) => WAITING,
        LabelKind::Interpreted => 6,
    }
}

/// The category of waits.
pub(super) const WAITING: u64 = 5;

/// Identity of a row of the frame table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FrameRow {
    step: StepKey,
    function: u32,
    /// Number of functions that it is inlined into.
    depth: u32,
}

/// The part of a step that identifies a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct StepKey {
    label: LabelId,
    file: StringId,
    line: u32,
    frame: Option<FrameId>,
}

/// A function: a name in a file of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FunctionEntry {
    label: LabelId,
    file: StringId,
    resource: Option<u32>,
}

/// The tables of one thread.
pub(super) struct ThreadTables<'s, 'p> {
    texts: FrameTexts<'s, 'p>,
    stacks: Numbered<(Option<u32>, u32)>,
    frames: Numbered<FrameRow>,
    functions: Numbered<FunctionEntry>,
    resources: Numbered<ModuleId>,
    strings: Numbered<String>,
    /// The last stack that was looked up: consecutive stacks share their first steps.
    last: Vec<LastStep>,
}

/// A step of the last stack.
#[derive(Debug, Clone, Copy)]
struct LastStep {
    step: Step,
    /// Number of functions that it is inlined into.
    depth: u32,
    /// Index of the stack that ends with this step.
    stack: u32,
}

/// Writes a column as a named array.
fn column<T>(
    out: &mut dyn Write,
    name: &str,
    items: impl IntoIterator<Item = T>,
    push: impl FnMut(T, &mut Vec<u8>),
) -> io::Result<()> {
    write!(out, ",\"{name}\":")?;
    array_of(out, items, push, &mut Vec::new())
}

/// Appends a number, or `none` if there is none.
fn push_or(text: &mut Vec<u8>, number: Option<u64>, none: &str) {
    match number {
        Some(number) => push_number(text, number),
        None => text.extend_from_slice(none.as_bytes()),
    }
}

impl<'s, 'p> ThreadTables<'s, 'p> {
    pub(super) fn new(texts: FrameTexts<'s, 'p>) -> Self {
        ThreadTables {
            texts,
            stacks: Numbered::default(),
            frames: Numbered::default(),
            functions: Numbered::default(),
            resources: Numbered::default(),
            strings: Numbered::default(),
            last: Vec::new(),
        }
    }

    /// The index of a string.
    pub(super) fn string(&mut self, text: String) -> u32 {
        self.strings.number(text)
    }

    /// The index of the stack for `path`, root first; `None` when it has no frames.
    pub(super) fn stack(&mut self, path: &[Step]) -> Option<u32> {
        let shared = self.last.iter().zip(path).take_while(|(last, step)| last.step == **step).count();
        self.last.truncate(shared);
        for step in &path[shared..] {
            let before = self.last.last();
            let depth = match before {
                Some(before) if step.is_inlined && before.step.frame == step.frame => before.depth + 1,
                _ => 0,
            };
            let prefix = before.map(|before| before.stack);
            let frame = self.frame(step, depth);
            let stack = self.stacks.number((prefix, frame));
            self.last.push(LastStep { step: *step, depth, stack });
        }
        self.last.last().map(|last| last.stack)
    }

    fn frame(&mut self, step: &Step, depth: u32) -> u32 {
        let selection = self.texts.selection;
        let place = selection.labels.places()[step.place.index()];
        let module = step.frame.map(|frame| selection.profile.tables.frame(frame).module);
        let resource = module.map(|module| self.resources.number(module));
        let function = self.functions.number(FunctionEntry { label: step.label, file: place.file, resource });
        let step = StepKey { label: step.label, file: place.file, line: place.line, frame: step.frame };
        self.frames.number(FrameRow { step, function, depth })
    }

    /// Writes all tables as the last members of an object.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub(super) fn write(mut self, out: &mut dyn Write) -> io::Result<()> {
        self.write_stacks(out)?;
        self.write_frames(out)?;
        self.write_functions(out)?;
        self.write_resources(out)?;
        out.write_all(b"\"nativeSymbols\":{\"length\":0,\"address\":[],\"functionSize\":[],\"libIndex\":[],\"name\":[]},\n")?;
        out.write_all(b"\"stringArray\":")?;
        let push = |text: &String, out: &mut Vec<u8>| out.extend_from_slice(string(text).as_bytes());
        array_of(out, &self.strings.items, push, &mut Vec::new())
    }

    fn write_stacks(&self, out: &mut dyn Write) -> io::Result<()> {
        let rows = &self.stacks.items;
        write!(out, "\"stackTable\":{{\"length\":{}", rows.len())?;
        column(out, "prefix", rows, |(prefix, _), text| push_or(text, prefix.map(u64::from), "null"))?;
        column(out, "frame", rows, |(_, frame), text| push_number(text, (*frame).into()))?;
        out.write_all(b"},\n")
    }

    fn write_frames(&self, out: &mut dyn Write) -> io::Result<()> {
        let rows = &self.frames.items;
        let selection = self.texts.selection;
        let address = |row: &FrameRow| {
            let address = selection.profile.tables.frame(row.step.frame?).lookup_address();
            (address < MOST_EXACT).then_some(address)
        };
        let kind = |row: &FrameRow| category(selection.labels.get(row.step.label).kind);
        write!(out, "\"frameTable\":{{\"length\":{}", rows.len())?;
        column(out, "address", rows, |row, text| push_or(text, address(row), "-1"))?;
        column(out, "inlineDepth", rows, |row, text| push_number(text, row.depth.into()))?;
        column(out, "category", rows, |row, text| push_number(text, kind(row)))?;
        column(out, "subcategory", rows, |_, text| push_number(text, 0))?;
        column(out, "func", rows, |row, text| push_number(text, row.function.into()))?;
        column(out, "nativeSymbol", rows, |_, text| push_or(text, None, "null"))?;
        column(out, "innerWindowID", rows, |_, text| push_number(text, 0))?;
        let line = |row: &FrameRow| (row.step.line > 0).then_some(u64::from(row.step.line));
        column(out, "line", rows, |row, text| push_or(text, line(row), "null"))?;
        column(out, "column", rows, |_, text| push_or(text, None, "null"))?;
        out.write_all(b"},\n")
    }

    fn write_functions(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let texts = self.texts;
        let (labels, tables) = (&texts.selection.labels, &texts.selection.profile.tables);
        let rows = std::mem::take(&mut self.functions.items);
        let names: Vec<u32> =
            rows.iter().map(|row| self.string(named(&labels.get(row.label).text(texts.style)))).collect();
        let file = |id: StringId| safe_text::message(tables.string(id)).into_owned();
        let files: Vec<Option<u32>> =
            rows.iter().map(|row| (row.file != StringId(0)).then(|| self.string(file(row.file)))).collect();
        write!(out, "\"funcTable\":{{\"length\":{}", rows.len())?;
        column(out, "name", names, |name, text| push_number(text, name.into()))?;
        column(out, "isJS", &rows, |_, text| text.extend_from_slice(b"false"))?;
        column(out, "relevantForJS", &rows, |_, text| text.extend_from_slice(b"false"))?;
        column(out, "resource", &rows, |row, text| push_or(text, row.resource.map(u64::from), "-1"))?;
        column(out, "fileName", files, |file, text| push_or(text, file.map(u64::from), "null"))?;
        column(out, "lineNumber", &rows, |_, text| push_or(text, None, "null"))?;
        column(out, "columnNumber", &rows, |_, text| push_or(text, None, "null"))?;
        out.write_all(b"},\n")
    }

    fn write_resources(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.texts.selection.profile;
        let rows = std::mem::take(&mut self.resources.items);
        let name = |module: &ModuleId| {
            let module = profile.tables.module(*module);
            named(module_file(&module_text(profile, module.path, module.kind)))
        };
        let names: Vec<u32> = rows.iter().map(|module| self.string(name(module))).collect();
        write!(out, "\"resourceTable\":{{\"length\":{}", rows.len())?;
        column(out, "lib", &rows, |module, text| push_number(text, module.index() as u64))?;
        column(out, "name", names, |name, text| push_number(text, name.into()))?;
        column(out, "host", &rows, |_, text| push_or(text, None, "null"))?;
        // 1 means library.
        column(out, "type", &rows, |_, text| push_number(text, 1))?;
        out.write_all(b"},\n")
    }
}
