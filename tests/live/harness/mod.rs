//! What the tests record and how: programs that run, a database, the real binary, a real terminal, and what this machine has.

pub(crate) mod counter;
pub(crate) mod fixture;
pub(crate) mod heap_storm;
pub(crate) mod lacking;
pub(crate) mod machine;
pub(crate) mod pane;
pub(crate) mod postgres;
pub(crate) mod profiler;
pub(crate) mod running;
