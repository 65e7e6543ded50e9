//! Reading a recording, from a file or from standard input, and what to say when that fails.

use super::analysis::Analysis;
use super::input::{DEFAULT_FILE, Input};
use super::query::notes;
use super::recording::Recording;
use super::windows;
use crate::base::failure::{Failure, status};
use crate::base::{privilege, safe_text};
use crate::profile::{self, Integrity};
use anyhow::Context;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

impl Analysis {
    /// Reads the profile.
    ///
    /// # Errors
    ///
    /// When it cannot be read; says what to do when the file is missing.
    pub(crate) fn load(input: &Input) -> anyhow::Result<Self> {
        let recording = Analysis::load_quietly(input)?;
        recording.warn_if_cut(input);
        Ok(recording)
    }

    /// Loads like [`Analysis::load`], without a warning on standard error when the file is not whole: for a screen that says so
    /// itself.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub(crate) fn load_quietly(input: &Input) -> anyhow::Result<Self> {
        let (profile, integrity, clock_part) = match input {
            Input::Stdin => {
                privilege::input_is_open()?;
                let read = profile::read_stream(std::io::stdin().lock());
                let (profile, integrity) = read.context("cannot read a profile from standard input")?;
                (profile, integrity, None)
            }
            Input::File(path) | Input::Span(path, _) => match open(path)?.and_then(profile::Opened::read) {
                Ok((mut profile, integrity)) => {
                    let span = input.span();
                    let part = span.map(|span| windows::restrict_to(&mut profile, path, span)).transpose()?;
                    (profile, integrity, part)
                }
                Err(profile::ReadError::Directory) => {
                    let (profile, integrity, part) = windows::read(path, input.span())?;
                    (profile, integrity, Some(part))
                }
                Err(error) => return Err(unreadable(path, &error).into()),
            },
        };
        let has_samples = profile.events.iter().any(|event| !event.is_empty());
        let integrity = with_writer(integrity, input, profile.end.is_some());
        let integrity = with_the_one_before(integrity, input, has_samples);
        Ok(Analysis::of(Recording { clock_part, ..Recording::new(profile, integrity) }))
    }
}

impl Recording {
    /// Warns on standard error that the file is incomplete, so that a script that reads standard output does not take
    /// a part for the whole.
    fn warn_if_cut(&self, input: &Input) {
        if let Some(warning) = self.warning(input) {
            let line = format!("warning: {warning}");
            // With standard error closed there is no one to warn.
            let _ = writeln!(std::io::stderr().lock(), "{}", safe_text::message(&line));
        }
    }

    /// Warning that the file of the recording is not whole. Quotes the file's name.
    pub(crate) fn warning(&self, input: &Input) -> Option<String> {
        let problem = notes::missing_part(&self.profile, &self.integrity)?;
        Some(match input {
            Input::Stdin => notes::not_whole("standard input", &problem),
            Input::File(path) | Input::Span(path, _) => {
                notes::not_whole(&format!("`{}`", path.display()), &problem)
            }
        })
    }
}

/// Why the recording at `path` cannot be read, and what to do.
pub(crate) fn unreadable(path: &Path, error: &profile::ReadError) -> Failure {
    if matches!(error, profile::ReadError::Io(error) if error.kind() == std::io::ErrorKind::NotFound) {
        return missing(path);
    }
    let failure = Failure::new(status::FAILED, format!("cannot read `{}`: {error}", path.display()));
    if error.is_importable() {
        let shown = path.to_string_lossy();
        let import = safe_text::shell_line(["prof", "import", &shown, "-o", "NAME"]);
        let failure = failure.hint(format!("to read it as a recording:  {import}"));
        return match error.is_of_perf() {
            true => {
                let report = safe_text::shell_line(["perf", "report", "-i", &shown]);
                failure.hint(format!("as it is:  {report}"))
            }
            false => failure,
        };
    }
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Opens the file that the user named, with the user's rights; whatever is opened later needs none.
fn open(path: &Path) -> Result<Result<profile::Opened, profile::ReadError>, Failure> {
    let opened = privilege::as_user(|| profile::Opened::open(path));
    privilege::input_is_open()?;
    Ok(opened)
}

/// Adds the writer of a recording that is still being written: that it has no end is no damage.
fn with_writer(mut integrity: Integrity, input: &Input, has_ended: bool) -> Integrity {
    if let (Some(path), false) = (input.path(), has_ended)
        && let Some(writer) = profile::lock::writer_of(path)
    {
        integrity.is_being_written = true;
        integrity.problem = Some(format!("{writer} is still recording it"));
    }
    integrity
}

/// Adds the recording that was about to be replaced by one that was killed before it had samples.
fn with_the_one_before(mut integrity: Integrity, input: &Input, has_samples: bool) -> Integrity {
    if let (Some(path), Some(problem), false) = (input.path(), &mut integrity.problem, has_samples)
        && let Some(before) = profile::lock::put_aside(path)
    {
        let _ = write!(problem, "; the previous recording is `{}`", before.display());
    }
    integrity
}

fn missing(path: &Path) -> Failure {
    let shown = path.display();
    if let Some((whole, part)) = path.to_str().and_then(|text| text.rsplit_once('@'))
        && !part.contains('/')
        // A file in a folder may be called `@foo`.
        && (!whole.ends_with('/') || part.contains(".."))
        && Path::new(whole).exists()
    {
        let message = format!("cannot read `{shown}`: `{part}` is no span of time by the clock");
        let word = safe_text::shell_line([&*format!("{whole}@14:00..14:10")]);
        let hint = format!("a part of a recording is written so:  {word}");
        return Failure::new(status::FAILED, message).hint(hint);
    }
    let failure = Failure::new(status::FAILED, format!("cannot read `{shown}`: no such file"));
    if let Some(before) = profile::lock::put_aside(path) {
        let before = before.display();
        failure.hint(format!("a killed recorder had set it aside:  prof report {before}"))
    } else if path == Path::new(DEFAULT_FILE) {
        failure.hint("record one first:  prof record -d 10s -p PID, or prof record CMD")
    } else {
        failure.hint("profiles are written by prof record; the default is `prof.data`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_no_span_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let shown = folder.path().display();
        let said = |word: &str| {
            let input = Input::named(format!("{shown}{word}").into());
            let failure = Analysis::load(&input).unwrap_err().downcast::<Failure>().unwrap();
            failure.message
        };
        for part in ["", "foo", "2s..5s", "25:00..26:00"] {
            let message = said(&format!("@{part}"));
            assert!(message.ends_with(&format!("`{part}` is no span of time by the clock")), "{message}");
        }
        assert!(said("/@25:00..26:00").ends_with("`25:00..26:00` is no span of time by the clock"));
        for word in ["/none@foo", "@2/prof.data", "/@foo"] {
            assert!(said(word).ends_with("no such file"), "{word}");
        }
    }

    #[test]
    fn files_of_other_profilers_can_be_imported() {
        let folder = tempfile::tempdir().unwrap();
        let hints = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let failure = Analysis::load(&Input::File(path)).unwrap_err().downcast::<Failure>().unwrap();
            failure.hints.join("\n").replace(folder.path().to_str().unwrap(), "/f")
        };
        let import = |name: &str| format!("to read it as a recording:  prof import {name} -o NAME");
        let of_perf = hints("perf.data", b"PERFILE2 and more");
        assert_eq!(of_perf, format!("{}\nas it is:  perf report -i /f/perf.data", import("/f/perf.data")));
        assert_eq!(hints("a b.folded", b"main;work 12\n"), import("'/f/a b.folded'"));
        assert_eq!(hints("x.pb.gz", b"\x1f\x8b\x08\0"), import("/f/x.pb.gz"));
        assert!(!hints("x.json", b"{\"a\": 1}").contains("prof import"));
    }
}
