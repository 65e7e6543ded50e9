//! Goroutines of recorded Go programs: which process is one, what the kernel side has to know of it, and what labels samples
//! have for the goroutine that their thread worked for. How Go's runtime lays out its memory is in `runtimes`.

mod go_file;
pub(crate) mod program;
mod registry;
mod snapshots;
mod waits;

pub(crate) use registry::{Goroutines, label_set};
pub(crate) use snapshots::{FoundGoroutines, SNAPSHOT_HZ, TakenSnapshot};
pub(in crate::record) use waits::GoRateService;
pub(crate) use waits::{GoWaitEvents, GoWaits};
