//! `prof symbolize`: adds names to a recording that lacks them.

use crate::base::failure::{Failure, status};
use crate::base::{privilege, safe_text, units};
use crate::profile::{Profile, Writer, lock, read_path};
use crate::record::{Completed, complete_names};
use crate::report::{replace_file, unreadable};
use std::fmt::Write as _;
use std::path::PathBuf;

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
            .hint("names come while it is recorded; what is missing at its end can be added then")
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
    let completed = complete_names(&mut profile);
    if completed.named > 0 {
        replace_file(&options.file, &encoded(&mut profile)?)?;
    }
    Ok(summary(&shown, &completed))
}

fn encoded(profile: &mut Profile) -> anyhow::Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), &profile.meta)?;
    writer.flush(profile, true)?;
    Ok(writer.into_inner())
}

fn summary(shown: &str, completed: &Completed) -> String {
    let Completed { named, unnamed, missing } = completed;
    let frames = |count| units::counted(count, "frame");
    let mut text = match (named, unnamed) {
        (0, 0) => format!("`{shown}` has all its names\n"),
        (0, _) => format!("no names for `{shown}`: {} without one\n", frames(*unnamed)),
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
        let text = summary("x", &Completed { named: 1, unnamed: 24, missing });
        assert!(text.starts_with("named 1 frame of `x`; 24 frames without a name\n  /m0: gone (2 frames)\n"));
        assert!(text.ends_with("  /m9: gone (2 frames)\n  ... 2 more modules\n"), "{text}");
        assert_eq!(summary("x", &Completed::default()), "`x` has all its names\n");
    }
}
