//! Callgrind's text format, for `callgrind_annotate` and KCachegrind. A function has its self cost by line, and each
//! call the cost of everything below it.
//!
//! Threads are the outermost callers. A function that is on a stack several times is called there once: at its
//! outermost call. So the calls of a function add up to its total, and no total exceeds the whole.

use super::columns::ValueColumns;
use super::stacks::{Numbered, common_notes, named, recorder_lines, thread_names};
use crate::base::safe_text;
use crate::profile::{StringId, Unit};
use crate::report::export::exporter::{Exporter, Render, Rendered};
use crate::report::model::amount::Amount;
use crate::report::model::label::{LabelId, Step};
use crate::report::naming::style::NameStyle;
use crate::report::options::ExportOptions;
use crate::report::query::selection::Selection;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// File and module of what is not code.
const NO_FILE: &str = "???";
/// File and module of threads.
const THREADS: &str = "[threads]";

/// Identity of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CostKey {
    /// A thread, by the index of its name.
    Thread(u32),
    Code {
        label: LabelId,
        file: StringId,
    },
}

/// Costs of a function: by line, and by call from a line to a function.
#[derive(Debug, Default)]
struct Costs {
    own: BTreeMap<u32, Vec<u64>>,
    calls: BTreeMap<(u32, u32), CallCost>,
}

/// Costs of the calls from one line.
#[derive(Debug, Default)]
struct CallCost {
    /// The first line at which the called function was sampled.
    to_line: u32,
    values: Vec<u64>,
}

/// A selection to write.
struct CallgrindText<'r> {
    selection: Selection<'r>,
    columns: ValueColumns,
    names: NameStyle,
    notes: Vec<String>,
}

/// The costs of all functions.
struct CostTable {
    functions: Numbered<CostKey>,
    threads: Vec<String>,
    costs: Vec<Costs>,
    totals: Vec<u64>,
}

impl CostTable {
    fn new(file: &CallgrindText<'_>) -> Self {
        let mut columns = file.columns.clone();
        let mut names: Numbered<String> = Numbered::default();
        let thread_of: Vec<u32> =
            thread_names(&file.selection).into_iter().map(|name| names.number(name)).collect();
        let mut table = CostTable {
            functions: Numbered::default(),
            threads: names.items,
            costs: Vec::new(),
            totals: vec![0; columns.all.len()],
        };
        let mut values = Vec::new();
        let mut path: Vec<(u32, u32)> = Vec::new();
        let mut outermost: FxHashMap<u32, ()> = FxHashMap::default();
        file.selection.for_each_path(|steps, groups| {
            path.clear();
            path.push((0, 0));
            path.extend(steps.iter().map(|step| table.function_of(&file.selection, step)));
            for group in groups {
                columns.fill(group, Amount::default(), &mut values);
                path[0] = (table.number(CostKey::Thread(thread_of[group.task.index()])), 0);
                table.add(&path, &values, &mut outermost);
            }
        });
        table
    }

    fn number(&mut self, key: CostKey) -> u32 {
        let number = self.functions.number(key);
        self.costs.resize_with(self.functions.items.len(), Costs::default);
        number
    }

    /// The function of a step, and its line there.
    fn function_of(&mut self, selection: &Selection<'_>, step: &Step) -> (u32, u32) {
        let place = selection.labels.places()[step.place.index()];
        (self.number(CostKey::Code { label: step.label, file: place.file }), place.line)
    }

    /// Adds the values of a stack, root first.
    fn add(&mut self, path: &[(u32, u32)], values: &[u64], seen: &mut FxHashMap<u32, ()>) {
        seen.clear();
        for (at, &(function, line)) in path.iter().enumerate() {
            let is_outermost = seen.insert(function, ()).is_none();
            if at > 0 && is_outermost {
                let (caller, from_line) = path[at - 1];
                let call = self.costs[caller as usize].calls.entry((from_line, function)).or_default();
                if call.values.is_empty() {
                    call.to_line = line;
                }
                add(&mut call.values, values);
            }
        }
        if let Some(&(leaf, line)) = path.last() {
            add(self.costs[leaf as usize].own.entry(line).or_default(), values);
        }
        add(&mut self.totals, values);
    }
}

fn add(sums: &mut Vec<u64>, values: &[u64]) {
    sums.resize(values.len(), 0);
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
}

/// Names that are written in full when they first occur and by number afterwards, as the format does.
#[derive(Default)]
struct NumberedNames {
    known: Numbered<String>,
}

impl NumberedNames {
    /// `(3) name`, or `(3)`.
    fn short(&mut self, name: String) -> String {
        let before = self.known.items.len();
        let number = self.known.number(name) + 1;
        match self.known.items.get(before) {
            Some(name) => format!("({number}) {name}"),
            None => format!("({number})"),
        }
    }
}

/// Names of a function in the file.
struct FunctionText {
    object: String,
    file: String,
    name: String,
}

impl CallgrindText<'_> {
    fn text_of(&self, table: &CostTable, key: CostKey) -> FunctionText {
        match key {
            CostKey::Thread(name) => FunctionText {
                object: THREADS.to_owned(),
                file: THREADS.to_owned(),
                name: table.threads[name as usize].clone(),
            },
            CostKey::Code { label, file } => {
                let label = self.selection.labels.get(label);
                let known = |text: &str| if text.is_empty() { NO_FILE.to_owned() } else { named(text) };
                FunctionText {
                    object: known(&label.module),
                    file: known(self.selection.profile.tables.string(file)),
                    name: named(&label.text(self.names)),
                }
            }
        }
    }

    fn header(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# callgrind format\nversion: 1\ncreator: prof {}", env!("CARGO_PKG_VERSION"))?;
        let meta = &self.selection.profile.meta;
        writeln!(out, "cmd: {}", safe_text::message(&meta.target))?;
        for line in recorder_lines(self.selection.profile) {
            writeln!(out, "desc: {line}")?;
        }
        writeln!(out, "positions: line")?;
        for column in &self.columns.all {
            writeln!(out, "event: {} : {}", event_name(&column.name, column.unit), column.name)?;
        }
        let events: Vec<String> =
            self.columns.all.iter().map(|column| event_name(&column.name, column.unit)).collect();
        writeln!(out, "events: {}", events.join(" "))
    }
}

/// The name of an event with its unit, for which the format has no field.
fn event_name(name: &str, unit: Unit) -> String {
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    match unit {
        Unit::Nanoseconds => format!("{name}_ns"),
        Unit::Bytes => format!("{name}_bytes"),
        Unit::Count | Unit::Other(_) => name,
    }
}

fn values_text(values: &[u64]) -> String {
    values.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

impl Rendered for CallgrindText<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let table = CostTable::new(self);
        self.header(out)?;
        writeln!(out, "summary: {}", values_text(&table.totals))?;
        let [mut objects, mut files, mut functions] = [(); 3].map(|()| NumberedNames::default());
        for (key, costs) in table.functions.items.iter().zip(&table.costs) {
            let text = self.text_of(&table, *key);
            writeln!(out, "\nob={}", objects.short(text.object))?;
            writeln!(out, "fl={}", files.short(text.file))?;
            writeln!(out, "fn={}", functions.short(text.name))?;
            for (line, values) in &costs.own {
                writeln!(out, "{line} {}", values_text(values))?;
            }
            for ((line, callee), call) in &costs.calls {
                let text = self.text_of(&table, table.functions.items[*callee as usize]);
                writeln!(out, "cob={}", objects.short(text.object))?;
                writeln!(out, "cfi={}", files.short(text.file))?;
                writeln!(out, "cfn={}", functions.short(text.name))?;
                // The number of calls is not known.
                writeln!(out, "calls=1 {}\n{line} {}", call.to_line, values_text(&call.values))?;
            }
        }
        writeln!(out, "\ntotals: {}", values_text(&table.totals))
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// The export format.
pub(in crate::report::export) const EXPORTER: Exporter = Exporter {
    name: "callgrind",
    endings: &[".callgrind"],
    beginning: Some("callgrind.out"),
    render: Render::Stacks(render),
    ..Exporter::NONE
};

fn render<'r>(selection: Selection<'r>, options: &ExportOptions) -> Box<dyn Rendered + 'r> {
    let note = "callgrind cannot store times, processes or whole stacks, and call counts are not known: each call is counted as 1";
    let notes = common_notes(&selection, options).into_iter().chain([note.to_owned()]).collect();
    let mut columns = ValueColumns::of(&selection, options);
    // Readers sort by the first column.
    columns.all.swap(0, columns.chosen);
    columns.chosen = 0;
    Box::new(CallgrindText { columns, names: options.common.names_for_programs(), notes, selection })
}
