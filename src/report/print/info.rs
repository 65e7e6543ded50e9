//! `prof info`: the facts of a profile, nothing computed from stacks except how many are complete.

use super::info_modules;
use super::json::{QualityFields, document, unit_word};
use super::json_waits::TotalsFields;
use super::module_fields::{ModuleFields, module_fields, unfiltered};
use super::terminal::Screen;
use super::text;
use super::text::header::{completeness, lost_words};
use crate::base::units::{
    bytes, count, counted, duration, honest_percent_text, percent, percent_text, weight,
};
use crate::base::{safe_text, units};
use crate::profile::{Event, EventKind, FrameId, Meta, Profile};
use crate::report::analysis::Analysis;
use crate::report::clock_part::{ClockPart, ClockPartFields, WindowFacts};
use crate::report::model::ending;
use crate::report::model::sample_labels::SampleLabels;
use crate::report::model::totals::Totals;
use crate::report::options::{ColorWhen, CommonOptions, InfoOptions};
use crate::report::print::cost::{Cost, cost_lines};
use crate::report::query::notes;
use crate::report::query::selection::Selection;
use crate::report::recording::Recording;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

/// Name and version of the layout.
const SCHEMA: &str = "prof.info/1";

/// Column at which facts begin, after their names.
const FACT_COLUMN: usize = 10;

#[derive(Debug, Serialize)]
struct Info {
    schema: &'static str,
    prof_version: String,
    command: Vec<String>,
    target: String,
    target_name: String,
    target_pids: Vec<u32>,
    threads_at_start: u32,
    hostname: String,
    kernel: String,
    arch: String,
    cpus: u32,
    start: String,
    start_unix_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_part: Option<ClockPartFields>,
    /// Those of a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    windows: Option<Vec<WindowFacts>>,
    duration_ns: Option<u64>,
    requested_hz: u32,
    effective_hz: u32,
    clock: String,
    user_only: bool,
    pid_namespace: u64,
    end_reason: Option<String>,
    command_status: Option<i32>,
    command_signal: Option<String>,
    notices: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    imported: Option<ImportedFields>,
    threads: Option<u32>,
    cost: Cost,
    file: FileFields,
    events: Vec<EventFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    totals: Option<TotalsFields>,
    /// Number of values of each key of labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, u64>,
    counters: BTreeMap<String, u64>,
    modules: Vec<ModuleFields>,
}

/// Origin of an imported profile.
#[derive(Debug, Serialize)]
struct ImportedFields {
    format: String,
    file: Option<String>,
    tool: Option<String>,
}

impl ImportedFields {
    fn of(meta: &Meta) -> Option<Self> {
        let known = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        meta.is_imported().then(|| ImportedFields {
            format: meta.imported_from.clone(),
            file: known(&meta.source_file),
            tool: known(&meta.source_tool),
        })
    }
}

#[derive(Debug, Serialize)]
struct FileFields {
    is_complete: bool,
    problem: Option<String>,
    bytes_read: u64,
    bytes_skipped: u64,
    unknown_chunks: u64,
    stacks: u64,
    frames: u64,
    named_frames: u64,
    tasks: u64,
}

#[derive(Debug, Serialize)]
struct EventFields {
    event: String,
    unit: &'static str,
    sampling: String,
    period: u64,
    samples: u64,
    total: u64,
    quality: QualityFields,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<WaitFacts>,
}

/// Facts that only an event of waits has.
#[derive(Debug, Serialize)]
struct WaitFacts {
    /// Waits that the samples are weighted as, without short ones.
    count: u64,
    /// Waits of which only a part was kept are among them.
    is_thinned: bool,
    /// Half the width of the 95 % interval around the sum.
    error_ns: u64,
    short_count: u64,
    short_ns: u64,
    idle_ns: u64,
}

/// `prof info`: reads a profile and prints its facts.
///
/// # Errors
///
/// When the profile cannot be read or standard output not be written.
pub(crate) fn info(options: &InfoOptions) -> anyhow::Result<()> {
    let recording = Analysis::load(&options.input)?;
    let screen = Screen::new(ColorWhen::Never, !options.json);
    if options.json {
        return screen.print_document(&render_json(&recording)?);
    }
    if options.modules {
        return screen.print(&info_modules::render(&recording));
    }
    let page = screen.page(None);
    let text = page.written(render_text(&recording));
    screen.print(&match page.cut_names {
        true => safe_text::hanging(&text, FACT_COLUMN, page.width).into(),
        false => text,
    })
}

/// The facts as `prof.info/1`.
pub(crate) fn render_json(recording: &Analysis) -> anyhow::Result<String> {
    let profile = &recording.profile;
    let meta = &profile.meta;
    let end = profile.end.as_ref();
    document(&Info {
        schema: SCHEMA,
        prof_version: meta.prof_version.clone(),
        command: meta.command.clone(),
        target: meta.target.clone(),
        target_name: meta.target_name.clone(),
        target_pids: meta.target_pids.clone(),
        threads_at_start: meta.threads_at_start,
        hostname: meta.hostname.clone(),
        kernel: meta.kernel.clone(),
        arch: meta.arch.clone(),
        cpus: meta.cpus,
        start: date_text(meta.start_unix_ns),
        start_unix_ns: meta.start_unix_ns,
        clock_part: recording.clock_part.as_ref().map(ClockPart::fields),
        windows: recording.clock_part.as_ref().and_then(ClockPart::known_windows),
        duration_ns: profile.known_duration_ns(),
        requested_hz: meta.requested_hz,
        effective_hz: meta.effective_hz,
        clock: meta.clock.clone(),
        user_only: meta.user_only,
        pid_namespace: meta.pid_namespace,
        end_reason: end.map(|end| end.reason.clone()),
        command_status: end.and_then(|end| end.command_status),
        command_signal: end.and_then(|end| end.command_signal).map(units::signal),
        notices: profile.notices().cloned().collect(),
        imported: ImportedFields::of(meta),
        threads: end.map(|end| end.threads),
        cost: Cost::of(recording),
        file: file_fields(recording),
        events: profile.events.iter().map(|event| event_fields(recording, event)).collect(),
        totals: totals(recording).as_ref().map(TotalsFields::of),
        labels: SampleLabels::of(&profile.tables).counts(),
        counters: profile.counters.clone(),
        modules: module_fields(recording),
    })
}

fn file_fields(recording: &Recording) -> FileFields {
    let integrity = &recording.integrity;
    let tables = &recording.profile.tables;
    FileFields {
        is_complete: integrity.is_complete && recording.profile.end.is_some(),
        problem: integrity.problem.clone(),
        bytes_read: integrity.bytes_read,
        bytes_skipped: integrity.bytes_skipped,
        unknown_chunks: integrity.unknown_chunks,
        stacks: tables.stacks().len() as u64,
        frames: tables.frames().len() as u64,
        named_frames: named_frames(&recording.profile),
        tasks: tables.tasks().len() as u64,
    }
}

fn named_frames(profile: &Profile) -> u64 {
    let ids = (0..profile.tables.frames().len() as u32).map(FrameId);
    ids.filter(|frame| profile.symbols.is_named(*frame)).count() as u64
}

fn event_fields(recording: &Analysis, event: &Event) -> EventFields {
    let selection = unfiltered(recording, event);
    EventFields {
        event: event.kind().name.clone().into_owned(),
        unit: unit_word(event.kind().unit),
        sampling: event.info().sampling.clone(),
        period: event.info().period,
        samples: event.observations(),
        total: selection.as_ref().map_or(0, |selection| selection.whole.weight),
        quality: selection.as_ref().map(QualityFields::of).unwrap_or_default(),
        waits: selection.as_ref().and_then(|selection| wait_facts(recording, selection)),
    }
}

fn wait_facts(recording: &Analysis, selection: &Selection<'_>) -> Option<WaitFacts> {
    selection.shown.waits?;
    let shorts = recording.profile.thread_times.iter().flat_map(|time| &time.short_waits);
    let (short_count, short_ns) = shorts.fold((0u64, 0u64), |(count, time), short| {
        (count.saturating_add(short.count), time.saturating_add(short.time_ns))
    });
    let idle = recording.idle_waits();
    Some(WaitFacts {
        count: selection.count_of_whole(),
        is_thinned: selection.whole.variance_us2 > 0,
        error_ns: selection.whole.error_ns(),
        short_count,
        short_ns,
        idle_ns: idle.all().weight.saturating_sub(idle.all_but_idle().weight),
    })
}

/// Where the whole time of the threads went, when the recording has waits.
fn totals(recording: &Analysis) -> Option<Totals> {
    // Without patterns there is nothing that could be wrong with the options.
    Totals::of(recording, &CommonOptions::default()).ok().flatten()
}

/// A moment, given in ns since the Unix epoch, as `2026-11-21T11:53:16Z`; empty for none.
pub(crate) fn date_text(unix_ns: u64) -> String {
    if unix_ns == 0 {
        return String::new();
    }
    // u64 nanoseconds end in the year 2554, well within what can be written.
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(unix_ns)).to_string()
}

/// The facts for people.
pub(crate) fn render_text(recording: &Analysis) -> String {
    let mut facts = InfoFacts::default();
    let profile = &recording.profile;
    add_origin(&mut facts, recording);
    let reason = ending::words(profile).unwrap_or_else(|| "no end record".to_owned());
    let length = profile.known_duration_ns().map_or("not known".to_owned(), duration);
    facts.add("length", &format!("{length} ({reason})"));
    if let Some(end) = &profile.end {
        facts.add("threads", &count(end.threads.into()));
    }
    if let Some(end) = recording.cost_end().filter(|_| !profile.meta.is_imported()) {
        facts.add("cost", &cost_lines(recording).join(", "));
        let parts = [duration(end.cpu_ns), duration(end.bpf_ns)];
        facts.add("", &format!("{} CPU in all, {} in BPF programs", parts[0], parts[1]));
    }
    add_file(&mut facts, recording);
    for event in &profile.events {
        add_event(&mut facts, recording, event);
    }
    if let Some(totals) = totals(recording) {
        add_totals(&mut facts, &totals);
    }
    facts.add("labels", &SampleLabels::of(&profile.tables).count_words());
    for (name, value) in profile.counters.iter().filter(|(_, value)| **value > 0) {
        facts.add("counter", &format!("{name} {}", count(*value)));
    }
    for (name, module) in info_modules::lines(recording) {
        facts.add(name, &module);
    }
    profile.notices().for_each(|notice| facts.add("NOTE", notice));
    notes(recording).iter().for_each(|note| facts.add("NOTE", note));
    facts.out
}

/// Adds what was recorded, where, by what and how.
fn add_origin(facts: &mut InfoFacts, recording: &Recording) {
    let profile = &recording.profile;
    let meta = &profile.meta;
    facts.add("target", &meta.target);
    facts.add("command", &safe_text::shell_line(meta.command.iter().map(String::as_str)));
    if meta.is_imported() {
        facts.add("source", &source_text(meta));
    }
    facts.add("recorded", &date_text(meta.start_unix_ns));
    if let Some(part) = &recording.clock_part {
        facts.add("", &part.words());
    }
    facts.add("on", &[&*meta.hostname, &meta.kernel, &meta.arch].join(" "));
    if meta.cpus > 0 || !meta.is_imported() {
        facts.add("CPUs", &count(meta.cpus.into()));
    }
    if meta.pid_namespace != 0 {
        facts.add(
            "numbers",
            &format!("of processes are those of PID namespace {}, where prof ran", meta.pid_namespace),
        );
    }
    let role = if meta.is_imported() { "imported" } else { "by" };
    facts.add(role, &[if meta.is_imported() { "by" } else { "" }, "prof", &meta.prof_version].join(" "));
    let clamped = if meta.requested_hz > meta.effective_hz {
        format!(" ({} Hz asked for)", count(meta.requested_hz.into()))
    } else {
        String::new()
    };
    // Waits are not sampled, and counters have clocks of their own: their rules are said with the events.
    if !meta.is_imported() && profile.event_of(&EventKind::ON_CPU).is_some() {
        facts.add("sampling", &format!("{} at {} Hz{clamped}", meta.clock, count(meta.effective_hz.into())));
    }
    if meta.user_only {
        facts.add("", "without kernel frames (--user-only)");
    }
}

/// `perf.data, file \`perf.data\`, recorded by perf 6.1.187`.
fn source_text(meta: &Meta) -> String {
    let mut text = meta.imported_from.clone();
    for (word, value) in [("file ", &meta.source_file), ("recorded by ", &meta.source_tool)] {
        if !value.is_empty() {
            text.push_str(&format!(", {word}{value}"));
        }
    }
    text
}

/// Where the time of the threads went.
fn add_totals(facts: &mut InfoFacts, totals: &Totals) {
    facts.add("time", &text::totals_text(totals, false));
    let threads = counted(totals.threads.len() as u64, "thread");
    let by = if totals.is_by_scheduler { "by the scheduler" } else { "by samples and waits" };
    let missing = match totals.unaccounted_threads {
        0 => String::new(),
        missing => format!("; no account of {}", counted(missing, "thread")),
    };
    facts.add("", &format!("of {threads}, {by}{missing}"));
}

/// Notes on the events, each once.
fn notes(recording: &Analysis) -> Vec<String> {
    let mut notes = Vec::new();
    for selection in recording.profile.events.iter().filter_map(|event| unfiltered(recording, event)) {
        let of_event = notes::notes(&recording.profile, &recording.integrity, &selection.quality);
        let new: Vec<String> = of_event.into_iter().filter(|note| !notes.contains(note)).collect();
        notes.extend(new);
    }
    notes
}

fn add_file(facts: &mut InfoFacts, recording: &Recording) {
    let file = file_fields(recording);
    let end = recording.profile.end.as_ref();
    let has_failed = end.is_some_and(|end| end.writing_failed);
    let state = match (&file.problem, file.is_complete) {
        (Some(problem), _) => problem.clone(),
        (None, true) if has_failed => "complete up to where writing it failed".to_owned(),
        (None, true) => "complete".to_owned(),
        (None, false) => "no end record: prof was killed, or the file was cut".to_owned(),
    };
    match recording.clock_part.as_ref().and_then(|part| Some((part, part.window_count()?))) {
        Some((part, windows)) => {
            let (size, windows) =
                (bytes(file.bytes_read.saturating_add(file.bytes_skipped)), counted(windows, "window"));
            facts.add("files", &format!("{size} in {windows}, {}", part.completeness_words()));
            facts.add("", file.problem.as_deref().unwrap_or_default());
        }
        None => facts.add("file", &format!("{}, {state}", bytes(file.bytes_read))),
    }
    if file.bytes_skipped > 0 {
        facts.add("", &format!("{} could not be read", bytes(file.bytes_skipped)));
    }
    if file.unknown_chunks > 0 {
        let chunks = counted(file.unknown_chunks, "chunk");
        facts.add("", &format!("{chunks} of a kind unknown to this version"));
    }
    facts.add(
        "tables",
        &format!(
            "{}, {}, {} named, {}",
            counted(file.stacks, "stack"),
            counted(file.frames, "frame"),
            count(file.named_frames),
            counted(file.tasks, "task")
        ),
    );
}

fn add_event(facts: &mut InfoFacts, recording: &Analysis, event: &Event) {
    let info = event.info();
    let fields = event_fields(recording, event);
    let sum = weight(info.kind.unit, fields.total, fields.total);
    let samples = counted(fields.samples, &safe_text::terminal(&info.kind.noun));
    let title = safe_text::terminal(&info.kind.title);
    facts.add("event", &format!("{title}: {samples} = {sum}, {}", info.sampling));
    if let Some(waits) = &fields.waits {
        add_waits(facts, &fields, waits);
    }
    let Some(selection) = unfiltered(recording, event) else { return };
    let quality = &selection.quality;
    if quality.samples == 0 {
        facts.add("stacks", &format!("none, {}", lost_words(&recording.profile, quality)));
        return;
    }
    facts.add(
        "stacks",
        &format!(
            "{}, symbols {}, {}",
            completeness(quality),
            honest_percent_text(100.0 - quality.unnamed_percent()),
            lost_words(&recording.profile, quality)
        ),
    );
    for (cause, samples) in &quality.by_cause {
        let share = honest_percent_text(percent(*samples, quality.samples));
        facts.add("", &format!("{share} end early: {}", cause.replace('_', " ")));
    }
    if recording.profile.meta.is_imported() {
        // How its frames were found is unknown.
        return;
    }
    let [leaf, table, frame_pointer, kernel] = quality.found_by_percent().map(percent_text);
    facts.add(
        "frames",
        &format!(
            "{leaf} leaves, found by unwind tables {table}, by frame pointers {frame_pointer}, by the kernel {kernel}"
        ),
    );
}

fn add_waits(facts: &mut InfoFacts, fields: &EventFields, waits: &WaitFacts) {
    if waits.is_thinned {
        let (all, error) = (counted(waits.count, "wait"), duration(waits.error_ns));
        facts.add("", &format!("{} of about {all} were kept, ± {error}", count(fields.samples)));
    }
    if waits.short_count > 0 {
        let verb = if waits.short_count == 1 { "was" } else { "were" };
        facts.add(
            "",
            &format!(
                "{} {verb} only added up, {} in all: too short, a new thread's first for a CPU, or not reported",
                counted(waits.short_count, "wait"),
                duration(waits.short_ns)
            ),
        );
    }
    if waits.idle_ns > 0 {
        facts.add("", &format!("{} of it idle", duration(waits.idle_ns)));
    }
}

/// Lines of a name and a value; values are made safe here.
#[derive(Debug, Default)]
struct InfoFacts {
    out: String,
}

impl InfoFacts {
    fn add(&mut self, name: &str, value: &str) {
        let value = safe_text::message(value.trim());
        if !value.is_empty() {
            let written = writeln!(self.out, "{name:<9} {value}");
            debug_assert!(written.is_ok(), "a String takes any text");
        }
    }
}
