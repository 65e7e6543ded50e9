//! A marked place: the selection and zoom of the views, and the filters.

use crate::tui::app::query::Query;
use crate::tui::views::callers::CallersState;
use crate::tui::views::flame::FlameState;
use crate::tui::views::source::SourceState;
use crate::tui::views::threads::ThreadsState;
use crate::tui::views::time::state::TimeState;
use crate::tui::views::top::TopState;

/// Query and views when a place was marked. Selections are names, and so stay valid in other pictures.
#[derive(Debug, Clone)]
pub(crate) struct MarkedPlace {
    /// The query.
    pub(crate) query: Query,
    /// The flame graph.
    pub(crate) flame: FlameState,
    /// The table of functions.
    pub(crate) top: TopState,
    /// Callers and callees.
    pub(crate) callers: CallersState,
    /// State of the view of time.
    pub(crate) time: TimeState,
    /// The table of threads.
    pub(crate) threads: ThreadsState,
    /// Source and machine code.
    pub(crate) source: SourceState,
}
