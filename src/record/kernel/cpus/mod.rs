//! CPUs that come and go while they are recorded: which are to be sampled again (`watch`), and their events, which the process
//! that keeps the rights opens (`events`).

mod events;
mod watch;

pub(crate) use events::{AllTasksEvent, CpuEventOf, CpuEventService};
pub(crate) use watch::CpuWatch;
