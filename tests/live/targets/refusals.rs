//! What cannot be done is refused in words: what failed, on what, why, and what to do, with the exit status
//! of the contract, and nothing half-written is left.

use crate::harness::fixture;
use crate::harness::machine::{account, copy_for_everyone, skip, turn};
use crate::harness::profiler::{Recording, binary, messages, prof, prof_at, text};
use crate::harness::running::{Running, UNTIL_ENDED, wait_for};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Asserts the exit status, that the message is on standard error only, names `named`, and is one that a
/// person wrote.
pub(crate) fn assert_refused(output: &Output, status: i32, named: &str) {
    let said = messages(output);
    assert_eq!(output.status.code(), Some(status), "said:\n{said}");
    assert!(said.contains(named), "does not name `{named}`:\n{said}");
    for raw in ["panicked", "RUST_BACKTRACE", "Error {", "os error", "Os {"] {
        assert!(!said.contains(raw), "`{raw}` is for programmers:\n{said}");
    }
    // The longest says what each capability buys.
    assert!(said.lines().count() <= 12, "more than a message:\n{said}");
    assert!(text(output).is_empty(), "a message on standard output: {}", text(output));
}

pub(crate) fn assert_folder_is_empty(folder: &Path) {
    let left: Vec<_> =
        fs::read_dir(folder).expect("own folder").flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// A process number that no process has.
fn dead_pid() -> u32 {
    let mut child = Command::new("true").spawn().expect("`true` can be run");
    let pid = child.id();
    child.wait().expect("own child");
    pid
}

#[test]
fn a_process_that_does_not_exist() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let pid = dead_pid().to_string();
    for flag in ["-p", "-t"] {
        let output = prof()
            .args(["record", flag, &pid, "-d", "1s"])
            .current_dir(folder.path())
            .output()
            .expect("`timeout` can be run");
        assert_refused(&output, 1, &pid);
        assert_folder_is_empty(folder.path());
    }
}

/// Process 2 makes the kernel's threads and is one.
#[test]
fn a_thread_of_the_kernel_has_no_waits() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let record = |event: &str| {
        let arguments = ["record", "-e", event, "-p", "2", "-d", "200ms"];
        prof().args(arguments).current_dir(folder.path()).output().expect("`timeout` can be run")
    };
    let output = record("off");
    assert_refused(&output, 1, "kthreadd (pid 2) is of the kernel: waits of its threads are not recorded");
    assert_folder_is_empty(folder.path());
    let output = record("cpu,off");
    let said = messages(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("kthreadd (pid 2) is of the kernel: it is recorded while it runs"), "{said}");
}

#[test]
fn a_command_that_cannot_be_executed_leaves_the_recording_before_it() {
    use std::os::unix::fs::PermissionsExt;
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let junk = folder.path().join("junk");
    fs::write(&junk, b"\x7fELFjunk").expect("a file can be written");
    fs::set_permissions(&junk, fs::Permissions::from_mode(0o755)).expect("it is ours");
    for (name, output) in [("base.data", &["-f", "-o", "base.data"][..]), ("prof.data", &[])] {
        fs::write(folder.path().join(name), "what was recorded before").expect("a file can be written");
        let output = prof()
            .arg("record")
            .args(output)
            .args(["--", "./junk"])
            .current_dir(folder.path())
            .output()
            .expect("`timeout` can be run");
        assert_eq!(output.status.code(), Some(126), "{}", messages(&output));
        let kept = fs::read_to_string(folder.path().join(name)).expect("it is still there");
        assert_eq!(kept, "what was recorded before");
        let files = fs::read_dir(folder.path()).expect("own folder").count();
        fs::remove_file(folder.path().join(name)).expect("it is ours");
        assert_eq!(files, 2, "something was left behind");
    }
}

#[test]
fn a_name_that_no_process_has() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let output = prof()
        .args(["record", "--name", "^no-such-name-anywhere$", "-d", "1s"])
        .current_dir(folder.path())
        .output()
        .expect("`timeout` can be run");
    assert_refused(&output, 1, "no-such-name-anywhere");
    assert_folder_is_empty(folder.path());
}

#[test]
fn a_command_line_that_makes_no_sense() {
    for arguments in [
        &["record"][..],
        &["record", "-p", "x"],
        &["record", "-p", "1", "-d", "soon"],
        &["record", "-p", "1", "-F", "0"],
        &["record", "--name", "(", "-d", "1s"],
        &["report", "--no-such-option"],
        &["no-such-command"],
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let output =
            prof().args(arguments).current_dir(folder.path()).output().expect("`timeout` can be run");
        assert_eq!(output.status.code(), Some(2), "{arguments:?} said:\n{}", messages(&output));
        assert!(!messages(&output).is_empty(), "{arguments:?} was refused without a word");
        assert_folder_is_empty(folder.path());
    }
}

/// Detail 7 of the promises: a missing privilege is named with the command that grants it.
/// Detail 8 of the promises: nothing runs that cannot be recorded, and nothing recorded is lost.
#[test]
fn an_ordinary_user_is_told_what_is_missing() {
    let Some(_turn) = turn() else { return };
    let Some((uid, gid)) = account("nobody") else {
        skip::<()>("there is no account `nobody`");
        return;
    };
    let tools = tempfile::tempdir().expect("a temporary folder can be made");
    let copy = copy_for_everyone(binary(), tools.path());
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::os::unix::fs::chown(folder.path(), Some(uid), Some(gid)).expect("root can give files away");
    let record = |arguments: &[&str]| {
        let mut command = prof_at(&copy);
        command.arg("record").args(arguments).current_dir(folder.path()).uid(uid).gid(gid);
        command.output().expect("`timeout` can be run")
    };
    assert_refused(&record(&["-a", "-d", "1s"]), 5, "sudo");
    assert_folder_is_empty(folder.path());
    // Before the start of a command: 125, and the command is not run. What migrates is counted in the kernel.
    let output = record(&["-e", "cpu-migrations:k", "--", "/bin/echo", "it ran"]);
    assert_refused(&output, 125, "sudo");
    assert_folder_is_empty(folder.path());
}

#[test]
fn a_file_that_cannot_be_read_as_a_profile() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("empty"), "").expect("a temporary file can be written");
    fs::write(path("text"), "not a profile, but long enough to be one\n".repeat(100)).expect("writable");
    fs::copy("/bin/true", path("program")).expect("a program can be copied");
    fs::create_dir(path("folder")).expect("a temporary folder can be made");
    for name in ["missing", "empty", "text", "program", "folder"] {
        let file = path(name);
        let named = file.to_str().expect("a temporary path is text");
        for command in ["report", "info"] {
            let output = prof().arg(command).arg(&file).output().expect("`timeout` can be run");
            assert_refused(&output, 1, named);
        }
        let out = path("out.svg");
        let output =
            prof().arg("export").arg(&file).arg("-o").arg(&out).output().expect("`timeout` can be run");
        assert_refused(&output, 1, named);
        assert!(!out.exists(), "an output of nothing was left");
    }
}

#[test]
fn a_file_without_the_right_to_read_it() {
    let Some(_turn) = turn() else { return };
    let Some((uid, gid)) = account("nobody") else {
        skip::<()>("there is no account `nobody`");
        return;
    };
    let tools = tempfile::tempdir().expect("a temporary folder can be made");
    let copy = copy_for_everyone(binary(), tools.path());
    let file = tools.path().join("root-only");
    fs::write(&file, "secret").expect("a temporary file can be written");
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("own file");
    let output = prof_at(&copy).arg("report").arg(&file).uid(uid).gid(gid).output().expect("can be run");
    assert!(matches!(output.status.code(), Some(1 | 5)), "said:\n{}", messages(&output));
    assert!(messages(&output).to_lowercase().contains("permission denied"), "{}", messages(&output));
}

#[test]
fn a_recording_cut_short_is_read_as_far_as_it_goes_or_refused() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("shares") else { return };
    let program = program.to_str().expect("the target folder's path is text");
    let recording = Recording::with(["--", program, "2"]);
    let whole = fs::read(recording.file()).expect("the file was written");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let cut = folder.path().join("cut");
    let lengths = [1, 7, 8, 63, 64, 200, whole.len() / 4, whole.len() / 2, whole.len() - 20, whole.len() - 1];
    for length in lengths.into_iter().filter(|length| *length < whole.len()) {
        fs::write(&cut, &whole[..length]).expect("a temporary file can be written");
        let output = prof().arg("report").arg(&cut).output().expect("`timeout` can be run");
        let said = messages(&output);
        assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "cut at {length}: {said}");
        assert!(!said.is_empty(), "cut at {length}: nothing says that the file is not whole");
        assert!(!said.contains("panicked"), "cut at {length}: {said}");
    }
}

/// Detail 10 of the promises: no file is overwritten silently, and reports need no file name.
#[test]
fn an_output_that_exists_is_kept_unless_forced() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("kept");
    fs::write(&file, "precious").expect("a temporary file can be written");
    let record = |force: bool| {
        let mut command = prof();
        command.args(["record", "-o"]).arg(&file).args(force.then_some("-f"));
        command.args(["--", "/bin/echo", "it ran"]).output().expect("`timeout` can be run")
    };
    let refused = record(false);
    assert_refused(&refused, 125, file.to_str().expect("a temporary path is text"));
    assert_eq!(fs::read_to_string(&file).expect("the file is still there"), "precious");
    let forced = record(true);
    assert!(forced.status.success(), "{}", messages(&forced));
    assert_eq!(text(&forced), "it ran\n");
    assert_ne!(fs::read(&file).expect("the file is there"), b"precious");
}

/// Detail 10 of the promises: no file is overwritten silently, and reports need no file name.
#[test]
fn the_default_output_keeps_the_one_before_it() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for _ in 0..2 {
        let output = prof()
            .args(["record", "--", "/bin/true"])
            .current_dir(folder.path())
            .output()
            .expect("`timeout` can be run");
        assert!(output.status.success(), "{}", messages(&output));
    }
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).expect("own folder").flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["prof.data", "prof.data.old"]);
}

#[test]
fn an_output_that_is_a_folder_or_in_none() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for out in [folder.path().to_path_buf(), folder.path().join("no-such-folder/prof.data")] {
        for force in [None, Some("-f")] {
            let mut command = prof();
            command.args(["record", "-o"]).arg(&out).args(force).args(["--", "/bin/echo", "it ran"]);
            let output = command.output().expect("`timeout` can be run");
            assert_refused(&output, 125, out.to_str().expect("a temporary path is text"));
        }
    }
    assert_folder_is_empty(folder.path());
}

/// A file system of `bytes`, unmounted on drop.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(bytes: usize) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let options = format!("size={bytes},mode=755");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "prof-test"])
            .arg(folder.path())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            Some(SmallDisk { folder })
        } else {
            skip("a tmpfs cannot be mounted here")
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a failed test may still hold a file open.
        let _ = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
    }
}

#[test]
fn a_full_disk_is_reported_and_leaves_nothing_half_written() {
    let Some(_turn) = turn() else { return };
    let Some(disk) = SmallDisk::mount(64 << 10) else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let file = disk.folder.path().join("prof.data");
    for free_bytes in [0, 8 << 10] {
        let filler = vec![0u8; (64 << 10) - free_bytes];
        fs::write(disk.folder.path().join("filler"), &filler).expect("the disk is large enough for that");
        // Everything on the machine, as fast as possible: more than fits in any case.
        let mut command = prof();
        command.args(["record", "-p", &shares.pid().to_string(), "-F", "max", "-d", "3s", "-o"]).arg(&file);
        let output = command.output().expect("`timeout` can be run");
        let said = messages(&output);
        assert_eq!(output.status.code(), Some(1), "with {free_bytes} bytes free: {said}");
        assert!(said.to_lowercase().contains("no space"), "does not say why: {said}");
        assert!(
            said.contains(file.to_str().expect("a temporary path is text")),
            "does not say where: {said}"
        );
        assert!(!said.contains("panicked"), "{said}");
        // What was saved before the disk was full may be kept, but then it has to open.
        if file.exists() {
            let info = prof().args(["info", "--json"]).arg(&file).output().expect("`timeout` can be run");
            assert!(info.status.success(), "half a file was left: {}", messages(&info));
            // The space of what did not fit is enough for a word about the end.
            assert!(text(&info).contains("writing the file failed"), "{}", text(&info));
            fs::remove_file(&file).expect("own file");
        }
        assert!(shares.is_alive(), "the target was harmed");
    }
}

#[test]
fn a_recording_of_waits_alone_is_kept_when_the_disk_fills_up() {
    let Some(_turn) = turn() else { return };
    let Some(disk) = SmallDisk::mount(4 << 20) else { return };
    let Some(target) = Running::fixture("waits", &[UNTIL_ENDED]) else { return };
    let file = disk.folder.path().join("prof.data");
    let recorder = prof()
        .args(["record", "-e", "off", "-d", "30s", "-p", &target.pid().to_string(), "-o"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn()
        .expect("`timeout` can be run");
    // The first chunk of waits, and then nothing more.
    let size = || fs::metadata(&file).map_or(0, |meta| meta.len());
    let first = wait_for("the file's head", || Some(size()).filter(|&bytes| bytes > 0));
    wait_for("a first part of waits", || (size() > first + 1000).then_some(()));
    // The next one comes a second later, when that one is whole.
    std::thread::sleep(Duration::from_millis(600));
    let whole = size();
    wait_for("another part of waits", || (size() > whole).then_some(()));
    let filler = vec![0u8; 8 << 20];
    assert!(fs::write(disk.folder.path().join("filler"), &filler).is_err(), "the disk is full");
    let output = recorder.wait_with_output().expect("prof is our child");
    let said = messages(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("what was recorded before is readable"), "{said}");
    let report =
        prof().args(["report", "--off-cpu", "--idle"]).arg(&file).output().expect("`timeout` can be run");
    assert!(report.status.success() && text(&report).contains("REASON"), "{}", messages(&report));
    let info = prof().arg("info").arg(&file).output().expect("`timeout` can be run");
    assert!(
        text(&info).contains("no space left on the disk"),
        "the file does not say how it ended: {}",
        text(&info)
    );
}

/// Detail 9 of the promises: the exit status is that of the recorded command.
#[test]
fn a_disk_that_fills_up_does_not_change_the_commands_status() {
    let Some(_turn) = turn() else { return };
    let Some(disk) = SmallDisk::mount(16 << 10) else { return };
    let Some(program) = fixture::build("shares") else { return };
    let script = format!("{} 3 >/dev/null; exit 7", program.display());
    let file = disk.folder.path().join("prof.data");
    let filler = vec![0u8; 12 << 10];
    fs::write(disk.folder.path().join("filler"), &filler).expect("the disk is large enough for that");
    let mut command = prof();
    command.args(["record", "-F", "max", "-o"]).arg(&file).args(["--", "sh", "-c", &script]);
    let output = command.output().expect("`timeout` can be run");
    // A small recording may fit after all; the status is the command's in any case.
    assert_eq!(output.status.code(), Some(7), "{}", messages(&output));
}

#[test]
fn a_rate_above_the_kernels_limit_is_clamped_and_said() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let recording = Recording::with(["-F", "100000000", "-p", &shares.pid().to_string(), "-d", "1s"]);
    let limit = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").expect("procfs is mounted");
    let limit: u64 = limit.trim().parse().expect("the kernel's limit is a number");
    let said = recording.messages.split("is above the limit of ").nth(1).expect("the limit is said");
    let said = said.split(' ').next().expect("with its number");
    let shown = said.to_owned();
    let said: u64 = said.replace(',', "").parse().expect("it is a number");
    assert!(said <= limit && said > 0, "said {said} Hz, the kernel's limit is {limit} Hz");
    assert!(recording.messages.contains(&format!("sampling at {shown} Hz")), "{}", recording.messages);
    recording.report().assert_enough(100);
}

#[test]
fn an_event_that_does_not_exist_is_refused() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let output = prof()
        .args(["record", "-e", "cpu,cycels", "--", "/bin/echo", "it ran"])
        .current_dir(folder.path())
        .output()
        .expect("`timeout` can be run");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        messages(&output)
            .contains("no such event; known events are cpu, off, lock, heap, syscalls, page-faults"),
        "{}",
        messages(&output)
    );
    assert!(text(&output).is_empty(), "the command was run");
    assert_folder_is_empty(folder.path());
}

#[test]
fn a_reader_that_goes_away_is_no_error_message() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("shares") else { return };
    let program = program.to_str().expect("the target folder's path is text");
    let recording = Recording::with(["--", program, "1"]);
    let script = "\"$0\" export --format folded -o - \"$1\" | head -c 1 >/dev/null";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(binary())
        .arg(recording.file())
        .output()
        .expect("sh can be run");
    assert!(messages(&output).is_empty(), "{}", messages(&output));
}

/// A memory cgroup of the test's own, and the name of its limit.
struct MemoryCgroup {
    folder: PathBuf,
    limit: &'static str,
}

impl MemoryCgroup {
    fn make() -> Option<MemoryCgroup> {
        let kinds = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        for (root, limit) in kinds {
            let folder = Path::new(root).join(format!("prof-test-{}", std::process::id()));
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let cgroup = MemoryCgroup { folder, limit };
            if cgroup.folder.join(limit).exists() {
                return Some(cgroup);
            }
        }
        skip("no cgroup with a memory limit can be made here")
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn too_little_memory_for_the_kernel_side_is_named_as_the_reason() {
    let Some(_turn) = turn() else { return };
    let Some(cgroup) = MemoryCgroup::make() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut is_named = false;
    // Where a page of prof's own is the first that does not fit, the kernel ends it without asking: that is a matter of
    // luck, and less likely with large rings.
    for mebibytes in (24u64..80).step_by(4) {
        fs::write(cgroup.folder.join(cgroup.limit), (mebibytes << 20).to_string()).expect("own cgroup");
        let script = format!(
            "echo $$ > '{}/cgroup.procs'; exec \"$@\"",
            cgroup.folder.to_str().expect("a plain path")
        );
        let output = Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(binary())
            .args(["record", "-e", "cpu", "-F", "20000", "-f", "-o"])
            // One that was killed may have a child that still finishes its file.
            .arg(folder.path().join(format!("{mebibytes}.data")))
            .args(["--", "true"])
            .output()
            .expect("sh can be run");
        let said = messages(&output);
        if output.status.code() == Some(125) || output.status.code() == Some(1) {
            assert!(said.contains("memory"), "{mebibytes} MiB: {said}");
            assert_refused(&output, output.status.code().unwrap_or(0), "memory limit");
            is_named = true;
        }
        // Perf events need less of it.
        is_named |= output.status.success()
            && said.contains("no memory for their tables and buffers: sampling by perf events");
    }
    assert!(is_named, "no limit was too low for the kernel's side and high enough for prof itself");
}
