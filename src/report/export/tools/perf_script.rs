//! Text as printed by `perf script`, for tools that fold it (inferno, FlameGraph), Firefox Profiler and Speedscope.
//!
//! Each sample and wait is an event of its own, in the order of time. A wait is at its start, its period is its length,
//! and its leaf is its reason. Waits that were only counted come at the end. Inlined functions are frames with
//! `(inlined)`, as in perf. Addresses are relative to the module.

use super::in_time::{InTime, TimedSample};
use super::stacks::{FrameTexts, Numbered, StackLists, common_notes, named, short_waits_note};
use crate::profile::{Event, FrameId};
use crate::report::export::exporter::{Exporter, Render, Rendered};
use crate::report::model::activity::Activity;
use crate::report::model::label::{LabelId, Step};
use crate::report::model::metric::Metric;
use crate::report::naming::style::NameStyle;
use crate::report::options::{ExportOptions, TimeRange};
use crate::report::query::selection::Selection;
use std::io::{self, Write};

/// perf's name for the kernel.
const KERNEL: &str = "[kernel.kallsyms]";

/// Size of the buffer before it is written, bytes.
const FLUSH_BYTES: usize = 64 << 10;

/// Replaces a stack whose frames are all hidden.
const NO_FRAME: &[u8] = b"\t               0 [hidden] ([unknown])\n";

/// Identity of a line.
type FrameLineKey = (LabelId, bool, Option<FrameId>);

/// A selection to write.
struct PerfScriptText<'r> {
    selection: Selection<'r>,
    names: NameStyle,
    count: bool,
    time: TimeRange,
    in_time: InTime,
    notes: Vec<String>,
}

/// An event in the text.
struct ScriptEvent {
    time_ns: u64,
    group: usize,
    cpu: u16,
    weight: u64,
}

impl PerfScriptText<'_> {
    /// The line of a frame, with its newline.
    fn line(&self, step: &Step) -> String {
        let texts = FrameTexts::new(&self.selection, self.names);
        let label = texts.label(step);
        let mut name = texts.name(step);
        // Readers take a name that starts with a parenthesis for the name of a process, and drop it.
        if name.starts_with('(') {
            name.insert_str(0, "::");
        }
        let address =
            step.frame.map_or(0, |frame| self.selection.profile.tables.frame(frame).lookup_address());
        let module = match (&*label.module, step.is_inlined) {
            (_, true) => "inlined".to_owned(),
            ("[kernel]", _) => KERNEL.to_owned(),
            ("", _) => "[unknown]".to_owned(),
            // Readers take everything after the last space for the module.
            (module, _) => named(module).replace(char::is_whitespace, "_"),
        };
        format!("\t{address:16x} {name} ({module})\n")
    }

    fn event_names(&self) -> [String; 2] {
        let word = |event: Option<&Event>| {
            let name = event.map_or("", |event| &*event.kind().name);
            let clock = &*self.selection.profile.meta.clock;
            let is_time = event.is_some_and(|event| Metric::of_kind(event.kind()) == Metric::ON_CPU);
            let name = if is_time && !clock.is_empty() { clock } else { name };
            named(name).replace(|c: char| c.is_whitespace() || c == ':', "_")
        };
        [word(self.selection.shown.sampled), word(self.selection.shown.waits)]
    }

    /// `comm pid/tid` of each task.
    fn threads(&self) -> Vec<String> {
        let tables = &self.selection.profile.tables;
        let thread = |task: &crate::profile::Task| {
            format!("{} {}/{}", comm(tables.string(task.comm)), task.pid, task.tid)
        };
        tables.tasks().iter().map(thread).collect()
    }

    /// Waits without a time of their own, placed at the end of the recording.
    fn short_waits(&self) -> impl Iterator<Item = ScriptEvent> {
        let duration_ns = self.selection.profile.duration_ns();
        let time_ns = self.time.to_ns.unwrap_or(duration_ns).min(duration_ns);
        let groups = self.selection.groups().iter().enumerate();
        groups.filter(|(_, group)| matches!(group.activity, Activity::WaitingShortly(_))).map(
            move |(group, row)| {
                let weight = if self.count { row.amount.count() } else { row.amount.weight };
                ScriptEvent { time_ns, group, cpu: 0, weight }
            },
        )
    }
}

/// The name of a thread, changed if a reader would take part of it for a pid or a comment.
fn comm(name: &str) -> String {
    let name = named(name);
    let name = name.strip_prefix('#').map_or(name.clone(), |rest| format!("\\x23{rest}"));
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'/');
    // perf has no quoting, so only names with such words are changed.
    if name.split(' ').skip(1).any(is_number) { name.replace(' ', "_") } else { name }
}

impl Rendered for PerfScriptText<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut keys: Numbered<FrameLineKey> = Numbered::default();
        let mut texts: Vec<String> = Vec::new();
        let lists = StackLists::new(&self.selection, |path, list| {
            for step in path.iter().rev() {
                let number = keys.number((step.label, step.is_inlined, step.frame));
                if number as usize == texts.len() {
                    texts.push(self.line(step));
                }
                list.push(number);
            }
        });
        let (threads, events) = (self.threads(), self.event_names());
        let start_ns = self.selection.profile.meta.start_mono_ns;
        let entry = |moment: &TimedSample| ScriptEvent {
            time_ns: moment.time_ns,
            group: moment.group as usize,
            cpu: moment.cpu,
            weight: if self.count { moment.count } else { moment.weight },
        };
        let mut text: Vec<u8> = Vec::with_capacity(2 * FLUSH_BYTES);
        for entry in self.in_time.moments.iter().map(entry).chain(self.short_waits()) {
            let group = &self.selection.groups()[entry.group];
            let event = &events[usize::from(group.activity != Activity::Running)];
            let us = start_ns.saturating_add(entry.time_ns) / 1000;
            let (seconds, us) = (us / 1_000_000, us % 1_000_000);
            let (thread, cpu, weight) = (&threads[group.task.index()], entry.cpu, entry.weight);
            writeln!(text, "{thread} [{cpu:03}] {seconds}.{us:06}: {weight:>10} {event}: ")?;
            let lines = lists.list(lists.of_group(entry.group));
            // Readers drop events without frames.
            if lines.is_empty() {
                text.extend_from_slice(NO_FRAME);
            }
            for &line in lines {
                text.extend_from_slice(texts[line as usize].as_bytes());
            }
            text.push(b'\n');
            if text.len() > FLUSH_BYTES {
                out.write_all(&text)?;
                text.clear();
            }
        }
        out.write_all(&text)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// The export format.
pub(in crate::report::export) const EXPORTER: Exporter = Exporter {
    name: "perf-script",
    endings: &[".perf-script", ".perf"],
    render: Render::Stacks(render),
    ..Exporter::NONE
};

fn render<'r>(selection: Selection<'r>, options: &ExportOptions) -> Box<dyn Rendered + 'r> {
    let note = "perf script text cannot store source lines or wakers";
    let notes = common_notes(&selection, options).into_iter().chain([note.to_owned()]);
    let in_time = InTime::new(&selection, options.common.filter.time);
    let short = short_waits_note(&selection, "they are listed at the end");
    let notes = notes.chain(short).chain(in_time.merged_note()).collect();
    Box::new(PerfScriptText {
        names: options.common.names_for_programs(),
        count: options.count,
        time: options.common.filter.time,
        in_time,
        notes,
        selection,
    })
}
