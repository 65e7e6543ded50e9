//! Verbs that need several rooms, one file each. What can be typed is in `cli`; a verb that needs one room only (`record`,
//! `report`, `export`, `info`) is in that room.

pub(crate) mod bench;
pub(crate) mod doctor;
pub(crate) mod import;
pub(crate) mod live;
pub(crate) mod program;
pub(crate) mod start;
pub(crate) mod symbolize;
