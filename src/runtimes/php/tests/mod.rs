//! A synthetic process that runs PHP, whose exported functions are made of instructions that read as the real ones do.

mod finding;
mod functions;
mod interpreter_loops;
mod stacks;
pub(crate) mod synthetic;
