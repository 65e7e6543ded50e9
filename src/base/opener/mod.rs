//! The opener: a small process that keeps the rights of a recording, so that the process that reads foreign files needs none.
//!
//! It is forked before anything foreign is read, and parses nothing: it opens files below `/proc/PID` and in the roots of
//! processes, and gives their descriptors to the recorder, which then gives up its own rights ([`sandbox`]). What
//! needs more than opening a file (a BPF map, the file of the recording) are services that the recorder's rooms define.
//! Where no opener runs, as in the commands that have no rights to keep, files are opened directly.

mod client;
mod files;
mod message;
mod relay;
pub(crate) mod sandbox;
mod server;

pub(crate) use client::{
    ask_service, folder, inside, is_running, list_processes, list_threads, makes_files, name_command,
    name_new_file, named, new_file, process_file, process_place, signal_command, source,
};
pub(crate) use message::{FileContent, Links, Service};
pub(crate) use relay::{answer_worker, ask_on};
pub(crate) use server::{Services, detach, start};
