//! Names of counters in files, as docs/format.md and other readers know them.

pub(crate) const LOST_WAITS: &str = "lost_waits";
pub(crate) const LOST_WAIT_NS: &str = "lost_wait_ns";
pub(crate) const WAITS_THINNED: &str = "waits_thinned";
pub(crate) const WAITS_UNMATCHED: &str = "waits_unmatched";
pub(crate) const LOST_THREAD_TIMES: &str = "lost_thread_times";
pub(crate) const THREADS_UNACCOUNTED: &str = "threads_unaccounted";
pub(crate) const LOST_BAD_RECORD: &str = "lost_bad_record";
pub(crate) const SWITCHES_MISSED: &str = "switches_missed";
pub(crate) const RESCUE_REFUSED: &str = "rescue_refused";
