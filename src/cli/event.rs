//! What is shown of events other than time: options of the commands that read a profile.

use super::value;
use crate::base::failure::Failure;
use crate::report::{ChargedTo, CommonOptions, Grouping, HeapView, Metric, TimeRange};
use clap::Args;
use std::time::Duration;

/// Which event, where there are others than time.
#[derive(Debug, Args)]
pub(super) struct EventArgs {
    /// The event to show, by its name in prof record -e: cpu, off, or a perf event such as page-faults
    #[arg(short, long, value_name = "EVENT", group = "metric", value_parser = value::shown_event,
        help_heading = "Which time")]
    event: Option<Metric>,
    /// What goroutines did and waited for, if they were recorded: --goroutines of prof record
    #[arg(long, group = "metric", help_heading = "Which time")]
    goroutines: bool,
}

impl EventArgs {
    /// `options` with the event that was asked for.
    pub(super) fn apply(self, options: CommonOptions) -> CommonOptions {
        let goroutines = self.goroutines.then_some(Metric::GOROUTINES);
        CommonOptions { metric: self.event.or(goroutines).or(options.metric), ..options }
    }
}

/// Waits for locks alone.
#[derive(Debug, Args)]
pub(super) struct LockArgs {
    /// Waits for locks, condition variables and semaphores, by lock; with --by waiter by the place that waited, with --by holder
    /// by the place that released the lock
    #[arg(long, group = "metric", help_heading = "Which time")]
    locks: bool,
    /// Waits as what was waited for: the stack that waited, then the thread that ended the wait and what that did meanwhile, and
    /// so on, back to code that ran; with --locks of waits for locks alone
    #[arg(long, help_heading = "Which time", conflicts_with_all = ["on_cpu", "off_cpu", "wall", "event"])]
    chain: bool,
}

impl LockArgs {
    /// `options` with the waits that were asked for.
    ///
    /// # Errors
    ///
    /// A usage failure for rows of locks without these.
    pub(super) fn apply(self, options: CommonOptions) -> Result<CommonOptions, Failure> {
        let options = CommonOptions { chains: self.chain, ..options };
        if !self.locks {
            return without_locks(options);
        }
        if self.chain && options.grouping.is_of_locks() {
            let by = options.grouping.noun();
            return Err(Failure::usage(format!(
                "--by {by} charges waits to one side, and --chain to what was waited for"
            ))
            .hint("take one of them"));
        }
        let is_by_holder = options.grouping == Grouping::Holder;
        let charged_to = if is_by_holder { ChargedTo::Holder } else { ChargedTo::Waiter };
        Ok(CommonOptions { locks: Some(charged_to), ..options })
    }
}

/// `options` where nothing but rows of functions, modules and the like is shown.
///
/// # Errors
///
/// A usage failure for rows of locks.
pub(super) fn without_locks(options: CommonOptions) -> Result<CommonOptions, Failure> {
    if !options.grouping.is_of_locks() {
        return Ok(options);
    }
    let by = options.grouping.noun();
    Err(Failure::usage(format!("--by {by} is about waits for locks"))
        .hint(format!("to see them:  prof report --locks --by {by}")))
}

/// The heap.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which memory")]
pub(super) struct HeapArgs {
    /// The heap, if it was recorded (-e heap of prof record): what was live at the end, by the place that allocated it
    #[arg(long, group = "metric")]
    heap: bool,
    /// With --heap: all that was allocated, freed or not
    #[arg(long, requires = "heap", group = "blocks")]
    allocated: bool,
    /// With --heap: what was live at this time of the recording, such as 12s, or at the peak
    #[arg(long, value_name = "TIME|peak", requires = "heap", group = "blocks", value_parser = heap_time)]
    at: Option<HeapView>,
    /// With --heap: what was allocated between two times, and live at the second one
    #[arg(long, value_name = "FROM..TO", requires = "heap", group = "blocks", value_parser = value::time_range,
        allow_hyphen_values = true)]
    grown: Option<TimeRange>,
    /// With --heap: what was allocated in the first half and not freed, where the same place goes on allocating what is not
    /// freed
    #[arg(long, requires = "heap", group = "blocks")]
    leaks: bool,
    /// With --heap: what was freed within this time of its allocation, such as 1ms
    #[arg(long, value_name = "TIME", requires = "heap", group = "blocks", value_parser = humantime::parse_duration)]
    short: Option<Duration>,
}

impl HeapArgs {
    /// `options` with the blocks that were asked for.
    ///
    /// # Errors
    ///
    /// A usage failure for rows of something that blocks have none of.
    pub(super) fn apply(self, options: CommonOptions) -> Result<CommonOptions, Failure> {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let view = match (self.at, self.grown, self.short) {
            _ if !self.heap => return Ok(options),
            (Some(view), ..) => view,
            (_, Some(time), _) => HeapView::Grown(time.from_ns, time.to_ns),
            (.., Some(most)) => HeapView::Short(nanoseconds(most)),
            _ if self.allocated => HeapView::Allocated,
            _ if self.leaks => HeapView::Leaks,
            _ => HeapView::LiveAtEnd,
        };
        if options.locks.is_some() || options.chains || options.grouping.is_of_locks() {
            return Err(Failure::usage("--heap shows memory, and no waits for locks"));
        }
        Ok(CommonOptions { heap: Some(view), metric: Some(Metric::HEAP), ..options })
    }
}

/// A time of the recording, or its peak.
fn heap_time(text: &str) -> Result<HeapView, String> {
    if text == "peak" {
        return Ok(HeapView::LiveAtPeak);
    }
    let time = humantime::parse_duration(text).map_err(|_| "write a time such as 12s, or peak".to_owned())?;
    Ok(HeapView::LiveAt(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}
