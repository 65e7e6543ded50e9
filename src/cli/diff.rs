//! `prof diff` and `prof bench`: two sides compared.

use super::event::{EventArgs, HeapArgs, LockArgs, without_locks};
use super::read::{CommonArgs, TimeArgs};
use super::request::{HELP_TEMPLATE, Stop};
use super::value;
use super::value::EventName;
use crate::base::failure::Failure;
use crate::commands::bench::BenchOptions;
use crate::diff::{DiffFormat, DiffOptions, DiffSort, DiffView, GateOptions, GateRule, Per, Sides};
use crate::report::{ColorWhen, CommonOptions, Grouping, Input, Metric, ReportDestination, TimeRange};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// The recording before the last one, as `prof record` keeps it.
const DEFAULT_BASE: &str = "prof.data.old";

/// Separator of the commands after `--`.
const VERSUS: &str = "--vs";

/// How two sides are compared and shown.
#[derive(Debug, Args)]
pub(super) struct ComparisonArgs {
    /// Unit of the comparison: run, if each run did the same work; second; share, of the total; or N, the work that each run did
    /// (BASE,NEW if the sides differ) [default: run for commands that exited by themselves and recordings of equal length, else
    /// second]
    #[arg(long, value_name = "WHAT", value_parser = value::per, help_heading = "Comparison")]
    per: Option<Per>,
    /// Exit with status 4 if this grew by more than chance: total>+5%, REGEX>+10% (with what it calls) or self:REGEX>+10%; may be
    /// given several times
    #[arg(long, value_name = "EXPR", value_parser = GateRule::parse, help_heading = "Gate", allow_hyphen_values = true)]
    fail_on: Vec<GateRule>,
    /// Growth that --fail-on requires if it gives no percentage
    #[arg(long, value_name = "PERCENT", default_value_t = GateOptions::DEFAULT_LEAST * 100.0, value_parser = value::percent,
        help_heading = "Gate")]
    min: f64,
    /// Let one recording per side trip the gate, although one run shows only its own noise, and runs differ by more
    #[arg(long, help_heading = "Gate")]
    single_run_ok: bool,
    /// Show the call paths of both sides as one tree
    #[arg(long, help_heading = "View")]
    tree: bool,
    /// Order of the rows: by difference of self time (self) or total time (total), by relative change (change), or by significance
    /// (p)
    #[arg(long, value_name = "KEY", default_value = "self", help_heading = "Output", value_parser = value::diff_sort())]
    sort: DiffSort,
    /// Leave out rows and branches with less than this share of both sides [default: 1 for --tree, else 0]
    #[arg(long, value_name = "PERCENT", help_heading = "Output", value_parser = value::percent,
        allow_negative_numbers = true)]
    min_pct: Option<f64>,
    /// Print `prof.diff/1` as JSON
    #[arg(long, group = "machine", help_heading = "Output")]
    json: bool,
    /// Print a tab-separated table
    #[arg(long, group = "machine", help_heading = "Output")]
    tsv: bool,
    /// Output format: text, json, tsv, gobench (benchstat), bmf (Bencher), criterion, or svg (a differential flame graph)
    #[arg(long, value_name = "FORMAT", group = "machine", help_heading = "Output", value_parser = value::diff_format())]
    format: Option<DiffFormat>,
    /// Output file; its ending chooses the format: .svg, .json, .tsv, else text
    #[arg(short, long, value_name = "OUT", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(short, long, help_heading = "Output")]
    force: bool,
    /// Colour
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output", value_parser = value::color_when())]
    color: ColorWhen,
    /// Do not use a pager ($PROF_PAGER, $PAGER or less)
    #[arg(long, help_heading = "Output")]
    no_pager: bool,
}

impl ComparisonArgs {
    fn into_options(
        self,
        sides: Sides,
        common: CommonOptions,
        rows: Option<usize>,
    ) -> Result<DiffOptions, Failure> {
        let output = self.output.filter(|path| !value::is_stdout(path));
        let ending = output.as_ref().and_then(|path| path.extension()).and_then(|ending| ending.to_str());
        let format = match (self.json, self.tsv, self.format, ending) {
            (true, ..) => DiffFormat::Json,
            (_, true, ..) => DiffFormat::Tsv,
            (.., Some(format), _) => format,
            (.., Some("svg")) => DiffFormat::Svg,
            (.., Some("json")) => DiffFormat::Json,
            (.., Some("tsv")) => DiffFormat::Tsv,
            _ => DiffFormat::Text,
        };
        if self.single_run_ok && self.fail_on.is_empty() {
            return Err(Failure::usage("--single-run-ok only has a meaning with --fail-on")
                .hint("for example:  --fail-on 'total>+5%' --single-run-ok"));
        }
        Ok(DiffOptions {
            sides,
            of_folders: Default::default(),
            common,
            heap_times: None,
            per: self.per,
            view: if self.tree { DiffView::Tree } else { DiffView::Flat },
            format,
            destination: match output {
                Some(path) => ReportDestination::File { path, force: self.force },
                None => ReportDestination::Stdout,
            },
            sort: self.sort,
            rows,
            min_percent: self.min_pct,
            gate: GateOptions {
                rules: self.fail_on,
                least: self.min / 100.0,
                single_run_ok: self.single_run_ok,
            },
            color: self.color,
            pager: !self.no_pager,
        })
    }
}

/// Compare recordings: which functions changed, by how much, and whether that is more than chance
///
/// Each side is a file, several files (A,B,C), a folder or a pattern ('base-*.data'). The unit is the run: with several runs per
/// side, a function has changed if the sides differ by more than the runs of one side do (Welch's test on logarithms, Holm's
/// correction over all functions of 1% and more). With one file per side, only the noise within the recording is known.
///
/// CHANGE is relative to the function's time in BASE: v less, ^ more, ~ noise. "finds" is the smallest growth that would have been
/// found in 19 of 20 such comparisons; smaller growth may be missed. prof bench makes the recordings.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof diff                       the recording before the last with the last
  prof diff old.data new.data --tree
  prof diff 'base-*.data' 'new-*.data' --fail-on 'total>+5%'
                                  ten runs a side; exit status 4 if it became slower
  prof diff old.data new.data -o diff.svg
                                  a differential flame graph")]
pub(super) struct DiffArgs {
    /// Recordings of the old version: a file, A,B,C, a folder or a pattern [default: prof.data.old]
    #[arg(value_name = "BASE")]
    base: Option<PathBuf>,
    /// Recordings of the new version [default: prof.data]
    #[arg(value_name = "NEW")]
    new: Option<PathBuf>,
    /// Recordings of the old version as several arguments, as a shell expands a pattern
    #[arg(long = "base", value_name = "FILE", num_args = 1.., conflicts_with_all = ["base", "new"], requires = "new_files")]
    base_files: Vec<PathBuf>,
    /// Recordings of the new version as several arguments
    #[arg(long = "new", value_name = "FILE", num_args = 1.., requires = "base_files")]
    new_files: Vec<PathBuf>,
    #[command(flatten)]
    comparison: ComparisonArgs,
    /// Maximum number of rows, 0 for all [default: 20 as text, else all]
    #[arg(short = 'n', value_name = "N", help_heading = "Output", value_parser = value::rows, allow_negative_numbers = true)]
    rows: Option<usize>,
    #[command(flatten)]
    event: EventArgs,
    #[command(flatten)]
    locks: LockArgs,
    #[command(flatten)]
    heap: HeapArgs,
    /// With --heap: what was live at one time against what is live at another one; NEW may be left out, and is BASE then
    #[arg(long, value_name = "TIME..TIME", requires = "heap", conflicts_with = "blocks", value_parser = value::time_range,
        help_heading = "Which memory")]
    times: Option<TimeRange>,
    #[command(flatten)]
    time: TimeArgs,
    #[command(flatten)]
    common: CommonArgs,
}

impl DiffArgs {
    pub(super) fn into_options(self) -> Result<DiffOptions, Stop> {
        let sides = if self.base_files.is_empty() {
            let base = self.base.unwrap_or_else(|| PathBuf::from(DEFAULT_BASE));
            let of_one = || self.times.map(|_| base.clone());
            let new = self.new.or_else(of_one).unwrap_or_else(|| PathBuf::from(crate::report::DEFAULT_FILE));
            [vec![base], vec![new]]
        } else {
            [self.base_files, self.new_files]
        };
        let common = self.event.apply(self.common.into_options(Input::default(), self.time));
        let mut common = self.heap.apply(self.locks.apply(common)?)?;
        if common.grouping.is_of_locks() {
            // Whom waits are charged to is in their stacks.
            common.grouping = Grouping::Function;
        }
        let heap_times = self.times.map(both_times).transpose()?;
        let options = self.comparison.into_options(Sides::Words(sides), common, self.rows)?;
        Ok(DiffOptions { heap_times, ..options })
    }
}

/// Two times of a recording, ns.
///
/// # Errors
///
/// A usage failure where one is missing.
fn both_times(range: TimeRange) -> Result<[u64; 2], Failure> {
    let times = range.from_ns.zip(range.to_ns).map(|(from_ns, to_ns)| [from_ns, to_ns]);
    times.ok_or_else(|| Failure::usage("--times takes two times").hint("for example:  --times 10s..60s"))
}

/// Record two commands alternately, several times each, and compare them
///
/// Runs the base and the new command alternately, -n times each, under prof record, and compares the recordings as prof diff
/// does; a disturbance of the machine then affects both commands. Before that, each command runs once without being counted.
/// Commands are split into words as by a shell, but without variables and pipes; if a command needs these, write sh -c '...'. If
/// a command fails, prof bench stops, and the message has the exit status of the command.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof bench --base './old --input big.txt' --new './new --input big.txt'
  prof bench -n 20 --fail-on 'total>+3%' -- ./old big.txt --vs ./new big.txt
  prof bench --keep runs --base ./old --new ./new
                                  keeps the recordings, for prof diff")]
pub(super) struct BenchArgs {
    /// The command of the old version
    #[arg(
        long,
        value_name = "CMD",
        required_unless_present = "commands",
        requires = "new",
        help_heading = "Commands"
    )]
    base: Option<String>,
    /// The command of the new version
    #[arg(long, value_name = "CMD", requires = "base", help_heading = "Commands")]
    new: Option<String>,
    /// Both commands as separate words: -- BASE ARG --vs NEW ARG
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["base", "new"], help_heading = "Commands")]
    commands: Vec<OsString>,
    /// Number of recorded runs of each command
    #[arg(short = 'n', long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1000),
        help_heading = "Runs")]
    runs: u32,
    /// Number of runs of each command before the recorded runs; not counted
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(0..=1000),
        help_heading = "Runs")]
    warm_up: u32,
    /// Keep the recordings in this folder, as base-01.data, new-01.data, ...
    #[arg(long, value_name = "DIR", help_heading = "Runs")]
    keep: Option<PathBuf>,
    /// Discard what the commands print; otherwise it goes to standard error
    #[arg(long, help_heading = "Runs")]
    discard_output: bool,
    /// Continue if a command fails
    #[arg(short, long, help_heading = "Runs")]
    ignore_failure: bool,
    /// Event to record and compare: cpu, off, or a perf event such as page-faults [default: cpu, and off with --off-cpu or
    /// --wall]
    #[arg(short, long, value_name = "EVENT", group = "metric", value_parser = value::event, help_heading = "Runs")]
    event: Option<EventName>,
    /// Samples per second and CPU, or max for the kernel's limit
    #[arg(short = 'F', long, value_name = "HZ|max", value_parser = value::rate_text, help_heading = "Runs")]
    frequency: Option<String>,
    /// Run the commands as this user, a name or a number [default: the user who called sudo]
    #[arg(long, value_name = "USER", help_heading = "Runs")]
    run_as: Option<String>,
    #[command(flatten)]
    comparison: ComparisonArgs,
    /// Maximum number of rows, 0 for all [default: 20 as text, else all]
    #[arg(long, value_name = "N", help_heading = "Output", value_parser = value::rows, allow_negative_numbers = true)]
    rows: Option<usize>,
    #[command(flatten)]
    time: TimeArgs,
    #[command(flatten)]
    common: CommonArgs,
}

impl BenchArgs {
    pub(super) fn into_options(self) -> Result<BenchOptions, Stop> {
        let commands = match (&self.base, &self.new) {
            (Some(base), Some(new)) => [words("--base", base)?, words("--new", new)?],
            _ => versus(self.commands)?,
        };
        let mut common = without_locks(self.common.into_options(Input::default(), self.time))?;
        common.metric = self.event.as_ref().map(EventName::metric).or(common.metric);
        let event = match (&self.event, common.metric) {
            (Some(event), _) => event.word().to_owned(),
            (None, Some(Metric::OFF_CPU | Metric::WALL)) => "cpu,off".to_owned(),
            (None, _) => "cpu".to_owned(),
        };
        Ok(BenchOptions {
            commands,
            runs: self.runs,
            warm_ups: self.warm_up,
            keep: self.keep,
            discards_output: self.discard_output,
            ignores_failure: self.ignore_failure,
            event,
            frequency: self.frequency,
            run_as: self.run_as,
            diff: self.comparison.into_options(Sides::Files([Vec::new(), Vec::new()]), common, self.rows)?,
        })
    }
}

/// The words of a command, as a shell splits them.
fn words(option: &str, command: &str) -> Result<Vec<OsString>, Failure> {
    match shlex::split(command) {
        Some(words) if !words.is_empty() => Ok(words.into_iter().map(OsString::from).collect()),
        Some(_) => Err(Failure::usage(format!("{option} names no command"))),
        None => Err(Failure::usage(format!("a quote in {option} `{command}` is not closed"))),
    }
}

/// The commands before and after `--vs`.
fn versus(words: Vec<OsString>) -> Result<[Vec<OsString>; 2], Failure> {
    let form = "prof bench -- BASE ARG --vs NEW ARG";
    let parts: Vec<&[OsString]> = words.split(|word| word == VERSUS).collect();
    match parts.as_slice() {
        [base, new] if !base.is_empty() && !new.is_empty() => Ok([base.to_vec(), new.to_vec()]),
        [_] => Err(Failure::usage("there is one command, and a comparison needs two")
            .hint(format!("write:  {form}"))),
        _ => Err(Failure::usage(format!("{VERSUS} stands once, between two commands"))
            .hint(format!("write:  {form}"))),
    }
}
