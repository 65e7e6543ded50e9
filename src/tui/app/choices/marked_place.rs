//! A marked place: the selection and zoom of the views, and the filters.

use crate::tui::app::query::Query;
use crate::tui::views::all::Views;

/// Query and views when a place was marked. Selections are names, and so stay valid in other pictures.
#[derive(Debug, Clone)]
pub(crate) struct MarkedPlace {
    /// The query.
    pub(crate) query: Query,
    /// The views.
    pub(crate) views: Views,
}
