//! The thread that turns a recording and a query into a picture, and the picture itself. Independent of the screen.

pub(crate) mod boxes;
pub(crate) mod change;
pub(crate) mod event_title;
pub(crate) mod export;
pub(crate) mod line_changes;
pub(crate) mod modules;
mod namesakes;
mod paths;
pub(crate) mod picture;
mod same_source;
pub(crate) mod sides;
pub(crate) mod source_sheet;
pub(crate) mod worker;
