//! `prof symbolize`: adds names, inlined functions and lines to a recording that lacks them.

use crate::base::failure::{self, Failure, status};
use crate::base::own_file::FileStamp;
use crate::base::{opener, privilege, safe_text, units};
use crate::debuginfod::fetch::{Fetcher, OnProgress};
use crate::profile::{Profile, Writer, lock, read_path};
use crate::record::{Completed, DebugSources, LeftMaps, complete_names};
use crate::report::{replace_file, unreadable};
use crate::symbols::check_build;
use anyhow::Context;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Most modules listed without names, and most listed with added names.
const MOST_MISSING: usize = 10;
const MOST_ADDED: usize = 10;

/// Options of `prof symbolize`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SymbolizeOptions {
    /// The recording, which is replaced.
    pub(crate) file: PathBuf,
    /// Folders to look for debug files in, besides the usual places.
    pub(crate) folders: Vec<PathBuf>,
    /// Whether to ask debuginfod servers for files that are not on this machine.
    pub(crate) debuginfod: bool,
}

/// Adds the available names to a recording. Returns the message for the user.
///
/// # Errors
///
/// Fails when the recording cannot be read or written; it is unchanged then.
pub(crate) fn run(options: &SymbolizeOptions) -> anyhow::Result<String> {
    // The recording, and the programs in it, are read with the user's own rights.
    privilege::as_user(|| add_names(options))
}

fn add_names(options: &SymbolizeOptions) -> anyhow::Result<String> {
    let shown = safe_text::terminal(&options.file.display().to_string()).into_owned();
    // Before it is read: what becomes of it meanwhile is noticed.
    let was = opener::look(&options.file, false).map(|seen| seen.stamp);
    let (mut profile, integrity) =
        read_path(&options.file).map_err(|error| unreadable(&options.file, &error))?;
    let was = was.with_context(|| format!("cannot read `{shown}`"))?;
    if let Some(recorder) = lock::writer_of(&options.file) {
        let message = format!("cannot add names to `{shown}`: {recorder} is still recording it");
        return Err(Failure::new(status::FAILED, message)
            .hint("names are added while it is recorded; add what is missing after it ends")
            .into());
    }
    if integrity.unknown_chunks > 0 || integrity.unknown_fields > 0 {
        // The unknown parts would be lost.
        return Err(Failure::new(
            status::FAILED,
            format!("cannot add names to `{shown}`: it was written by a newer prof"),
        )
        .hint("use that one")
        .into());
    }
    if integrity.is_damaged() {
        // Everything after the damage would be lost, and so would the evidence of it.
        let problem = integrity.problem.as_deref().unwrap_or("it is incomplete");
        return Err(Failure::new(status::FAILED, format!("cannot add names to `{shown}`: {problem}"))
            .hint("copy it again from where it was recorded; the file was not changed")
            .into());
    }
    let (completed, problems) = complete(&mut profile, &options.folders, options.debuginfod, None)?;
    let mut kept = None;
    if completed.named > 0 || completed.improved > 0 || completed.has_new_notes || completed.code > 0 {
        let bytes = encoded(&mut profile)?;
        kept = integrity.is_cut.then(|| keep_cut(&options.file, was)).transpose()?;
        replace_file(&options.file, was, &bytes)?;
    }
    let mut text = summary(&shown, &completed);
    for problem in problems {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}", safe_text::message(&problem));
    }
    if let Some(kept) = kept {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  it was cut; the original is kept as `{}`",
            safe_text::terminal(&kept.display().to_string())
        );
    }
    Ok(text)
}

/// Adds the available names; returns the result, and the problems with servers.
///
/// # Errors
///
/// Fails when a folder does not exist, or the environment variables for the servers are invalid.
pub(crate) fn complete(
    profile: &mut Profile,
    folders: &[PathBuf],
    debuginfod: bool,
    left_maps: Option<&mut LeftMaps>,
) -> anyhow::Result<(Completed, Vec<String>)> {
    check_folders(folders)?;
    let mut sources = DebugSources { folders, left_maps, fetch: None };
    if !debuginfod {
        return Ok((complete_names(profile, &mut sources), Vec::new()));
    }
    let bar = download_bar();
    let shown = bar.clone();
    let progress: OnProgress = Box::new(move |name, bytes, total| {
        shown.set_message(safe_text::terminal(name).into_owned());
        shown.set_length(total.unwrap_or(0));
        shown.set_position(bytes);
    });
    let mut fetcher = Fetcher::of_environment(check_build, progress)?;
    let mut fetch = |build_id: &[u8], name: &str| fetcher.debug_file(build_id, name);
    sources.fetch = Some(&mut fetch);
    let completed = complete_names(profile, &mut sources);
    bar.finish_and_clear();
    Ok((completed, fetcher.problems))
}

/// Refuses a folder that does not exist, because nothing would ever be found in it. What a user may not see has one answer, whatever it is.
pub(crate) fn check_folders(folders: &[PathBuf]) -> Result<(), Failure> {
    for folder in folders {
        let facts =
            privilege::as_user(|| std::fs::metadata(folder)).map_err(|error| failure::io_words(&error));
        let why = match facts {
            Ok(facts) if facts.is_dir() => continue,
            Ok(_) => "it is no folder".to_owned(),
            Err(error) => error,
        };
        let message = format!("cannot look for debug files in `{}`: {why}", folder.display());
        return Err(Failure::new(status::FAILED, message).hint("--debug-dir names a folder of debug files"));
    }
    Ok(())
}

/// A progress bar for downloads, shown on a terminal only.
fn download_bar() -> indicatif::ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => indicatif::ProgressDrawTarget::stderr(),
        false => indicatif::ProgressDrawTarget::hidden(),
    };
    let bar = indicatif::ProgressBar::with_draw_target(Some(0), target);
    let style =
        indicatif::ProgressStyle::with_template("debuginfod {wide_msg} {bytes}/{total_bytes} [{bar:20}]");
    match style {
        Ok(style) => bar.with_style(style.progress_chars("## ")),
        Err(_) => bar,
    }
}

/// Gives a truncated file, if it still is as it was when it was read, a second name, under which it stays so.
fn keep_cut(path: &Path, was: FileStamp) -> anyhow::Result<PathBuf> {
    opener::keep_cut(path, was).map_err(|error| {
        let message =
            format!("cannot keep `{0}` as `{0}.cut`: {1}", path.display(), failure::io_words(&error));
        Failure::new(status::FAILED, message).hint("nothing was changed").into()
    })
}

fn encoded(profile: &mut Profile) -> anyhow::Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), &profile.meta)?;
    writer.flush(profile, true)?;
    Ok(writer.into_inner())
}

fn summary(shown: &str, completed: &Completed) -> String {
    let Completed { named, improved, unnamed, frames: all, missing, added, code, incomplete, .. } = completed;
    let frames = |count| units::counted(count, "frame");
    let mut text = match (named, unnamed) {
        (0, 0) if *improved > 0 => String::new(),
        (0, 0) if *all == 0 => format!("`{shown}` has no frames of programs: there is nothing to name\n"),
        (0, 0) => format!("`{shown}` has all its names\n"),
        (0, _) => format!("no names found for `{shown}`: {} without a name\n", frames(*unnamed)),
        (_, 0) => format!("named {} of `{shown}`\n", frames(*named)),
        _ => format!("named {} of `{shown}`; {} without a name\n", frames(*named), frames(*unnamed)),
    };
    if *improved > 0 {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} of `{shown}` have inlined functions and lines now", frames(*improved));
    }
    if !incomplete.is_empty() {
        let modules = units::counted(incomplete.len() as u64, "module");
        // Writing to a string cannot fail.
        let _ =
            writeln!(text, "{modules} of `{shown}` still without all inlined functions: prof info --modules");
    }
    if *code > 0 {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "added the code of {} for prof annotate", units::counted(*code, "function"));
    }
    for (path, from, count) in added.iter().take(MOST_ADDED) {
        let (path, count) = (safe_text::terminal(path), frames(*count));
        // Writing to a string cannot fail.
        let _ = match from == path.as_ref() {
            true => writeln!(text, "  {path}: {count}"),
            false => writeln!(text, "  {path}: {count}, by {}", safe_text::terminal(from)),
        };
    }
    if let Some(more) = added.len().checked_sub(MOST_ADDED).filter(|more| *more > 0) {
        let _ = writeln!(text, "  ... {}", units::counted(more as u64, "more module"));
    }
    for (path, why, count) in missing.iter().take(MOST_MISSING) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {}: {} ({})",
            safe_text::terminal(path),
            safe_text::message(why),
            frames(*count)
        );
    }
    if let Some(more) = missing.len().checked_sub(MOST_MISSING).filter(|more| *more > 0) {
        let _ = writeln!(text, "  ... {}", units::counted(more as u64, "more module"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbolizing(file: &Path) -> SymbolizeOptions {
        SymbolizeOptions { file: file.to_owned(), folders: Vec::new(), debuginfod: false }
    }

    #[test]
    fn a_file_that_is_not_there_is_said_with_what_to_do() {
        let error = run(&symbolizing("/nowhere/prof.data".as_ref())).unwrap_err();
        let failure = error.downcast::<Failure>().unwrap();
        assert_eq!(failure.message, "cannot read `/nowhere/prof.data`: no such file");
        assert!(failure.hints[0].contains("prof record"), "{failure}");
    }

    #[test]
    fn what_is_said_has_all_counts() {
        let missing = (0..12).map(|n| (format!("/m{n}"), "gone".to_owned(), 2)).collect();
        let text =
            summary("x", &Completed { named: 1, unnamed: 24, frames: 30, missing, ..Completed::default() });
        assert!(text.starts_with("named 1 frame of `x`; 24 frames without a name\n  /m0: gone (2 frames)\n"));
        assert!(text.ends_with("  /m9: gone (2 frames)\n  ... 2 more modules\n"), "{text}");
        let added =
            vec![("/a".to_owned(), "/a".to_owned(), 2), ("/b".to_owned(), "/d/b.debug".to_owned(), 1)];
        let improved = Completed { improved: 3, frames: 3, added, ..Completed::default() };
        assert_eq!(
            summary("x", &improved),
            "3 frames of `x` have inlined functions and lines now\n  /a: 2 frames\n  /b: 1 frame, by /d/b.debug\n"
        );
        let whole = Completed { frames: 3, ..Completed::default() };
        assert_eq!(summary("x", &whole), "`x` has all its names\n");
        let nothing = summary("x", &Completed::default());
        assert_eq!(nothing, "`x` has no frames of programs: there is nothing to name\n");
    }

    /// Regression: seven eighths of a recording were lost, and status 0 said that all was well.
    #[test]
    fn a_damaged_recording_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prof.data");
        let bytes = encoded(&mut Profile::default()).unwrap();
        let mut damaged = bytes.clone();
        *damaged.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        let error = run(&symbolizing(&path)).unwrap_err();
        let failure = error.downcast::<Failure>().unwrap();
        assert!(failure.message.contains("a chunk is damaged"), "{failure}");
        assert_eq!(std::fs::read(&path).unwrap(), damaged);
    }

    #[test]
    fn a_recording_that_is_cut_is_kept_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prof.data");
        std::fs::write(&path, "cut").unwrap();
        let was = FileStamp::at(&path).unwrap();
        let kept = keep_cut(&path, was).unwrap();
        replace_file(&path, was, b"named").unwrap();
        assert_eq!(std::fs::read(&kept).unwrap(), b"cut");
        let was = FileStamp::at(&path).unwrap();
        assert!(keep_cut(&path, was).is_err(), "an older one is not replaced");
        assert_eq!(std::fs::read(&kept).unwrap(), b"cut");
    }

    #[test]
    fn what_came_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prof.data");
        std::fs::write(&path, "read").unwrap();
        let was = FileStamp::at(&path).unwrap();
        let newer = folder.path().join("newer");
        std::fs::write(&newer, "another recording").unwrap();
        std::fs::rename(&newer, &path).unwrap();
        let failure = replace_file(&path, was, b"named").unwrap_err().downcast::<Failure>().unwrap();
        assert!(failure.message.ends_with("it was replaced or written meanwhile"), "{failure}");
        assert!(keep_cut(&path, was).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"another recording");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }
}
