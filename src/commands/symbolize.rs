//! `prof symbolize`: adds names to a recording that lacks them.

use crate::base::failure::{self, Failure, status};
use crate::base::{privilege, safe_text, units};
use crate::profile::{Profile, Writer, lock, read_path};
use crate::record::{Completed, complete_names};
use crate::report::{replace_file, unreadable};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Modules without names that are listed.
const MOST_MISSING: usize = 10;

/// Options of `prof symbolize`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SymbolizeOptions {
    /// The recording; it is replaced.
    pub(crate) file: PathBuf,
}

/// Adds the names that can be had to a recording. Returns what to say of it.
///
/// # Errors
///
/// When the recording cannot be read or written; it stays as it is then.
pub(crate) fn run(options: &SymbolizeOptions) -> anyhow::Result<String> {
    // The recording, and the programs in it, are read with the user's own rights.
    privilege::as_user(|| add_names(options))
}

fn add_names(options: &SymbolizeOptions) -> anyhow::Result<String> {
    let shown = safe_text::terminal(&options.file.display().to_string()).into_owned();
    let (mut profile, integrity) =
        read_path(&options.file).map_err(|error| unreadable(&options.file, &error))?;
    if let Some(recorder) = lock::writer_of(&options.file) {
        let message = format!("cannot add names to `{shown}`: {recorder} is still recording it");
        return Err(Failure::new(status::FAILED, message)
            .hint("names are added while it is recorded; add what is missing after it ends")
            .into());
    }
    if integrity.unknown_chunks > 0 || integrity.unknown_fields > 0 {
        // They would be lost.
        return Err(Failure::new(
            status::FAILED,
            format!("cannot add names to `{shown}`: it was written by a newer prof"),
        )
        .hint("use that one")
        .into());
    }
    if integrity.is_damaged() {
        // What comes after the damage would be lost, and so would the fact that there is damage.
        let problem = integrity.problem.as_deref().unwrap_or("it is incomplete");
        return Err(Failure::new(status::FAILED, format!("cannot add names to `{shown}`: {problem}"))
            .hint("copy it again from where it was recorded; the file was not changed")
            .into());
    }
    let completed = complete_names(&mut profile);
    let mut kept = None;
    if completed.named > 0 {
        let bytes = encoded(&mut profile)?;
        kept = integrity.is_cut.then(|| keep_cut(&options.file)).transpose()?;
        replace_file(&options.file, &bytes)?;
    }
    let mut text = summary(&shown, &completed);
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

/// Gives a file that is cut a second name, under which it stays as it is.
fn keep_cut(path: &Path) -> anyhow::Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(".cut");
    let kept = PathBuf::from(name);
    std::fs::hard_link(path, &kept).map_err(|error| {
        let message = format!(
            "cannot keep `{}` as `{}`: {}",
            path.display(),
            kept.display(),
            failure::io_words(&error)
        );
        Failure::new(status::FAILED, message).hint("nothing was changed")
    })?;
    Ok(kept)
}

fn encoded(profile: &mut Profile) -> anyhow::Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), &profile.meta)?;
    writer.flush(profile, true)?;
    Ok(writer.into_inner())
}

fn summary(shown: &str, completed: &Completed) -> String {
    let Completed { named, unnamed, frames: all, missing } = completed;
    let frames = |count| units::counted(count, "frame");
    let mut text = match (named, unnamed) {
        (0, 0) if *all == 0 => format!("`{shown}` has no frames of programs: there is nothing to name\n"),
        (0, 0) => format!("`{shown}` has all its names\n"),
        (0, _) => format!("no names found for `{shown}`: {} without a name\n", frames(*unnamed)),
        (_, 0) => format!("named {} of `{shown}`\n", frames(*named)),
        _ => format!("named {} of `{shown}`; {} without a name\n", frames(*named), frames(*unnamed)),
    };
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

    #[test]
    fn a_file_that_is_not_there_is_said_with_what_to_do() {
        let error = run(&SymbolizeOptions { file: "/nowhere/prof.data".into() }).unwrap_err();
        let failure = error.downcast::<Failure>().unwrap();
        assert_eq!(failure.message, "cannot read `/nowhere/prof.data`: no such file");
        assert!(failure.hints[0].contains("prof record"), "{failure}");
    }

    #[test]
    fn what_is_said_has_all_counts() {
        let missing = (0..12).map(|n| (format!("/m{n}"), "gone".to_owned(), 2)).collect();
        let text = summary("x", &Completed { named: 1, unnamed: 24, frames: 30, missing });
        assert!(text.starts_with("named 1 frame of `x`; 24 frames without a name\n  /m0: gone (2 frames)\n"));
        assert!(text.ends_with("  /m9: gone (2 frames)\n  ... 2 more modules\n"), "{text}");
        let whole = Completed { frames: 3, ..Completed::default() };
        assert_eq!(summary("x", &whole), "`x` has all its names\n");
        let nothing = summary("x", &Completed::default());
        assert_eq!(nothing, "`x` has no frames of programs: there is nothing to name\n");
    }

    /// Seven eighths of a recording had been lost, and status 0 said that all was well.
    #[test]
    fn a_damaged_recording_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prof.data");
        let bytes = encoded(&mut Profile::default()).unwrap();
        let mut damaged = bytes.clone();
        *damaged.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        let error = run(&SymbolizeOptions { file: path.clone() }).unwrap_err();
        let failure = error.downcast::<Failure>().unwrap();
        assert!(failure.message.contains("a chunk is damaged"), "{failure}");
        assert_eq!(std::fs::read(&path).unwrap(), damaged);
    }

    #[test]
    fn a_recording_that_is_cut_is_kept_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prof.data");
        std::fs::write(&path, "cut").unwrap();
        let kept = keep_cut(&path).unwrap();
        replace_file(&path, b"named").unwrap();
        assert_eq!(std::fs::read(&kept).unwrap(), b"cut");
        assert!(keep_cut(&path).is_err(), "an older one is not replaced");
        assert_eq!(std::fs::read(&kept).unwrap(), b"cut");
    }
}
