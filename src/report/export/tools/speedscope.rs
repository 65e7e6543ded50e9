//! Speedscope's JSON format: a profile per class of threads and event, of merged stacks with their weights.
//!
//! Samples in the order of time would make files too large for browsers. A frame is a function, whatever the line, so
//! that each function is one row.

use super::json_text::{self, array, array_of, numbers, push_number};
use super::stacks::{Numbered, StackLists, common_notes, is_wall, named, thread_names};
use crate::base::safe_text;
use crate::profile::{StringId, Unit};
use crate::report::export::exporter::{Exporter, Render, Rendered};
use crate::report::model::activity::Activity;
use crate::report::model::label::{LabelId, Step};
use crate::report::naming::style::NameStyle;
use crate::report::options::ExportOptions;
use crate::report::query::selection::Selection;
use std::io::{self, Write};

/// A selection to write.
struct SpeedscopeJson<'r> {
    selection: Selection<'r>,
    names: NameStyle,
    count: bool,
    is_wall: bool,
    notes: Vec<String>,
}

/// Stacks of a class of threads.
#[derive(Debug)]
struct ThreadProfile {
    title: String,
    total: u64,
    /// Index and weight of each stack.
    rows: Vec<(u32, u64)>,
}

impl SpeedscopeJson<'_> {
    /// The profiles, those of running time before those of waits, and the largest first.
    fn profiles(&self, lists: &StackLists) -> Vec<ThreadProfile> {
        let selection = &self.selection;
        let mut classes: Numbered<String> = Numbered::default();
        let class_of: Vec<u32> =
            thread_names(selection).into_iter().map(|name| classes.number(name)).collect();
        // (waits, class, stack, weight)
        let mut rows: Vec<(bool, u32, u32, u64)> = Vec::with_capacity(selection.groups().len());
        for (index, group) in selection.groups().iter().enumerate() {
            let weight = if self.count { group.amount.count() } else { group.amount.weight };
            let is_wait = !self.is_wall && group.activity != Activity::Running;
            if weight > 0 {
                let stack = lists.of_group(index) as u32;
                rows.push((is_wait, class_of[group.task.index()], stack, weight));
            }
        }
        rows.sort_unstable();
        let mut profiles: Vec<(bool, ThreadProfile)> = Vec::new();
        for same in rows.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (is_wait, class, ..) = same[0];
            let merged = same.chunk_by(|a, b| a.2 == b.2);
            let rows: Vec<(u32, u64)> =
                merged.map(|equal| (equal[0].2, sum(equal.iter().map(|row| row.3)))).collect();
            let total = sum(rows.iter().map(|row| row.1));
            let title = format!("{} {}", classes.items[class as usize], self.event_title(is_wait));
            profiles.push((is_wait, ThreadProfile { title, total, rows }));
        }
        profiles.sort_by(|(a_waits, a), (b_waits, b)| {
            (a_waits, b.total, &a.title).cmp(&(b_waits, a.total, &b.title))
        });
        profiles.into_iter().map(|(_, profile)| profile).collect()
    }

    fn event_title(&self, is_wait: bool) -> String {
        let shown = &self.selection.shown;
        let event = if is_wait { shown.waits } else { shown.sampled.or(shown.waits) };
        match event {
            Some(event) if !self.is_wall => safe_text::terminal(&event.kind().title).into_owned(),
            _ => shown.title.to_string(),
        }
    }

    fn unit(&self) -> &'static str {
        match self.selection.shown.unit {
            Unit::Nanoseconds if !self.count => "nanoseconds",
            Unit::Bytes if !self.count => "bytes",
            _ => "none",
        }
    }

    fn frame(&self, out: &mut dyn Write, label: LabelId, source: Option<(StringId, u32)>) -> io::Result<()> {
        let label = self.selection.labels.get(label);
        write!(out, "{{\"name\":{}", json_text::string(&named(&label.text(self.names))))?;
        let file = source.map_or(&*label.module, |(file, _)| self.selection.profile.tables.string(file));
        if !file.is_empty() {
            write!(out, ",\"file\":{}", json_text::string(&safe_text::message(file)))?;
        }
        if let Some((_, line)) = source.filter(|(_, line)| *line > 0) {
            write!(out, ",\"line\":{line}")?;
        }
        out.write_all(b"}")
    }

    /// The source file of each label, and the lowest line in it at which the function was sampled.
    fn sources(&self) -> Vec<Option<(StringId, u32)>> {
        let mut sources: Vec<Option<(StringId, u32)>> = vec![None; self.selection.labels.len()];
        for place in self.selection.labels.places().iter().filter(|place| place.file != StringId(0)) {
            let (file, line) = sources[place.label.index()].get_or_insert((place.file, place.line));
            if *file == place.file && place.line > 0 && (*line == 0 || place.line < *line) {
                *line = place.line;
            }
        }
        sources
    }
}

fn sum(weights: impl Iterator<Item = u64>) -> u64 {
    weights.fold(0, u64::saturating_add)
}

impl Rendered for SpeedscopeJson<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut frames: Numbered<LabelId> = Numbered::default();
        let lists = StackLists::new(&self.selection, |path, list| {
            list.extend(path.iter().map(|step: &Step| frames.number(step.label)));
        });
        let sources = self.sources();
        out.write_all(b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n")?;
        let title = named(&self.selection.profile.meta.target_name);
        writeln!(out, "\"name\":{},", json_text::string(&title))?;
        writeln!(out, "\"exporter\":\"prof@{}\",\"activeProfileIndex\":0,", env!("CARGO_PKG_VERSION"))?;
        out.write_all(b"\"shared\":{\"frames\":")?;
        array(out, &frames.items, |out, label| self.frame(out, *label, sources[label.index()]))?;
        out.write_all(b"},\n\"profiles\":")?;
        let mut buffer = Vec::new();
        array(out, self.profiles(&lists), |out, profile| {
            let title = json_text::string(&profile.title);
            write!(out, "\n{{\"type\":\"sampled\",\"name\":{title},\"unit\":\"{}\",", self.unit())?;
            write!(out, "\"startValue\":0,\"endValue\":{},\"samples\":", profile.total)?;
            array(out, &profile.rows, |out, (stack, _)| {
                numbers(out, lists.list(*stack as usize).iter().copied())
            })?;
            out.write_all(b",\"weights\":")?;
            array_of(out, &profile.rows, |(_, weight), text| push_number(text, *weight), &mut buffer)?;
            out.write_all(b"}")
        })?;
        out.write_all(b"}\n")
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// The export format.
pub(in crate::report::export) const EXPORTER: Exporter = Exporter {
    name: "speedscope",
    endings: &[".speedscope.json"],
    render: Render::Stacks(render),
    ..Exporter::NONE
};

fn render<'r>(selection: Selection<'r>, options: &ExportOptions) -> Box<dyn Rendered + 'r> {
    let note = "the speedscope file has merged stacks, without times, CPUs or wakers";
    let notes = common_notes(&selection, options).into_iter().chain([note.to_owned()]).collect();
    Box::new(SpeedscopeJson {
        names: options.common.names_for_programs(),
        count: options.count,
        is_wall: is_wall(options),
        notes,
        selection,
    })
}
