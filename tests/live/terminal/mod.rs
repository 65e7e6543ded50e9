//! The screens in a real terminal: of files, live, and how the terminal is given back.

pub(crate) mod files;
mod given_back;
mod live;
mod screens;
mod watched;
