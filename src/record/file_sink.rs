//! The file that a recording goes into while it is made, and the console that says how it goes.

use super::collect::table_reset::MostRows;
use super::environment::allocator;
use super::environment::namespaces::monotonic_ns;
use super::failures::{cause_of, write_error};
use super::names::naming::Naming;
use super::output::console::{self, Console};
use super::output::{Placed, ProfileFile};
use super::session::Session;
use super::session::signal_relay::SignalRelay;
use super::session::stop_reason::StopReason;
use super::session::until_end::{GoesOn, PATIENCE, Sink};
use super::target::launch::Child;
use super::windows::{LENGTH_WITH_CODE, Windows, nowhere};
use super::workers;
use crate::base::{opener, safe_text, units};
use crate::profile::{End, WriteError, Writer};
use crate::record::process::parent::Parent;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// The recorder forgets what is in the file when it has become so much.
const MOST_ROWS: MostRows = MostRows { stacks: 1 << 18, frames: 1 << 16, tasks: 1 << 14 };
/// Interval at which samples reach the file: the most that a killed recorder loses.
const FLUSH_INTERVAL: Duration = Duration::from_millis(900);

/// Reasons to end are looked for this often in a recording in windows, if nothing comes.
const PATIENCE_IN_WINDOWS: Duration = Duration::from_millis(300);

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
    /// The process that has started this one, with which the recording ends.
    pub(super) parent: Option<Parent>,
    /// Details are wanted on the console.
    pub(super) is_verbose: bool,
}

impl Sink for FileSink<'_> {
    fn is_asked_to_end(&mut self, launched: Option<&Child>) -> GoesOn {
        if self.parent.is_some_and(Parent::has_ended) {
            return ControlFlow::Break(Some(StopReason::Stopped));
        }
        if let Some(reason) = self.windows.is_some().then(lack_of_processes).flatten() {
            return ControlFlow::Break(Some(reason));
        }
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
                Err(_) if self.windows.is_some() => self.turn_window(session, false)?,
                flushed => flushed?,
            }
        }
        if self.windows.as_deref().is_some_and(|windows| windows.is_over(session)) {
            self.turn_window(session, true)?;
        }
        // What was lost is asked of the kernel.
        if self.console.wants_status() {
            let taken = console::taken(&session.collector.profile, &session.collector.totals);
            let lost = session.lost() + session.lost_waits();
            self.console.status(session.elapsed(), &taken, lost, self.writer.bytes_written());
        }
        Ok(ControlFlow::Continue(()))
    }

    fn patience(&self) -> Duration {
        // What is recorded for weeks ends by a signal, which is heard at once.
        if self.windows.is_some() { PATIENCE_IN_WINDOWS } else { PATIENCE }
    }
}

/// Why a recording in windows cannot go on, if a process that it needs has ended. Who has started it can start another one.
fn lack_of_processes() -> Option<StopReason> {
    let opener = opener::has_ended().then_some(StopReason::OpenerEnded);
    opener.or_else(|| workers::has_ended().then_some(StopReason::WorkersEnded))
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
        if let Some(windows) = self.windows.as_deref_mut().filter(|_| self.placed.path.is_some()) {
            windows.is_said();
        }
        // It works: what had this name before has gone its way, or would be lost if this process were killed.
        self.placed.settle();
        Ok(())
    }
}

impl FileSink<'_> {
    /// Completes the file of the window, and goes on in that of the next one. A window that cannot be written is lost, and said to be,
    /// and the recording goes on.
    /// With `is_over` false the file of the window could not be written on: until the next window is over, there is none.
    pub(super) fn turn_window(&mut self, session: &mut Session<'_>, is_over: bool) -> anyhow::Result<()> {
        let completed = self.complete_window(session);
        let has_place = self.placed.path.is_some();
        session.begin_window();
        self.naming.begin_window(&session.collector.files);
        allocator::give_back();
        let Some(windows) = self.windows.as_deref_mut() else { return Ok(()) };
        windows.count_ended(completed.is_ok() && has_place);
        let start_unix_ns = session.collector.profile.meta.start_unix_ns;
        let next = if is_over { windows.next_file(start_unix_ns) } else { Ok(nowhere()) };
        let (file, placed) = next.unwrap_or_else(|failure| {
            // Once, and not for each window while it lasts.
            if has_place {
                self.console.error(&failure.into());
            }
            nowhere()
        });
        let next = match Writer::new(file, &session.collector.profile.meta) {
            Ok(writer) => writer,
            Err(_) => Writer::new(ProfileFile::Nowhere, &session.collector.profile.meta)?,
        };
        windows.say_in(&mut session.collector.profile);
        let before = std::mem::replace(self.placed, placed);
        let last = std::mem::replace(self.writer, next);
        *self.has_written_samples = false;
        match completed {
            Err(error) => self.leave_window(last, before, error),
            Ok(()) => {
                if let Err(error) = last.into_inner().sync() {
                    self.console.error(&write_error(before.path.as_deref(), WriteError::Io(error)));
                }
            }
        }
        Ok(())
    }

    /// Writes all that belongs to the window, with the names that can be had.
    fn complete_window(&mut self, session: &mut Session<'_>) -> anyhow::Result<()> {
        session.settle_window()?;
        session.end_window(End::WINDOW_OVER)?;
        // What was recorded is in the file before anything else is done.
        self.writer.flush(&mut session.collector.profile, true)?;
        let signals = &*self.signals;
        let asked_before = signals.count();
        let is_asked = || signals.count() > asked_before;
        self.naming.finish(&mut session.collector, self.writer, is_asked, |_, _| {})?;
        if let Some(windows) = self.windows.as_deref().filter(|windows| windows.length >= LENGTH_WITH_CODE) {
            let bytes = self.writer.bytes_written();
            self.naming.save_code(&mut session.collector, bytes, windows.with_sources, is_asked);
        }
        self.writer.flush(&mut session.collector.profile, true)?;
        self.placed.confirm()?;
        if let (Some(why), Some(path)) = (&self.placed.misplaced, &self.placed.path) {
            self.console.error(&anyhow::anyhow!("{why}: this window is in `{}`", path.display()));
        }
        self.placed.settle();
        self.placed.close();
        self.say_window(session);
        Ok(())
    }

    /// Says that a window is complete, where details are wanted.
    fn say_window(&mut self, session: &Session<'_>) {
        let Some(path) = self.placed.path.as_deref().filter(|_| self.is_verbose) else { return };
        let bytes = units::bytes(self.writer.bytes_written());
        let samples = units::counted(session.collector.totals.observations(), "sample");
        let line = format!("saved {}  {bytes}  {samples}", path.display());
        self.console.info(&safe_text::message(&line));
    }

    /// Leaves a window that cannot be written to its end: what is in it in whole chunks stays.
    fn leave_window(&mut self, writer: Writer<ProfileFile>, mut placed: Placed, error: anyhow::Error) {
        let error = match error.downcast::<WriteError>() {
            Ok(error) => write_error(placed.path.as_deref(), error),
            Err(error) => error,
        };
        let end = End {
            reason: format!("{}: {}", End::WRITING_FAILED, cause_of(&error)),
            writing_failed: true,
            ..End::default()
        };
        let (whole, closing) = (writer.bytes_written(), writer.closing_chunk(&end).unwrap_or_default());
        writer.into_inner().cut_to(whole, &closing);
        placed.settle();
        placed.close();
        self.console.error(&error.context("a window is not complete, and the recording goes on"));
    }
}
