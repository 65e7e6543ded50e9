//! What a verb does when it is more than one room's work: a file for each. What can be typed is in `cli`, and a verb that is one
//! room's work alone (`record`, `report`, `export`, `info`) is that room's.

pub mod doctor;
pub mod live;
pub mod symbolize;
