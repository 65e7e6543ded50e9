//! Whom and what is recorded: processes, threads, containers, rights, and what is refused.

mod accounts;
mod choice;
mod commands;
mod containers;
mod descriptors;
mod features;
mod heap;
mod reading;
pub(crate) mod refusals;
pub(crate) mod rights;
pub(crate) mod unprivileged;
mod unrecorded;
mod workers;
