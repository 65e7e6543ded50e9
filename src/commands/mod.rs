//! Verbs that need several rooms, one file each, with their options. The command line is in `cli`, which fills the options
//! in; nothing here may use it. A verb that needs
//! only one room (`report`, `annotate`, `export`, `info`, `diff`, `tui`) is a function of that room: a file here would only call it.

pub(crate) mod agent;
pub(crate) mod bench;
pub(crate) mod doctor;
mod finisher;
pub(crate) mod import;
pub(crate) mod live;
pub(crate) mod reading;
pub(crate) mod record;
pub(crate) mod start;
pub(crate) mod symbolize;
