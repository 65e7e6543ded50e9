//! Workers: processes that parse foreign bytes, and may die of them.
//!
//! `origin` is a process that is forked before anything foreign is read: it has given up everything, parses nothing, and is
//! copied for each worker that is wanted. `process` is a worker: it gets jobs with descriptors over a socket, and can open
//! nothing itself. `connection` is the way to one, and has what it asks for opened; `pool` gives the jobs out and ends workers
//! that take too long: one that ends costs the file that it read, and the next job gets a new one. `lent` is one that the opener asks. `message` is how jobs and answers travel. What
//! the jobs are is defined by the rooms that have some.

mod connection;
mod lent;
mod message;
mod origin;
mod pool;
mod process;

pub(crate) use lent::LentWorker;
pub(crate) use message::{JobKind, JobUrgency, WorkerJob};
pub(crate) use pool::{
    HeldWorker, KeptPart, WorkerEnd, WorkerLane, end, has_ended, is_running, start, take, usage,
};
pub(crate) use process::{Ask, Jobs};
