//! Recordings in windows: files that are complete each, and together what one recording would have been.

use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::{binary, messages, prof, text};
use crate::harness::running::{Running, wait_for};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The document that a command prints.
fn document(arguments: &[&str], path: &Path) -> Value {
    let out = prof().args(arguments).arg(path).output().expect("prof runs");
    assert!(out.status.success(), "{arguments:?} {}: {}", path.display(), messages(&out));
    serde_json::from_slice(&out.stdout).expect("it is a document")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// The windows in a folder, oldest first.
fn windows(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("it is there").flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort_by_key(|file| number(&document(&["info", "--json"], file)["start_unix_ns"]));
    files
}

/// Time that threads were there, and of which it is not known what they did, ns.
fn times(path: &Path) -> (u64, u64) {
    let threads = document(&["report", "--json", "--threads=each", "--idle"], path);
    let rows = threads["thread_rows"].as_array().expect("rows of threads");
    let lived = rows.iter().map(|row| number(&row["times"]["lifetime_ns"])).sum();
    let unknown = rows
        .iter()
        .map(|row| row["times"]["unaccounted_ns"].as_i64().expect("a number").unsigned_abs())
        .sum();
    (lived, unknown)
}

#[test]
fn windows_are_complete_and_add_up() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("locks") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let place = folder.path().join("windows");
    let out = prof()
        .args(["record", "-e", "cpu,off", "--rotate", "1s", "-o"])
        .arg(&place)
        .arg(program)
        .arg("5")
        .output()
        .expect("prof runs");
    assert!(out.status.success(), "{}", messages(&out));
    let files = windows(&place);
    assert!(files.len() >= 3, "{} windows: {}", files.len(), messages(&out));

    let infos: Vec<Value> = files.iter().map(|file| document(&["info", "--json"], file)).collect();
    for (two, file) in infos.windows(2).zip(&files) {
        // One ends where the next begins, whatever the clock was set to, but for what is rounded.
        let end_ns = number(&two[0]["start_unix_ns"]) + number(&two[0]["duration_ns"]);
        let gap_ns = end_ns.abs_diff(number(&two[1]["start_unix_ns"]));
        assert!(gap_ns < 50_000_000, "{gap_ns} ns after {}", file.display());
        assert_eq!(two[0]["end_reason"], "window over");
    }
    let lengths: u64 = infos.iter().map(|info| number(&info["duration_ns"])).sum();
    assert!(lengths >= 4_900_000_000, "{lengths} ns");

    let (mut samples, mut total, mut lived) = (0, 0, 0);
    let mut unnamed = Vec::new();
    for file in &files {
        let report = document(&["report", "--json"], file);
        samples += number(&report["samples"]);
        total += number(&report["total"]);
        unnamed.push(report["quality"]["unsymbolized_pct"].as_f64().expect("a number"));
        // Waits that are longer than a window are in each with their part, and so are threads.
        let (time, unknown) = times(file);
        assert!(unknown <= time / 50, "{unknown} ns of {time} in {}", file.display());
        lived += time;
    }
    // Names come again in a later window. Where a machine is so busy that they are late, a window of a second may lack some, and says
    // so: not all of them do.
    assert!(unnamed[1..].iter().any(|unnamed| *unnamed < 1.0), "{unnamed:?} % without a name");
    let all = document(&["report", "--json"], &place);
    assert_eq!((number(&all["samples"]), number(&all["total"])), (samples, total), "read as one");
    let (whole, unknown) = times(&place);
    // A thread that is looked at twice was there in between, too.
    assert!(whole >= lived && whole - lived < lived / 100, "{whole} ns, and {lived} in its windows");
    assert!(unknown <= whole / 50, "{unknown} ns of {whole}");
    // Ten threads and the first one, from the start to the end.
    assert!(whole >= 9 * lengths, "{whole} ns of threads in {lengths} ns");
    let locks = document(&["report", "--json", "--locks"], &place);
    let rows = locks["rows"].as_array().expect("a table");
    assert!(rows.iter().any(|row| row["function"] == "slow_lock"), "{locks:#}");

    parts_by_the_clock(&place, &files, &infos);
    many_in_a_folder(folder.path(), &files[0]);
}

#[test]
fn a_folder_that_is_moved_is_made_again_and_that_is_said() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("locks") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let [place, moved] = ["windows", "moved"].map(|name| folder.path().join(name));
    let mut recorder = prof();
    recorder.args(["record", "-e", "cpu", "--rotate", "1s", "-o"]).arg(&place).arg(program).arg("5");
    let recorder = recorder.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("prof runs");
    wait_for("a first window", || {
        let mut names = std::fs::read_dir(&place).ok()?.flatten().map(|entry| entry.path());
        names.find(|path| path.extension().is_some_and(|ending| ending == "data"))
    });
    std::fs::rename(&place, &moved).expect("it can be moved");
    let out = recorder.wait_with_output().expect("it ends");
    assert!(out.status.success(), "{}", messages(&out));
    let said = messages(&out);
    assert!(said.contains("was moved while it was recorded: this window is in"), "{said}");
    for place in [&moved, &place] {
        let files = windows(place);
        assert!(!files.is_empty(), "nothing in {}: {said}", place.display());
        let samples = number(&document(&["report", "--json"], place)["samples"]);
        assert!(samples > 0, "{samples} samples in {}: {said}", place.display());
    }
}

/// More recordings than a message has room for the names of.
fn many_in_a_folder(place: &Path, file: &Path) {
    const MANY: u64 = 1_500;
    let folder = place.join("many");
    std::fs::create_dir(&folder).expect("it can be made");
    for number in 0..MANY {
        let name = folder.join(format!("prof-20261129-{number:06}.data"));
        std::fs::hard_link(file, name).expect("it can have another name");
    }
    let (one, all) = (document(&["report", "--json"], file), document(&["report", "--json"], &folder));
    assert_eq!(number(&all["samples"]), MANY * number(&one["samples"]));
    assert_eq!(number(&all["total"]), MANY * number(&one["total"]));
}

/// Parts of a folder by the clock: of one window in the middle, against that window.
fn parts_by_the_clock(place: &Path, files: &[PathBuf], infos: &[Value]) {
    let start_ns = number(&infos[0]["start_unix_ns"]);
    let end = infos.last().expect("there are some");
    let end_ns = number(&end["start_unix_ns"]) + number(&end["duration_ns"]);
    let time = |unix_ns: u64| {
        let out = Command::new("date")
            .arg("-d")
            .arg(format!("@{}", unix_ns / 1_000_000_000))
            .arg("+%FT%T")
            .output();
        text(&out.expect("date runs")).trim().to_owned()
    };
    // Whole seconds in the middle: what they have is in the windows around them.
    let span = format!("{}..{}", time(start_ns + 1_000_000_000), time(end_ns));
    let part = document(&["report", "--json", "--time", &span], place);
    let whole = document(&["report", "--json"], place);
    let (part_ns, whole_ns) = (number(&part["total"]), number(&whole["total"]));
    assert!(part_ns > 0 && part_ns < whole_ns, "{part_ns} ns of {whole_ns} in {span}");
    let named = PathBuf::from(format!("{}@{span}", place.display()));
    assert_eq!(document(&["report", "--json"], &named)["total"], part["total"]);
    // Two spans against each other.
    let out = prof().args(["diff", "--json"]).arg(&named).arg(&files[0]).output().expect("prof runs");
    assert!(out.status.success(), "{}", messages(&out));
    let none = prof().args(["report", "--time", "2001-01-01T00:00..2001-01-01T01:00"]).arg(place).output();
    let none = none.expect("prof runs");
    assert_eq!(none.status.code(), Some(3), "{}", messages(&none));
    assert!(messages(&none).contains("the first began at 2"), "{}", messages(&none));
}

#[test]
fn the_oldest_windows_go_and_others_files_stay() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("notes.data"), "mine").expect("it can be written");
    let out = prof()
        .args([
            "record", "-a", "-e", "cpu", "-F", "19", "--rotate", "1s", "--keep", "2s", "-d", "7s", "-q", "-o",
        ])
        .arg(folder.path())
        .output()
        .expect("prof runs");
    assert!(out.status.success(), "{}", messages(&out));
    let files = std::fs::read_dir(folder.path()).expect("it is there").count();
    // Those of two seconds, the one that was written last, and the note.
    assert!((3..=6).contains(&files), "{files} files");
    assert_eq!(std::fs::read_to_string(folder.path().join("notes.data")).expect("it is there"), "mine");
    for refused in [
        &["--rotate", "1s"][..],
        &["--rotate", "1s", "-o", "-"],
        &["--rotate", "1s", "-e", "heap", "-o", "x/"],
        &["--keep", "1h", "-o", "x/"],
    ] {
        let out = prof().args(["record", "-a", "-d", "1s"]).args(refused).output().expect("prof runs");
        assert_eq!(out.status.code(), Some(2), "{refused:?} {}", messages(&out));
    }
}

/// A recording in windows cannot go on without the processes that make its files and read those of others: it ends, with its
/// windows, and says why.
#[test]
fn windows_end_with_the_processes_that_they_need() {
    let Some(_turn) = turn() else { return };
    for needed in ["prof-opener", "prof-workers"] {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let (place, log) = (folder.path().join("windows"), folder.path().join("log"));
        let mut command = Command::new("sh");
        command.env("PROF_NO_CACHE", "1");
        command.args(["-c", "exec \"$0\" record -a --rotate 1s -o \"$1\" 2>\"$2\""]);
        let recorder = Running::start(command.arg(binary()).arg(&place).arg(&log));
        let is_window = |path: &Path| path.extension().is_some_and(|ending| ending == "data");
        let windows = || {
            let entries = std::fs::read_dir(&place).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| is_window(path)).collect::<Vec<_>>()
        };
        wait_for("two windows", || (windows().len() >= 2).then_some(()));
        let pid = recorder.descendant(needed).to_string();
        assert!(Command::new("kill").args(["-KILL", &pid]).status().expect("kill runs").success());
        let ended = wait_for("its end", || recorder.end());
        let said = std::fs::read_to_string(&log).expect("text");
        assert_eq!(ended.exit_status(), Some(1), "{needed}: {said}");
        assert!(said.contains("there are no more windows"), "{needed}: {said}");
        for file in windows() {
            let info = document(&["info", "--json"], &file);
            assert_eq!(info["file"]["is_complete"], Value::Bool(true), "{}: {said}", file.display());
        }
    }
}
