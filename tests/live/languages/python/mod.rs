//! Functions of Python, in all interpreters that are here.

mod calls;
mod damage;
mod generations;
pub(crate) mod interpreters;
mod processes;
mod short;
mod views;
mod waits;
mod without_programs;
