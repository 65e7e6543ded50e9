//! The processed profile of Firefox Profiler, as JSON: threads with their samples in time, waits as markers. Writes version 55
//! of the format, with tables per thread, written thread by thread. (The crate fxprof-processed-profile 0.8 has neither source
//! lines nor inlined functions.) Time weights are milliseconds with six decimals, so that nothing is rounded. Which samples
//! count is decided outside.

mod tables;
mod thread;

use super::in_time::{InTime, TimedSample};
use super::json_text::string;
use super::stacks::{common_notes, is_wall, named, recorder_lines, short_waits_note};
use crate::profile::{Module, TaskId, Unit};
use crate::report::export::exporter::{Exporter, Render, Rendered};
use crate::report::model::label::module_text;
use crate::report::naming::name::module_file;
use crate::report::naming::style::NameStyle;
use crate::report::options::ExportOptions;
use crate::report::query::selection::Selection;
use std::collections::BTreeMap;
use std::io::{self, Write};
use tables::CATEGORIES;
use thread::{SCHEMA, ThreadWriter};

/// Version of the format.
const VERSION: u32 = 55;

/// A selection to write.
struct FirefoxJson<'r> {
    selection: Selection<'r>,
    names: NameStyle,
    /// Samples and waits of each thread, in the order of time.
    threads: BTreeMap<FirefoxThreadId, (TaskId, Vec<TimedSample>)>,
    /// Whether waits are samples, too: when only waits, or wall-clock time, are exported.
    has_wait_samples: bool,
    notes: Vec<String>,
}

/// Identity of a thread: pid, tid, and generation of the tid.
type FirefoxThreadId = (u32, u32, u32);

impl FirefoxJson<'_> {
    fn facts(&self, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.selection.profile;
        let meta = &profile.meta;
        let categories: Vec<String> = (CATEGORIES.iter())
            .map(|(name, color)| {
                format!("{{\"name\":\"{name}\",\"color\":\"{color}\",\"subcategories\":[\"Other\"]}}")
            })
            .collect();
        writeln!(out, "{{\"meta\":{{\"version\":24,\"preprocessedProfileVersion\":{VERSION},")?;
        writeln!(out, "\"product\":{},", string(&named(&meta.target_name)))?;
        writeln!(out, "\"importedFrom\":\"prof {}\",", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "\"oscpu\":{},", string(&named(&format!("Linux {} {}", meta.kernel, meta.arch))))?;
        writeln!(out, "\"arguments\":{},", string(&recorder_lines(profile).join(", ")))?;
        let mut ms = Vec::new();
        super::json_text::push_ms(&mut ms, self.interval_ns());
        writeln!(out, "\"interval\":{},", String::from_utf8_lossy(&ms))?;
        ms.clear();
        super::json_text::push_ms(&mut ms, meta.start_unix_ns);
        writeln!(out, "\"startTime\":{},", String::from_utf8_lossy(&ms))?;
        out.write_all(
            b"\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"\xc2\xb5s\"},\n",
        )?;
        out.write_all(
            b"\"processType\":0,\"debug\":false,\"stackwalk\":1,\"symbolicated\":true,\"pausedRanges\":[],\n",
        )?;
        out.write_all(b"\"usesOnlyOneStackType\":true,\"sourceCodeIsNotOnSearchfox\":true,\n")?;
        out.write_all(b"\"extensions\":{\"length\":0,\"baseURL\":[],\"id\":[],\"name\":[]},\n")?;
        writeln!(out, "\"categories\":[{}],", categories.join(","))?;
        writeln!(out, "\"markerSchema\":[{}]}},", SCHEMA)
    }

    /// Approximate interval between samples, ns.
    fn interval_ns(&self) -> u64 {
        let of_period = |period: u64| if self.selection.shown.unit == Unit::Nanoseconds { period } else { 0 };
        let period = self.selection.shown.sampled.map_or(0, |event| of_period(event.info().period));
        let hz = u64::from(self.selection.profile.meta.effective_hz);
        // The field is required; most recordings have about a millisecond.
        [period, 1_000_000_000 / hz.max(1)]
            .into_iter()
            .find(|ns| *ns > 0 && *ns < 1_000_000_000)
            .unwrap_or(1_000_000)
    }

    fn libraries(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"\"libs\":")?;
        let profile = self.selection.profile;
        super::json_text::array(out, profile.tables.modules(), |out, module| {
            let path = named(&module_text(profile, module.path, module.kind));
            let [name, path] = [module_file(&path), &path].map(string);
            let code_id: String = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
            let code_id = if code_id.is_empty() { "null".to_owned() } else { string(&code_id) };
            write!(out, "\n{{\"name\":{name},\"path\":{path},\"debugName\":{name},\"debugPath\":{path},")?;
            let arch = string(&named(&profile.meta.arch));
            write!(out, "\"breakpadId\":\"{}\",\"codeId\":{code_id},\"arch\":{arch}}}", debug_id(module))
        })?;
        out.write_all(b",\n")
    }
}

/// Splits samples and waits by thread.
fn by_thread(
    selection: &Selection<'_>,
    moments: Vec<TimedSample>,
) -> BTreeMap<FirefoxThreadId, (TaskId, Vec<TimedSample>)> {
    let mut threads: BTreeMap<FirefoxThreadId, (TaskId, Vec<TimedSample>)> = BTreeMap::new();
    for moment in moments {
        let id = moment.task(selection);
        let task = selection.profile.tables.task(id);
        let key = (task.pid, task.tid, task.generation);
        threads.entry(key).or_insert_with(|| (id, Vec::new())).1.push(moment);
    }
    threads
}

/// A build ID in Firefox Profiler's form: a GUID of its first sixteen bytes, and an age of 0.
fn debug_id(module: &Module) -> String {
    let mut guid = [0u8; 16];
    guid.iter_mut().zip(&module.build_id).for_each(|(byte, own)| *byte = *own);
    guid[..4].reverse();
    guid[4..6].reverse();
    guid[6..8].reverse();
    guid.iter().map(|byte| format!("{byte:02X}")).chain(["0".to_owned()]).collect()
}

impl Rendered for FirefoxJson<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let selection = &self.selection;
        self.facts(out)?;
        self.libraries(out)?;
        out.write_all(b"\"pages\":[],\"profilerOverhead\":[],\"counters\":[],\n\"threads\":")?;
        super::json_text::array(out, self.threads.values(), |out, (task, moments)| {
            ThreadWriter::new(selection, self.names, self.has_wait_samples, moments).write(*task, out)
        })?;
        out.write_all(b"}\n")
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// The export format.
pub(in crate::report::export) const EXPORTER: Exporter = Exporter {
    name: "firefox",
    endings: &[".firefox.json", ".profile.json", ".firefox.json.gz", ".profile.json.gz"],
    render: Render::Stacks(render),
    ..Exporter::NONE
};

fn render<'r>(selection: Selection<'r>, options: &ExportOptions) -> Box<dyn Rendered + 'r> {
    let notes = common_notes(&selection, options);
    let notes = notes.into_iter().chain(short_waits_note(&selection, "they have no times and are left out"));
    let in_time = InTime::new(&selection, options.common.filter.time);
    let notes = notes.chain(in_time.notes()).collect();
    let has_wait_samples = is_wall(options) || selection.shown.is_only_waits();
    Box::new(FirefoxJson {
        names: options.common.names_for_programs(),
        threads: by_thread(&selection, in_time.moments),
        has_wait_samples,
        notes,
        selection,
    })
}
