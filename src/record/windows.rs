//! A recording in windows: each ends in a complete file of its own, and the recording goes on in the next one without a gap.

use super::failures::{cause_of, write_error};
use super::file_sink::FileSink;
use super::options::{Output, RecordOptions};
use super::output::window_folder::WindowFolder;
use super::output::{self, Destination, Placed, ProfileFile};
use super::session::Session;
use crate::base::failure::{Failure, status};
use crate::base::{safe_text, units};
use crate::profile::{End, WriteError, Writer};
use std::path::Path;
use std::time::Duration;

/// A window as long as this has the code of its most sampled functions: for shorter ones that costs more than it is worth.
const LENGTH_WITH_CODE: Duration = Duration::from_secs(60);

/// The windows of a recording.
#[derive(Debug)]
pub(super) struct Windows {
    length: Duration,
    output: Output,
    folder: WindowFolder,
    /// The first process of the target, and its name, which may be parts of the names of files.
    target: (u32, String),
    /// Keep source lines, too.
    with_sources: bool,
    /// Windows that are complete.
    pub(super) complete: u64,
    /// Windows that could not be written, to their end or at all.
    pub(super) lost: u64,
}

impl Windows {
    /// The windows that `options` ask for; `None` for a single file. `target` is its first process, with its name.
    pub(super) fn of(options: &RecordOptions, target: (u32, String)) -> Option<Self> {
        let (Output::Folder { path, keep }, Some(length)) = (&options.output, options.window) else {
            return None;
        };
        let mut folder = WindowFolder::new(path.clone(), *keep);
        // What a recording before has left may be too old by now.
        Destination::prune(&mut folder);
        Some(Windows {
            length,
            output: options.output.clone(),
            folder,
            target,
            with_sources: options.embed_source,
            complete: 0,
            lost: 0,
        })
    }

    /// Whether the window that goes on is as long as it is to be.
    pub(super) fn is_over(&self, session: &Session<'_>) -> bool {
        let length_ns = session.known_until_ns().saturating_sub(session.window_start_ns());
        Duration::from_nanos(length_ns) >= self.length
    }

    /// What came of them, for the end of the recording.
    pub(super) fn summary(&self) -> String {
        let Output::Folder { path, .. } = &self.output else { return String::new() };
        let folder = safe_text::terminal(&path.display().to_string()).into_owned();
        let lost = match self.lost {
            0 => String::new(),
            lost => format!("; {} could not be written", units::counted(lost, "window")),
        };
        format!("windows in {folder}: {} before this one{lost}", units::count(self.complete))
    }

    /// Makes the file of the next window, which began at this time of the wall clock, ns.
    fn next_file(&mut self, start_unix_ns: u64) -> Result<(ProfileFile, Placed), Failure> {
        if Destination::prune(&mut self.folder).is_full {
            let Output::Folder { path, .. } = &self.output else { return Ok(nowhere()) };
            let message = format!("no window is written to `{}`: its disk is nearly full", path.display());
            return Err(Failure::new(status::FAILED, message)
                .hint("free some space; windows are written again then, and what ends before is lost"));
        }
        let (pid, name) = &self.target;
        let expand = |path: &Path| {
            output::expand(path, *pid, name, &output::local_time_at(start_unix_ns / 1_000_000_000))
        };
        let (file, unplaced) = Destination::check(&self.output, expand)?.create()?;
        Ok((file, unplaced.place()?))
    }
}

/// The place of a window that is not written.
fn nowhere() -> (ProfileFile, Placed) {
    (ProfileFile::Nowhere, Placed::default())
}

impl FileSink<'_> {
    /// Completes the file of the window, and goes on in that of the next one. A window that cannot be written is lost, and said to be,
    /// and the recording goes on.
    pub(super) fn turn_window(&mut self, session: &mut Session<'_>) -> anyhow::Result<()> {
        let completed = self.complete_window(session);
        let has_place = self.placed.path.is_some();
        session.begin_window();
        self.naming.begin_window(&session.collector.files);
        let Some(windows) = self.windows.as_deref_mut() else { return Ok(()) };
        match &completed {
            Ok(()) if has_place => windows.complete += 1,
            _ => windows.lost += 1,
        }
        let start_unix_ns = session.collector.profile.meta.start_unix_ns;
        let (file, placed) = windows.next_file(start_unix_ns).unwrap_or_else(|failure| {
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
