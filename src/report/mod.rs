//! Reading a profile and showing it: load, select, count, one view.
//!
//! [`Selection`] filters the samples and names their frames; tables and trees are built from it; views
//! are drawn from those and never write back. Everything works on any event of a profile.

mod export;
mod model;
mod naming;
mod options;
mod print;
mod query;
#[cfg(test)]
pub(crate) mod tests;
mod views;
mod waits;

pub use export::{ExportJob, ExportShape, export, folded};
pub use model::amount::Amount;
pub(crate) use model::ending::words as ending_words;
pub use model::group::{Activity, Group};
pub(crate) use model::label::thread_name;
pub use model::label::{Label, LabelId, LabelKey, LabelKind, Labels, Place, PlaceId, Source, Step};
pub use model::metric::{Metric, Shown};
pub use model::quality::{Quality, WorstModule};
pub use model::rollup::{RollupPart, RollupTime};
pub use model::totals::{ThreadTimes, Times, Totals};
use model::{group, metric, thread_names};
pub use naming::name::{module_file, module_stem, short};
pub use options::{
    ColorWhen, CommonOptions, DEFAULT_FILE, Destination, ExportFormat, ExportOptions, FilterOptions, Format,
    Grouping, InfoOptions, Input, NamePattern, NameStyle, PathStep, ReportOptions, SortKey, Space,
    StackFilter, ThreadFilter, ThreadKey, TimeRange, View,
};
pub use print::info::info;
pub use print::output::replace_file;
pub use print::terminal::Screen;
pub use print::text::{Page, event_title};
use print::{json, text, tsv};
pub use query::selection::Selection;
use query::{filter, notes};
pub use views::call_tree::{CallTree, Direction, Node, NodeId};
pub use views::flame::{BoxOf, FlameBox, flame_boxes};
pub use views::function_table::{FunctionTable, Row};
pub use views::heat_map::{HeatGrid, HeatMap};
pub use views::peek::{Peek, peek};
pub use views::samples_at::{SampleAt, SamplesAt, StackStep};
pub use views::sandwich::Sandwich;
pub use views::threads::{
    ThreadRow, TopWait, thread_rows, thread_rows_with_times, thread_title, threads, threads_with_times,
};
pub use views::timeline::{Busy, Timeline, TimelineRow};
pub use waits::idle::IdleWaits;
pub use waits::reasons::Reasons;
pub use waits::site::WaitSite;
pub use waits::table::{WaitRow, WaitTable};
pub use waits::waker::WokenBy;

use crate::base::failure::{Failure, status};
use crate::base::{privilege, safe_text, units};
use crate::profile::{self, CpuShares, FrameId, Integrity, Profile, counter};
use anyhow::Context;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;

/// A profile as it was read.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// What was recorded.
    pub profile: Profile,
    /// How much of the file could be read.
    pub integrity: Integrity,
    /// Why threads waited, once somebody asked.
    reasons: OnceLock<Reasons>,
    /// All running and waiting time, once somebody asked.
    groups: OnceLock<Vec<Group>>,
    /// Which waits are idle, once somebody asked.
    idle: OnceLock<IdleWaits>,
    /// What it cost in the last seconds, of a recording that goes on.
    late_cost: Option<CpuShares>,
    /// Of which part only sums are left, once somebody asked.
    rollup: OnceLock<RollupTime>,
    /// Frames whose names are still being read.
    names_to_come: Vec<FrameId>,
}

impl Recording {
    /// A profile and how much of it could be read. Each thread has its last name from here on.
    pub fn new(mut profile: Profile, integrity: Integrity) -> Self {
        thread_names::settle(&mut profile);
        Recording {
            profile,
            integrity,
            reasons: OnceLock::new(),
            groups: OnceLock::new(),
            idle: OnceLock::new(),
            late_cost: None,
            rollup: OnceLock::new(),
            names_to_come: Vec::new(),
        }
    }

    /// The same, of a recording that goes on and some of whose frames get their names later.
    pub fn with_names_to_come(self, frames: Vec<FrameId>) -> Self {
        Recording { names_to_come: frames, ..self }
    }

    /// The same, of a recording that goes on: with what it cost in the last seconds.
    pub fn with_late_cost(self, late_cost: Option<CpuShares>) -> Self {
        Recording { late_cost, ..self }
    }

    /// Of the frames of all samples those whose names are still being read.
    pub fn frames_to_name(&self, quality: &Quality) -> u64 {
        let samples = |frame: &FrameId| quality.samples_of_frame.get(frame.index()).copied().unwrap_or(0);
        self.names_to_come.iter().map(samples).fold(0, u64::saturating_add)
    }

    /// What recording cost, for one line: what `prof` used of a CPU while it recorded, and the CPU time that it took before
    /// and after. Of a recording that goes on it is that of the last seconds. `None` when it is not known.
    pub fn cost_words(&self) -> Option<String> {
        if let Some(late) = self.late_cost {
            return Some(units::cpu_shares(late));
        }
        let end = self.profile.end.as_ref()?;
        let Some(shares) = end.while_recording() else {
            let all_ns = end.cpu_ns.saturating_add(end.bpf_ns);
            return (all_ns > 0).then(|| format!("prof {} CPU in all", units::duration(all_ns)));
        };
        let around = end
            .before_after_ns()
            .map_or(String::new(), |ns| format!(", {} before and after", units::duration(ns)));
        Some(format!("{}{around}", units::cpu_shares(shares)))
    }

    /// The same in several lines, with what belongs to no share.
    pub fn cost_lines(&self) -> Vec<String> {
        let Some(end) = &self.profile.end else { return Vec::new() };
        let mut lines = Vec::new();
        lines.extend(self.late_cost.map(|late| format!("{} in the last 10 s", units::cpu_shares(late))));
        lines.extend(end.while_recording().map(|all| format!("{} while recording", units::cpu_shares(all))));
        lines.extend(end.before_after_ns().map(|ns| match self.late_cost {
            Some(_) => format!("{} of CPU time for setting up", units::duration(ns)),
            None => format!("{} of CPU time before and after", units::duration(ns)),
        }));
        if end.max_rss_bytes > 0 {
            lines.push(format!("{} of memory at most", units::bytes(end.max_rss_bytes)));
        }
        lines
    }

    /// Why threads waited. Decided when asked for the first time; the profile must not change afterwards.
    pub fn reasons(&self) -> &Reasons {
        self.reasons.get_or_init(|| Reasons::of(&self.profile))
    }

    /// Which waits are idle. Decided when asked for the first time; the profile must not change afterwards.
    pub fn idle_waits(&self) -> &IdleWaits {
        self.idle.get_or_init(|| IdleWaits::of(&self.profile, self.groups()))
    }

    /// The part of which only sums for each step of time are left.
    pub fn rollup_time(&self) -> &RollupTime {
        self.rollup.get_or_init(|| RollupTime::of(&self.profile))
    }

    /// Counts equal samples now, for all selections that follow: worth it for a profile that is looked at in many ways.
    pub fn count_once(&self) {
        let _ = self.groups();
    }

    /// The counted samples, if somebody asked for them.
    fn known_groups(&self) -> Option<&[Group]> {
        self.groups.get().map(Vec::as_slice)
    }

    /// All running and waiting time, equal samples counted together.
    fn groups(&self) -> &[Group] {
        self.groups.get_or_init(|| group::all_groups(&self.profile, self.reasons()))
    }

    /// Reads the profile.
    ///
    /// # Errors
    ///
    /// When it cannot be read; says what to do when the file is missing.
    pub fn load(input: &Input) -> anyhow::Result<Self> {
        let recording = Recording::load_quietly(input)?;
        recording.warn_if_cut(input);
        Ok(recording)
    }

    /// As [`Recording::load`], without a warning on standard error when the file is not whole: for a screen that says so
    /// itself.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn load_quietly(input: &Input) -> anyhow::Result<Self> {
        let (profile, integrity) = match input {
            Input::Stdin => {
                privilege::input_is_open()?;
                profile::read_stream(std::io::stdin().lock())
                    .context("cannot read a profile from standard input")?
            }
            Input::File(path) => match open(path)?.and_then(profile::Opened::read) {
                Ok(read) => read,
                Err(error) => return Err(unreadable(path, &error).into()),
            },
        };
        let has_samples = profile.events.iter().any(|event| !event.is_empty());
        Ok(Recording::new(profile, with_the_one_before(integrity, input, has_samples)))
    }

    /// Says on standard error that the file is not whole: a script that reads standard output must not take
    /// a part for all.
    fn warn_if_cut(&self, input: &Input) {
        if let Some(warning) = self.warning(input) {
            let line = format!("warning: {warning}");
            // With standard error closed there is nobody to warn.
            let _ = writeln!(std::io::stderr().lock(), "{}", safe_text::message(&line));
        }
    }

    /// That the file it was read from is not whole. Quotes the file's name.
    pub fn warning(&self, input: &Input) -> Option<String> {
        let problem = notes::missing_part(&self.profile, &self.integrity)?;
        Some(match input {
            Input::Stdin => notes::not_whole("standard input", &problem),
            Input::File(path) => notes::not_whole(&format!("`{}`", path.display()), &problem),
        })
    }

    /// What is wrong with the recording, how much it matters and what would mend it, most important first. Quotes
    /// foreign names.
    pub fn notes(&self, selection: &Selection<'_>, options: &CommonOptions) -> Vec<String> {
        notes::report_notes(self, selection, options)
    }

    /// The events that hold the time that was asked for.
    ///
    /// # Errors
    ///
    /// Status 3 when the profile does not have them.
    pub fn shown(&self, metric: Option<Metric>) -> Result<Shown<'_>, Failure> {
        Shown::of(&self.profile, metric).map_err(|failure| {
            let problem = notes::missing_part(&self.profile, &self.integrity);
            if let Some(why) = self.why_no_waits().filter(|_| metric != Some(Metric::OnCpu)) {
                return Failure::new(status::NO_MATCH, format!("the recording holds no waits: {why}"));
            }
            match problem.filter(|_| self.profile.events.is_empty()) {
                Some(problem) => nothing_read("samples", &problem),
                None => failure,
            }
        })
    }

    /// Why waits were not recorded although they were asked for: what was said at the start.
    fn why_no_waits(&self) -> Option<&String> {
        if metric::waits_of(&self.profile).is_some() {
            return None;
        }
        let is_why = |notice: &&String| {
            notice.contains("not while it waits") || notice.contains("off-CPU time is not")
        };
        self.profile.meta.notices.iter().find(is_why)
    }

    /// The samples that pass the filters.
    ///
    /// # Errors
    ///
    /// A usage failure for a bad pattern; status 3 when no sample passes.
    pub fn select(&self, options: &CommonOptions) -> Result<Selection<'_>, Failure> {
        let selection = Selection::new(self, self.shown(options.metric)?, options)?;
        if selection.total.is_empty() { Err(self.no_match(&selection, options)) } else { Ok(selection) }
    }

    /// As [`Recording::select`]; that all waits are idle is an answer, too: there is nothing else to show of them.
    fn select_for_report(&self, options: &CommonOptions) -> Result<Selection<'_>, Failure> {
        let selection = Selection::new(self, self.shown(options.metric)?, options)?;
        if selection.total.is_empty() && !selection.is_all_idle(&options.filter) {
            return Err(self.no_match(&selection, options));
        }
        Ok(selection)
    }

    /// As [`Recording::select`]; when threads only idled, that is something to show of them, too.
    fn select_for_threads(&self, options: &CommonOptions) -> Result<Selection<'_>, Failure> {
        let selection = Selection::new(self, self.shown(options.metric)?, options)?;
        let is_known = Totals::of(self, options)?.is_some_and(|totals| !totals.threads.is_empty());
        if selection.total.is_empty() && !is_known {
            return Err(self.no_match(&selection, options));
        }
        Ok(selection)
    }

    /// Why nothing is left to show.
    pub fn no_match(&self, selection: &Selection<'_>, options: &CommonOptions) -> Failure {
        let noun = selection.shown.noun();
        if let Some(words) = filter::description(&options.filter) {
            let all = selection.count_of_whole().saturating_add(selection.hidden_idle.count());
            let whole = units::counted(all, noun);
            return Failure::new(status::NO_MATCH, format!("none of {whole} matches {words}"))
                .hint("to see what there is:  prof report -n 0, prof report --threads");
        }
        if !selection.hidden_idle.is_empty() {
            let idle = units::counted(selection.hidden_idle.count(), noun);
            let time = units::duration(selection.hidden_idle.weight);
            return Failure::new(status::NO_MATCH, format!("all waits are idle: {idle}, {time}"))
                .hint("to see them:  --idle");
        }
        if let Some(problem) = notes::missing_part(&self.profile, &self.integrity) {
            return nothing_read(&format!("{noun}s"), &problem);
        }
        let unaccounted = self.profile.counter(counter::THREADS_UNACCOUNTED);
        if selection.shown.sampled.is_none() && unaccounted > 0 {
            let threads = units::counted(unaccounted, "thread");
            let message = format!("the recording holds no waits, and no account of the time of {threads}");
            return Failure::new(status::NO_MATCH, message).hint("to see why:  prof doctor -p PID");
        }
        if let Some(why) = notes::unaccounted_note(&self.profile) {
            return Failure::new(status::NO_MATCH, format!("the recording holds no {noun}s: {why}"));
        }
        if selection.shown.sampled.is_none() {
            return Failure::new(status::NO_MATCH, "the recording holds no waits: the target did not wait");
        }
        if let Some(why) = notes::unrecorded(&self.profile) {
            return Failure::new(status::NO_MATCH, format!("the recording holds no samples: {why}"))
                .hint("to see why:  prof doctor");
        }
        let ran_ns = self.profile.thread_times.iter().map(|time| time.on_cpu_ns).fold(0, u64::saturating_add);
        let is_accounted = self.profile.thread_times.iter().any(|time| !time.is_unknown());
        let period_ns = selection.shown.sampled.map_or(0, |event| event.info().period);
        let why = match ran_ns {
            0 if is_accounted => "the target did not run".to_owned(),
            0 if period_ns == 0 => "the target hardly ran, if at all".to_owned(),
            0 => {
                let period = units::duration(period_ns);
                format!("the target ran for less than the {period} between two samples, if at all")
            }
            _ => format!("the target ran for {} in all", units::duration(ran_ns)),
        };
        Failure::new(status::NO_MATCH, format!("the recording holds no samples: {why}"))
            .hint("a program that waits uses no CPU; record while it works")
    }
}

/// Why the recording at `path` cannot be read, and what to do.
pub(crate) fn unreadable(path: &Path, error: &profile::ReadError) -> Failure {
    if matches!(error, profile::ReadError::Io(error) if error.kind() == std::io::ErrorKind::NotFound) {
        return missing(path);
    }
    let failure = Failure::new(status::FAILED, format!("cannot read `{}`: {error}", path.display()));
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Nobody knows what was in the part that is missing.
fn nothing_read(nouns: &str, problem: &str) -> Failure {
    let message = format!("what could be read holds no {nouns}: the file is not whole ({problem})");
    Failure::new(status::NO_MATCH, message).hint("to record again:  prof record -d 10s -p PID")
}

/// Opens what the user names, with the rights that the user has; nothing that is opened later needs any.
fn open(path: &Path) -> Result<Result<profile::Opened, profile::ReadError>, Failure> {
    let opened = privilege::as_user(|| profile::Opened::open(path));
    privilege::input_is_open()?;
    Ok(opened)
}

/// Of a recording that was killed before it had samples, says where the one is that it was to replace.
fn with_the_one_before(mut integrity: Integrity, input: &Input, has_samples: bool) -> Integrity {
    if let (Input::File(path), Some(problem), false) = (input, &mut integrity.problem, has_samples)
        && let Some(before) = profile::lock::put_aside(path)
    {
        let _ = write!(problem, "; the recording before it is `{}`", before.display());
    }
    integrity
}

fn missing(path: &Path) -> Failure {
    let shown = path.display();
    let failure = Failure::new(status::FAILED, format!("cannot read `{shown}`: no such file"));
    if let Some(before) = profile::lock::put_aside(path) {
        let before = before.display();
        failure.hint(format!("a recorder that was killed had put it aside:  prof report {before}"))
    } else if path == Path::new(DEFAULT_FILE) {
        failure.hint("record one first:  prof record -d 10s -p PID, or prof record CMD")
    } else {
        failure.hint("profiles are written by prof record; where no file is named, `prof.data` is read")
    }
}

/// Renders a report of `recording` for `page`.
///
/// # Errors
///
/// A usage failure for a bad pattern; status 3 when nothing matches.
pub fn render(recording: &Recording, options: &ReportOptions, page: &Page) -> anyhow::Result<String> {
    let selection = match options.view {
        View::Threads => recording.select_for_threads(&options.common)?,
        _ => recording.select_for_report(&options.common)?,
    };
    Ok(match options.format {
        Format::Text => text::report(recording, &selection, options, page)?,
        Format::Json => json::report(recording, &selection, options)?,
        Format::Tsv => tsv::report(recording, &selection, options)?,
    })
}

/// `prof report`: reads, renders and prints.
///
/// # Errors
///
/// When the profile cannot be read, nothing matches, or the output cannot be written.
pub fn report(options: &ReportOptions) -> anyhow::Result<()> {
    let recording = Recording::load(&options.common.input)?;
    let screen = Screen::new(options.color, options.pager && options.format == Format::Text);
    let page = match options.format {
        Format::Text => screen.page(options.common.names),
        Format::Json | Format::Tsv => Page::PLAIN,
    };
    let rendered = render(&recording, options, &page)?;
    match options.format {
        Format::Text => screen.print(&rendered),
        Format::Json | Format::Tsv => screen.print_document(&rendered),
    }
}
