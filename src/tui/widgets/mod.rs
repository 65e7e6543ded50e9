//! What several views draw: tables, lists, lines, help, colours, the frame of the screen around a view.

pub(crate) mod areas;
pub(crate) mod help;
pub(crate) mod last_lines;
pub(crate) mod line;
pub(crate) mod list;
pub(crate) mod palette;
pub(crate) mod table;
pub(crate) mod theme;
