//! What to show of a profile and how, as plain values: the command line is only one way to fill them.

pub(crate) use super::grouping::Grouping;
use super::heap::HeapView;
use super::input::Input;
use super::locks::ChargedTo;
use super::model::label_key::LabelKey;
use super::model::metric::{Metric, Shown};
use super::row_limits::RowLimits;
use crate::profile::{EventKind, RuntimeFrames};
use crate::report::naming::style::NameStyle;
use std::path::PathBuf;

/// Which threads share a row, or the box in front of their stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThreadSplit {
    /// Merge threads whose names differ in digits only: `worker-#`.
    Class,
    /// Merge threads of one name.
    Name,
    /// None: each is for itself.
    Each,
    /// Merge all threads of a process.
    None,
}

/// The order of a table's rows, largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortKey {
    /// Own time.
    #[default]
    SelfWeight,
    /// Own time and that of everything called from it.
    TotalWeight,
    /// Number of samples in the function itself.
    Count,
}

/// Which frames of a stack are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Space {
    /// All frames.
    #[default]
    All,
    /// User frames only; time in the kernel counts for the user code that entered it.
    User,
    /// Kernel frames only, of samples taken in the kernel.
    Kernel,
}

/// A part of the recording, in ns since its start; open ends are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeRange {
    /// First moment that belongs to it.
    pub from_ns: Option<u64>,
    /// First moment that no longer belongs to it.
    pub to_ns: Option<u64>,
}

impl TimeRange {
    /// Whether the moment `ns` belongs to it.
    pub(crate) fn contains(self, ns: u64) -> bool {
        self.from_ns.is_none_or(|from| ns >= from) && self.to_ns.is_none_or(|to| ns < to)
    }

    /// Returns the part of the time from `from_ns` to `to_ns` that is in the range, ns; `None` when they do not touch.
    pub(crate) fn overlap_ns(self, from_ns: u64, to_ns: u64) -> Option<u64> {
        let from = self.from_ns.map_or(from_ns, |from| from.max(from_ns));
        let to = self.to_ns.map_or(to_ns, |to| to.min(to_ns));
        (from < to || (from_ns >= to_ns && self.contains(from_ns))).then(|| to.saturating_sub(from))
    }

    /// Whether it is the whole recording.
    pub(crate) fn is_everything(self) -> bool {
        self == TimeRange::default()
    }
}

/// Which samples count, and which frames of them are shown. Patterns are regular expressions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilterOptions {
    /// Keep samples with a frame whose name matches.
    pub focus: Option<String>,
    /// Drop samples with a frame whose name matches.
    pub(crate) ignore: Option<String>,
    /// Take frames whose name matches out of the stacks; the samples stay.
    pub(crate) hide: Option<String>,
    /// Take frames whose name does not match out of the stacks; the samples stay.
    pub(crate) show: Option<String>,
    /// Keep samples with a frame of a module whose name or path matches.
    pub(crate) module: Option<String>,
    /// Keep samples of threads that match all of these.
    pub(crate) threads: Vec<ThreadFilter>,
    /// Keep samples taken on these CPUs; all when empty.
    pub(crate) cpus: Vec<u16>,
    /// Keep samples with a label that one of these means; all when empty.
    pub(crate) labels: Vec<LabelPattern>,
    /// Keep samples of this time, and the part of waits that lies in it.
    pub time: TimeRange,
    /// User frames, kernel frames or both.
    pub(crate) space: Space,
    /// Keep idle waits (see [`super::waits::idle::IdleWaits`]).
    pub(crate) idle: bool,
    /// Steps that are applied to the stacks after all that, one after the other.
    pub(crate) stacks: Vec<StackFilter>,
    /// Percentages of a report are of what all these keep, and not of everything in the recording.
    pub(crate) relative: bool,
}

impl FilterOptions {
    /// Whether any filter asks for functions or frames: what it leaves is known of samples and waits with a stack only.
    pub(crate) fn is_on_code(&self) -> bool {
        self.hides_frames() || self.drops_by_code()
    }

    /// Whether functions are removed from stacks.
    pub(super) fn hides_frames(&self) -> bool {
        self.hide.is_some() || self.show.is_some()
    }

    /// Whether samples and waits are dropped for their threads.
    pub(super) fn is_on_threads(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Whether samples of a thread are dropped for what they alone have: what it did between them is not known then.
    pub(super) fn drops_single_samples(&self) -> bool {
        !self.cpus.is_empty() || !self.labels.is_empty()
    }

    /// Whether samples and waits are dropped for their functions or frames.
    pub(super) fn drops_by_code(&self) -> bool {
        let patterns = [&self.focus, &self.ignore, &self.module];
        patterns.iter().any(|pattern| pattern.is_some())
            || self.space != Space::All
            || !self.stacks.is_empty()
    }
}

/// A thread, all of one name or class in processes of one name, or a process: the same in a later state of a recording. Foreign
/// text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ThreadKey {
    /// Name of the threads or of their class, empty for all of a process.
    pub(crate) thread: String,
    /// Name of their process.
    pub(crate) process: String,
    /// The thread, where it is one.
    pub(crate) tid: Option<u32>,
    /// The process, where it is all threads of one.
    pub(crate) pid: Option<u32>,
}

/// Which threads are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ThreadFilter {
    /// Threads of processes with one of these ids.
    OfProcesses(Vec<u32>),
    /// Threads with one of these ids.
    Ids(Vec<u32>),
    /// Threads of one row of a table.
    Row(ThreadKey),
    /// Threads of classes with these names.
    Classes(Vec<String>),
    /// Threads whose name matches.
    Matching(NamePattern),
    /// Threads of processes whose name or title matches this regular expression.
    OfProcessesMatching(String),
}

impl ThreadFilter {
    /// Returns a filter for the threads whose name, without their id, matches `pattern`.
    pub(crate) fn named(pattern: impl Into<String>) -> Self {
        ThreadFilter::Matching(NamePattern { text: pattern.into(), threads: ThreadSplit::Name })
    }
}

/// A regular expression for names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamePattern {
    /// The expression.
    pub(crate) text: String,
    /// Division of threads that decides which names the pattern is matched against: those that are shown under it.
    pub(crate) threads: ThreadSplit,
}

/// Which labels of samples are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelPattern {
    /// The key, exactly.
    pub(crate) key: String,
    /// Regular expression for the value; `None` for any.
    pub(crate) value: Option<String>,
}

/// One step of what is done to the stacks, each on the result of the one before. Labels are meant exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StackFilter {
    /// Keep samples with this on their stack.
    Focus(LabelKey),
    /// Drop samples with this on their stack.
    Drop(LabelKey),
    /// Keep samples with a frame, or of a thread, whose name matches.
    Matching(NamePattern),
    /// Count what this function calls as its own.
    CollapseFunction(LabelKey),
    /// Neighbouring frames of the module of this path are one.
    CollapseModule(String),
    /// Everything between the outermost and the innermost call of this function counts as one call.
    CollapseRecursion(LabelKey),
    /// Keep stacks that begin with one of these paths, root first.
    Under(Vec<Vec<PathStep>>),
    /// Keep stacks that end with one of these paths, leaf first.
    EndingIn(Vec<Vec<PathStep>>),
}

/// One step of a path through a call tree, by names: the same in another tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PathStep {
    /// Label of what is called.
    pub(crate) label: LabelKey,
    /// Whether the call was inlined.
    pub(crate) is_inlined: bool,
}

/// Options that `report` and `export` have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommonOptions {
    /// The profile.
    pub input: Input,
    /// Which time; `None` for running time if the recording has some.
    pub metric: Option<Metric>,
    /// Which samples and frames.
    pub filter: FilterOptions,
    /// Kind of thing that one row is.
    pub grouping: Grouping,
    /// Whether functions that were inlined into others are frames of their own.
    pub inline: bool,
    /// What is shown of interpreters; `None` leaves it to the recording.
    pub runtime: Option<RuntimeFrames>,
    /// Style of names; `None` leaves it to the view.
    pub names: Option<NameStyle>,
    /// Which threads are one, where threads are shown; `None` leaves it to the view.
    pub threads: Option<ThreadSplit>,
    /// Only waits for locks, charged to one side; `None` for everything that was recorded.
    pub(crate) locks: Option<ChargedTo>,
    /// Waits as what the threads did meanwhile that ended them.
    pub(crate) chains: bool,
    /// The recording has been left without its idle waits: they cannot be shown any more, and none of the others is one.
    pub(crate) idle_is_gone: bool,
    /// Only these blocks of the heap; `None` for everything that was recorded.
    pub(crate) heap: Option<HeapView>,
}

impl CommonOptions {
    /// Whether it is of some waits alone: whole times of threads would be a riddle next to them.
    pub(super) fn is_of_some_waits(&self) -> bool {
        self.locks.is_some() || self.chains
    }

    /// Name of what is shown; `shown` is that of the event.
    pub(super) fn event_name<'s>(&self, shown: &'s str) -> &'s str {
        match (self.chains, self.locks) {
            (true, _) => "chain",
            (false, Some(_)) => EventKind::LOCK_NAME,
            (false, None) => shown,
        }
    }

    /// The style of names in output for programs: full, unless the user chose another.
    pub(super) fn names_for_programs(&self) -> NameStyle {
        self.names.unwrap_or(NameStyle::Full)
    }
}

impl Default for CommonOptions {
    fn default() -> Self {
        CommonOptions {
            input: Input::default(),
            metric: None,
            filter: FilterOptions::default(),
            grouping: Grouping::default(),
            inline: true,
            runtime: None,
            names: None,
            threads: None,
            locks: None,
            chains: false,
            idle_is_gone: false,
            heap: None,
        }
    }
}

/// The shape of a report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ReportView {
    /// View that answers the first question: [`ReportView::Waits`] for waiting time, else [`ReportView::Flat`].
    #[default]
    Overview,
    /// One row for each function.
    Flat,
    /// Call tree, callers above callees.
    Tree,
    /// Inverted call tree, callees above callers.
    BottomUp,
    /// Callers and callees of the functions that match a regular expression.
    Peek(String),
    /// One row for each thread name.
    Threads,
    /// One row for each place where threads waited.
    Waits,
    /// One row for each state of goroutines and place in the program.
    Goroutines,
    /// One row for each lock that threads waited for, or for each place on one side of the waits.
    Locks(Grouping),
    /// One row for each place that allocated memory.
    Heap,
}

impl ReportView {
    /// The view that answers the first question about blocks of memory: places are functions, and parts of them have no callers.
    pub(crate) fn of_heap(grouping: Grouping) -> Self {
        match grouping {
            Grouping::Line | Grouping::Address => ReportView::Flat,
            _ => ReportView::Heap,
        }
    }

    /// The view itself, or the one that [`ReportView::Overview`] means with these events.
    pub(crate) fn of(&self, shown: &Shown<'_>) -> &ReportView {
        match self {
            ReportView::Overview if shown.is_only_waits() => &ReportView::Waits,
            ReportView::Overview if shown.metric() == Metric::GOROUTINES => &ReportView::Goroutines,
            ReportView::Overview => &ReportView::Flat,
            view => view,
        }
    }
}

/// The language of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Returns the name for people.
    #[default]
    Text,
    /// `prof.report/2` and its like.
    Json,
    /// A header line and one line for each row, cells separated by tabs.
    Tsv,
}

/// Condition under which text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColorWhen {
    /// On a terminal, unless the environment says otherwise (`NO_COLOR`, `TERM=dumb`).
    #[default]
    Auto,
    /// Coloured, even in a file or a pipe.
    Always,
    /// Plain text, even in a terminal.
    Never,
}

/// All options of `prof report`.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportOptions {
    /// Which samples and frames of which profile.
    pub common: CommonOptions,
    /// The shape.
    pub view: ReportView,
    /// The language.
    pub format: Format,
    /// The order of a table's rows.
    pub sort: SortKey,
    /// Maximum number of rows, 0 for all; `None` leaves it to the view.
    pub rows: Option<usize>,
    /// Leave out rows and branches below this share of all, in percent; `None` leaves it to the view.
    pub min_percent: Option<f64>,
    /// Condition under which text is coloured.
    pub color: ColorWhen,
    /// Whether text that does not fit the terminal goes through a pager.
    pub pager: bool,
}

impl ReportOptions {
    /// Most rows, where all are shown unless fewer are asked for.
    pub(super) fn most_rows(&self) -> usize {
        self.limits_for_programs().most
    }

    /// The rows of a table for people.
    pub(super) fn limits_for_people(&self) -> RowLimits {
        RowLimits::for_people(self.rows, self.min_percent)
    }

    /// The rows of a table for programs, which get all unless they ask for less.
    pub(super) fn limits_for_programs(&self) -> RowLimits {
        RowLimits::for_programs(self.rows, self.min_percent)
    }

    /// Rows of at least this share are shown, percent, where all are shown unless fewer are asked for.
    pub(super) fn least_percent(&self) -> f64 {
        self.limits_for_programs().least_percent
    }
}

impl Default for ReportOptions {
    fn default() -> Self {
        ReportOptions {
            common: CommonOptions::default(),
            view: ReportView::default(),
            format: Format::default(),
            sort: SortKey::default(),
            rows: None,
            min_percent: None,
            color: ColorWhen::default(),
            pager: true,
        }
    }
}

/// Options of `prof info`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct InfoOptions {
    /// The profile.
    pub(crate) input: Input,
    /// Whether to print the source of the names of each module, and nothing else.
    pub(crate) modules: bool,
    /// `prof.info/1` instead of text.
    pub(crate) json: bool,
}

/// Destination of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReportDestination {
    /// Standard output.
    Stdout,
    /// A file; an existing regular one is replaced only with `force`.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Replace an existing regular file.
        force: bool,
    },
}

/// Samples that an export has, and the form in which it shows them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ExportOptions {
    /// Which samples and frames of which profile.
    pub(crate) common: CommonOptions,
    /// The weight is the number of samples or waits instead of ns.
    pub(crate) count: bool,
    /// SVG and HTML: the title instead of `NAME on-CPU, 10.0 s`.
    pub(crate) title: Option<String>,
    /// SVG and HTML: the line below instead of the command and the date.
    pub(crate) subtitle: Option<String>,
    /// SVG and HTML: the root on top.
    pub(crate) icicle: bool,
    /// Callers above what they call: stacks begin with where the time was spent.
    pub(crate) bottom_up: bool,
    /// SVG and HTML: no command and no date.
    pub(crate) no_meta: bool,
    /// SVG and HTML: boxes with a smaller share of all are not drawn, percent; their time stays in the boxes below them.
    pub(crate) min_percent: Option<f64>,
}
