//! Which file is where after a recording, however it went.

use super::*;
use crate::profile::lock::with_ending;
use crate::profile::{Meta, Profile, TaskId, ThreadTime, Writer};
use std::os::unix::fs::MetadataExt;

fn to(path: &Path, force: bool) -> Output {
    Output::File { path: path.to_path_buf(), force }
}

fn check(output: &Output) -> Result<Destination, Failure> {
    Destination::check(output, Path::to_path_buf)
}

/// The bytes of a profile, with the time of a thread or without anything.
fn profile(has_samples: bool) -> Vec<u8> {
    let mut profile = Profile::new(Meta { recorder_pid: 77, ..Meta::default() });
    if has_samples {
        let task = profile.tables.intern_task(crate::profile::Task::default());
        assert_eq!(task, TaskId(0));
        profile.thread_times.push(ThreadTime { task, to_ns: 1, on_cpu_ns: 1, ..ThreadTime::default() });
    }
    let mut writer = Writer::new(Vec::new(), &profile.meta).expect("writes");
    writer.flush(&mut profile, true).expect("writes");
    writer.into_inner()
}

#[test]
fn a_folder_an_existing_file_and_a_missing_folder_are_refused() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("x");
    let message = |output: &Output| check(output).map(|_| ()).unwrap_err().message;
    assert!(message(&to(folder.path(), true)).contains("it is a folder"));
    assert!(message(&to(&file.join("y"), false)).contains("there is no folder"));
    fs::write(&file, "old").expect("writes");
    assert!(message(&to(&file, false)).contains("it exists already"));
    assert!(check(&to(&file, true)).is_ok());
    assert_eq!(fs::read(&file).expect("reads"), b"old", "checking changes nothing");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/etc/passwd", &link).expect("links");
    assert!(message(&to(&link, true)).contains("not a regular file"));
}

#[test]
fn a_new_file_is_private_and_a_failed_one_is_gone() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("x");
    let destination = check(&to(&path, false)).expect("fine");
    drop(destination.create().expect("creates"));
    assert_eq!(contents(folder.path()), []);
    let (_file, unplaced) = destination.create().expect("creates");
    assert!(!path.exists(), "not before the recording has begun");
    let placed = unplaced.place().expect("renames");
    assert_eq!(path.metadata().expect("exists").mode() & 0o777, 0o600);
    placed.undo();
    assert_eq!(contents(folder.path()), []);
}

/// The names and contents of the files in a folder, in order.
fn contents(folder: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder).expect("lists").flatten();
    let mut files: Vec<(String, String)> = entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let bytes = fs::read(entry.path()).expect("reads");
            (name, String::from_utf8_lossy(&bytes).into_owned())
        })
        .collect();
    files.sort();
    files
}

fn named(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// The names alone.
fn names(folder: &Path) -> Vec<String> {
    contents(folder).into_iter().map(|(name, _)| name).collect()
}

/// Contents of the folder after a recording to `x` that was begun and then `end`ed.
fn after(keeps_old: bool, end: impl FnOnce(&mut Placed)) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("x");
    fs::write(&path, "old").expect("writes");
    fs::write(with_ending(&path, "old"), "older").expect("writes");
    let (mut file, unplaced) = Destination::new(path, true, keeps_old).create().expect("creates");
    file.write_all(b"new").expect("writes");
    end(&mut unplaced.place().expect("renames"));
    contents(folder.path())
}

#[test]
fn a_recording_that_fails_after_it_has_begun_leaves_the_one_before_it() {
    for keeps_old in [false, true] {
        assert_eq!(after(keeps_old, |placed| placed.undo()), named(&[("x", "old"), ("x.old", "older")]));
    }
}

#[test]
fn a_recording_that_holds_samples_takes_the_place_of_the_one_before_it() {
    let settle = |placed: &mut Placed| {
        placed.settle();
        placed.settle();
    };
    assert_eq!(after(false, settle), named(&[("x", "new"), ("x.old", "older")]));
    assert_eq!(after(true, settle), named(&[("x", "new"), ("x.old", "old")]));
    let undone = |placed: &mut Placed| {
        placed.settle();
        placed.undo();
    };
    assert_eq!(after(false, undone), named(&[("x.old", "older")]), "there is none to put back");
}

#[test]
fn a_file_that_cannot_get_its_name_leaves_it_to_the_one_before() {
    for keeps_old in [false, true] {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("x");
        fs::write(&path, "old").expect("writes");
        let (_file, unplaced) = Destination::new(path.clone(), true, keeps_old).create().expect("creates");
        let temporary = unplaced.new.as_ref().expect("a file").temporary.clone();
        fs::remove_file(temporary).expect("it is there");
        unplaced.place().expect_err("there is nothing to rename");
        assert_eq!(contents(folder.path()), named(&[("x", "old")]));
    }
}

#[test]
fn a_file_that_appears_in_the_meantime_stays_and_the_recording_gets_another_name() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("x");
    let (mut file, unplaced) = check(&to(&path, false)).expect("fine").create().expect("creates");
    file.write_all(b"new").expect("writes");
    fs::write(&path, "my thesis").expect("writes");
    let mut placed = unplaced.place().expect("finds a name");
    placed.settle();
    let other = format!("x.{}", std::process::id());
    assert_eq!(contents(folder.path()), named(&[("x", "my thesis"), (&other, "new")]));
    assert_eq!(placed.path, Some(folder.path().join(other)));
    let why = placed.misplaced.expect("it is not where it was meant to be");
    assert!(why.ends_with("x` was created in the meantime"), "{why}");
}

/// A recorder that writes to `path`: the file and where it is.
fn recorder(path: &Path) -> (ProfileFile, Placed) {
    let (mut file, unplaced) = check(&to(path, true)).expect("fine").create().expect("creates");
    file.write_all(&profile(true)).expect("writes");
    let mut placed = unplaced.place().expect("renames");
    placed.settle();
    (file, placed)
}

#[test]
fn of_two_recorders_that_begin_together_one_gets_the_name_and_the_other_another() {
    for force in [false, true] {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("x");
        let [first, second] = [0, 1].map(|_| {
            let (mut file, unplaced) = check(&to(&path, force)).expect("fine").create().expect("creates");
            file.write_all(&profile(true)).expect("writes");
            (file, unplaced)
        });
        let first_placed = first.1.place().expect("renames");
        let second_placed = second.1.place().expect("renames");
        assert_eq!(
            (first_placed.path.as_deref(), first_placed.misplaced.as_deref()),
            (Some(path.as_path()), None)
        );
        assert_ne!(second_placed.path, first_placed.path);
        let why = second_placed.misplaced.as_deref().expect("it is not where it was meant to be");
        assert!(why.contains("by prof (pid 77)"), "{why}");
        assert_eq!(names(folder.path()), ["x".to_owned(), format!("x.{}", std::process::id())]);
    }
}

#[test]
fn a_file_that_is_being_written_is_not_replaced() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("x");
    let recorder = recorder(&path);
    for force in [true, false] {
        let refused = check(&to(&path, force)).expect_err("it is being written");
        assert!(refused.message.ends_with("x`: it is being written by prof (pid 77)"), "{}", refused.message);
    }
    drop(recorder);
    assert!(check(&to(&path, true)).is_ok(), "its recorder has ended");
}

#[test]
fn a_recording_whose_file_is_removed_is_saved_again() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("x");
    let (_file, mut placed) = recorder(&path);
    placed.confirm().expect("it is there");
    assert_eq!((placed.path.as_deref(), &placed.misplaced), (Some(path.as_path()), &None));
    fs::remove_file(&path).expect("it is there");
    placed.confirm().expect("it can be saved again");
    let again = placed.path.clone().expect("it is a file");
    assert_eq!(names(folder.path()), [format!("x.{}", std::process::id())]);
    assert_eq!(fs::read(&again).expect("reads"), profile(true));
    assert_eq!(again.metadata().expect("exists").mode() & 0o777, 0o600);
    let why = placed.misplaced.expect("it is not where it was meant to be");
    assert!(why.ends_with("x` was removed while it was recorded"), "{why}");
}

#[test]
fn a_recording_whose_file_is_overwritten_is_lost_and_that_is_said() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("x");
    let (_file, mut placed) = recorder(&path);
    // As `cp` does: the file is the same, and what was in it is not.
    fs::write(&path, "my thesis").expect("writes");
    let failure = placed.confirm().expect_err("it is lost");
    assert!(failure.message.contains("was overwritten by another program"), "{failure}");
    assert_eq!(fs::read_to_string(&path).expect("reads"), "my thesis");
}

#[test]
fn a_recording_whose_file_is_moved_or_replaced_is_found() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = |name: &str| folder.path().join(name);
    let (_file, mut placed) = recorder(&path("x"));
    fs::rename(path("x"), path("y")).expect("renames");
    placed.confirm().expect("it is there");
    assert_eq!(placed.path, Some(path("y")));
    assert!(
        placed.misplaced.as_deref().is_some_and(|why| why.ends_with("x` was moved while it was recorded"))
    );

    let (_file, mut placed) = recorder(&path("z"));
    fs::write(path("thesis"), "my thesis").expect("writes");
    fs::rename(path("thesis"), path("z")).expect("renames");
    placed.confirm().expect("it can be saved again");
    assert_eq!(fs::read_to_string(path("z")).expect("reads"), "my thesis");
    assert_eq!(fs::read(placed.path.expect("a file")).expect("reads"), profile(true));
    assert!(
        placed.misplaced.as_deref().is_some_and(|why| why.ends_with("z` was replaced while it was recorded"))
    );
}

#[test]
fn a_recording_whose_folder_is_removed_goes_where_temporary_files_are() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).expect("creates");
    let (_file, mut placed) = recorder(&inner.join("prof-test-folder-gone"));
    fs::remove_dir_all(&inner).expect("it is ours");
    placed.confirm().expect("it can be saved again");
    let again = placed.path.expect("a file");
    assert_eq!(again.parent(), Some(std::env::temp_dir().as_path()));
    assert_eq!(fs::read(&again).expect("reads"), profile(true));
    fs::remove_file(again).expect("it is ours");
}

#[test]
fn undoing_does_not_touch_what_has_come_in_its_place() {
    for had_one in [false, true] {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("x");
        if had_one {
            fs::write(&path, "old").expect("writes");
        }
        let (_file, unplaced) = Destination::new(path.clone(), true, false).create().expect("creates");
        let placed = unplaced.place().expect("renames");
        fs::remove_file(&path).expect("it is there");
        fs::write(&path, "my thesis").expect("writes");
        placed.undo();
        assert_eq!(fs::read_to_string(&path).expect("reads"), "my thesis");
        assert_eq!(names(folder.path()).len(), 1 + usize::from(had_one), "the one before is kept");
    }
}

/// A folder as a recorder that was killed leaves it, and what the next one makes of it.
struct Killed(tempfile::TempDir);

impl Killed {
    /// `x` and its siblings.
    fn with(files: &[(&str, Vec<u8>)]) -> Killed {
        let folder = tempfile::tempdir().expect("temporary folder");
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).expect("writes");
        }
        Killed(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("x")
    }

    /// Messages of the clean-up, and the files that are there then.
    fn cleaned_up(&self, keeps_old: bool) -> (Vec<String>, Vec<String>) {
        (leftovers::clean_up(&self.path(), keeps_old), names(self.0.path()))
    }
}

#[test]
fn what_a_killed_start_put_aside_is_restored() {
    for keeps_old in [false, true] {
        let killed =
            Killed::with(&[("x", profile(false)), ("x.7.old", profile(true)), ("x.7.tmp", profile(false))]);
        let before = crate::profile::lock::put_aside(&killed.path());
        assert_eq!(before, Some(killed.0.path().join("x.7.old")), "reports name it");
        let (said, left) = killed.cleaned_up(keeps_old);
        assert_eq!(left, ["x"]);
        assert_eq!(fs::read(killed.path()).expect("reads"), profile(true));
        assert!(
            said.len() == 1 && said[0].contains("x.7.old`, where a killed recorder had left it"),
            "{said:?}"
        );
    }
    let without = Killed::with(&[("x.7.old", profile(true))]);
    assert_eq!(without.cleaned_up(false).1, ["x"], "there was nothing in its place");
}

#[test]
fn what_was_put_aside_for_a_recording_with_samples_is_not() {
    let killed = || {
        let killed = Killed::with(&[("x.7.old", profile(true))]);
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(killed.path(), profile(true)).expect("writes");
        killed
    };
    assert_eq!(killed().cleaned_up(false), (vec![], vec!["x".to_owned()]));
    assert_eq!(killed().cleaned_up(true), (vec![], vec!["x".to_owned(), "x.old".to_owned()]));
}

#[test]
fn what_is_not_left_over_stays() {
    // No profiles, not of these names, or with samples in it.
    let foreign =
        Killed::with(&[("x.7.old", b"thesis".to_vec()), ("x.8.tmp", b"thesis".to_vec()), ("x.data", vec![])]);
    assert_eq!(foreign.cleaned_up(true), (vec![], vec!["x.7.old".into(), "x.8.tmp".into(), "x.data".into()]));
    let saved = Killed::with(&[("x.8.tmp", profile(true))]);
    let (said, left) = saved.cleaned_up(true);
    assert_eq!(left, ["x.8.tmp"]);
    assert!(said.len() == 1 && said[0].contains("part of a recording that was being saved"), "{said:?}");
    // A link, whatever it leads to.
    let linked = Killed::with(&[("precious", profile(false))]);
    std::os::unix::fs::symlink("precious", linked.0.path().join("x.9.tmp")).expect("links");
    assert_eq!(linked.cleaned_up(true).1, ["precious", "x.9.tmp"]);
    // A recorder that lives, under a number that no one has.
    let lives = Killed::with(&[("x.999999999.tmp", profile(false)), ("x.999999999.old", profile(true))]);
    let files = ["x.999999999.tmp", "x.999999999.old"].map(|name| {
        let file = File::open(lives.0.path().join(name)).expect("opens");
        assert!(lock::lock(&file));
        file
    });
    assert_eq!(lives.cleaned_up(true).1, ["x.999999999.old", "x.999999999.tmp"]);
    drop(files);
    assert_eq!(lives.cleaned_up(true).1, ["x"]);
}

#[test]
fn names_expand() {
    let path = |text: &str| expand(Path::new(text), 7, "a/b", "T").display().to_string();
    assert_eq!(path("%c-%p-%t.%%d%"), "a_b-7-T.%d%");
    assert_eq!(path("%q"), "%q");
}
