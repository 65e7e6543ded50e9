//! `prof` in namespaces of its own, as in a container: whom it records there, and by which numbers.

use crate::harness::fixture;
use crate::harness::machine::{Turn, skip, turn, turn_alone};
use crate::harness::profiler::{HANGS_AFTER, Recording, binary, messages, prof, text};
use crate::harness::running::{Running, UNTIL_ENDED};
use crate::targets::refusals::{assert_folder_is_empty, assert_refused};
use prof::internals::profile::{EventKind, OUTSIDE, Profile, Task, WakerKind, read_path};
use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A PID namespace with its own /proc.
const PID: &[&str] =
    &["--pid", "--mount", "--propagation", "private", "--fork", "--kill-child", "--mount-proc"];

/// `prof`, as `$0`, and a shell script around it in namespaces of their own; `None`, after saying so, where such cannot
/// be made.
fn inside(namespaces: &[&str], script: &str) -> Option<Command> {
    let mut command = inside_for(HANGS_AFTER, namespaces)?;
    command.args(["sh", "-ec", script]).arg(binary());
    Some(command)
}

/// The same for a command that is still to be added, which is ended after some seconds.
fn inside_for(seconds: &str, namespaces: &[&str]) -> Option<Command> {
    let made = Command::new("unshare").args(namespaces).arg("true").output().ok();
    if !made.is_some_and(|output| output.status.success()) {
        return skip(&format!("such namespaces cannot be made here: unshare {}", namespaces.join(" ")));
    }
    let mut command = Command::new("timeout");
    command.args(["--foreground", "--kill-after=5", seconds, "unshare"]).args(namespaces);
    Some(command)
}

/// Records in namespaces: the script has the file as `$1`, and `arguments` from `$2` on.
fn recorded(namespaces: &[&str], script: &str, arguments: &[&str]) -> Option<Recording> {
    let mut command = inside(namespaces, script)?;
    Some(Recording::made_by(0, |file| {
        command.arg(file).args(arguments);
        command
    }))
}

fn run(mut command: Command, arguments: &[&str]) -> Output {
    command.args(arguments).output().expect("`timeout` can be run")
}

fn profile_of(recording: &Recording) -> Profile {
    read_path(&recording.file()).expect("own recording can be read").0
}

/// Numbers of the processes that ran or waited.
fn pids_of(profile: &Profile) -> BTreeSet<u32> {
    let ran = profile.events.iter().flat_map(|event| event.samples().map(|sample| sample.task));
    let waited = profile.thread_times.iter().map(|time| time.task);
    ran.chain(waited).map(|task| profile.tables.task(task).pid).collect()
}

fn program(name: &str) -> Option<String> {
    Some(fixture::build(name)?.to_str().expect("the target folder's path is text").to_owned())
}

#[test]
fn a_command_is_recorded_by_the_numbers_of_its_pid_namespace() {
    let Some(_turn) = turn() else { return };
    let Some(program) = program("shares") else { return };
    let script = "\"$0\" record -o \"$1\" -- \"$2\" 2";
    let Some(recording) = recorded(PID, script, &[&program]) else { return };
    let report = recording.report();
    report.assert_whole(200);
    assert!(report.total_percent("share_fifty") > 30.0, "top: {}", report.top());
    assert!(
        recording.stacks().0.iter().all(|stack| stack.comm() == "shares"),
        "another process was recorded"
    );
    let profile = profile_of(&recording);
    assert_ne!(profile.meta.pid_namespace, 0);
    assert!(recording.info_text().contains(&profile.meta.pid_namespace.to_string()));
    let pids: Vec<u32> = pids_of(&profile).into_iter().collect();
    assert_eq!(pids, profile.meta.target_pids);
    // The machine's first process started hundreds before this one.
    assert!(pids[0] < 100, "not a number of a new namespace: {pids:?}");
    assert_eq!(recording.report_with(&["--pid", &pids[0].to_string()]).samples(), report.samples());
}

/// The worst that can be recorded: another process under the target's name.
#[test]
fn a_process_of_the_same_number_in_another_namespace_is_not_recorded() {
    let Some(_turn) = turn() else { return };
    let Some(busy) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let same_number = "echo $(($2 - 1)) >/proc/sys/kernel/ns_last_pid; \"$3\" $4 >/dev/null &
        [ $! -eq $2 ] || { echo \"the number is $!\" >&2; exit 9; }
        until [ $(cat /proc/$2/comm) != sh ]; do sleep 0.05; done
        \"$0\" record -o \"$1\" -p $2 -d 1s";
    let number = busy.pid().to_string();
    let sleeper = [&*number, "sleep", "60"];
    let Some(recording) = recorded(PID, same_number, &sleeper) else { return };
    let profile = profile_of(&recording);
    assert_eq!(profile.meta.target, format!("sleep (pid {number})"));
    let comms: BTreeSet<&str> =
        profile.tables.tasks().iter().map(|task| profile.tables.string(task.comm)).collect();
    assert!(comms.is_subset(&BTreeSet::from(["sleep", "sh"])), "{comms:?}");
    assert!(!profile.events[0].samples().any(|_| true), "sleep uses no CPU");
    let [time] = &profile.thread_times[..] else { panic!("{:?}", profile.thread_times) };
    assert_eq!(time.on_cpu_ns + time.no_cpu_ns + time.blocked_ns, time.to_ns - time.from_ns);
    assert_eq!(time.blocked_ns, time.to_ns - time.from_ns, "it slept all the time: {time:?}");
    // And the other way round: its number is that of a process that sleeps.
    let asleep = Running::start(Command::new("sleep").arg(UNTIL_ENDED));
    let Some(program) = program("shares") else { return };
    let Some(recording) = recorded(PID, same_number, &[&asleep.pid().to_string(), &program, "60"]) else {
        return;
    };
    assert!(recording.report().total_percent("share_fifty") > 30.0, "{}", recording.messages);
    drop(busy);
}

#[test]
fn names_and_the_whole_machine_mean_the_processes_of_the_namespace() {
    let Some(_turn) = turn() else { return };
    let Some(_outside) = Running::fixture("syscalls", &[UNTIL_ENDED]) else { return };
    let Some(_of_that_name) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let Some(program) = program("shares") else { return };
    for target in ["--name ^shares$", "-a -e cpu,off"] {
        let script = format!("\"$2\" 60 >/dev/null & sleep 0.3; \"$0\" record -o \"$1\" {target} -d 2s");
        let Some(recording) = recorded(PID, &script, &[&program]) else { return };
        let stacks = recording.stacks();
        stacks.assert_has(&["main", "share_fifty"]);
        assert!(!stacks.any_has(&["read_zeroes"]), "{target} has recorded a process outside");
        let profile = profile_of(&recording);
        let pids = pids_of(&profile);
        assert!(!pids.contains(&0) && pids.iter().all(|pid| *pid < 1000), "{target}: {pids:?}");
        // Some outside may have woken those inside: they have no numbers.
        let is_named = |task: &&Task| task.pid != 0 && profile.tables.string(task.comm) == "shares";
        let named: BTreeSet<u32> =
            profile.tables.tasks().iter().filter(is_named).map(|task| task.pid).collect();
        assert_eq!(named.len(), 1, "{target}: {named:?}");
        if target.starts_with("-a") {
            assert!(
                recording.messages.contains("all processes of this PID namespace"),
                "{}",
                recording.messages
            );
        }
    }
}

#[test]
fn a_waker_outside_of_the_namespace_is_shown_by_its_name_as_such() {
    let Some(_turn) = turn() else { return };
    let script = "\"$0\" record -o \"$1\" -- cat";
    let Some(mut command) = inside(PID, script) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("prof.data");
    let mut writer = Command::new("sh")
        .args(["-c", "i=0; while [ $i -lt 40 ]; do sleep 0.1; echo x; i=$((i+1)); done"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh can be run");
    let output = writer.stdout.take().expect("the output was asked to be a pipe");
    let output = command.arg(&file).stdin(output).output().expect("`timeout` can be run");
    writer.wait().expect("own child");
    assert!(output.status.success(), "{}", messages(&output));
    let profile = read_path(&file).expect("own recording can be read").0;
    let waits = profile.event_of(&EventKind::OFF_CPU).expect("waits are recorded");
    let wakers = waits.samples().filter_map(|wait| wait.wait).map(|wait| wait.waker);
    let threads = wakers.filter(|waker| waker.kind == WakerKind::Thread).filter_map(|waker| waker.task);
    let tasks: Vec<_> = threads.map(|task| profile.tables.task(task)).collect();
    let of_writer: Vec<_> = tasks.iter().filter(|task| profile.tables.string(task.comm) == "sh").collect();
    assert!(!of_writer.is_empty(), "{tasks:?}");
    for task in of_writer {
        assert_eq!((task.pid, task.tid, profile.tables.string(task.process)), (0, 0, OUTSIDE));
    }
    let report = prof().args(["report", "--off-cpu"]).arg(&file).output().expect("`timeout` can be run");
    assert!(text(&report).contains("sh (outside)"), "{}", text(&report));
}

/// Other live tests, run once more by this very program in namespaces of its own, in the turn of the one that holds them:
/// the program there knows of no others.
fn hold_inside(turn: Option<Turn>, namespaces: &[&str], tests: &[&str]) {
    let Some(_turn) = turn else { return };
    let Some(mut command) = inside_for(HANGS_AFTER, namespaces) else { return };
    let own = std::env::current_exe().expect("the path of this program is known");
    let readable = Permissions::from_mode(0o755);
    let folder = tempfile::Builder::new().permissions(readable).tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.expect("the target folder is writable");
    command.env(fixture::FOLDER, folder.path());
    let output = command.arg(own).args(["--exact", "--test-threads=1"]).args(tests).output();
    let output = output.expect("`timeout` can be run");
    let said = format!("{}{}", text(&output), messages(&output));
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("ok. {} passed", tests.len())), "there are no such tests: {said}");
}

/// A clock with an offset, in a PID namespace.
const OFFSETS: &[&str] = &["--time", "--monotonic", "864000", "--boottime", "432000"];

/// Other recorders would add what they do at each switch to what the kernel takes to choose a thread.
#[test]
fn the_kernels_own_books_are_met_in_namespaces() {
    for namespaces in [PID, &[PID, OFFSETS].concat()[..]] {
        let test = "targets::accounts::times_of_threads_are_those_of_the_kernels_own_books";
        hold_inside(turn_alone(), namespaces, &[test]);
    }
}

#[test]
fn what_is_recorded_elsewhere_is_recorded_in_a_pid_namespace() {
    hold_inside(
        turn(),
        PID,
        &[
            "stacks::fixtures_recorded::children_are_followed_through_fork_and_exec",
            "stacks::fixtures_recorded::generated_code_is_walked_by_its_frame_pointers",
            "stacks::fixtures_recorded::no_children_leaves_children_out",
            "stacks::fixtures_recorded::threads_born_during_the_recording_are_seen",
            // The target's namespace is one in that of the recorder.
            "targets::choice::a_process_in_namespaces_of_its_own_is_read_through_its_own_root",
            "targets::choice::a_process_whose_first_thread_has_ended_is_recorded",
            "targets::choice::one_thread_can_be_recorded_alone",
            "waits::targets::a_thread_that_executes_a_program_is_another_one_from_then_on",
            "waits::targets::a_wait_from_before_the_start_to_after_the_end_has_its_stack",
            "waits::targets::threads_that_run_until_the_end_of_their_process_are_accounted_for",
            "waits::targets::two_processes_with_the_same_number_have_waits_of_their_own",
            "terminal::watched::a_wait_that_lasts_all_the_time_grows_in_the_pictures_and_is_recorded_once",
            "terminal::watched::the_first_snapshot_has_names_and_the_targets_end_gives_the_last_one",
        ],
    );
}

#[test]
fn times_are_right_where_the_clock_has_an_offset() {
    hold_inside(
        turn(),
        &[PID, OFFSETS].concat(),
        &[
            "targets::choice::several_processes_are_recorded_into_one_file",
            "targets::choice::the_targets_end_ends_the_recording",
            "terminal::watched::a_wait_that_lasts_all_the_time_grows_in_the_pictures_and_is_recorded_once",
        ],
    );
}

/// As in a container with the host's PID namespace.
#[test]
fn in_the_hosts_pid_namespace_other_namespaces_change_nothing() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let pid = shares.pid().to_string();
    let namespaces = ["--mount", "--uts", "--ipc", "--net", "--cgroup"];
    let Some(recording) = recorded(&namespaces, "\"$0\" record -o \"$1\" -p $2 -d 1s", &[&pid]) else {
        return;
    };
    assert!(recording.report().total_percent("share_fifty") > 30.0, "{}", recording.messages);
    let profile = profile_of(&recording);
    assert_eq!((profile.meta.pid_namespace, pids_of(&profile)), (0, BTreeSet::from([shares.pid()])));
}

/// Its numbers would be those of other processes.
#[test]
fn a_proc_of_another_pid_namespace_is_refused_with_the_cure() {
    let Some(_turn) = turn() else { return };
    let without_proc = ["--pid", "--fork", "--kill-child"];
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("prof.data");
    let file = file.to_str().expect("a temporary path is text");
    for (arguments, status) in [(["-p", "1"], 1), (["--name", "^sh$"], 1), (["--", "true"], 125)] {
        let Some(command) = inside(&without_proc, "\"$0\" record -d 1s -o \"$@\"") else { return };
        let output = run(command, &[&[file], &arguments[..]].concat());
        assert_refused(&output, status, "`/proc` belongs to an outer PID namespace");
        assert!(messages(&output).contains("mount -t proc proc /proc"), "{}", messages(&output));
        assert_folder_is_empty(folder.path());
    }
    let Some(command) = inside(&without_proc, "\"$0\" doctor") else { return };
    let output = run(command, &[]);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
    assert!(text(&output).contains("FAIL  proc"), "{}", text(&output));
}

/// The kernel lets a process start no threads there.
#[test]
fn a_namespace_that_is_only_for_children_is_refused_with_the_cure() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("prof.data");
    let Some(command) = inside(&["--pid"], "exec \"$0\" record -o \"$1\" -- true") else { return };
    let output = run(command, &[file.to_str().expect("a temporary path is text")]);
    assert_refused(&output, 125, "a new pid namespace applies to children of prof");
    assert!(messages(&output).contains("--fork"), "{}", messages(&output));
    assert_folder_is_empty(folder.path());
}

/// What `prof doctor` says of one thing, in namespaces of its own.
fn diagnosed(namespaces: &[&str], script: &str, status: i32, check: &str) -> Option<serde_json::Value> {
    let output = run(inside(namespaces, &format!("{script}; exec \"$0\" doctor --json"))?, &[]);
    let said = messages(&output);
    if said.starts_with("mount:") {
        return skip(&format!("not possible here: {script}"));
    }
    assert_eq!(output.status.code(), Some(status), "{}{said}", text(&output));
    let document: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("`doctor --json` prints JSON");
    let checks = document["checks"].as_array().expect("there are checks");
    Some(checks.iter().find(|found| found["name"] == check).unwrap_or_else(|| panic!("{document}")).clone())
}

#[test]
fn the_doctor_knows_what_a_container_hides() {
    let Some(_turn) = turn() else { return };
    let private = ["--mount", "--propagation", "private"];
    let masked = |path: &str| format!("mount --bind /dev/null {path}");
    for (script, status, check, verdict, detail, fix) in [
        (
            masked("/proc/kallsyms"),
            0,
            "kernel names",
            "warn",
            "`/proc/kallsyms` is hidden",
            "systempaths=unconfined",
        ),
        (masked("/sys/kernel/btf/vmlinux"), 0, "btf", "warn", "hidden here", "/sys/kernel/btf:ro"),
        (
            "mount -t tmpfs none /sys/kernel/btf".to_owned(),
            0,
            "btf",
            "warn",
            "hidden here",
            "/sys/kernel/btf:ro",
        ),
        (
            "mount -t tmpfs none /sys/kernel/btf".to_owned(),
            0,
            "programs",
            "warn",
            "sampling by perf events",
            "",
        ),
        ("mount -o bind,ro /proc/sys /proc/sys".to_owned(), 0, "proc", "ok", "/proc/sys is read-only", ""),
    ] {
        let Some(found) = diagnosed(&private, &script, status, check) else { continue };
        assert_eq!(found["verdict"], verdict, "{script}: {found}");
        assert!(found["detail"].as_str().is_some_and(|said| said.contains(detail)), "{script}: {found}");
        assert!(found["fix"].as_str().unwrap_or_default().contains(fix), "{script}: {found}");
    }
}

#[test]
fn the_doctor_knows_the_namespaces() {
    let Some(_turn) = turn() else { return };
    let offsets = ["--time", "--monotonic", "86400", "--cgroup"];
    let namespaces = [PID, &offsets].concat();
    for (check, detail) in [
        ("pid namespace", "by the numbers they have there"),
        ("cgroup namespace", "memory limit"),
        ("time namespace", "its clock is 86,400 s ahead"),
        ("stacks", "(pid "),
    ] {
        let Some(found) = diagnosed(&namespaces, ":", 0, check) else { return };
        assert_eq!(found["verdict"], "ok", "{found}");
        assert!(found["detail"].as_str().is_some_and(|said| said.contains(detail)), "{found}");
    }
    let Some(target) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let output = prof()
        .args(["doctor", "--json", "-p", &target.pid().to_string()])
        .output()
        .expect("`timeout` can be run");
    assert!(!text(&output).contains("\"target\""), "it is where prof is: {}", text(&output));
}

#[test]
fn the_doctor_says_by_which_number_a_target_in_a_container_calls_itself() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("shares") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let command = &mut Command::new(fixture::sources().join("container.sh"));
    let container = Running::start_ready(command.arg(folder.path()).arg(program).arg(UNTIL_ENDED));
    let container = container.ended_by(rustix::process::Signal::KILL);
    let pid = container.descendant("shares");
    let output = prof().args(["doctor", "-p", &pid.to_string()]).output().expect("`timeout` can be run");
    // Its lines are as wide as a terminal.
    let said = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("is in other namespaces than prof: pid, mount; its own number there is 1"),
        "{said}"
    );
}

/// All capabilities in a user namespace are none outside of it: what is missing is not what it seems to be.
#[test]
fn a_user_namespace_is_named_as_the_reason() {
    let Some(_turn) = turn() else { return };
    let user = ["--user", "--map-root-user"];
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("prof.data");
    let file = file.to_str().expect("a temporary path is text");
    let Some(command) = inside(&user, "exec \"$0\" record -o \"$1\" -- true") else { return };
    let output = run(command, &[file]);
    let said = messages(&output);
    assert!(output.status.success() && said.contains("note: prof runs in a user namespace"), "{said}");
    let Some(command) = inside(&user, "exec \"$0\" record -a -d 1s -o \"$1\"") else { return };
    let output = run(command, &[&format!("{file}.2")]);
    assert_refused(&output, 5, "prof runs in a user namespace");
    assert!(!messages(&output).contains("sysctl"), "{}", messages(&output));
    let Some(found) = diagnosed(&user, ":", 0, "user namespace") else { return };
    assert_eq!(found["verdict"], "warn");
}

#[test]
fn a_seccomp_filter_is_named_as_the_reason() {
    let Some(_turn) = turn() else { return };
    let Some(filtered) = fixture::build("seccomp") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    // What Docker's filter answers, and Podman's.
    for error in [libc::EPERM, libc::ENOSYS] {
        let run = |arguments: &[&str]| {
            let mut command = Command::new("timeout");
            command.args(["--foreground", HANGS_AFTER]).arg(&filtered).arg(error.to_string()).arg(binary());
            command.args(arguments).current_dir(folder.path()).output().expect("`timeout` can be run")
        };
        let output = run(&["record", "--", "true"]);
        assert_refused(&output, 125, "a seccomp filter refuses perf_event_open and bpf");
        assert!(messages(&output).contains("seccomp=unconfined"), "{}", messages(&output));
        assert_folder_is_empty(folder.path());
        let output = run(&["doctor"]);
        assert_eq!(output.status.code(), Some(5));
        assert!(text(&output).contains("FAIL  seccomp"), "{}", text(&output));
    }
}

#[test]
fn a_container_without_capabilities_is_told_which_to_add() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("prof.data");
    let script = "exec setpriv --bounding-set=-bpf,-perfmon,-sys_admin \"$0\" record -o \"$1\" -- true";
    let Some(command) = inside(PID, script) else { return };
    let output = run(command, &[file.to_str().expect("a temporary path is text")]);
    let said = messages(&output);
    assert!(output.status.success() && said.contains("CAP_BPF and CAP_PERFMON missing"), "{said}");
    assert!(said.contains("--cap-add BPF --cap-add PERFMON"), "{said}");
    assert!(!said.contains("sudo"), "root is told to use sudo: {said}");
    let lacks = "exec setpriv --bounding-set=-syslog,-sys_ptrace,-sys_admin \"$0\" doctor --json; :";
    let Some(found) = diagnosed(PID, lacks, 0, "rights") else { return };
    let fix = found["fix"].as_str().unwrap_or_default();
    assert!(
        fix.starts_with("start the container with ") && fix.contains("SYS_PTRACE --cap-add SYSLOG"),
        "{fix}"
    );
}

/// What `prof` needs and no more, as the documentation has it.
/// Detail 7 of the promises: a missing privilege is named with the command that grants it.
#[test]
fn the_documented_capabilities_are_enough() {
    let Some(_turn) = turn() else { return };
    let Some(program) = program("shares") else { return };
    let paranoia = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoia.trim().parse::<i32>().is_ok_and(|value| value > 2) {
        skip::<()>("kernel.perf_event_paranoid is above 2 here");
        return;
    }
    let few = "+bpf,+perfmon,+sys_ptrace,+syslog";
    for capabilities in [few, &format!("{few},+dac_read_search,+checkpoint_restore")] {
        let script =
            format!("exec setpriv --bounding-set=-all,{capabilities} \"$0\" record -o \"$1\" -- \"$2\" 1");
        let Some(recording) = recorded(PID, &script, &[&program]) else { return };
        let report = recording.report();
        report.assert_whole(100);
        assert!(report.total_percent("share_fifty") > 30.0, "{capabilities}: {}", report.top());
    }
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"))
        .expect("it is there");
    for capability in ["BPF", "PERFMON", "SYS_PTRACE", "SYSLOG"] {
        assert!(readme.contains(&format!("--cap-add {capability}")), "README lacks {capability}");
    }
    let more = include_str!("../../../docs/containers.md");
    assert!(["DAC_READ_SEARCH", "CHECKPOINT_RESTORE"].iter().all(|one| more.contains(one)));
}
