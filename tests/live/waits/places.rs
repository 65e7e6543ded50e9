//! Where recordings end up when others want the same name, or take the file away: nothing is lost, and what is said is so.

use crate::harness::machine::turn;
use crate::harness::profiler::{binary, messages, prof, text};
use crate::harness::running::{Running, UNTIL_ENDED, children, wait_for};
use crate::targets::refusals::assert_refused;
use rustix::process::{Pid, Signal};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A recorder of `pid` in `folder`, without `timeout` between: its number is its own.
fn recorder(folder: &Path, pid: u32, arguments: &[&str]) -> Child {
    Command::new(binary())
        .args(["record", "-p", &pid.to_string()])
        .args(arguments)
        .current_dir(folder)
        .stderr(Stdio::piped())
        .spawn()
        .expect("prof can be run")
}

/// The files in a folder, by name.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("own folder").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn wait_for_file(path: &Path) {
    wait_for("the file", || path.exists().then_some(()));
}

/// What a finished recorder said; the file has samples.
fn assert_holds_samples(folder: &Path, name: &str) {
    let report = prof().args(["report", name]).current_dir(folder).output().expect("`timeout` can be run");
    assert!(
        report.status.success() && text(&report).contains("share_fifty"),
        "{name}: {}",
        messages(&report)
    );
}

/// Ends a recorder as Ctrl-C does.
fn interrupt(recorder: Child) -> Output {
    let pid = rustix::process::Pid::from_child(&recorder);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("own child");
    recorder.wait_with_output().expect("own child")
}

#[test]
fn of_two_recorders_with_one_name_one_gets_it_and_the_other_says_where_its_recording_is() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    // Both have looked before either has begun.
    let both =
        [0, 1].map(|_| recorder(folder.path(), shares.pid(), &["-o", "x.data", "-D", "2s", "-d", "1s"]));
    let numbers = both.each_ref().map(Child::id);
    let outputs = both.map(|recorder| recorder.wait_with_output().expect("own child"));
    let mut statuses = outputs.each_ref().map(|output| output.status.code());
    let loser = usize::from(statuses[1] != Some(0));
    let (winners, losers) = (messages(&outputs[1 - loser]), messages(&outputs[loser]));
    statuses.sort();
    assert_eq!(statuses, [Some(0), Some(1)], "{winners}\n{losers}");
    let other = format!("x.data.{}", numbers[loser]);
    assert!(winners.contains("saved x.data ") && !winners.contains("in the meantime"), "{winners}");
    let why = format!("`x.data` was created in the meantime by prof (pid {})", numbers[1 - loser]);
    assert!(losers.contains(&why) && losers.contains(&format!("saved {other} ")), "{losers}");
    assert_eq!(files(folder.path()), ["x.data".to_owned(), other.clone()]);
    for name in ["x.data", &other] {
        assert_holds_samples(folder.path(), name);
    }
}

#[test]
fn a_file_that_appears_before_the_recording_begins_stays() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let recorder = recorder(folder.path(), shares.pid(), &["-o", "z.data", "-D", "2s", "-d", "1s"]);
    let pid = recorder.id();
    wait_for_file(&folder.path().join(format!("z.data.{pid}.tmp")));
    fs::write(folder.path().join("z.data"), "my thesis").expect("own folder");
    let output = recorder.wait_with_output().expect("own child");
    let said = messages(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("`z.data` was created in the meantime") && !said.contains("saved z.data "),
        "{said}"
    );
    assert_eq!(fs::read_to_string(folder.path().join("z.data")).expect("it stays"), "my thesis");
    assert_holds_samples(folder.path(), &format!("z.data.{pid}"));
}

#[test]
fn a_file_that_is_being_recorded_is_refused_by_name_and_number() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    for (name, arguments) in [("cc.data", &["-f", "-o", "cc.data"][..]), ("prof.data", &[])] {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let first = recorder(folder.path(), shares.pid(), arguments);
        let file = folder.path().join(name);
        wait_for_file(&file);
        let begun = fs::metadata(&file).expect("it is there").len();
        wait_for("a first part", || (fs::metadata(&file).ok()?.len() > begun).then_some(()));
        let second = prof()
            .args(["record", "-d", "1s", "-p", &shares.pid().to_string()])
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("`timeout` can be run");
        assert_refused(
            &second,
            1,
            &format!("cannot write `{name}`: it is being written by prof (pid {})", first.id()),
        );
        let warned =
            prof().args(["info", name]).current_dir(folder.path()).output().expect("`timeout` can be run");
        let still = format!("prof (pid {}) is still recording it", first.id());
        assert!(messages(&warned).contains(&still), "{}", messages(&warned));
        let output = interrupt(first);
        assert!(output.status.success(), "{}", messages(&output));
        assert_eq!(files(folder.path()), [name]);
        assert_holds_samples(folder.path(), name);
    }
}

#[test]
fn a_file_that_is_removed_while_it_is_recorded_is_saved_again_under_a_name_that_is_said() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let recorder = recorder(folder.path(), shares.pid(), &["-o", "y.data"]);
    let (pid, file) = (recorder.id(), folder.path().join("y.data"));
    wait_for_file(&file);
    let begun = fs::metadata(&file).expect("it is there").len();
    wait_for("a first part", || (fs::metadata(&file).ok()?.len() > begun).then_some(()));
    fs::remove_file(&file).expect("own folder");
    let output = interrupt(recorder);
    let said = messages(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("`y.data` was removed while it was recorded"), "{said}");
    let again = format!("y.data.{pid}");
    assert!(!said.contains("saved y.data ") && said.contains(&format!("saved {again} ")), "{said}");
    assert_eq!(files(folder.path()), [again.as_str()]);
    assert_holds_samples(folder.path(), &again);
}

/// Kills a recorder after it has put the file before it aside and before that goes its way; `None` where it was quicker.
fn kill_at_the_start(folder: &Path, pid: u32, puts_back: bool) -> Option<PathBuf> {
    let mut recorder = recorder(folder, pid, &[]);
    let aside = folder.join(format!("prof.data.{}.old", recorder.id()));
    let is_aside = wait_for("its start", || {
        if aside.exists() { Some(true) } else { folder.join("prof.data.old").exists().then_some(false) }
    });
    // The process that opens its files would put the file back.
    for opener in children(recorder.id()).into_iter().filter(|_| !puts_back) {
        let _ = rustix::process::kill_process(Pid::from_raw(opener as i32).expect("a process"), Signal::KILL);
    }
    recorder.kill().expect("own child");
    recorder.wait().expect("own child");
    (is_aside && (puts_back || aside.exists())).then_some(aside)
}

#[test]
fn what_was_there_is_put_back_when_a_recorder_is_killed_at_its_start() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("prof.data");
    fs::write(&file, "of before").expect("own folder");
    // On a crowded machine this test may come too late for the second between the two.
    let killed = (0..10).find_map(|_| {
        fs::write(&file, "of before").expect("own folder");
        let _ = fs::remove_file(folder.path().join("prof.data.old"));
        kill_at_the_start(folder.path(), shares.pid(), true)
    });
    let aside = killed.expect("a recorder is killed in time once in ten times");
    wait_for("the file of before", || {
        (fs::read(&file).ok()? == b"of before" && !aside.exists()).then_some(())
    });
    assert_eq!(files(folder.path()), ["prof.data"]);
}

#[test]
fn what_a_killed_start_leaves_is_named_and_restored() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let record = || {
        let mut command = prof();
        command.args(["record", "-d", "1s", "-p", &shares.pid().to_string()]).current_dir(folder.path());
        let output = command.output().expect("`timeout` can be run");
        assert!(output.status.success(), "{}", messages(&output));
        messages(&output)
    };
    // On a crowded machine this test may come too late for the second between the two.
    let killed = (0..10).find_map(|_| {
        let _ = fs::remove_file(folder.path().join("prof.data.old"));
        record();
        let _ = fs::remove_file(folder.path().join("prof.data.old"));
        kill_at_the_start(folder.path(), shares.pid(), false)
    });
    let aside = killed.expect("a recorder is killed in time once in ten times");
    let name = aside.file_name().expect("it has one").to_string_lossy().into_owned();
    let report = prof().arg("report").current_dir(folder.path()).output().expect("`timeout` can be run");
    assert_eq!(report.status.code(), Some(3), "{}", messages(&report));
    assert!(
        messages(&report).contains(&format!("the previous recording is `{name}`")),
        "{}",
        messages(&report)
    );
    assert_holds_samples(folder.path(), &name);
    let said = record();
    assert!(said.contains(&format!("restored `prof.data` from `{name}`")), "{said}");
    assert_eq!(files(folder.path()), ["prof.data", "prof.data.old"]);
    for name in ["prof.data", "prof.data.old"] {
        assert_holds_samples(folder.path(), name);
    }
}
