//! The query of the screen: everything the worker needs to compute the next picture.

use super::diff_base::DiffBase;
use crate::report::{
    CallTree, CommonOptions, Direction, FilterOptions, Grouping, LabelKey, Selection, SortKey, Step,
    ThreadFilter, ThreadKey, ThreadSplit, TimeRange,
};
use std::path::PathBuf;
use std::time::Duration;

/// Part of a live recording that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Window {
    /// The whole recording.
    #[default]
    All,
    /// The last minute.
    Minute,
    /// The last ten seconds.
    TenSeconds,
}

impl Window {
    /// The next shorter window; the whole recording after the shortest.
    #[must_use]
    pub(crate) fn next(self) -> Self {
        match self {
            Window::All => Window::Minute,
            Window::Minute => Window::TenSeconds,
            Window::TenSeconds => Window::All,
        }
    }

    /// Length of the window; `None` for the whole recording.
    pub(crate) fn length(self) -> Option<Duration> {
        match self {
            Window::All => None,
            Window::Minute => Some(Duration::from_secs(60)),
            Window::TenSeconds => Some(Duration::from_secs(10)),
        }
    }

    /// Name of the window on the screen.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Window::All => "all",
            Window::Minute => "last 60 s",
            Window::TenSeconds => "last 10 s",
        }
    }

    /// The time range of the window in a recording of `duration_ns`.
    pub(crate) fn range(self, duration_ns: u64) -> TimeRange {
        let from = self
            .length()
            .map(|length| duration_ns.saturating_sub(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)));
        TimeRange { from_ns: from.filter(|from| *from > 0), to_ns: None }
    }
}

/// Description of what to compute from a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Which samples and which frames, in the options of a report.
    pub common: CommonOptions,
    /// Which end of a stack is on top.
    pub direction: Direction,
    /// Order of the table of functions.
    pub(crate) sort: SortKey,
    /// The function whose callers and callees are shown.
    pub(crate) pivot: Option<LabelKey>,
    /// The function whose source is shown.
    pub(crate) source: Option<LabelKey>,
    /// Folders in which source files are looked for first.
    pub(crate) source_dirs: Vec<PathBuf>,
    /// Whether the times at which threads ran and waited are shown.
    pub(crate) timeline: bool,
    /// What rows of the table of locks are, if that is shown.
    pub(crate) locks: Option<Grouping>,
    /// The samples to list.
    pub(crate) samples_at: Option<SamplesQuery>,
    /// Part of a live recording that counts.
    pub(crate) window: Window,
    /// Base that the picture is compared with.
    pub(crate) base: Option<DiffBase>,
    /// The picture is of the base, not of the new side.
    pub(crate) shows_base: bool,
}

/// Which samples to list, in addition to the filters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SamplesQuery {
    /// Samples in this time range.
    pub(crate) time: TimeRange,
    /// Samples of these threads; `None` for all threads.
    pub(crate) row: Option<ThreadKey>,
}

/// Keeps only the samples of the threads with these names in the call tree. A name is that of a thread or of a class of
/// threads; it includes the thread id where `split` gives each thread a row of its own. There, `lighter` are ids of further
/// ones.
pub(crate) fn keep_threads(options: &mut FilterOptions, names: &[&str], lighter: &[u32], split: ThreadSplit) {
    let id =
        |name: &&str| name.rsplit_once(" (tid ").and_then(|(_, tid)| tid.strip_suffix(')')?.parse().ok());
    let tids: Option<Vec<u32>> = names.iter().map(id).collect();
    match tids.filter(|_| split == ThreadSplit::Each) {
        Some(mut tids) => {
            tids.extend_from_slice(lighter);
            tids.sort_unstable();
            tids.dedup();
            options.threads.push(ThreadFilter::Ids(tids));
        }
        None if names.iter().any(|name| name.contains('#')) => {
            let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            names.sort_unstable();
            names.dedup();
            options.threads.push(ThreadFilter::Classes(names));
        }
        None => {
            let mut names: Vec<String> = names.iter().map(|name| regex::escape(name)).collect();
            names.sort_unstable();
            names.dedup();
            options.threads.push(ThreadFilter::named(match &names[..] {
                [name] => format!("^{name}$"),
                _ => format!("^(?:{})$", names.join("|")),
            }));
        }
    }
}

impl Query {
    /// The initial query.
    pub fn new(common: CommonOptions) -> Self {
        Query {
            common: CommonOptions { threads: common.threads.or(Some(ThreadSplit::Class)), ..common },
            direction: Direction::TopDown,
            sort: SortKey::default(),
            pivot: None,
            source: None,
            source_dirs: Vec::new(),
            timeline: false,
            locks: None,
            samples_at: None,
            window: Window::default(),
            base: None,
            shows_base: false,
        }
    }

    /// Returns the threads that are merged.
    pub(crate) fn threads(&self) -> ThreadSplit {
        self.common.threads.unwrap_or(ThreadSplit::Class)
    }

    /// The call tree, with `threads` as roots if there are any.
    pub(crate) fn call_tree(&self, selection: &Selection<'_>, threads: Option<&[Step]>) -> CallTree {
        match threads {
            Some(steps) => CallTree::by_thread(selection, self.direction, steps),
            None => CallTree::new(selection, self.direction),
        }
    }

    /// The options for a recording of `duration_ns`, with the window as its time range unless a range was selected.
    pub(crate) fn options(&self, duration_ns: u64) -> CommonOptions {
        let mut options = self.common.clone();
        if options.filter.time.is_everything() {
            options.filter.time = self.window.range(duration_ns);
        }
        options
    }
}
