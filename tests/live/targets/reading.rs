//! Commands of root that read a file: who reads has no rights, and yet all files are read and written that root may name.

use crate::harness::machine::{skip, turn};
use crate::harness::pane::Terminal;
use crate::harness::profiler::{Recording, binary, messages, prof, text};
use crate::harness::running::{children, wait_for};
use crate::targets::rights::Rights;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::CapabilitySet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A small recording, in a folder that only root may enter.
struct ClosedFolder {
    folder: tempfile::TempDir,
}

impl ClosedFolder {
    fn with_recording() -> ClosedFolder {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let recording = Recording::with(["-F", "max", "--", "sh", "-c", script]);
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("own folder");
        fs::copy(recording.file(), folder.path().join("x.data")).expect("own folder");
        ClosedFolder { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// `prof ARGUMENTS…` there.
    fn prof(&self, arguments: &[&str]) -> Output {
        prof().args(arguments).current_dir(self.path()).output().expect("`timeout` can be run")
    }

    /// The same, which has to end with `status`.
    fn run(&self, status: i32, arguments: &[&str]) -> Output {
        let output = self.prof(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", messages(&output));
        output
    }
}

/// All processes of a command that `timeout` has started.
fn processes_of(timeout: u32) -> Vec<u32> {
    let mut all = children(timeout);
    let mut at = 0;
    while at < all.len() {
        let more = children(all[at]);
        all.extend(more);
        at += 1;
    }
    all
}

/// Waits until one of them reads from a pipe, and looks at all: the one that reads has no rights, and the other that to pass
/// signals on to it.
fn assert_reader_has_no_rights(timeout: u32, of: &str) {
    let is_reading = |pid: &u32| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let reads_pipe = |task: fs::DirEntry| {
            let call = fs::read_to_string(task.path().join("syscall")).ok()?;
            let descriptor = call.strip_prefix("0 0x")?.split(' ').next()?.to_owned();
            let descriptor = u32::from_str_radix(&descriptor, 16).ok()?;
            let file = fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
            let name = file.to_string_lossy().into_owned();
            (name.starts_with("pipe:") || name.ends_with("pipe")).then_some(())
        };
        tasks.filter_map(reads_pipe).next().is_some()
    };
    let reader = wait_for(of, || processes_of(timeout).into_iter().find(is_reading));
    for (name, rights) in Rights::of(reader) {
        rights.assert_none(&format!("{of}: {name}"));
        assert_ne!(rights.user, 0, "{of}: {name} reads as root");
    }
    let others: Vec<u32> = processes_of(timeout).into_iter().filter(|pid| *pid != reader).collect();
    assert!(!others.is_empty(), "{of}: no one opens files");
    for (name, rights) in others.into_iter().flat_map(Rights::of) {
        rights.assert_closed(&format!("{of}: {name}"));
        assert_eq!(rights.effective, CapabilitySet::KILL, "{of}: {name}, for signals to the reader");
    }
}

/// A pipe with a name, and who could write into it.
fn named_pipe(folder: &Path) -> (PathBuf, fs::File) {
    let pipe = folder.join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe can be made");
    // For reading too, lest it waits for a reader.
    let writer = fs::OpenOptions::new().read(true).write(true).open(&pipe).expect("own pipe");
    (pipe, writer)
}

#[test]
fn whatever_root_has_read_a_process_without_rights_reads_it() {
    let Some(_turn) = turn() else { return };
    if !cfg!(target_arch = "x86_64") {
        skip::<()>("the numbers of system calls are those of x86-64");
        return;
    }
    let closed = ClosedFolder::with_recording();
    let bytes = fs::read(closed.file("x.data")).expect("own file");
    let commands: [(&[&str], i32); 8] = [
        (&["report", "pipe"], 0),
        (&["info", "pipe"], 0),
        (&["annotate", "no_such_function", "pipe"], 3),
        (&["export", "-o", "out.svg", "pipe"], 0),
        (&["diff", "x.data", "pipe"], 0),
        (&["symbolize", "pipe"], 1),
        (&["import", "-", "-o", "new.data"], 1),
        (&["report", "-"], 0),
    ];
    for (arguments, status) in commands {
        let (pipe, mut writer) = named_pipe(closed.path());
        let mut command = prof();
        command.args(arguments).current_dir(closed.path()).stdout(Stdio::null()).stderr(Stdio::piped());
        let is_stdin = arguments.contains(&"-");
        command.stdin(if is_stdin { Stdio::piped() } else { Stdio::null() });
        let mut timeout = command.spawn().expect("`timeout` can be run");
        assert_reader_has_no_rights(timeout.id(), &arguments.join(" "));
        if is_stdin {
            timeout.stdin.take().expect("it is piped").write_all(&bytes).expect("it reads");
        } else {
            writer.write_all(&bytes).expect("it reads");
        }
        // The end of what is read.
        drop(writer);
        let output = timeout.wait_with_output().expect("own child");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", messages(&output));
        fs::remove_file(pipe).expect("own folder");
    }
    assert!(closed.file("out.svg").exists());
}

#[test]
fn what_root_names_is_read_and_written_in_folders_that_are_closed_to_others() {
    let Some(_turn) = turn() else { return };
    let closed = ClosedFolder::with_recording();
    let absolute = closed.file("x.data").display().to_string();
    for file in ["x.data", "./x.data", &absolute] {
        assert!(text(&closed.run(0, &["report", file])).contains("samples"), "{file}");
    }
    // Written once, and again only where that is said.
    closed.run(0, &["export", "x.data", "-o", "x.svg"]);
    closed.run(1, &["export", "x.data", "-o", "x.svg"]);
    closed.run(0, &["export", "x.data", "-f", "-o", "x.svg"]);
    closed.run(1, &["export", "x.data", "-f", "--format", "folded", "-o", "x.data"]);
    closed.run(3, &["report", "x.data", "--thread", "no such thread"]);
    closed.run(1, &["report", "gone.data"]);
    closed.run(0, &["export", "x.data", "-o", &closed.file("x.folded").display().to_string()]);
    closed.run(0, &["import", "x.folded", "-o", "y.data"]);
    closed.run(0, &["diff", "x.data", "x.data", "-o", "diff.txt"]);
    let before = closed.file("y.data").metadata().expect("it was written");
    assert_eq!((before.uid(), before.mode() & 0o777), (0, 0o600));
    closed.run(0, &["symbolize", "x.data"]);
    let after = closed.file("x.data").metadata().expect("it is there");
    assert_eq!((after.uid(), after.mode() & 0o777), (0, 0o600));
    let left: Vec<_> = fs::read_dir(closed.path()).expect("own folder").flatten().collect();
    assert_eq!(left.len(), 5, "{left:?}");
    // A reader that leaves, as `head`.
    let script =
        format!("{} export x.data --format folded -o - | true; exit ${{PIPESTATUS[0]}}", binary().display());
    let output = Command::new("bash").args(["-c", &script]).current_dir(closed.path()).output();
    let status = output.expect("bash can be run").status.code();
    assert!(matches!(status, Some(0 | 141)), "{status:?}");
    // What a killed recorder had put aside is found.
    fs::rename(closed.file("x.data"), closed.file("x.data.12345.old")).expect("own folder");
    let said = messages(&closed.run(1, &["report", "x.data"]));
    assert!(said.contains("prof report x.data.12345.old"), "{said}");
}

#[test]
fn signals_reach_who_reads_and_its_end_is_the_end_of_the_command() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (pipe, _writer) = named_pipe(folder.path());
    for signal in [Signal::TERM, Signal::INT, Signal::KILL] {
        let mut command = Command::new(binary());
        // A shell has what it runs in the background ignore this one, and these tests may be that.
        // SAFETY: signal(2) may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut command = command.arg("report").arg(&pipe).spawn().expect("prof can be run");
        let reader = wait_for("the reader", || children(command.id()).first().copied());
        wait_for("reading", || {
            let call = fs::read_to_string(format!("/proc/{reader}/syscall")).ok()?;
            call.starts_with("0 ").then_some(())
        });
        kill_process(Pid::from_child(&command), signal).expect("own child");
        assert_eq!(command.wait().expect("own child").signal(), Some(signal.as_raw()));
        wait_for("its end", || (!Path::new(&format!("/proc/{reader}/stat")).exists()).then_some(()));
    }
}

#[test]
fn a_pager_of_root_is_roots_own() {
    let Some(_turn) = turn() else { return };
    let Some(terminal) = Terminal::open(80, 8) else { return };
    let closed = ClosedFolder::with_recording();
    let pager = closed.file("pager");
    fs::write(&pager, "#!/bin/sh\nid -u > user\ngrep -c samples > lines\n").expect("own folder");
    fs::set_permissions(&pager, fs::Permissions::from_mode(0o700)).expect("own file");
    terminal.type_text(&format!("cd {}", closed.path().display()));
    terminal.press(&["Enter"]);
    terminal.type_text(&format!("PROF_PAGER=./pager {} report x.data; echo en'd'ed", binary().display()));
    terminal.press(&["Enter"]);
    terminal.wait_for("ended");
    let read = |name: &str| fs::read_to_string(closed.file(name)).expect("the pager has written it");
    assert_eq!((read("user").trim(), read("lines").trim()), ("0", "1"));
}
