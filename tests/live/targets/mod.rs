//! Whom and what is recorded: processes, threads, containers, rights, and what is refused.

mod accounts;
mod choice;
mod commands;
mod containers;
mod descriptors;
mod reading;
pub(crate) mod refusals;
pub(crate) mod rights;
mod unprivileged;
mod unrecorded;
mod workers;
