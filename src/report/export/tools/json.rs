//! Stacks as JSON, `prof.export/1`: see `docs/exports.md`. One line per frame, stack and row, so that neither a writer
//! nor a reader needs all of it in memory.

use super::json_text::{numbers, string};
use super::stacks::{FrameTexts, Numbered, StackLists, common_notes};
use crate::profile::{Event, Unit};
use crate::report::export::exporter::{Exporter, Render, Rendered};
use crate::report::model::activity::Activity;
use crate::report::model::amount::Amount;
use crate::report::model::group::Group;
use crate::report::model::label::{LabelId, PlaceId, Step};
use crate::report::naming::style::NameStyle;
use crate::report::options::ExportOptions;
use crate::report::query::filter_words;
use crate::report::query::selection::Selection;
use std::io::{self, Write};

/// Identity of a frame.
type JsonFrameKey = (LabelId, PlaceId, bool, bool);

/// A selection to write.
struct StacksJson<'r> {
    selection: Selection<'r>,
    names: NameStyle,
    filters: Option<String>,
    notes: Vec<String>,
}

impl StacksJson<'_> {
    fn facts(&self, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.selection.profile;
        let meta = &profile.meta;
        writeln!(out, "{{\"schema\":\"prof.export/1\",")?;
        writeln!(out, "\"prof_version\":\"{}\",", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "\"target\":{},", string(&meta.target))?;
        let command: Vec<String> = meta.command.iter().map(|word| string(word)).collect();
        writeln!(out, "\"command\":[{}],", command.join(","))?;
        writeln!(out, "\"start_unix_ns\":{},", meta.start_unix_ns)?;
        writeln!(out, "\"duration_ns\":{},", profile.duration_ns())?;
        let filters = self.filters.as_deref().map_or("null".to_owned(), string);
        writeln!(out, "\"filters\":{filters},")
    }

    fn frame(&self, out: &mut dyn Write, step: &Step) -> io::Result<()> {
        let texts = FrameTexts::new(&self.selection, self.names);
        let label = texts.label(step);
        let or_null = |text: &str| if text.is_empty() { "null".to_owned() } else { string(text) };
        let (file, line) = texts.source(step).unwrap_or_default();
        let line = if line == 0 { "null".to_owned() } else { line.to_string() };
        write!(out, "{{\"function\":{},", string(label.name_in(self.names)))?;
        write!(out, "\"module\":{},\"file\":{},\"line\":{line},", or_null(&label.module), or_null(file))?;
        write!(out, "\"inlined\":{},\"kernel\":{}}}", step.is_inlined, step.is_kernel)
    }

    /// Writes the sums of each event, and its unit.
    fn events(&self, out: &mut dyn Write) -> io::Result<()> {
        let shown = &self.selection.shown;
        lines(out, "events", shown.events(), |out, event| {
            let is_event = |group: &&Group| (group.activity != Activity::Running) == event.has_waits();
            let mut sum = Amount::default();
            self.selection.groups().iter().filter(is_event).for_each(|group| sum.add(group.amount));
            let (name, unit) = (string(&event.kind().name), unit_word(event.kind().unit));
            let [weight, samples, count] = [sum.weight, sum.samples, sum.count()];
            write!(out, "{{\"event\":{name},\"unit\":\"{unit}\",\"weight\":{weight},")?;
            write!(out, "\"samples\":{samples},\"count\":{count},\"period\":{}}}", event.info().period)
        })
    }

    fn rows(&self, out: &mut dyn Write, lists: &StackLists) -> io::Result<()> {
        let shown = &self.selection.shown;
        let head = |event: Option<&Event>| {
            let (name, unit) =
                event.map_or(("", Unit::Count), |event| (&*event.kind().name, event.kind().unit));
            format!("\"event\":{},\"unit\":\"{}\"", string(name), unit_word(unit))
        };
        let (sampled, waits) = (head(shown.sampled), head(shown.waits));
        let tables = &self.selection.profile.tables;
        let threads: Vec<String> = (tables.tasks().iter())
            .map(|task| {
                let [thread, process] = [task.comm, task.process].map(|name| string(tables.string(name)));
                let (tid, pid) = (task.tid, task.pid);
                format!("\"thread\":{thread},\"tid\":{tid},\"process\":{process},\"pid\":{pid}")
            })
            .collect();
        lines(out, "rows", self.selection.groups().iter().enumerate(), |out, (index, group)| {
            let event = if group.activity == Activity::Running { &sampled } else { &waits };
            let reason = group.activity.reason().map_or("null".to_owned(), |reason| string(reason.label()));
            write!(out, "{{\"stack\":{},{event},{},", lists.of_group(index), threads[group.task.index()])?;
            let Amount { weight, samples, .. } = group.amount;
            write!(out, "\"reason\":{reason},\"weight\":{weight},\"samples\":{samples},")?;
            write!(out, "\"count\":{}}}", group.amount.count())
        })
    }
}

/// Writes an array under `key`, one item per line.
fn lines<T>(
    out: &mut dyn Write,
    key: &str,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut dyn Write, T) -> io::Result<()>,
) -> io::Result<()> {
    write!(out, "\"{key}\":[")?;
    for (index, item) in items.into_iter().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        write(out, item)?;
    }
    out.write_all(b"\n]")
}

fn unit_word(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "bytes",
        Unit::Count | Unit::Other(_) => "count",
    }
}

impl Rendered for StacksJson<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let texts = FrameTexts::new(&self.selection, self.names);
        let mut frames: Numbered<JsonFrameKey> = Numbered::default();
        let mut steps: Vec<Step> = Vec::new();
        let lists = StackLists::new(&self.selection, |path, list| {
            for step in texts.without_reason(path) {
                let number = frames.number((step.label, step.place, step.is_inlined, step.is_kernel));
                if number as usize == steps.len() {
                    steps.push(*step);
                }
                list.push(number);
            }
        });
        self.facts(out)?;
        self.events(out)?;
        out.write_all(b",\n")?;
        lines(out, "frames", &steps, |out, step| self.frame(out, step))?;
        out.write_all(b",\n")?;
        lines(out, "stacks", 0..lists.len(), |out, stack| numbers(out, lists.list(stack).iter().copied()))?;
        out.write_all(b",\n")?;
        self.rows(out, &lists)?;
        out.write_all(b"}\n")
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// The export format.
pub(in crate::report::export) const EXPORTER: Exporter = Exporter {
    name: "json",
    endings: &[".json", ".json.gz"],
    render: Render::Stacks(render),
    ..Exporter::NONE
};

fn render<'r>(selection: Selection<'r>, options: &ExportOptions) -> Box<dyn Rendered + 'r> {
    let note = "the JSON has merged stacks, without times, CPUs or wakers";
    Box::new(StacksJson {
        names: options.common.names_for_programs(),
        filters: filter_words::description(&options.common.filter),
        notes: common_notes(&selection, options).into_iter().chain([note.to_owned()]).collect(),
        selection,
    })
}
