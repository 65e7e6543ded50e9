//! The opener: a small process that keeps the rights of a recording, so that the process that reads foreign files needs none.
//!
//! It is forked before anything foreign is read, and parses nothing: it opens files below `/proc/PID` and in the roots of
//! processes, and gives their descriptors to the recorder, which then gives up its own rights ([`sandbox`]). What
//! needs more than opening a file (a BPF map, the file of the recording) are services that the recorder's rooms define.
//! Commands that only read split in two as well if root runs them ([`reading`]). Where no opener runs, as in the commands that
//! have no rights to keep, files are opened directly.

mod client;
mod files;
mod given;
mod message;
pub(crate) mod reading;
mod relay;
pub(crate) mod sandbox;
mod server;

pub(crate) use client::{
    ask_service, folder, given_file, has_ended, inside, is_running, keep_cut, list_processes, list_threads,
    look, makes_files, name_command, name_new_file, named, names_in, names_next_to, new_file, opener_cpu_ns,
    process_file, process_place, remove_new_file, replace, replace_same, robust_list, signal_command, source,
};
pub(crate) use files::is_source;
pub(crate) use given::{GivenFiles, Opening, unfinished};
pub(crate) use message::{FileContent, Links, Service, is_closed};
pub(crate) use relay::{answer_worker, ask_on};
pub(crate) use server::{Services, detach, start};
