//! The commands that show a profile in the terminal: `prof tui`, `prof live`, `prof top`.

use super::event::{HeapArgs, LockArgs};
use super::read::{CommonArgs, InputArgs, TimeArgs};
use super::request::{Choose, HELP_TEMPLATE, Instead, Request};
use super::sampler::{SamplerArgs, SpanArgs};
use super::target::{RunningArgs, no_target};
use super::value;
use super::value::Ids;
use crate::base::failure::Failure;
use crate::commands::live::LiveOptions;
use crate::record::{RecordOptions, Target};
use crate::report::{ColorWhen, CommonOptions, Input, ThreadSplit};
use crate::tui::app::action::Tab;
use crate::tui::options::TuiOptions;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Show a profile in the terminal: a flame graph to zoom, search, filter and invert
///
/// A box is below its caller and as wide as its time; blank space below a box is its self time. All numbers are
/// those of prof report; with filters, those of prof report --relative. ? shows the keys, q quits. Colours follow
/// the terminal: COLORTERM, TERM and NO_COLOR.
///
/// With a target instead of a file, shows the recording while it runs (like prof live); Ctrl-S saves it.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof tui                        the last recording
  prof tui yesterday.data --thread '^worker'
                                  some threads of another profile
  prof tui --off-cpu              where threads waited
  prof tui -p 4312                a running process, live
  prof tui old.data new.data      what changed from one to the other")]
pub(super) struct TuiArgs {
    #[command(flatten)]
    input: InputArgs,
    /// A profile to compare with FILE; FILE is then the base
    #[arg(value_name = "NEW", conflicts_with_all = ["watched", "command"])]
    new: Option<PathBuf>,
    #[command(flatten)]
    watched: WatchedArgs,
    #[command(flatten)]
    time: TimeArgs,
    #[command(flatten)]
    locks: LockArgs,
    #[command(flatten)]
    heap: HeapArgs,
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    sampler: SamplerArgs,
    #[command(flatten)]
    span: SpanArgs,
    #[command(flatten)]
    display: DisplayArgs,
}

/// A target to watch. As [`RunningArgs`] but for the long forms of the first two, which are filters of a file.
#[derive(Debug, Args)]
struct WatchedArgs {
    /// Watch these processes with all their threads
    #[arg(id = "watched_pid", short = 'p', value_name = "PID,…", group = "watched", conflicts_with = "file",
        help_heading = "Live target", value_parser = value::pids, allow_negative_numbers = true)]
    pid: Vec<Ids>,
    /// Watch just these threads
    #[arg(id = "watched_tid", short = 't', value_name = "TID,…", group = "watched", conflicts_with = "file",
        help_heading = "Live target", value_parser = value::tids, allow_negative_numbers = true)]
    tid: Vec<Ids>,
    /// Watch all processes with a matching name
    #[arg(long, value_name = "REGEX", group = "watched", conflicts_with = "file", help_heading = "Live target",
        value_parser = value::pattern)]
    name: Option<String>,
    /// Watch every process of the machine
    #[arg(short, long, group = "watched", conflicts_with = "file", help_heading = "Live target")]
    all: bool,
    /// Start this command and watch it
    #[arg(last = true, value_name = "CMD", conflicts_with = "file", help_heading = "Live target")]
    command: Vec<OsString>,
}

/// Show where a program spends its time while it runs
///
/// Records like prof record and shows the result like prof tui, with a new picture every second. Nothing is
/// saved unless you press Ctrl-S. Space freezes the picture; when the target ends, the last picture stays.
/// Without a target, a terminal shows a list of the busiest processes to choose from.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof live -p 4312               a running process
  prof live ./program ARG         a command from its start
  prof live -d 10s -p 4312        for ten seconds: the last picture stays
  prof top -a                     the functions of the whole machine, hottest first")]
pub(super) struct LiveArgs {
    #[command(flatten)]
    running: RunningArgs,
    /// Start this command and watch it
    #[arg(trailing_var_arg = true, value_name = "CMD", help_heading = "Target")]
    command: Vec<OsString>,
    #[command(flatten)]
    time: TimeArgs,
    #[command(flatten)]
    sampler: SamplerArgs,
    #[command(flatten)]
    span: SpanArgs,
    #[command(flatten)]
    display: DisplayArgs,
}

/// How the terminal is used.
#[derive(Debug, Args)]
struct DisplayArgs {
    /// Draw only ASCII characters
    #[arg(long, help_heading = "Output")]
    ascii: bool,
    /// How threads are merged: threads whose names differ only in numbers (class: worker-#), no threads (each), or
    /// all threads of a process (none); T changes this
    #[arg(long, value_name = "HOW", default_value = "class", help_heading = "Output", value_parser = value::thread_split())]
    threads: ThreadSplit,
    /// Look for source files in this folder first, by the ends of their paths; may be given several times
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    source_dir: Vec<PathBuf>,
    /// Leave the mouse to the terminal (M takes it back)
    #[arg(long, help_heading = "Output")]
    no_mouse: bool,
    /// Colour
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output", value_parser = value::color_when())]
    color: ColorWhen,
}

impl DisplayArgs {
    fn into_options(self, common: CommonOptions, tab: Tab) -> TuiOptions {
        let common = CommonOptions { threads: Some(self.threads), ..common };
        TuiOptions {
            common,
            base: None,
            source_dirs: self.source_dir,
            tab,
            ascii: self.ascii,
            mouse: !self.no_mouse,
            color: self.color,
        }
    }
}

impl TuiArgs {
    pub(super) fn into_request(self) -> Result<Request, Failure> {
        let WatchedArgs { pid, tid, name, all, command } = self.watched;
        let is_live = !pid.is_empty() || !tid.is_empty() || name.is_some() || all || !command.is_empty();
        let (input, base) = match (self.input.into_input(), self.new) {
            (base, Some(new)) if new.as_os_str() == "-" => (Input::Stdin, Some(base)),
            (base, Some(new)) => (Input::named(new), Some(base)),
            (input, None) => (input, None),
        };
        let common = self.locks.apply(self.common.into_options(input, self.time))?;
        let common = self.heap.apply(common)?;
        let asks = [
            (common.locks.is_some(), "--locks"),
            (common.chains, "--chain"),
            (common.heap.is_some(), "--heap"),
        ];
        let asked = asks.into_iter().find_map(|(is_asked, option)| is_asked.then_some(option));
        if let Some(option) = asked.filter(|_| is_live || base.is_some()) {
            let what = if is_live { "a live view" } else { "a comparison" };
            return Err(Failure::usage(format!("{option} shows a part of one recording, and not {what}"))
                .hint(format!("record first:  prof record -o FILE ..., then  prof tui FILE {option}")));
        }
        let tui = TuiOptions { base, ..self.display.into_options(common, Tab::default()) };
        if !is_live {
            if self.span.duration.is_some() || self.span.delay.is_some() {
                return Err(Failure::usage("--duration and --delay need a live target")
                    .hint("with a target:       prof tui -d 10s -p PID")
                    .hint("a part of a profile:  prof tui --time 2s..5s"));
            }
            let metric = tui.common.metric.or(self.sampler.shown());
            return Ok(Request::Tui(TuiOptions { common: CommonOptions { metric, ..tui.common }, ..tui }));
        }
        let (target, timer) = RunningArgs { pid, tid, name, all }.into_target(command, "tui")?;
        live(self.sampler, target, timer, &self.span, tui)
    }
}

/// A live recording that holds the time that is to be shown.
fn live(
    mut sampler: SamplerArgs,
    target: Target,
    timer: Option<Vec<OsString>>,
    span: &SpanArgs,
    tui: TuiOptions,
) -> Result<Request, Failure> {
    sampler.record_for(tui.common.metric)?;
    let runtime = tui.common.runtime.unwrap_or_default();
    let record = RecordOptions { runtime, ..sampler.into_options(target, timer, span)? };
    Ok(Request::Live(Box::new(LiveOptions { record, tui })))
}

impl LiveArgs {
    /// `tab` is what is shown first, `verb` what was typed, of all `arguments`.
    pub(super) fn into_request(
        self,
        tab: Tab,
        verb: &str,
        arguments: &[OsString],
    ) -> Result<Request, Failure> {
        let tui = self.display.into_options(self.time.into_options(), tab);
        if self.running.is_given() || !self.command.is_empty() {
            let (target, timer) = self.running.into_target(self.command, verb)?;
            return live(self.sampler, target, timer, &self.span, tui);
        }
        // Options that make no sense do so with any target.
        live(self.sampler, Target::System, None, &self.span, tui)?;
        let typed = arguments.iter().skip(1).cloned().collect();
        Ok(Request::Choose(Choose { typed, instead: Instead::Refuse(no_target(verb)) }))
    }
}
