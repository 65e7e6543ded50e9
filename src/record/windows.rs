//! A recording in windows: each ends in a complete file of its own, and the recording goes on in the next one without a gap.

use super::options::{Output, RecordOptions};
use super::output::window_folder::WindowFolder;
use super::output::{self, Destination, Placed, ProfileFile};
use super::session::Session;
use crate::base::failure::{Failure, status};
use crate::base::{safe_text, units};
use crate::profile::{Profile, counter};
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
    /// Windows that could not be written, to their end or at all.
    pub(super) lost: u64,
    /// Windows that were lost, and those that were removed to keep the limits, of which no file says so yet.
    unsaid_lost: u64,
    unsaid_removed: u64,
}

impl Windows {
    /// The windows that `options` ask for; `None` for a single file. `target` is its first process, with its name, and `first` what
    /// becomes the first window.
    pub(super) fn of(options: &RecordOptions, target: (u32, String), first: &mut Profile) -> Option<Self> {
        let (Output::Folder { path, keep }, Some(length)) = (&options.output, options.window) else {
            return None;
        };
        let mut folder = WindowFolder::new(path.clone(), *keep);
        // What a recording before has left may be too old by now.
        let unsaid_removed = Destination::prune(&mut folder).windows;
        let windows = Windows {
            length,
            output: options.output.clone(),
            folder,
            target,
            with_sources: options.embed_source,
            complete: 0,
            lost: 0,
            unsaid_lost: 0,
            unsaid_removed,
        };
        windows.say_in(first);
        Some(windows)
    }

    /// Counts a window that has come to its end: whether its file is complete.
    pub(super) fn count_ended(&mut self, is_complete: bool) {
        if is_complete {
            self.complete += 1;
            self.is_said();
        } else {
            self.lost += 1;
            self.unsaid_lost += 1;
        }
    }

    /// The file of the window has what [`Windows::say_in`] had it say, whatever becomes of the rest of it.
    pub(super) fn is_said(&mut self) {
        (self.unsaid_lost, self.unsaid_removed) = (0, 0);
    }

    /// Has a window that begins say what no file says.
    pub(super) fn say_in(&self, window: &mut Profile) {
        window.count(counter::WINDOWS_LOST, self.unsaid_lost);
        window.count(counter::WINDOWS_REMOVED, self.unsaid_removed);
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
        self.unsaid_removed += pruned.windows;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::options::Keep;

    #[test]
    fn what_a_lost_window_would_have_said_the_next_one_says() {
        let mut windows = Windows {
            length: Duration::from_secs(1),
            output: Output::Default,
            folder: WindowFolder::new("x".into(), Keep { age: None, bytes: None }),
            target: (1, "a".to_owned()),
            with_sources: false,
            complete: 0,
            lost: 0,
            unsaid_lost: 0,
            unsaid_removed: 3,
        };
        let said = |windows: &Windows| {
            let mut profile = Profile::default();
            windows.say_in(&mut profile);
            [counter::WINDOWS_LOST, counter::WINDOWS_REMOVED].map(|name| profile.counter(name))
        };
        assert_eq!(said(&windows), [0, 3]);
        // A full disk.
        (0..3).for_each(|_| windows.count_ended(false));
        windows.unsaid_removed += 2;
        assert_eq!(said(&windows), [3, 5]);
        // One whose beginning was written before it was lost has said so, and the next one says that it was lost.
        windows.is_said();
        windows.count_ended(false);
        assert_eq!(said(&windows), [1, 0]);
        windows.count_ended(true);
        assert_eq!((said(&windows), windows.complete, windows.lost), ([0, 0], 1, 4));
    }
}
