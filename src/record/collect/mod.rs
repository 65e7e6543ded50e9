//! Turns samples from the kernel into rows of the profile: addresses become frames of modules, walks that the kernel
//! could not finish are finished. Nothing here reads /proc, looks up a name, or writes a file but the copies of stacks for tests.

pub(crate) mod call_check;
pub(crate) mod collector;
pub(crate) mod deferred_walks;
mod goroutine_rows;
mod goroutine_snapshots;
pub(crate) mod kernel_frames;
pub(crate) mod rescue;
pub(crate) mod row_writer;
pub(crate) mod stack_copies;
pub(crate) mod table_reset;
pub(crate) mod tasks;
pub(crate) mod totals;
pub(crate) mod user_stack;
