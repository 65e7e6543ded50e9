//! A folder of windows, read as one recording, and parts of recordings by the clock.

use super::clock::ClockSpan;
use crate::base::failure::{Failure, io_words, status};
use crate::base::opener;
use crate::base::safe_text;
use crate::profile::{Integrity, Joined, MOST_JOINED, Opened, Profile, cut, lock, start_of};
use std::path::{Path, PathBuf};

/// Most windows that are looked at.
const MOST_WINDOWS: usize = 100_000;

/// A window, and when it began, ns since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FolderWindow {
    path: PathBuf,
    start_ns: u64,
}

/// Reads the windows in a folder, or those that have a part of `span`, as one recording.
///
/// # Errors
///
/// When there is none, when none of them can be read, or when they have more samples than fit.
pub(super) fn read(folder: &Path, span: Option<ClockSpan>) -> Result<(Profile, Integrity), Failure> {
    let (windows, mut unread) = windows_in(folder)?;
    let (Some(first), Some(last)) = (windows.first(), windows.last()) else {
        if !unread.is_empty() {
            return Err(nothing_in(folder, false, (0, 0)));
        }
        let message = format!("no recording is in the folder `{}`", folder.display());
        return Err(Failure::new(status::FAILED, message)
            .hint("windows are written by prof record --rotate 10m -o DIR/"));
    };
    let (first_ns, last_ns) = (first.start_ns, last.start_ns);
    // How long the last window is, its start does not say: as long as the one before, or as the longest by far.
    let length_ns =
        windows.windows(2).last().map_or(3_600_000_000_000, |two| two[1].start_ns - two[0].start_ns);
    let (from_ns, to_ns) = span.map_or((None, None), |span| span.resolve(last_ns.saturating_add(length_ns)));
    let mut joined = Joined::default();
    let (mut problems, mut taken) = (Vec::new(), 0u64);
    for (number, window) in windows.iter().enumerate() {
        let next_ns = windows.get(number + 1).map_or(u64::MAX, |next| next.start_ns);
        if to_ns.is_some_and(|to_ns| window.start_ns >= to_ns)
            || from_ns.is_some_and(|from_ns| next_ns <= from_ns)
        {
            continue;
        }
        match Opened::open(&window.path).and_then(Opened::read) {
            Ok((profile, integrity)) => {
                if let Some(problem) = integrity.problem.filter(|_| number + 1 < windows.len()) {
                    problems.push(format!("{}: {problem}", quoted(&window.path)));
                }
                if !joined.add(profile) {
                    return Err(too_many(folder));
                }
                taken += 1;
            }
            Err(_) => unread.push(window.path.clone()),
        }
    }
    let mut profile = joined.into_profile();
    restrict(&mut profile, from_ns, to_ns);
    // How long a window is, and whether it reaches into the span, is known when it has been read.
    if taken == 0 || span.is_some() && profile.duration_ns() == 0 {
        return Err(nothing_in(folder, span.is_some(), (first_ns, last_ns)));
    }
    problems.extend(unread_words(&unread));
    let integrity = Integrity {
        is_complete: problems.is_empty() && profile.end.is_some(),
        problem: (!problems.is_empty()).then(|| problems.join("; ")),
        ..Integrity::default()
    };
    Ok((profile, integrity))
}

/// Leaves the part of a recording between two moments, ns since the Unix epoch.
fn restrict(profile: &mut Profile, from_ns: Option<u64>, to_ns: Option<u64>) {
    let start_ns = profile.meta.start_unix_ns;
    if from_ns.is_some() || to_ns.is_some() {
        let since = |moment: u64| moment.saturating_sub(start_ns);
        cut(profile, from_ns.map_or(0, since), to_ns.map_or(u64::MAX, since));
    }
}

/// Leaves the part of a recording that `span` has.
pub(super) fn restrict_to(profile: &mut Profile, span: ClockSpan) {
    let (from_ns, to_ns) = span.resolve(profile.meta.start_unix_ns.saturating_add(profile.duration_ns()));
    restrict(profile, from_ns, to_ns);
}

/// Name of a file in the folder, which may be anyone's: safe to be shown.
fn quoted(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    format!("`{}`", safe_text::message(&name))
}

/// Says which files cannot be read.
fn unread_words(unread: &[PathBuf]) -> Option<String> {
    match unread {
        [] => None,
        [one] => Some(format!("{} cannot be read", quoted(one))),
        [first, ..] => {
            Some(format!("{} of its files cannot be read, {} is one", unread.len(), quoted(first)))
        }
    }
}

/// The recordings in a folder, in the order in which they began; and the files that have the name of one and are none.
fn windows_in(folder: &Path) -> Result<(Vec<FolderWindow>, Vec<PathBuf>), Failure> {
    let names = opener::names_in(folder).map_err(|error| {
        let why = io_words(&error);
        Failure::new(status::FAILED, format!("cannot read the folder `{}`: {why}", folder.display()))
    })?;
    let (mut windows, mut unread) = (Vec::new(), Vec::new());
    for path in names.into_iter().take(MOST_WINDOWS).map(|name| folder.join(name)) {
        match start_of(&path) {
            Some(start_ns) => windows.push(FolderWindow { path, start_ns }),
            // One that has just been made may have nothing yet.
            None if path.extension().is_some_and(|ending| ending == "data")
                && lock::writer_of(&path).is_none() =>
            {
                unread.push(path);
            }
            None => {}
        }
    }
    windows.sort_by(|a, b| (a.start_ns, &a.path).cmp(&(b.start_ns, &b.path)));
    Ok((windows, unread))
}

fn too_many(folder: &Path) -> Failure {
    let message = format!(
        "the windows in `{}` have more than {MOST_JOINED} samples: too many for one report",
        folder.display()
    );
    Failure::new(status::FAILED, message).hint("look at a part of them:  --time 14:00..14:10")
}

fn nothing_in(folder: &Path, has_span: bool, (first_ns, last_ns): (u64, u64)) -> Failure {
    let shown = folder.display();
    if !has_span {
        return Failure::new(status::FAILED, format!("no recording in the folder `{shown}` can be read"));
    }
    let time = |unix_ns: u64| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(unix_ns);
        humantime::format_rfc3339_seconds(time).to_string()
    };
    Failure::new(
        status::NO_MATCH,
        format!("no window in `{}` has a part of that time", safe_text::message(&shown.to_string())),
    )
    .hint(format!("the first began at {}, the last at {} (UTC)", time(first_ns), time(last_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{End, Writer};
    use crate::report::tests::fixture::Build;

    /// Writes a window that began so many seconds after a moment.
    fn write(path: &Path, second: u64) {
        let mut build = Build::new();
        build.meta().start_unix_ns = 1_780_000_000_000_000_000 + second * 1_000_000_000;
        let task = build.task(1, 1, "a", "a");
        build.add(task, 1, &["/bin/app:main"]);
        let mut profile = build.finish().into_recording().profile;
        profile.end = Some(End::default());
        let mut writer = Writer::new(Vec::new(), &profile.meta).expect("memory takes it");
        writer.flush(&mut profile, true).expect("memory takes it");
        std::fs::write(path, writer.into_inner()).expect("it can be written");
    }

    #[test]
    fn names_of_files_do_nothing_to_a_terminal() {
        let shown = quoted(Path::new("/windows/a\x1b[2J\n.data"));
        assert!(shown.starts_with("`a") && !shown.contains(['\x1b', '\n']), "{shown:?}");
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("other.txt"), "no recording").expect("it can be written");
        let failure = read(folder.path(), None).expect_err("there is none");
        assert!(failure.message.starts_with("no recording is in the folder"), "{}", failure.message);
        std::fs::write(at("3.data"), "no recording").expect("it can be written");
        let failure = read(folder.path(), None).expect_err("it is none");
        assert!(failure.message.ends_with("can be read"), "{}", failure.message);
        write(&at("1.data"), 0);
        write(&at("2.data"), 15);
        let (profile, integrity) = read(folder.path(), None).expect("two can be read");
        assert_eq!(profile.events[0].len(), 2);
        assert_eq!(integrity.problem.as_deref(), Some("`3.data` cannot be read"));
        std::fs::write(at("4.data"), "").expect("it can be written");
        let whole = std::fs::read(at("1.data")).expect("it is there");
        std::fs::write(at("1.data"), &whole[..whole.len() - 3]).expect("it can be written");
        let (_, integrity) = read(folder.path(), None).expect("it can be read as far as it goes");
        let problem = integrity.problem.expect("some cannot be read");
        assert!(problem.starts_with("`1.data`: "), "{problem}");
        assert!(problem.contains("; 2 of its files cannot be read, `"), "{problem}");
    }
}
