//! What a verb does when it is more than one room's work: a file for each. What can be typed is in `cli`, and a verb that is one
//! room's work alone (`record`, `report`, `export`, `info`) is that room's.

pub(crate) mod doctor;
pub(crate) mod live;
pub(crate) mod program;
pub(crate) mod symbolize;
