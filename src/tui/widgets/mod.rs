//! Shared parts of the views: tables, lists, lines, help, colours, and the header and layout of the screen around a view.
//! No view is known here.

pub(crate) mod areas;
pub(crate) mod change_line;
pub(crate) mod chips;
mod choice_list;
pub(crate) mod details;
pub(crate) mod header;
pub(crate) mod help;
pub(crate) mod last_lines;
pub(crate) mod legend;
pub(crate) mod line;
pub(crate) mod list;
pub(crate) mod palette;
pub(crate) mod table;
pub(crate) mod theme;
