//! What every room uses and no room owns: formatted numbers, failures with hints, safe text, time limits, memory budgets,
//! whether a file is as it was, files made for the user, privileges of this process and how it gives them up. Nothing here knows of a profile or a target.

pub(crate) mod deadline;
pub(crate) mod failure;
pub(crate) mod file_holes;
pub(crate) mod file_state;
pub(crate) mod fit;
pub(crate) mod fnv;
pub(crate) mod mailbox;
pub(crate) mod memory_budget;
pub(crate) mod opener;
pub(crate) mod own_file;
pub(crate) mod pace;
pub(crate) mod privilege;
pub(crate) mod safe_text;
pub(crate) mod units;
