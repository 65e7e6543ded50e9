//! The screen before there is a profile: the last recording, and running processes to record or to watch.
//!
//! Independent of how processes are found or recorded: it takes rows, and returns the choice. No picture is computed
//! here, so it has a small loop of its own.

mod ask;
mod choice;
mod draw;
mod list;
#[cfg(test)]
mod tests;

pub(crate) use ask::choose;
pub(crate) use choice::{Choice, LastRecording, ProcessRow};
