//! Functions that interpreters run: their stacks against what programs report of themselves, in all versions that are here.

mod brief;
mod by_user;
mod go_heap;
mod go_locks;
mod goroutines;
mod held;
mod java;
mod javascript;
mod perl;
mod php;
mod python;
mod recorded;
mod ruby;
