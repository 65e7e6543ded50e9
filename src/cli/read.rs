//! The commands that read a profile: `prof report`, `prof export`, `prof info`.

use super::event::{EventArgs, HeapArgs, LockArgs};
use super::request::{HELP_TEMPLATE, Stop};
use super::sampler::DebugSourceArgs;
use super::value;
use super::value::{Ids, TimePart};
use crate::base::failure::Failure;
use crate::commands::symbolize::SymbolizeOptions;
use crate::profile::RuntimeFrames;
use crate::report::{
    ChargedTo, ColorWhen, CommonOptions, DEFAULT_FILE, ExportFormat, ExportOptions, ExportRequest,
    FilterOptions, Format, Grouping, InfoOptions, Input, LabelPattern, Metric, NameStyle, ReportDestination,
    ReportOptions, ReportView, RowLimits, SortKey, Space, ThreadFilter, ThreadSplit, TimeRange,
};
use clap::Args;
use std::path::PathBuf;

/// The profile to read.
#[derive(Debug, Args)]
pub(super) struct InputArgs {
    /// The profile, or a folder of windows; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_FILE)]
    file: PathBuf,
    /// The profile (perf's spelling)
    #[arg(short, long, value_name = "FILE", hide = true, conflicts_with = "file")]
    input: Option<PathBuf>,
}

impl InputArgs {
    pub(super) fn into_input(self) -> Input {
        let path = self.input.unwrap_or(self.file);
        if path.as_os_str() == "-" { Input::Stdin } else { Input::named(path) }
    }
}

/// Which time.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which time")]
pub(super) struct TimeArgs {
    /// Running time (the default if it was recorded)
    #[arg(long, group = "metric")]
    on_cpu: bool,
    /// Waiting time, by reason: a lock, a disk, a CPU, ...
    #[arg(long, group = "metric")]
    off_cpu: bool,
    /// Wall-clock time: running and waiting
    #[arg(long, group = "metric")]
    wall: bool,
    /// Include idle waits, in which a thread's top-level loop waits for work
    #[arg(long)]
    idle: bool,
}

impl TimeArgs {
    /// Everything of this time.
    pub(super) fn into_options(self) -> CommonOptions {
        let filter = FilterOptions { idle: self.idle, ..FilterOptions::default() };
        CommonOptions { metric: self.metric(), filter, ..CommonOptions::default() }
    }

    fn metric(&self) -> Option<Metric> {
        match (self.on_cpu, self.off_cpu, self.wall) {
            (true, ..) => Some(Metric::ON_CPU),
            (_, true, _) => Some(Metric::OFF_CPU),
            (.., true) => Some(Metric::WALL),
            _ => None,
        }
    }
}

/// Which samples and which frames. A pattern that is given several times means what any of them means.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which samples and frames")]
pub(super) struct CommonArgs {
    /// Only samples with a function on the stack that matches by its name, source file or module
    #[arg(long, value_name = "REGEX", value_parser = value::pattern)]
    focus: Vec<String>,
    /// Drop samples with a function on the stack that matches so
    #[arg(long, value_name = "REGEX", value_parser = value::pattern)]
    ignore: Vec<String>,
    /// Remove functions that match so from the stacks; their time is kept
    #[arg(long, value_name = "REGEX", value_parser = value::pattern)]
    hide: Vec<String>,
    /// Remove all other functions from the stacks; their time is kept
    #[arg(long, value_name = "REGEX", value_parser = value::pattern)]
    show: Vec<String>,
    /// Only samples with code of a matching module on the stack
    #[arg(long, value_name = "REGEX", value_parser = value::pattern)]
    module: Vec<String>,
    /// Only processes with a matching name
    #[arg(long, value_name = "REGEX", value_parser = value::pattern)]
    process: Vec<String>,
    /// Only threads with a matching name
    #[arg(long, value_name = "REGEX", value_parser = value::pattern)]
    thread: Vec<String>,
    /// Only these processes
    #[arg(long, value_name = "PID,…", value_parser = value::recorded_pids, allow_negative_numbers = true)]
    pid: Vec<Ids>,
    /// Only these threads
    #[arg(long, value_name = "TID,…", value_parser = value::tids, allow_negative_numbers = true)]
    tid: Vec<Ids>,
    /// Only samples taken on these CPUs
    #[arg(long, value_name = "CPU,…", value_delimiter = ',', value_parser = value::cpu, allow_negative_numbers = true)]
    cpu: Vec<u16>,
    /// Only samples with this label, of any value or one that matches; gil=held: the thread held its interpreter's lock
    #[arg(long, value_name = "KEY[=REGEX]", value_parser = value::label_pattern)]
    label: Vec<LabelPattern>,
    /// Only this part of the recording: 2s..5s, 2s.. or ..5s; by the clock 14:00..14:10 or 2026-11-29T14:00..
    #[arg(long, value_name = "FROM..TO", value_parser = value::time_part, allow_hyphen_values = true)]
    time: Option<TimePart>,
    /// Only user frames; kernel time counts for the user code that entered the kernel
    #[arg(long, conflicts_with = "kernel")]
    user: bool,
    /// Only kernel frames, of samples taken in the kernel
    #[arg(long)]
    kernel: bool,
    /// What one row or box is
    #[arg(long, value_name = "WHAT", default_value = "function", value_parser = value::grouping())]
    by: Grouping,
    /// Count inlined functions as part of the function they were inlined into
    #[arg(long)]
    no_inline: bool,
    /// What to show of interpreters: functions of the language without the interpreter's own frames (folded), both
    /// (full), or native frames only (off) [default: folded, or as recorded]
    #[arg(long, value_name = "WHAT", value_parser = value::runtime_frames())]
    runtime: Option<RuntimeFrames>,
    /// How names are written [default: short on a terminal and in flame graphs, else full]
    #[arg(long, value_name = "STYLE", value_parser = value::name_style())]
    names: Option<NameStyle>,
}

impl CommonArgs {
    pub(super) fn into_options(self, input: Input, time: TimeArgs) -> CommonOptions {
        let space = match (self.user, self.kernel) {
            (true, _) => Space::User,
            (_, true) => Space::Kernel,
            _ => Space::All,
        };
        let (pids, tids) = (value::all_ids(self.pid), value::all_ids(self.tid));
        let mut threads = Vec::from_iter(value::any_of(self.thread).map(ThreadFilter::named));
        threads.extend(value::any_of(self.process).map(ThreadFilter::OfProcessesMatching));
        threads.extend((!pids.is_empty()).then_some(ThreadFilter::OfProcesses(pids)));
        threads.extend((!tids.is_empty()).then_some(ThreadFilter::Ids(tids)));
        let (since, clock) = match self.time {
            Some(TimePart::Since(range)) => (range, None),
            Some(TimePart::Clock(span)) => (TimeRange::default(), Some(span)),
            None => (TimeRange::default(), None),
        };
        CommonOptions {
            input: input.within(clock),
            metric: time.metric(),
            filter: FilterOptions {
                focus: value::any_of(self.focus),
                ignore: value::any_of(self.ignore),
                hide: value::any_of(self.hide),
                show: value::any_of(self.show),
                module: value::any_of(self.module),
                cpus: self.cpu,
                labels: self.label,
                time: since,
                space,
                idle: time.idle,
                threads,
                stacks: Vec::new(),
                relative: false,
            },
            grouping: self.by,
            inline: !self.no_inline,
            runtime: self.runtime,
            names: self.names,
            threads: None,
            locks: None,
            chains: false,
            idle_is_gone: false,
            heap: None,
        }
    }
}

/// Show a profile as text: who used the CPU, who waited for what, and how far to trust it
///
/// SELF is the time in a function itself, TOTAL adds everything that it calls ("flat" and "cum" in pprof). ± is
/// the 95 % sampling error of SELF% in percentage points; neighbouring samples are correlated, so ± is a lower
/// bound. In the header, "stacks" is the share of stacks that reach the root of their thread, "symbols" is the
/// share of frames that have a name, and "prof" is the overhead: the share of one CPU that prof and its BPF
/// programs used while recording, and the CPU time before and after. Reading the names of the kernel, as sampling
/// begins, counts as before and after.
///
/// With --off-cpu each row is a place where threads waited: for how long, how often, why, in which function of the
/// program, and who woke them. The line above the table adds up to the time of all threads. Idle waits, in which a
/// thread has nothing to do, are one row that names their places; --idle lists them.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof report                     the functions that took most time
  prof report --tree --thread '^worker'
                                  call tree of some threads
  prof report --peek malloc       who calls malloc, and what it calls
  prof report --off-cpu           where threads waited, why, and who woke them
  prof report --json | jq '.rows[0]'")]
pub(super) struct ReportArgs {
    #[command(flatten)]
    input: InputArgs,
    /// One row per function (the default, except with --off-cpu)
    #[arg(long, group = "view", help_heading = "View")]
    flat: bool,
    /// Call tree, callers above callees
    #[arg(long, group = "view", help_heading = "View")]
    tree: bool,
    /// Inverted call tree, callees above callers
    #[arg(long, group = "view", help_heading = "View")]
    bottom_up: bool,
    /// Callers and callees of matching functions
    #[arg(long, value_name = "REGEX", group = "view", help_heading = "View", value_parser = value::pattern)]
    peek: Option<String>,
    /// Time by thread; if waits were recorded, running and waiting time. class (the default): threads whose names differ
    /// only in numbers share a row, worker-#; each (--by thread): one row per thread; none (--by process): one row per
    /// process. With --tree and --bottom-up, stacks start with the thread
    #[arg(long, value_name = "HOW", help_heading = "View", value_parser = value::thread_split(), num_args = 0..=1,
        require_equals = true, conflicts_with_all = ["flat", "peek"])]
    threads: Option<Option<ThreadSplit>>,
    #[command(flatten)]
    event: EventArgs,
    #[command(flatten)]
    locks: LockArgs,
    #[command(flatten)]
    heap: HeapArgs,
    #[command(flatten)]
    time: TimeArgs,
    #[command(flatten)]
    common: CommonArgs,
    /// Order of the rows
    #[arg(long, value_name = "KEY", default_value = "self", help_heading = "Output", value_parser = value::sort_key())]
    sort: SortKey,
    /// Maximum number of rows, 0 for all
    #[arg(short = 'n', value_name = "N", help_heading = "Output", help = rows_help(), value_parser = value::rows,
        allow_negative_numbers = true)]
    rows: Option<usize>,
    /// Leave out rows and branches below this share of the total
    #[arg(long, alias = "percent-limit", value_name = "PERCENT", help_heading = "Output", value_parser = value::percent,
        help = min_help(), allow_negative_numbers = true)]
    min_pct: Option<f64>,
    /// Percentages are of what the filters keep, instead of the whole recording
    #[arg(long, help_heading = "Which samples and frames")]
    relative: bool,
    /// Accepted for users of perf: reports are text anyway
    #[arg(long, hide = true)]
    stdio: bool,
    /// Accepted for users of perf: sorted by self time
    #[arg(long, hide = true, conflicts_with = "children")]
    no_children: bool,
    /// Accepted for users of perf: sort by total time
    #[arg(long, hide = true, conflicts_with = "sort")]
    children: bool,
    /// Print `prof.report/2` as JSON
    #[arg(long, group = "machine", help_heading = "Output")]
    json: bool,
    /// Print a tab-separated table
    #[arg(long, group = "machine", help_heading = "Output")]
    tsv: bool,
    /// Colour
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output", value_parser = value::color_when())]
    color: ColorWhen,
    /// Do not use a pager ($PROF_PAGER, $PAGER or less)
    #[arg(long, help_heading = "Output")]
    no_pager: bool,
}

fn rows_help() -> String {
    let default = RowLimits::DEFAULT_ROWS;
    format!(
        "Maximum number of rows, 0 for all [default: {default} for functions and for waits as text, else all]"
    )
}

fn min_help() -> String {
    let default = RowLimits::DEFAULT_TREE_MIN_PERCENT;
    format!(
        "Leave out rows and branches below this share of the total [default: {default} for trees, else 0]"
    )
}

/// Which threads are one, where the view is of threads and `--by` alone says more.
fn split_by(grouping: Grouping) -> ThreadSplit {
    match grouping {
        Grouping::Thread => ThreadSplit::Each,
        Grouping::Process => ThreadSplit::None,
        _ => ThreadSplit::Class,
    }
}

impl ReportArgs {
    /// # Errors
    ///
    /// A usage failure for rows of locks where none are shown.
    pub(super) fn into_options(self) -> Result<ReportOptions, Failure> {
        let mut view = match (self.tree, self.bottom_up, &self.threads, self.peek) {
            _ if self.flat => ReportView::Flat,
            (true, ..) => ReportView::Tree,
            (_, true, ..) => ReportView::BottomUp,
            (_, _, Some(_), _) => ReportView::Threads,
            (.., Some(pattern)) => ReportView::Peek(pattern),
            _ => ReportView::Overview,
        };
        let common = self.event.apply(self.common.into_options(self.input.into_input(), self.time));
        let mut common = self.heap.apply(self.locks.apply(common)?)?;
        if common.chains && view == ReportView::Overview {
            view = ReportView::Tree;
        }
        if common.heap.is_some() && view == ReportView::Overview {
            view = ReportView::of_heap(common.grouping);
        }
        if common.locks.is_some() && view == ReportView::Overview {
            // The table has both sides of each wait.
            (view, common.locks) =
                (ReportView::Locks(common.grouping), Some(ChargedTo::of_table(common.grouping)));
        }
        if common.grouping.is_of_locks() {
            common.grouping = Grouping::Function;
        }
        common.filter.relative = self.relative;
        common.threads = self.threads.map(|how| how.unwrap_or(split_by(common.grouping)));
        if view == ReportView::Threads {
            // What rows of threads have their time in are functions.
            common.grouping = Grouping::Function;
        }
        let sort = if self.children { SortKey::TotalWeight } else { self.sort };
        let format = match (self.json, self.tsv) {
            (true, _) => Format::Json,
            (_, true) => Format::Tsv,
            _ => Format::Text,
        };
        Ok(ReportOptions {
            common,
            view,
            format,
            sort,
            rows: self.rows,
            min_percent: self.min_pct,
            color: self.color,
            pager: !self.no_pager,
        })
    }
}

/// Write a profile for other programs: HTML page, flame graph, pprof, timelines
///
/// The ending of OUT chooses the format: .html, .svg, .folded, .pb.gz (pprof), .speedscope.json, .firefox.json,
/// .perfetto-trace, .callgrind, .json, .perf-script, .otlp.pb. The stack of a wait ends in its reason, such as [lock]; in flame graphs
/// waits are blue.
#[allow(rustdoc::broken_intra_doc_links)] // `[lock]` is what is printed.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof export -o report.html      flame graphs, search, callers and a table in one page
  prof export -o flame.svg        a flame graph alone
  prof export -o - --format folded | grep parse
                                  one line for each distinct stack
  prof export -o app.pb.gz        for go tool pprof; the ending chooses the format
  prof export --wall -o wall.svg  running and waiting in one graph
  prof export yesterday.data -o old.svg --thread '^worker'")]
pub(super) struct ExportArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Output file; - is standard output
    #[arg(short, long, value_name = "OUT", required = true, help_heading = "Output")]
    output: PathBuf,
    /// Output format, overriding the ending of OUT
    #[arg(long, value_name = "FORMAT", help_heading = "Output", value_parser = value::export_format())]
    format: Option<ExportFormat>,
    /// Replace OUT if it exists
    #[arg(short, long, help_heading = "Output")]
    force: bool,
    /// Weight by the number of samples or waits instead of time
    #[arg(long, help_heading = "Output")]
    count: bool,
    /// Root of the stacks: one per class of threads whose names differ only in numbers (class: worker-#), one per
    /// thread (each), or none [default: threads by name]
    #[arg(long, value_name = "HOW", help_heading = "Output", value_parser = value::thread_split())]
    threads: Option<ThreadSplit>,
    /// Flame graph and page: the title
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    title: Option<String>,
    /// Flame graph and page: the line below the title, instead of the command and the date
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    subtitle: Option<String>,
    /// Flame graph and page: put the root at the top
    #[arg(long, help_heading = "Output")]
    icicle: bool,
    /// Start stacks at the leaf: where time was spent, then its callers
    #[arg(long, help_heading = "Output")]
    bottom_up: bool,
    /// Flame graph and page: leave out the command and the date
    #[arg(long, help_heading = "Output")]
    no_meta: bool,
    /// Flame graph and page: leave out boxes below this share of the total
    #[arg(long, value_name = "PERCENT", help_heading = "Output", value_parser = value::percent, allow_negative_numbers = true)]
    min_pct: Option<f64>,
    #[command(flatten)]
    event: EventArgs,
    #[command(flatten)]
    locks: LockArgs,
    #[command(flatten)]
    heap: HeapArgs,
    #[command(flatten)]
    time: TimeArgs,
    #[command(flatten)]
    common: CommonArgs,
}

impl ExportArgs {
    pub(super) fn into_request(self) -> Result<ExportRequest, Stop> {
        let is_stdout = value::is_stdout(&self.output);
        let format = match self.format {
            Some(format) => format,
            None if is_stdout => {
                return Err(crate::base::failure::Failure::usage(
                    "standard output has no ending to tell the format",
                )
                .hint(format!("name it:  --format {}", ExportFormat::names()))
                .into());
            }
            None => ExportFormat::of_path(&self.output)?,
        };
        let destination = if is_stdout {
            ReportDestination::Stdout
        } else {
            ReportDestination::File { path: self.output, force: self.force }
        };
        let common = self.event.apply(self.common.into_options(self.input.into_input(), self.time));
        let mut common = self.heap.apply(self.locks.apply(common)?)?;
        if common.grouping.is_of_locks() {
            common.grouping = Grouping::Function;
        }
        let options = ExportOptions {
            common: CommonOptions { threads: self.threads, ..common },
            count: self.count,
            title: self.title,
            subtitle: self.subtitle,
            icicle: self.icicle,
            bottom_up: self.bottom_up,
            no_meta: self.no_meta,
            min_percent: self.min_pct,
        };
        Ok(ExportRequest { format, destination, options })
    }
}

/// Show the facts of a profile: what was recorded, when, how, and what is missing
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof info
  prof info yesterday.data --json")]
pub(super) struct InfoArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Show for each module where its names come from, what is missing, and what provides it
    #[arg(long)]
    modules: bool,
    /// Print `prof.info/1` as JSON
    #[arg(long)]
    json: bool,
}

impl InfoArgs {
    pub(super) fn into_options(self) -> InfoOptions {
        InfoOptions { input: self.input.into_input(), modules: self.modules, json: self.json }
    }
}

/// Add missing names to a recording, and inlined functions and lines that have become available since
///
/// Reads the recorded programs and libraries, if they still exist with the same build ID, and debug files of the same
/// builds, and rewrites the recording. Also works on another machine.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof symbolize
  prof symbolize yesterday.data --debuginfod
  prof symbolize --debug-dir ~/debug-files")]
pub(super) struct SymbolizeArgs {
    /// The recording
    #[arg(value_name = "FILE", default_value = DEFAULT_FILE)]
    file: PathBuf,
    #[command(flatten)]
    sources: DebugSourceArgs,
}

impl SymbolizeArgs {
    pub(super) fn into_options(self) -> SymbolizeOptions {
        let DebugSourceArgs { folders, debuginfod } = self.sources;
        SymbolizeOptions { file: self.file, folders, debuginfod }
    }
}
