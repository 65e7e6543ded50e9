//! What `prof` may do, when it gives that up, and what no one can do through it (docs/security.md).

use crate::harness::machine::{account, copy_for_everyone, skip, tool_or_skip, turn};
use crate::harness::pane::Terminal;
use crate::harness::profiler::{binary, messages, prof, prof_at, text};
use crate::harness::running::{Running, UNTIL_ENDED, wait_for, wait_for_samples};
use crate::targets::refusals::{assert_folder_is_empty, assert_refused};
use prof::internals::record::CAPABILITIES;
use rustix::thread::CapabilitySet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a thread may do, as /proc has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rights {
    inheritable: CapabilitySet,
    permitted: CapabilitySet,
    pub(crate) effective: CapabilitySet,
    bounding: CapabilitySet,
    ambient: CapabilitySet,
    has_no_new_privileges: bool,
    pub(crate) user: u32,
    /// Whether calls are filtered (seccomp).
    is_filtered: bool,
}

/// What opening files of processes, and making room for more unwind tables, takes.
const OPENING: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::BPF);

impl Rights {
    /// From the text of a `status` file.
    fn parse(text: &str) -> Option<Rights> {
        let number = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name))?.trim();
            u64::from_str_radix(value, 16).ok()
        };
        let set = |name: &str| Some(CapabilitySet::from_bits_retain(number(name)?));
        Some(Rights {
            inheritable: set("CapInh:")?,
            permitted: set("CapPrm:")?,
            effective: set("CapEff:")?,
            bounding: set("CapBnd:")?,
            ambient: set("CapAmb:")?,
            has_no_new_privileges: number("NoNewPrivs:")? == 1,
            user: text
                .lines()
                .find_map(|line| line.strip_prefix("Uid:"))?
                .split_whitespace()
                .next()?
                .parse()
                .ok()?,
            is_filtered: number("Seccomp:")? == 2,
        })
    }

    /// Of all threads of a process, with their names.
    pub(crate) fn of(pid: u32) -> Vec<(String, Rights)> {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        tasks
            .filter_map(|task| {
                let name = fs::read_to_string(task.path().join("comm")).ok()?;
                let status = fs::read_to_string(task.path().join("status")).ok()?;
                Some((name.trim_end().to_owned(), Rights::parse(&status)?))
            })
            .collect()
    }

    /// It has none, and cannot get any.
    pub(crate) fn assert_none(&self, of: &str) {
        self.assert_closed(of);
        let none = CapabilitySet::empty();
        assert_eq!((self.effective, self.permitted, self.is_filtered), (none, none, true), "{of}");
    }

    /// Nothing that it has could be passed on or be got back.
    pub(crate) fn assert_closed(&self, of: &str) {
        let none = CapabilitySet::empty();
        assert_eq!((self.inheritable, self.ambient, self.has_no_new_privileges), (none, none, true), "{of}");
    }
}

/// A folder that everyone may enter, with a copy of `prof` that has the capabilities that its own advice gives it.
struct Capable {
    uid: u32,
    gid: u32,
    _tools: tempfile::TempDir,
    prof: PathBuf,
    /// The user's own.
    folder: tempfile::TempDir,
}

impl Capable {
    fn make() -> Option<Capable> {
        let setcap = tool_or_skip("setcap")?;
        let capable = Capable::without()?;
        let names: Vec<String> =
            CAPABILITIES.iter().map(|capability| capability.name.to_lowercase()).collect();
        let given = Command::new(setcap).arg(format!("{}+ep", names.join(","))).arg(&capable.prof).output();
        let given = given.expect("setcap can be run");
        if !given.status.success() {
            return skip(&format!("no capabilities on files here: {}", messages(&given).trim()));
        }
        Some(capable)
    }

    /// The same, with a copy that has no capabilities.
    fn without() -> Option<Capable> {
        let Some((uid, gid)) = account("nobody") else { return skip("there is no account `nobody`") };
        let tools = tempfile::tempdir().expect("a temporary folder can be made");
        let prof = copy_for_everyone(binary(), tools.path());
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        std::os::unix::fs::chown(folder.path(), Some(uid), Some(gid)).expect("root can give files away");
        Some(Capable { uid, gid, _tools: tools, prof, folder })
    }

    /// `command` as the user, in the user's folder.
    fn command(&self, mut command: Command) -> Command {
        command.uid(self.uid).gid(self.gid).current_dir(self.folder.path());
        command
    }

    /// setpriv(1), as the user with the capabilities that `given` says: what it starts is still to be added.
    fn with_ambient(&self, setpriv: &Path, given: &str) -> Command {
        let mut command = Command::new(setpriv);
        let ids = [format!("--reuid={}", self.uid), format!("--regid={}", self.gid)];
        command.args(ids).arg("--clear-groups");
        command.args([format!("--inh-caps={given}"), format!("--ambient-caps={given}")]);
        command.current_dir(self.folder.path());
        command
    }

    /// The copy of `prof` as the user.
    fn prof(&self) -> Command {
        self.command(prof_at(&self.prof))
    }
}

/// A recording in a folder that everyone may enter: root's, that only root may read.
fn private_recording(folder: &Path) -> PathBuf {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("own folder");
    let file = folder.join("root.data");
    let output = prof().args(["record", "-q", "-o"]).arg(&file).args(["--", "/bin/true"]).output();
    let output = output.expect("`timeout` can be run");
    assert!(output.status.success(), "{}", messages(&output));
    assert_eq!(file.metadata().expect("it was written").mode() & 0o777, 0o600);
    file
}

/// It has memory of other users' processes open, and maps of BPF programs.
#[test]
fn a_prof_with_capabilities_is_closed_to_debuggers_of_its_user() {
    let Some(_turn) = turn() else { return };
    let Some(capable) = Capable::make() else { return };
    let Some(target) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let file = capable.folder.path().join("prof.data");
    let pid = target.pid().to_string();
    let mut recorder = capable.command(Command::new(&capable.prof));
    recorder.args(["record", "-q", "-p", &pid, "-o"]).arg(&file);
    let mut recorder = recorder.spawn().expect("it was copied");
    wait_for("the file of the recording", || file.exists().then_some(()));
    let own = recorder.id();
    let looked = ["maps", "mem", "environ"].map(|name| {
        let mut cat = Command::new("cat");
        let output = cat.arg(format!("/proc/{own}/{name}")).uid(capable.uid).gid(capable.gid).output();
        output.expect("every system has cat")
    });
    let mut list = Command::new("ls");
    let listed = list.arg(format!("/proc/{own}/fd")).uid(capable.uid).gid(capable.gid).output();
    let is_there = Path::new(&format!("/proc/{own}/stat")).exists();
    let ended = rustix::process::kill_process(
        rustix::process::Pid::from_child(&recorder),
        rustix::process::Signal::INT,
    );
    ended.expect("it is ours");
    assert!(recorder.wait().expect("it is ours").success() && is_there, "it records");
    for output in looked.into_iter().chain([listed.expect("every system has ls")]) {
        assert!(messages(&output).contains("Permission denied"), "{output:?}");
    }
}

#[test]
fn a_prof_with_capabilities_reads_nothing_that_its_user_may_not() {
    let Some(_turn) = turn() else { return };
    let Some(capable) = Capable::make() else { return };
    let theirs = tempfile::tempdir().expect("a temporary folder can be made");
    let file = private_recording(theirs.path());
    let closed = theirs.path().join("closed");
    fs::create_dir(&closed).expect("own folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("own folder");
    let out = capable.folder.path().join("out.svg");
    let verbs: [&[&str]; 4] = [&["report"], &["info"], &["export", "-o", "out.svg"], &["report", "--json"]];
    for verb in verbs {
        // The last is not there, which no one may know.
        for path in [&file, Path::new("/etc/shadow"), &closed.join("nothing")] {
            let output = capable.prof().args(verb).arg(path).output().expect("`timeout` can be run");
            assert_refused(&output, 1, "Permission denied");
            assert!(!out.exists());
        }
    }
    let (Some(terminal), Some(_)) = (Terminal::open(100, 30), tool_or_skip("setpriv")) else { return };
    let Capable { uid, gid, prof, .. } = &capable;
    let user = format!("setpriv --reuid={uid} --regid={gid} --clear-groups");
    terminal.type_text(&format!("{user} {} tui {}", prof.display(), file.display()));
    terminal.press(&["Enter"]);
    terminal.wait_for("Permission denied");
}

#[test]
fn a_prof_with_capabilities_writes_nothing_that_its_user_may_not() {
    let Some(_turn) = turn() else { return };
    let Some(capable) = Capable::make() else { return };
    let theirs = tempfile::tempdir().expect("a temporary folder can be made");
    fs::set_permissions(theirs.path(), fs::Permissions::from_mode(0o755)).expect("own folder");
    let output = capable
        .prof()
        .args(["record", "-o"])
        .arg(theirs.path().join("x.data"))
        .args(["--", "/bin/true"])
        .output()
        .expect("`timeout` can be run");
    assert_refused(&output, 125, "permission denied");
    assert_folder_is_empty(theirs.path());
    // A program that only root may start is not found by the recorder's rights either.
    let closed = theirs.path().join("closed");
    fs::create_dir(&closed).expect("own folder");
    fs::copy("/bin/true", closed.join("program")).expect("own folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("own folder");
    for name in ["program", "nothing"] {
        let output = capable
            .prof()
            .args(["record", "--"])
            .arg(closed.join(name))
            .output()
            .expect("`timeout` can be run");
        assert_refused(&output, 126, "Permission denied");
    }
    // Nor does it say what there is in a closed folder.
    fs::create_dir(closed.join("folder")).expect("own folder");
    for name in ["folder", "program", "nothing"] {
        let output = capable
            .prof()
            .args(["record", "-o", "x.data", "--debug-dir"])
            .arg(closed.join(name))
            .args(["--", "/bin/true"])
            .output()
            .expect("`timeout` can be run");
        assert_refused(&output, 125, "permission denied");
    }
}

/// Root's process, by a user, with all names: nothing that a recording needs to its end is given up too early.
#[test]
fn a_prof_with_capabilities_records_what_root_does() {
    let Some(_turn) = turn() else { return };
    let Some(capable) = Capable::make() else { return };
    assert_records_what_root_does(&capable, |command| command);
}

/// As the unit of docs/install.md starts it: a user that was made for it, who owns nothing, with the six capabilities and no
/// way to others.
#[test]
fn a_service_with_capabilities_records_what_root_does() {
    let Some(_turn) = turn() else { return };
    let (Some(setpriv), Some(plain)) = (tool_or_skip("setpriv"), Capable::without()) else { return };
    let names = CAPABILITIES.iter().map(|capability| capability.name.to_lowercase());
    let given: String = names.map(|name| format!(",+{}", name.trim_start_matches("cap_"))).collect();
    assert_records_what_root_does(&plain, |command| {
        let mut service = plain.with_ambient(&setpriv, &format!("-all{given}"));
        service.arg(format!("--bounding-set=-all{given}")).arg("--no-new-privs");
        service.arg(command.get_program()).args(command.get_args());
        service
    });
}

/// Records a process of root's as the user of `capable`, by the command that `started` makes of `prof`.
fn assert_records_what_root_does(capable: &Capable, started: impl Fn(Command) -> Command) {
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let mut command = capable.prof();
    command.args(["record", "-o", "x.data", "-d", "3s", "-p", &shares.pid().to_string()]);
    let mut recorder = started(command).stderr(Stdio::piped()).spawn().expect("`timeout` can be run");
    let pid = recorder_of(&recorder);
    wait_for_samples(&capable.folder.path().join("x.data"));
    assert_rights_of_recording(pid, OPENING, CapabilitySet::empty());
    assert!(recorder.wait().expect("own child").success());
    let output = capable.prof().args(["report", "--json", "x.data"]).output().expect("`timeout` can be run");
    assert!(output.status.success(), "{}", messages(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let complete = report["quality"]["complete_pct"].as_f64().expect("a number");
    assert!(complete > 99.0, "{complete} % complete");
    assert!(text(&output).contains("share_fifty"), "no names");
}

/// Every process of a recording is looked at: the recorder and its workers have no rights at all, and only the opener,
/// which parses nothing, has those that are needed to the end.
fn assert_rights_of_recording(recorder: u32, opening: CapabilitySet, permitted_besides: CapabilitySet) {
    let (mut openers, mut workers) = (0, 0);
    let mut next = vec![recorder];
    while let Some(pid) = next.pop() {
        next.extend(crate::harness::running::children(pid));
        workers += u32::from(assert_limits_of_worker(pid));
        for (name, rights) in Rights::of(pid) {
            rights.assert_closed(&name);
            if name == "prof-opener" {
                openers += 1;
                assert_eq!(rights.effective, opening, "{name}");
                let most = opening | permitted_besides;
                assert!(most.contains(rights.permitted), "{name}: {:?}", rights.permitted - most);
            } else {
                rights.assert_none(&name);
                assert_ne!(rights.user, 0, "{name} reads foreign files as root");
            }
        }
    }
    assert!(openers > 0, "nothing opens files");
    assert!(workers > 0, "no file was read by a worker");
}

fn assert_limited(pid: u32, limits: &[&str]) {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    for limit in limits {
        let line = text.lines().find(|line| line.starts_with(limit)).unwrap_or_else(|| panic!("{text}"));
        assert!(!line.contains("unlimited"), "{line}");
    }
}

/// A worker has limits, and can open nothing. Returns whether the process is one.
fn assert_limits_of_worker(pid: u32) -> bool {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    if read("comm").trim() != "prof-worker" {
        return false;
    }
    assert_limited(pid, &["Max address space", "Max cpu time", "Max open files", "Max core file size"]);
    assert!(read("status").contains("Seccomp:\t2"), "calls are filtered");
    true
}

/// The process that `timeout` has started for us.
fn recorder_of(timeout: &std::process::Child) -> u32 {
    wait_for("the recorder", || {
        let state = fs::read_to_string(format!("/proc/{}/stat", timeout.id())).unwrap_or_default();
        assert!(!state.contains(") Z "), "the recorder has ended: {state}");
        crate::harness::running::children(timeout.id()).first().copied()
    })
}

#[test]
fn the_recorder_of_root_has_no_rights_and_its_opener_what_it_needs_to_the_end() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let own_files = CapabilitySet::DAC_OVERRIDE | CapabilitySet::CHOWN | CapabilitySet::FOWNER;
    // Samplers are put into other processes with more rights, and by no process that reads their code.
    for (event, besides) in [("cpu,off", CapabilitySet::empty()), ("cpu,heap", CapabilitySet::SYS_ADMIN)] {
        let file = folder.path().join(event);
        let mut recorder = prof()
            .args(["record", "-q", "-d", "3s", "-e", event, "-p", &shares.pid().to_string(), "-o"])
            .arg(&file)
            .spawn()
            .expect("`timeout` can be run");
        let pid = recorder_of(&recorder);
        wait_for_samples(&file);
        assert!(Rights::of(pid).len() > 1, "a recorder has threads");
        assert_limited(pid, &["Max address space", "Max core file size"]);
        assert_rights_of_recording(pid, OPENING | CapabilitySet::KILL, own_files | besides);
        assert!(recorder.wait().expect("own child").success());
    }
}

/// The threads of a live view: the recorder's, those that look up names, and those of the screen.
#[test]
fn the_screen_of_a_live_view_has_no_right_in_effect() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let Some(terminal) = Terminal::open(100, 30) else { return };
    terminal.type_text(&format!("{} live -p {}", binary().display(), shares.pid()));
    terminal.press(&["Enter"]);
    terminal.wait_for("share_fifty");
    let threads = Rights::of(terminal.program());
    let own_files = CapabilitySet::DAC_OVERRIDE | CapabilitySet::CHOWN | CapabilitySet::FOWNER;
    assert_rights_of_recording(terminal.program(), OPENING | CapabilitySet::KILL, own_files);
    assert!(threads.iter().any(|(name, _)| name == "prof-picture"), "{threads:?}");
    terminal.type_text("q");
}

/// The rights of a thread that waits in a call, such as the opening of a pipe that no one writes.
fn rights_when_waiting(pid: u32, in_what: &str) -> Rights {
    wait_for(in_what, || {
        let wchan = fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
        let number = if in_what == "open" { "257 " } else { "0 " };
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        wchan.starts_with(number).then_some(Rights::parse(&status)?)
    })
}

#[test]
fn a_command_that_reads_has_given_its_rights_up_when_it_opens_the_file() {
    let Some(_turn) = turn() else { return };
    if !cfg!(target_arch = "x86_64") {
        skip::<()>("the numbers of system calls are those of x86-64");
        return;
    }
    let Some(capable) = Capable::make() else { return };
    let pipe = capable.folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .expect("a pipe can be made");
    fs::set_permissions(&pipe, fs::Permissions::from_mode(0o666)).expect("own file");
    for verb in ["report", "info", "export"] {
        let mut command = capable.prof();
        command.arg(verb).arg(&pipe).stdout(Stdio::null()).stderr(Stdio::null());
        if verb == "export" {
            command.args(["--format", "folded", "-o", "-"]);
        }
        let mut reader = command.spawn().expect("`timeout` can be run");
        let pid = recorder_of(&reader);
        let opening = rights_when_waiting(pid, "open");
        opening.assert_closed(verb);
        // The pipe is opened for writing too, lest this test waits.
        let writer = fs::OpenOptions::new().read(true).write(true).open(&pipe).expect("a pipe can be opened");
        let reading = rights_when_waiting(pid, "read");
        let none = CapabilitySet::empty();
        assert_eq!((opening.permitted, reading.permitted), (none, none), "{verb}");
        drop(writer);
        let _ = reader.wait();
    }
}

/// A command prints what it may do, with and without `prof`.
fn rights_of_command(mut before: Command, arguments: &[&str]) -> Rights {
    let output = before.args(arguments).args(["cat", "/proc/self/status"]).output().expect("it can be run");
    assert!(output.status.success(), "{before:?}: {}", messages(&output));
    Rights::parse(&text(&output)).expect("the status of a process has its rights")
}

#[test]
fn a_command_has_the_rights_that_it_has_without_prof() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let out = folder.path().join("x.data").to_string_lossy().into_owned();
    let without = rights_of_command(Command::new("env"), &[]);
    let with = rights_of_command(prof(), &["record", "-q", "-o", &out, "--"]);
    assert_eq!(with, without, "as root");
    assert!(!with.effective.is_empty() && !with.has_no_new_privileges, "root has rights");

    let Some(capable) = Capable::make() else { return };
    let without = rights_of_command(capable.command(Command::new("env")), &[]);
    let with = rights_of_command(capable.prof(), &["record", "-q", "-o", "x.data", "--"]);
    assert_eq!(with, without, "by a prof with capabilities");
    assert!(with.permitted.is_empty(), "none of prof's");

    // Rights that a service manager gives, which are the user's and not the file's.
    let (Some(setpriv), Some(plain)) = (tool_or_skip("setpriv"), Capable::without()) else { return };
    let given = "+bpf,+perfmon,+sys_ptrace,+dac_read_search,+chown";
    let with_ambient = |program: &[&str]| {
        let mut command = plain.with_ambient(&setpriv, given);
        command.args(program);
        command
    };
    let program = plain.prof.to_string_lossy().into_owned();
    let without = rights_of_command(with_ambient(&["env"]), &[]);
    let with = rights_of_command(with_ambient(&[&program, "record", "-q", "-o", "x.data", "--"]), &[]);
    assert_eq!(with, without, "with the user's own rights");
    assert!(with.ambient.contains(CapabilitySet::CHOWN), "{with:?}");
}

#[test]
fn a_setuid_prof_does_not_run() {
    let Some(_turn) = turn() else { return };
    let Some(capable) = Capable::without() else { return };
    let theirs = tempfile::tempdir().expect("a temporary folder can be made");
    let file = private_recording(theirs.path());
    let file = file.to_string_lossy().into_owned();
    for mode in [0o4755, 0o2755] {
        fs::set_permissions(&capable.prof, fs::Permissions::from_mode(mode)).expect("own file");
        for arguments in [&["report", &file][..], &["record", "--", "id"], &["tui", &file]] {
            let output = capable.prof().args(arguments).output().expect("`timeout` can be run");
            assert_refused(&output, 5, "does not run setuid or setgid");
        }
    }
    assert_folder_is_empty(capable.folder.path());
}

/// `sudo prof …` in a folder that is closed to others.
/// Detail 11 of the promises: the file and the command belong to the user who called sudo.
#[test]
fn root_records_reads_and_exports_for_the_user_who_called_sudo() {
    let Some(_turn) = turn() else { return };
    let Some(capable) = Capable::without() else { return };
    let folder = capable.folder.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).expect("root may");
    let sudo = |arguments: &[&str]| {
        let mut command = prof();
        command.env("SUDO_UID", capable.uid.to_string()).env("SUDO_GID", capable.gid.to_string());
        let output = command.args(arguments).current_dir(folder).output().expect("`timeout` can be run");
        assert!(output.status.success(), "{arguments:?}: {}", messages(&output));
        output
    };
    // Twice: the first is kept.
    for _ in 0..2 {
        sudo(&["record", "-F", "max", "--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
    }
    sudo(&["report"]);
    sudo(&["info"]);
    sudo(&["export", "-o", "x.svg"]);
    sudo(&["export", "-o", "x.folded"]);
    for name in ["prof.data", "prof.data.old", "x.svg", "x.folded"] {
        let facts = folder.join(name).metadata().expect("it was written");
        assert_eq!(
            (facts.uid(), facts.gid(), facts.mode() & 0o777),
            (capable.uid, capable.gid, 0o600),
            "{name}"
        );
    }
    assert_eq!(fs::read_dir(folder).expect("own folder").count(), 4);
}

/// Detail 11 of the promises: the file and the command belong to the user who called sudo.
#[test]
fn under_sudo_a_command_runs_as_the_user_who_called_it() {
    let Some(_turn) = turn() else { return };
    let Some(capable) = Capable::without() else { return };
    let folder = capable.folder.path();
    let run = |options: &[&str]| {
        let mut command = prof();
        command.env("SUDO_UID", capable.uid.to_string()).env("SUDO_GID", capable.gid.to_string());
        command.env("HOME", "/root").args(["record", "-f", "-o", "x"]).args(options);
        let script = "umask 022; touch made; exec sh -c 'id -u; id -g; id -G; echo $HOME $USER; exit 3'";
        let output = command.args(["--", "sh", "-c", script]).current_dir(folder).output();
        let output = output.expect("`timeout` can be run");
        assert_eq!(output.status.code(), Some(3), "{}", messages(&output));
        output
    };
    let id = |of: &str| {
        let output = Command::new("id").args([of, "nobody"]).output().expect("`id` can be run");
        text(&output).trim_end().to_owned()
    };
    let passwd = fs::read_to_string("/etc/passwd").expect("/etc/passwd can be read");
    let home =
        passwd.lines().find(|line| line.starts_with("nobody:")).and_then(|line| line.split(':').nth(5));
    let expected = format!("{}\n{}\n{}\n{} nobody\n", id("-u"), id("-g"), id("-G"), home.expect("a home"));
    for options in [&[][..], &["--run-as", "nobody"]] {
        let output = run(options);
        assert_eq!(text(&output), expected, "{options:?}: {}", messages(&output));
        assert_eq!(fs::metadata(folder.join("made")).expect("it was made").uid(), capable.uid);
    }
    assert!(messages(&run(&[])).contains(" as nobody, on-CPU"));
    let as_root = text(&run(&["--run-as", "root"]));
    assert!(as_root.starts_with("0\n0\n"), "{as_root}");
    // What the user may not run is refused, and says how root would.
    let private = folder.join("private");
    fs::copy("/bin/true", &private).expect("it can be copied");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).expect("root may");
    let output = prof()
        .env("SUDO_UID", capable.uid.to_string())
        .env("SUDO_GID", capable.gid.to_string())
        .args(["record", "-o", "none", "--"])
        .arg(&private)
        .current_dir(folder)
        .output()
        .expect("`timeout` can be run");
    assert_eq!(output.status.code(), Some(126), "{}", messages(&output));
    assert!(messages(&output).contains("--run-as root"), "{}", messages(&output));
}

#[test]
fn the_advice_gives_a_program_to_a_group_and_says_what_each_capability_buys() {
    let Some(_turn) = turn() else { return };
    let Some(plain) = Capable::without() else { return };
    let output = plain.prof().args(["record", "-a", "-d", "1s"]).output().expect("`timeout` can be run");
    let said = messages(&output);
    let program = plain.prof.display();
    for part in [
        "groupadd -f prof".to_owned(),
        format!("chgrp prof {program}"),
        format!("chmod 0750 {program}"),
        "+ep".to_owned(),
    ] {
        assert!(said.contains(&part), "no `{part}`:\n{said}");
    }
    for capability in &CAPABILITIES {
        assert!(
            said.contains(&format!("{} {}", capability.name, capability.buys)),
            "{}:\n{said}",
            capability.name
        );
    }
    let doctor = text(&plain.prof().arg("doctor").output().expect("`timeout` can be run"));
    assert!(doctor.contains("CAP_BPF and CAP_PERFMON missing") && doctor.contains("chmod 0750"), "{doctor}");
}

/// Where the kernel's addresses are hidden the setting is named that hides them, in `doctor` and of the recording.
#[test]
fn the_setting_that_hides_kernel_names_is_named() {
    let Some(_turn) = turn() else { return };
    let setting = |name: &str| -> i32 {
        let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).expect("procfs is mounted");
        text.trim().parse().expect("a number")
    };
    let (kptr, paranoid) = (setting("kptr_restrict"), setting("perf_event_paranoid"));
    if kptr == 0 && paranoid <= 1 || paranoid > 2 {
        skip::<()>("the kernel's addresses are open to everyone here, or nobody but root may sample");
        return;
    }
    let (Some(setcap), Some(capable)) = (tool_or_skip("setcap"), Capable::without()) else { return };
    let given = Command::new(setcap).arg("cap_bpf,cap_perfmon+ep").arg(&capable.prof).status();
    if !given.is_ok_and(|status| status.success()) {
        skip::<()>("no capabilities on files here");
        return;
    }
    let both = format!("kernel.kptr_restrict is {kptr}, kernel.perf_event_paranoid is {paranoid}; ");
    let doctor = text(&capable.prof().arg("doctor").output().expect("`timeout` can be run"));
    let doctor = doctor.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(doctor.contains(&both), "{doctor}");
    assert!(doctor.contains("without CAP_SYSLOG: kernel functions have no names"), "{doctor}");
    if kptr == 0 {
        assert!(doctor.contains("perf_event_paranoid above 1 hides them"), "{doctor}");
        assert!(doctor.contains("kernel.perf_event_paranoid=1"), "{doctor}");
    }
    let recorded = capable
        .prof()
        .args([
            "record",
            "-q",
            "-o",
            "x.data",
            "--",
            "dd",
            "if=/dev/zero",
            "of=/dev/null",
            "bs=1M",
            "count=20000",
        ])
        .output();
    assert!(recorded.expect("`timeout` can be run").status.success());
    let report = capable.prof().args(["report", "x.data"]).output().expect("`timeout` can be run");
    let one_line = text(&report).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(one_line.contains(&both), "{one_line}");
}

/// The process that opens files for a recorder.
fn opener_of(recorder: u32) -> u32 {
    wait_for("the opener", || {
        let all = crate::harness::running::children(recorder).into_iter();
        let is_opener = |pid: &u32| Rights::of(*pid).first().is_some_and(|(name, _)| name == "prof-opener");
        all.into_iter().find(is_opener)
    })
}

#[test]
fn a_recording_whose_opener_was_killed_is_kept_and_says_so() {
    let Some(_turn) = turn() else { return };
    let Some(shares) = Running::fixture("shares", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("x.data");
    let recorder = prof()
        .args(["record", "-d", "3s", "-p", &shares.pid().to_string(), "-o"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn()
        .expect("`timeout` can be run");
    let opener = opener_of(recorder_of(&recorder));
    wait_for_samples(&file);
    let opener = rustix::process::Pid::from_raw(opener.cast_signed()).expect("a process id");
    rustix::process::kill_process(opener, rustix::process::Signal::KILL).expect("it runs");
    let output = recorder.wait_with_output().expect("own child");
    let said = messages(&output);
    assert!(output.status.success(), "{said}");
    let notice = "the process that opens files for prof ended during the recording";
    assert_eq!(said.matches(notice).count(), 1, "{said}");
    let report = prof().arg("report").arg(&file).output().expect("`timeout` can be run");
    assert!(text(&report).contains("share_fifty"), "{}", messages(&report));
}
