//! A recording in windows: each ends in a complete file of its own, and the recording goes on in the next one without a gap.

use super::options::{Output, RecordOptions};
use super::output::window_folder::WindowFolder;
use super::output::{self, Destination, Placed, ProfileFile};
use super::session::Session;
use crate::base::failure::{Failure, status};
use crate::base::{safe_text, units};
use std::path::Path;
use std::time::Duration;

/// A window as long as this has the code of its most sampled functions: for shorter ones that costs more than it is worth.
pub(super) const LENGTH_WITH_CODE: Duration = Duration::from_secs(60);

/// The windows of a recording.
#[derive(Debug)]
pub(super) struct Windows {
    pub(super) length: Duration,
    output: Output,
    folder: WindowFolder,
    /// The first process of the target, and its name, which may be parts of the names of files.
    target: (u32, String),
    /// Keep source lines, too.
    pub(super) with_sources: bool,
    /// Windows that are complete.
    pub(super) complete: u64,
    /// Windows that could not be written, to their end or at all; those of which a window says so already.
    pub(super) lost: u64,
    pub(super) lost_said: u64,
    /// Windows that were removed to keep the limits, of which no window says so yet.
    pub(super) removed: u64,
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
            lost_said: 0,
            removed: 0,
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
    pub(super) fn next_file(&mut self, start_unix_ns: u64) -> Result<(ProfileFile, Placed), Failure> {
        let pruned = Destination::prune(&mut self.folder);
        self.removed += pruned.windows;
        if pruned.is_full {
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
pub(super) fn nowhere() -> (ProfileFile, Placed) {
    (ProfileFile::Nowhere, Placed::default())
}
