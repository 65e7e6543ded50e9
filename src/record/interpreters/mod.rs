//! Interpreters of languages in recorded processes: which process has one, what the kernel side has to know of it, and
//! from frames that an interpreter keeps to frames of the profile, merged with the native ones. How a runtime lays out
//! its memory is in `runtimes`.

pub(super) mod function_names;
pub(crate) mod interpreter;
pub(super) mod known_code;
mod language;
mod merge;
pub(crate) mod outside;
mod perl;
mod php;
pub(crate) mod process_memory;
mod python;
mod registry;
mod ruby;
mod runtime_file;
pub(super) mod seen_codes;

pub(crate) use merge::LoopPart;
pub(crate) use registry::Interpreters;
pub(super) use runtime_file::ALL_LANGUAGES;
