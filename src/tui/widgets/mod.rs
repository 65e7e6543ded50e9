//! What several views draw: tables, lists, lines, help, colours, the frame of the screen around a view.

pub mod help;
pub(crate) mod last_lines;
pub mod line;
pub mod list;
pub(crate) mod palette;
pub(crate) mod samples_list;
pub mod screen;
pub mod table;
pub mod theme;
