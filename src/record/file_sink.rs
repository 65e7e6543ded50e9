//! The file that a recording goes into while it is made, and the console that says how it goes.

use super::collect::table_reset::MostRows;
use super::environment::namespaces::monotonic_ns;
use super::names::naming::Naming;
use super::output::console::{self, Console};
use super::output::{Placed, ProfileFile};
use super::session::Session;
use super::session::signal_relay::SignalRelay;
use super::session::until_end::{GoesOn, Sink};
use super::target::launch::Child;
use super::windows::Windows;
use crate::profile::Writer;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// The recorder forgets what is in the file when it has become so much.
const MOST_ROWS: MostRows = MostRows { stacks: 1 << 18, frames: 1 << 16, tasks: 1 << 14 };
/// Interval at which samples reach the file: the most that a killed recorder loses.
const FLUSH_INTERVAL: Duration = Duration::from_millis(900);

/// Sink of a recording into a file.
pub(super) struct FileSink<'a> {
    pub(super) signals: &'a mut SignalRelay,
    pub(super) console: &'a mut Console,
    pub(super) placed: &'a mut Placed,
    pub(super) naming: &'a mut Naming,
    pub(super) writer: &'a mut Writer<ProfileFile>,
    /// The file holds samples or waits.
    pub(super) has_written_samples: &'a mut bool,
    pub(super) last_flush: Instant,
    /// Of a recording in windows.
    pub(super) windows: Option<&'a mut Windows>,
    /// Details are wanted on the console.
    pub(super) is_verbose: bool,
}

impl Sink for FileSink<'_> {
    fn is_asked_to_end(&mut self, launched: Option<&Child>) -> GoesOn {
        let goes_on = self.signals.is_asked_to_end(launched);
        if goes_on.is_continue() && self.signals.is_left_to_command(launched) {
            self.console.info(
                "note: the command goes on after Ctrl-C, and so does the recording; Ctrl-C again ends it",
            );
        }
        goes_on
    }

    fn take(&mut self, session: &mut Session<'_>) -> anyhow::Result<GoesOn> {
        for notice in std::mem::take(&mut session.notices) {
            self.console.info(&format!("note: {notice}"));
        }
        if self.last_flush.elapsed() >= FLUSH_INTERVAL {
            self.last_flush = Instant::now();
            match self.flush(session) {
                // The rest of the window is lost, and not the recording.
                Err(_) if self.windows.is_some() => self.turn_window(session)?,
                flushed => flushed?,
            }
        }
        if self.windows.as_deref().is_some_and(|windows| windows.is_over(session)) {
            self.turn_window(session)?;
        }
        let taken = console::taken(&session.collector.profile, &session.collector.totals);
        let lost = session.lost() + session.lost_waits();
        self.console.status(session.elapsed(), &taken, lost, self.writer.bytes_written());
        Ok(ControlFlow::Continue(()))
    }
}

impl FileSink<'_> {
    /// Writes what was taken, with the names that have come, and forgets rows when there are many.
    fn flush(&mut self, session: &mut Session<'_>) -> anyhow::Result<()> {
        let collector = &mut session.collector;
        collector.store_blocks_so_far(monotonic_ns());
        let has_many_rows = MOST_ROWS.are_in(&collector.profile.tables);
        if has_many_rows {
            collector.dumps.name_rows(&mut collector.profile);
        }
        self.naming.look(collector, self.writer)?;
        self.writer.flush(&mut collector.profile, true)?;
        if has_many_rows {
            collector.forget_rows();
            self.writer.reset();
            self.naming.reset();
        }
        *self.has_written_samples = collector.totals.observations() > 0;
        // It works: what had this name before has gone its way, or would be lost if this process were killed.
        self.placed.settle();
        Ok(())
    }
}
