//! What the user did to the Time view.

use crate::report::{Activity, ThreadKey};
use crate::tui::widgets::list::ListState;

/// What the view shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Panel {
    /// Bars or the heat map.
    #[default]
    Map,
    /// The samples at a place.
    Samples,
    /// The stack of one of them.
    Stack,
}

/// What the user did to the view.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct TimeState {
    /// Which row of threads is selected, and which are shown.
    pub(crate) list: ListState,
    /// The selected moment, ns.
    pub(crate) at_ns: u64,
    /// The heat map, else bars.
    pub(crate) is_heat_map: bool,
    /// What is shown.
    pub(crate) panel: Panel,
    /// The selected sample.
    pub(crate) samples: ListState,
    /// Which one that is; `None` for the first, whichever it is.
    pub(crate) sample: Option<SampleKey>,
    /// The selected line of its stack.
    pub(crate) stack: ListState,
    /// Where the pointer went down, and where it is: the range that is being chosen.
    pub(crate) drag: Option<(u64, u64)>,
    /// What the selected row is.
    pub(super) selected: Option<ThreadKey>,
}

/// A sample that is listed: the same in the next picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SampleKey {
    /// The thread.
    pub(crate) tid: u32,
    /// When it was taken, or began, ns.
    pub(crate) time_ns: u64,
    /// Length of the step of time that it is the sum of, ns; 0 of one sample.
    pub(crate) step_ns: u64,
    /// Ran, or why it waited.
    pub(crate) activity: Activity,
    /// A hash of the names on its stack: stacks of one thread that are added up in one step have all else in common.
    pub(crate) stack: u64,
}
