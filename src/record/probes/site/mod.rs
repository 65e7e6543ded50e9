//! Where the probes of a file are. `search` finds them, in a worker; `symbols` are functions by their names, `notes` the probes that a
//! program declares.

pub(in crate::record) mod notes;
pub(in crate::record) mod search;
mod symbols;
