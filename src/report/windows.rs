//! A folder of windows, read as one recording, and parts of recordings by the clock.

use super::clock::{ClockMoments, ClockSpan, EndsBefore, local_words, span_words, zone_words};
use super::clock_part::{ClockPart, WindowFacts};
use crate::base::failure::{Failure, io_words, status};
use crate::base::units::counted;
use crate::base::{opener, safe_text};
use crate::profile::{Integrity, Joined, MOST_JOINED, Opened, Profile, ReadError, cut, lock, start_of};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Most windows that are looked at.
const MOST_WINDOWS: usize = 100_000;
/// Most windows of which it is said what is wrong with them.
const MOST_PROBLEMS: usize = 5;
/// A window of which the end is not known is not longer, ns.
const LONGEST_NS: u64 = 24 * 3_600_000_000_000;

/// A window, and when it began and, as far as is known, ended, ns since the Unix epoch: at the latest when the next one began.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FolderWindow {
    path: PathBuf,
    time: Range<u64>,
}

/// Reads the windows in a folder, or those that have a part of `span`, as one recording.
///
/// # Errors
///
/// When there is none, when none of them can be read, when they have more samples than fit, or when the span ends before it begins.
pub(super) fn read(
    folder: &Path,
    span: Option<ClockSpan>,
) -> Result<(Profile, Integrity, ClockPart), Failure> {
    let (mut windows, unread) = windows_in(folder)?;
    if windows.is_empty() && unread.is_empty() {
        let message = format!("no recording is in the folder `{}`", folder.display());
        return Err(Failure::new(status::FAILED, message)
            .hint("windows are written by prof record --rotate 10m -o DIR/"));
    }
    if windows.is_empty() {
        return Err(nothing_readable(folder, &unread));
    }
    let Some(span) = span else {
        let mut taken = TakenWindows { unread, ..TakenWindows::default() };
        taken.take(folder, &mut windows, ClockMoments::default())?;
        return match taken.windows.is_empty() {
            true => Err(nothing_readable(folder, &taken.unread)),
            false => Ok(taken.finish(folder)),
        };
    };
    // How long the last one is, no other says.
    if let Some(last) = windows.last_mut()
        && let Ok((profile, _)) = Opened::open(&last.path).and_then(Opened::read)
    {
        last.time.end = last.time.start.saturating_add(profile.duration_ns());
    }
    loop {
        let parts: Vec<_> = windows.iter().map(|window| window.time.clone()).collect();
        let moments = span.resolve(&parts).map_err(|EndsBefore| ends_before(span, folder, &parts))?;
        let mut taken = TakenWindows { unread: unread.clone(), ..TakenWindows::default() };
        taken.take(folder, &mut windows, moments)?;
        if moments.is_meant(&taken.parts) {
            return Ok(taken.finish(folder));
        }
        // How long a window is, and whether it reaches into the span, is known when it has been read: that may have been another day.
        if parts.iter().eq(windows.iter().map(|window| &window.time)) {
            return Err(nothing_at(folder, &parts, &taken.unread));
        }
    }
}

/// What was read of a folder.
#[derive(Debug, Default)]
struct TakenWindows {
    joined: Joined,
    windows: Vec<WindowFacts>,
    /// When these began and ended, ns since the Unix epoch.
    parts: Vec<Range<u64>>,
    integrity: Integrity,
    /// Files that have the name of a window and cannot be read.
    unread: Vec<PathBuf>,
}

impl TakenWindows {
    /// Reads what these moments have of windows, of which it is known after that how long they are.
    fn take(
        &mut self,
        folder: &Path,
        windows: &mut [FolderWindow],
        moments: ClockMoments,
    ) -> Result<(), Failure> {
        let is_part = moments != ClockMoments::default();
        for window in windows.iter_mut().filter(|window| moments.touches(&window.time)) {
            let Ok((mut profile, integrity)) = Opened::open(&window.path).and_then(Opened::read) else {
                self.unread.push(window.path.clone());
                window.time.end = window.time.start;
                continue;
            };
            let start_ns = window.time.start;
            let writer = if profile.end.is_none() { lock::writer_of(&window.path) } else { None };
            let facts = WindowFacts::of(&window.path, (start_ns, writer.as_deref()), &profile, &integrity);
            window.time.end = start_ns.saturating_add(profile.duration_ns());
            restrict(&mut profile, moments);
            let part =
                profile.meta.start_unix_ns..profile.meta.start_unix_ns.saturating_add(profile.duration_ns());
            if is_part && part.is_empty() {
                continue;
            }
            self.integrity.is_being_written |= writer.is_some();
            self.integrity.bytes_read += integrity.bytes_read;
            self.integrity.bytes_skipped += integrity.bytes_skipped;
            self.integrity.unknown_chunks += integrity.unknown_chunks;
            self.integrity.unknown_fields += integrity.unknown_fields;
            if !self.joined.add(profile) {
                return Err(too_many(folder));
            }
            self.windows.push(facts);
            self.parts.push(part);
        }
        Ok(())
    }

    fn finish(self, folder: &Path) -> (Profile, Integrity, ClockPart) {
        let known_cost = self.joined.known_cost();
        let profile = self.joined.into_profile();
        let part = ClockPart::of_folder(folder, &profile, self.windows, known_cost);
        let problems: Vec<String> =
            part.window_problems(MOST_PROBLEMS).chain(unread_words(&self.unread)).collect();
        let integrity = Integrity {
            is_complete: problems.is_empty() && profile.end.is_some(),
            problem: (!problems.is_empty()).then(|| problems.join("; ")),
            ..self.integrity
        };
        (profile, integrity, part)
    }
}

/// Leaves the part of a recording between two moments.
fn restrict(profile: &mut Profile, moments: ClockMoments) {
    let start_ns = profile.meta.start_unix_ns;
    if moments != ClockMoments::default() {
        let since = |moment: u64| moment.saturating_sub(start_ns);
        cut(profile, moments.from_ns.map_or(0, since), moments.to_ns.map_or(u64::MAX, since));
    }
}

/// Leaves the part of the recording at `path` that `span` has.
///
/// # Errors
///
/// When it has none, ends before it begins, or the recording does not say when it began.
pub(super) fn restrict_to(profile: &mut Profile, path: &Path, span: ClockSpan) -> Result<ClockPart, Failure> {
    let start_ns = profile.meta.start_unix_ns;
    if start_ns == 0 {
        let message = format!("it is not known at what time `{}` was recorded", path.display());
        return Err(
            Failure::new(status::NO_MATCH, message).hint("name the time since its start:  --time 2s..5s")
        );
    }
    let part = start_ns..start_ns.saturating_add(profile.duration_ns());
    let parts = std::slice::from_ref(&part);
    let moments = span.resolve(parts).map_err(|EndsBefore| ends_before(span, path, parts))?;
    if !moments.is_meant(parts) {
        let shown = safe_text::message(&path.display().to_string()).into_owned();
        return Err(Failure::new(status::NO_MATCH, format!("`{shown}` has no part of that time"))
            .hint(format!("it was recorded {}", span_words(part.start, part.end))));
    }
    restrict(profile, moments);
    Ok(ClockPart::of_file(path, profile))
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

/// Leaves the recordings among files of folders; and says which others there are, which have the name of one.
pub(crate) fn without_foreign(files: Vec<PathBuf>) -> (Vec<PathBuf>, Option<String>) {
    let (found, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| start_of(path).is_some());
    let unread: Vec<PathBuf> = others.into_iter().filter(|path| lock::writer_of(path).is_none()).collect();
    (found, unread_words(&unread))
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
            Some(start_ns) => {
                let time = start_ns..start_ns.saturating_add(LONGEST_NS);
                windows.push(FolderWindow { path, time });
            }
            // One that has just been made may have nothing yet.
            None if path.extension().is_some_and(|ending| ending == "data")
                && lock::writer_of(&path).is_none() =>
            {
                unread.push(path);
            }
            None => {}
        }
    }
    windows.sort_by(|a, b| (a.time.start, &a.path).cmp(&(b.time.start, &b.path)));
    let next: Vec<u64> = windows.iter().skip(1).map(|window| window.time.start).collect();
    for (window, next_ns) in windows.iter_mut().zip(next) {
        window.time.end = next_ns;
    }
    Ok((windows, unread))
}

fn too_many(folder: &Path) -> Failure {
    let message = format!(
        "the windows in `{}` have more than {MOST_JOINED} samples: too many for one report",
        folder.display()
    );
    Failure::new(status::FAILED, message).hint("look at a part of them:  --time 14:00..14:10")
}

fn nothing_readable(folder: &Path, unread: &[PathBuf]) -> Failure {
    let message = format!("no recording in the folder `{}` can be read", folder.display());
    let failure = Failure::new(status::FAILED, message);
    let why = |path: &PathBuf| Opened::open(path).and_then(Opened::read).err();
    let Some((path, error)) = unread.first().and_then(|path| Some((path, why(path)?))) else {
        return failure;
    };
    let words = match &error {
        ReadError::Io(error) => io_words(error),
        error => error.to_string(),
    };
    let failure = failure.hint(format!("{}: {words}", quoted(path)));
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn nothing_at(folder: &Path, parts: &[Range<u64>], unread: &[PathBuf]) -> Failure {
    let shown = safe_text::message(&folder.display().to_string()).into_owned();
    let failure = Failure::new(status::NO_MATCH, format!("no window in `{shown}` has a part of that time"))
        .hint(covered_words(parts));
    match unread_words(unread) {
        Some(words) => failure.hint(words),
        None => failure,
    }
}

/// When the recordings began, where the user is.
fn covered_words(parts: &[Range<u64>]) -> String {
    let [first, last] =
        [parts.first(), parts.last()].map(|part| local_words(part.map_or(0, |part| part.start)));
    let [zone, last_zone] = [&first[2], &last[2]].map(|offset| zone_words(offset));
    // In winter and in summer.
    let first_zone = if zone == last_zone { String::new() } else { format!(" ({zone})") };
    let windows = counted(parts.len() as u64, "window");
    let [first, last] = [first, last].map(|words| format!("{} {}", words[0], words[1]));
    match parts.len() {
        1 => format!("its only window began at {last} ({last_zone})"),
        _ => format!("of {windows} the first began at {first}{first_zone}, the last at {last} ({last_zone})"),
    }
}

fn ends_before(span: ClockSpan, path: &Path, parts: &[Range<u64>]) -> Failure {
    let shown = safe_text::message(&path.display().to_string()).into_owned();
    let failure = Failure::usage(format!("the end of the span {span} is not after its beginning"));
    let failure = match span.is_without_date() {
        true => failure.hint(format!(
            "past midnight it would go only if `{shown}` had recordings on both sides of that midnight"
        )),
        false => failure,
    };
    failure.hint(match parts {
        [only] if path.is_file() => {
            format!("`{shown}` was recorded {}", span_words(only.start, only.end))
        }
        _ => format!("`{shown}`: {}", covered_words(parts)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{End, Writer};
    use crate::report::print::info;
    use crate::report::tests::fixture::Build;
    use crate::report::{Analysis, Input, Page, ReportOptions, render};

    /// When the first window begins.
    const START_NS: u64 = 1_780_000_000_000_000_000;

    /// Writes a window that began so many seconds after a moment and, if it has an end, was ten seconds long, in which its recorder used a
    /// tenth of a CPU.
    fn write_as(path: &Path, second: u64, has_end: bool) {
        let mut build = Build::new();
        build.meta().start_unix_ns = START_NS + second * 1_000_000_000;
        build.meta().start_mono_ns = second * 1_000_000_000;
        let task = build.task(1, 1, "a", "a");
        build.add(task, 1, &["/bin/app:main"]);
        let mut profile = build.finish().into_recording().profile;
        profile.end = has_end.then(|| End {
            duration_ns: 10_000_000_000,
            cpu_ns: 1_000_000_000,
            recording_cpu_ns: Some(1_000_000_000),
            ..End::default()
        });
        let mut writer = Writer::new(Vec::new(), &profile.meta).expect("memory takes it");
        writer.flush(&mut profile, has_end).expect("memory takes it");
        std::fs::write(path, writer.into_inner()).expect("it can be written");
    }

    fn write(path: &Path, second: u64) {
        write_as(path, second, true);
    }

    /// A folder with a window for each of these seconds.
    fn folder_of(seconds: &[u64]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for second in seconds {
            write(&folder.path().join(format!("{second}.data")), *second);
        }
        folder
    }

    /// The span from so many seconds after the moment to so many after it.
    fn span(from: u64, to: u64) -> ClockSpan {
        let time = |second: u64| local_words(START_NS + second * 1_000_000_000)[1].clone();
        ClockSpan::read(&format!("{}..{}", time(from), time(to))).expect("a span").expect("times")
    }

    fn shares(read: &(Profile, Integrity, ClockPart)) -> f64 {
        let end = read.2.known_cost.as_ref().expect("the cost is known");
        end.while_recording().expect("it is known").cpu_percent
    }

    #[test]
    fn why_nothing_of_a_folder_can_be_read_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.data"), "hi").expect("it can be written");
        let failure = read(folder.path(), None).expect_err("it is no recording");
        assert!(failure.message.ends_with("can be read"), "{}", failure.message);
        assert!(failure.hints.iter().any(|hint| hint.starts_with("`a.data`: ")), "{:?}", failure.hints);
    }

    #[test]
    fn the_cost_of_a_part_is_in_proportion_and_that_of_known_windows() {
        let folder = folder_of(&[0, 10, 20, 30]);
        for (from, to) in [(0, 40), (8, 12), (15, 35), (22, 23)] {
            let read = read(folder.path(), Some(span(from, to))).expect("it is there");
            assert_eq!(read.0.duration_ns(), (to - from) * 1_000_000_000);
            assert!((shares(&read) - 10.0).abs() < 0.01, "{from}..{to}: {}", shares(&read));
        }
        // A recorder that was killed, and another one a while later.
        write_as(&folder.path().join("40.data"), 40, false);
        let killed = read(folder.path(), None).expect("it is there");
        assert!((shares(&killed) - 10.0).abs() < 0.01 && !killed.1.is_complete);
        assert_eq!((killed.2.windows_with_cost(), killed.2.window_count()), (Some(4), Some(5)));
        write(&folder.path().join("900.data"), 900);
        let later = read(folder.path(), None).expect("it is there");
        assert!((shares(&later) - 10.0).abs() < 0.01, "{}", shares(&later));
        let problem = later.1.problem.expect("one has no end");
        assert_eq!(
            problem,
            "`40.data`: the recording has no end: its recorder was killed, or the file was cut"
        );
    }

    #[test]
    fn a_span_is_searched_on_days_before_if_the_last_one_has_none() {
        const DAY: u64 = 86_400;
        let folder = folder_of(&[0, 10, DAY, 2 * DAY - 3600, 2 * DAY - 1800]);
        // The last window seems to last until the next one, as long as it has not been read.
        let (profile, _, part) = read(folder.path(), Some(span(12, 15))).expect("it is there");
        assert_eq!(profile.meta.start_unix_ns, START_NS + 12_000_000_000);
        assert_eq!(part.window_count(), Some(1));
        let until =
            ClockSpan::read(&format!("..{}", local_words(START_NS)[1])).expect("a span").expect("a time");
        let (profile, ..) = read(folder.path(), Some(until)).expect("it is there");
        // The last such time is half an hour after the last window.
        assert_eq!(profile.duration_ns(), (2 * DAY - 1790) * 1_000_000_000);
        let failure = read(folder.path(), Some(span(100, 200))).expect_err("there is none");
        assert_eq!(failure.status, status::NO_MATCH);
        assert!(failure.hints[0].starts_with("of 5 windows the first began at 2026-0"), "{failure:?}");
        assert!(failure.hints[0].contains("(UTC"), "{failure:?}");
    }

    #[test]
    fn a_span_that_ends_before_it_begins_is_refused() {
        let folder = folder_of(&[0, 10]);
        let failure = read(folder.path(), Some(span(12, 5))).expect_err("it is wrong");
        assert_eq!(failure.status, status::USAGE);
        assert!(failure.message.ends_with("is not after its beginning"), "{}", failure.message);
        assert!(
            failure.hints.iter().any(|hint| hint.contains("of 2 windows the first began at")),
            "{failure:?}"
        );
        let mut profile = read(folder.path(), None).expect("it is there").0;
        let failure = restrict_to(&mut profile, Path::new("x.data"), span(12, 5)).expect_err("it is wrong");
        assert!(failure.message.ends_with("is not after its beginning"), "{}", failure.message);
        let failure =
            restrict_to(&mut profile, Path::new("x.data"), span(25, 30)).expect_err("there is none");
        assert!(failure.hints[0].starts_with("it was recorded 2026-0"), "{failure:?}");
        let part = restrict_to(&mut profile, Path::new("x.data"), span(5, 12)).expect("it is there");
        assert!(part.words().starts_with("part of `x.data`, 2026-0"), "{}", part.words());
        assert_eq!(profile.duration_ns(), 7_000_000_000);
    }

    #[test]
    fn what_is_shown_by_the_clock_is_said_everywhere() {
        let folder = folder_of(&[0, 10]);
        let input = Input::File(folder.path().to_owned());
        let recording = Analysis::load_quietly(&input).expect("it is there");
        let times = span_words(START_NS, START_NS + 20_000_000_000);
        let said = format!("2 windows of `{}`, {times}", folder.path().display());
        let text = render(&recording, &ReportOptions::default(), &Page::PLAIN).expect("it has samples");
        assert!(text.lines().collect::<Vec<_>>().join(" ").contains(&said), "{text}");
        let facts = info::render_text(&recording);
        let has = |line: &str| facts.lines().any(|fact| fact.contains(line));
        assert!(has(&said) && has(" in 2 windows, each complete") && !has(" 0 B"), "{facts}");
        let json: serde_json::Value =
            serde_json::from_str(&info::render_json(&recording).expect("JSON")).expect("JSON");
        assert_eq!(
            (&json["clock_part"]["windows"], &json["windows"][1]["problem"]),
            (&2.into(), &serde_json::Value::Null)
        );
        assert_eq!(json["windows"][1]["start_unix_ns"], START_NS + 10_000_000_000);
        let part = input.within(Some(span(5, 12)));
        let recording = Analysis::load_quietly(&part).expect("it is there");
        let text = render(&recording, &ReportOptions::default(), &Page::PLAIN).expect("it has samples");
        let times = span_words(START_NS + 5_000_000_000, START_NS + 12_000_000_000);
        assert!(text.contains(&times), "{text}");
    }

    #[test]
    fn a_folder_has_the_size_of_its_windows() {
        let folder = folder_of(&[0, 10]);
        let bytes: u64 = ["0.data", "10.data"]
            .map(|name| std::fs::metadata(folder.path().join(name)).expect("it is there").len())
            .iter()
            .sum();
        let (_, integrity, part) = read(folder.path(), None).expect("it is there");
        assert_eq!((integrity.bytes_read, part.completeness_words()), (bytes, "each complete".to_owned()));
        assert!(part.words().starts_with("2 windows of `/"), "{}", part.words());
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
        let (profile, integrity, _) = read(folder.path(), None).expect("two can be read");
        assert_eq!(profile.events[0].len(), 2);
        assert_eq!(integrity.problem.as_deref(), Some("`3.data` cannot be read"));
        std::fs::write(at("4.data"), "").expect("it can be written");
        let whole = std::fs::read(at("1.data")).expect("it is there");
        std::fs::write(at("1.data"), &whole[..whole.len() - 3]).expect("it can be written");
        let (_, integrity, _) = read(folder.path(), None).expect("it can be read as far as it goes");
        let problem = integrity.problem.expect("some cannot be read");
        assert!(problem.starts_with("`1.data`: "), "{problem}");
        assert!(problem.contains("; 2 of its files cannot be read, `"), "{problem}");
    }
}
