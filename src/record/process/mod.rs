//! Processes that are recorded: what they have mapped, what they are called, when they end. Read from /proc and from the
//! side-band, never from samples.

pub(crate) mod busiest;
pub(crate) mod exits;
pub(crate) mod identities;
pub(crate) mod mappings;
pub(in crate::record) mod named;
pub(crate) mod parent;
pub(crate) mod proc_fs;
pub(crate) mod table;
pub(crate) mod title;
pub(in crate::record) mod written;
