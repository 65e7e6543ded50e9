//! Which part of a file or folder a recording is, by the clock where the user is.

use super::clock::{local_words, span_words, whole_end};
use crate::base::safe_text;
use crate::base::units::{count, counted};
use crate::profile::{End, Integrity, Profile};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What was read of a folder of windows, or of a part of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClockPart {
    /// The file, or the folder.
    place: PathBuf,
    is_folder: bool,
    /// When what was read began and ended, ns since the Unix epoch.
    from_unix_ns: u64,
    to_unix_ns: u64,
    /// The windows that were read, in order.
    windows: Vec<WindowFacts>,
    /// What the recorder used in the windows that have an end, and their length.
    pub(super) known_cost: Option<End>,
}

/// A window that was read.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WindowFacts {
    /// Name of its file. Foreign text.
    name: String,
    start_unix_ns: u64,
    /// Of the whole window.
    duration_ns: u64,
    bytes: u64,
    /// What it lacks, if it does.
    problem: Option<String>,
    /// Whether it has an end, which says what the recorder used.
    #[serde(skip)]
    has_end: bool,
}

impl WindowFacts {
    /// `writer`: who is still recording it.
    pub(super) fn of(
        path: &Path,
        (start_unix_ns, writer): (u64, Option<&str>),
        profile: &Profile,
        integrity: &Integrity,
    ) -> Self {
        let no_end = || "the recording has no end: its recorder was killed, or the file was cut".to_owned();
        let has_end = profile.end.is_some();
        WindowFacts {
            name: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            start_unix_ns,
            duration_ns: profile.duration_ns(),
            bytes: integrity.bytes_read.saturating_add(integrity.bytes_skipped),
            problem: match writer {
                Some(writer) => Some(format!("{writer} is still recording it")),
                None => integrity.problem.clone().or_else(|| (!has_end).then(no_end)),
            },
            has_end,
        }
    }
}

/// The part for programs.
#[derive(Debug, Serialize)]
pub(crate) struct ClockPartFields {
    path: String,
    /// `null` of a part of a file.
    windows: Option<u64>,
    /// Where the user is.
    from: String,
    to: String,
    from_unix_ns: u64,
    to_unix_ns: u64,
}

impl ClockPart {
    pub(super) fn of_folder(
        folder: &Path,
        profile: &Profile,
        windows: Vec<WindowFacts>,
        known_cost: Option<End>,
    ) -> Self {
        ClockPart { is_folder: true, windows, known_cost, ..ClockPart::of_file(folder, profile) }
    }

    pub(super) fn of_file(path: &Path, profile: &Profile) -> Self {
        let from_unix_ns = profile.meta.start_unix_ns;
        let to_unix_ns = from_unix_ns.saturating_add(profile.duration_ns());
        ClockPart { place: path.to_owned(), from_unix_ns, to_unix_ns, ..ClockPart::default() }
    }

    /// What is wrong with windows, each in words; of more than `most` only how many there are.
    pub(super) fn window_problems(&self, most: usize) -> impl Iterator<Item = String> {
        let problems = self.windows.iter().filter_map(|window| Some((window, window.problem.as_ref()?)));
        let mut words: Vec<String> = problems
            .map(|(window, problem)| format!("`{}`: {problem}", safe_text::message(&window.name)))
            .collect();
        let more = words.len().saturating_sub(most);
        words.truncate(most);
        let more =
            (more > 0).then(|| format!("{} are not whole either", counted(more as u64, "other window")));
        words.into_iter().chain(more)
    }

    /// The number of windows, if it is a folder.
    pub(crate) fn window_count(&self) -> Option<u64> {
        self.is_folder.then_some(self.windows.len() as u64)
    }

    /// The windows, if it is a folder.
    pub(crate) fn known_windows(&self) -> Option<Vec<WindowFacts>> {
        self.is_folder.then(|| self.windows.clone())
    }

    /// How many windows say what the recorder used, if some do not.
    pub(super) fn windows_with_cost(&self) -> Option<u64> {
        let known = self.windows.iter().filter(|window| window.has_end).count();
        (known < self.windows.len()).then_some(known as u64)
    }

    /// For one line: of what, from when to when. Quotes a file's name.
    pub(crate) fn words(&self) -> String {
        let place = self.place.display();
        match self.window_count() {
            Some(windows) => format!("{} of `{place}`, {}", counted(windows, "window"), self.span()),
            None => format!("part of `{place}`, {}", self.span()),
        }
    }

    /// From when to when.
    pub(crate) fn span(&self) -> String {
        span_words(self.from_unix_ns, self.to_unix_ns)
    }

    /// In fewest words, in pieces: the name of the file or folder, the date, the times.
    pub(crate) fn pieces(&self) -> [String; 3] {
        let name = self.place.file_name().unwrap_or(self.place.as_os_str()).to_string_lossy();
        let [date, from, _] = local_words(self.from_unix_ns);
        let [to_date, to, _] = local_words(whole_end(self.to_unix_ns));
        let days = if date == to_date { date } else { format!("{date}..{to_date}") };
        [safe_text::terminal(&name).into_owned(), days, format!("{from}..{to}")]
    }

    /// Which windows are whole.
    pub(crate) fn completeness_words(&self) -> String {
        let whole = self.windows.iter().filter(|window| window.problem.is_none()).count();
        match self.windows.len() {
            1 if whole == 1 => "complete".to_owned(),
            all if whole == all => "each complete".to_owned(),
            all => format!("{} of {} complete", count(whole as u64), count(all as u64)),
        }
    }

    pub(crate) fn fields(&self) -> ClockPartFields {
        let text = |unix_ns| {
            let [date, time, offset] = local_words(unix_ns);
            format!("{date}T{time}{offset}")
        };
        ClockPartFields {
            path: self.place.to_string_lossy().into_owned(),
            windows: self.window_count(),
            from: text(self.from_unix_ns),
            to: text(self.to_unix_ns),
            from_unix_ns: self.from_unix_ns,
            to_unix_ns: self.to_unix_ns,
        }
    }
}
