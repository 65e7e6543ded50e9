//! State of the Time view.

use crate::report::{Activity, ThreadKey};
use crate::tui::widgets::list::ListState;

/// Panel of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Panel {
    /// Bars or the heat map.
    #[default]
    Map,
    /// The list of the samples of a cell.
    Samples,
    /// The stack of one of the samples.
    Stack,
}

/// State of the view.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct TimeState {
    /// Cursor and scroll position in the rows of threads.
    pub(crate) list: ListState,
    /// The selected moment, ns.
    pub(crate) at_ns: u64,
    /// Whether the heat map is shown rather than the bars.
    pub(crate) is_heat_map: bool,
    /// Panel that the view shows.
    pub(crate) panel: Panel,
    /// Cursor and scroll position in the list of samples.
    pub(crate) samples: ListState,
    /// Key of the selected sample; `None` while the first is selected by default.
    pub(crate) sample: Option<SampleKey>,
    /// Cursor and scroll position in the stack.
    pub(crate) stack: ListState,
    /// Start and current end of a drag with the pointer, ns.
    pub(crate) drag: Option<(u64, u64)>,
    /// Key of the selected row.
    pub(super) selected: Option<ThreadKey>,
}

/// Identifies a listed sample across pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SampleKey {
    /// Thread id.
    pub(crate) tid: u32,
    /// When the sample was taken, or the wait began, ns.
    pub(crate) time_ns: u64,
    /// Length of the bucket that the sample is the sum of, ns; 0 for a single sample.
    pub(crate) bucket_ns: u64,
    /// On-CPU, or the reason of the wait.
    pub(crate) activity: Activity,
    /// Hash of the names on the stack of a rolled-up sample, since stacks of one thread in one bucket have everything
    /// else in common.
    pub(crate) stack: u64,
}
