//! Functions that interpreters run: their stacks against what programs report of themselves, in all versions that are here.

mod calls;
mod damage;
mod generations;
mod goroutines;
mod interpreters;
mod java;
mod javascript;
mod perl;
mod php;
mod processes;
mod recorded;
mod ruby;
mod short;
mod views;
mod waits;
