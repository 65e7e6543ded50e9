//! Whom and what is recorded: processes, threads, containers, rights, and what is refused.

mod accounts;
mod choice;
mod commands;
mod containers;
mod descriptors;
pub(crate) mod refusals;
mod rights;
mod unprivileged;
mod unrecorded;
mod workers;
