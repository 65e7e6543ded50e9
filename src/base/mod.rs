//! What every room uses and no room owns: numbers and names for people, failures with their advice, safe text, time limits,
//! memory budgets, files made for the user, rights of this process. Nothing in here knows of a profile or of a target.

pub(crate) mod deadline;
pub(crate) mod failure;
pub(crate) mod file_holes;
pub(crate) mod fit;
pub(crate) mod mailbox;
pub(crate) mod memory_budget;
pub(crate) mod own_file;
pub(crate) mod pace;
pub(crate) mod privilege;
pub(crate) mod safe_text;
pub(crate) mod units;
