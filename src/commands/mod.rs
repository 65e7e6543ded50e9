//! Verbs that need several rooms, one file each. The command line is in `cli`; a verb that needs only one room
//! (`record`, `report`, `export`, `info`) is in that room.

pub(crate) mod bench;
pub(crate) mod doctor;
pub(crate) mod import;
pub(crate) mod live;
pub(crate) mod program;
pub(crate) mod start;
pub(crate) mod symbolize;
