//! What every room uses and no room owns: numbers and names for people, failures with their advice, safe text, time limits,
//! memory budgets, files made for the user, rights of this process. Nothing in here knows of a profile or of a target.

pub mod deadline;
pub mod failure;
pub mod file_holes;
pub mod fit;
pub mod memory_budget;
pub mod own_file;
pub(crate) mod pace;
pub mod privilege;
pub mod safe_text;
pub mod units;
