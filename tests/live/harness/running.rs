//! A program that runs for the length of a test, and is gone after it whatever happens.

use crate::harness::fixture;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Seconds for a program that is to run until its test ends it: far longer than any test takes on a crowded machine.
pub(crate) const UNTIL_ENDED: &str = "3600";

/// A program in a process group of its own, which is ended when this is dropped.
pub(crate) struct Running {
    child: Child,
    /// Sent first; the group is killed a little later.
    last_signal: Signal,
    /// Kept open, or a late word of the program would end it.
    output_pipe: Option<BufReader<ChildStdout>>,
}

/// Starts a program. One that was just written may be open for writing for a moment more: in a process that another thread of
/// these tests has forked.
fn spawn(command: &mut Command) -> Child {
    for _ in 0..500 {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(10));
            }
            started => return started.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")),
        }
    }
    panic!("{command:?} is still open for writing");
}

impl Running {
    /// Starts `command`, with nothing to read and its output thrown away.
    pub(crate) fn start(command: &mut Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let child = spawn(command);
        Running { child, last_signal: Signal::TERM, output_pipe: None }
    }

    /// Starts a fixture and waits until it says `ready`; `None` if it cannot be built here.
    pub(crate) fn fixture(name: &str, arguments: &[&str]) -> Option<Running> {
        let program = fixture::build(name)?;
        Some(Running::start_ready(Command::new(program).args(arguments)))
    }

    /// Starts `command` and waits for a line `ready` on its output.
    pub(crate) fn start_ready(command: &mut Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = spawn(command);
        let output = child.stdout.take().expect("the output was asked to be a pipe");
        let mut running = Running { child, last_signal: Signal::TERM, output_pipe: None };
        let mut output = BufReader::new(output);
        let mut said = String::new();
        // An error leaves the text empty, which is judged next.
        let _ = output.read_line(&mut said);
        assert_eq!(said, "ready\n", "{command:?} did not start");
        running.output_pipe = Some(output);
        running
    }

    /// Ends with another signal than SIGTERM.
    pub(crate) fn ended_by(mut self, signal: Signal) -> Running {
        self.last_signal = signal;
        self
    }

    /// Leaves more of the CPUs to what records it, where there are many such programs.
    pub(crate) fn lower_priority(&self) {
        // Without it the test takes longer, no more.
        let _ = rustix::process::setpriority_process(Pid::from_raw(self.pid().cast_signed()), 5);
    }

    /// Ends it, and gives what it printed since it was ready.
    pub(crate) fn finish(mut self) -> String {
        // Errors mean that it has gone already.
        let _ = kill_process_group(Pid::from_child(&self.child), self.last_signal);
        let mut printed = String::new();
        if let Some(output) = &mut self.output_pipe {
            output.read_to_string(&mut printed).expect("what a fixture prints is text");
        }
        printed
    }

    /// Sends a signal to all of its processes.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Waits until it has run for half a second: it has executed what it is, and loaded its libraries, however slow the machine.
    pub(crate) fn let_it_start(&self) {
        const STARTED: Duration = Duration::from_millis(500);
        wait_for("a program to run", || {
            assert!(self.is_alive(), "it has ended: {:?}", self.end());
            let ran: Duration = times_of_threads(self.pid()).iter().map(|times| times.ran).sum();
            (ran >= STARTED).then_some(())
        });
    }

    /// Its process number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs. One that has ended keeps its number until this is dropped: no signal reaches a stranger.
    pub(crate) fn is_alive(&self) -> bool {
        self.end().is_none()
    }

    /// How it has ended, if it has.
    pub(crate) fn end(&self) -> Option<WaitIdStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(Pid::from_child(&self.child)), options)
            .expect("it is a child that no one else waits for")
    }

    /// Waits for a descendant whose command name is `name`, and gives its process number.
    pub(crate) fn descendant(&self, name: &str) -> u32 {
        wait_for(&format!("a descendant called {name}"), || {
            let mut queue = vec![self.pid()];
            while let Some(pid) = queue.pop() {
                if comm(pid).as_deref() == Some(name) {
                    return Some(pid);
                }
                queue.extend(children(pid));
            }
            None
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        // Errors mean that it has gone already.
        let _ = kill_process_group(group, self.last_signal);
        let deadline = Instant::now() + Duration::from_secs(2);
        while self.is_alive() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// What the scheduler's books say of a thread.
pub(crate) struct ThreadTimes {
    /// How long it has run.
    pub(crate) ran: Duration,
    /// How long it has waited for a CPU.
    pub(crate) queued: Duration,
}

/// The books of all threads of a process; none once it is gone.
pub(crate) fn times_of_threads(pid: u32) -> Vec<ThreadTimes> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let times = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let mut numbers =
            text.split_whitespace().map_while(|word| word.parse().ok().map(Duration::from_nanos));
        Some(ThreadTimes { ran: numbers.next()?, queued: numbers.next()? })
    });
    times.collect()
}

/// The command name of a process.
pub(crate) fn comm(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// The children that `pid`'s threads have now.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"));
    let lists = tasks.into_iter().flatten().flatten();
    let texts = lists.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Asks again and again until there is an answer, for longer than a crowded machine takes.
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a recording has begun and two parts of it, a second apart, are written: samples are among them.
pub(crate) fn wait_for_samples(file: &Path) {
    let size = || fs::metadata(file).map_or(0, |facts| facts.len());
    let first = wait_for("the file's head", || Some(size()).filter(|&bytes| bytes > 0));
    let part = wait_for("a first part", || Some(size()).filter(|&bytes| bytes > first));
    wait_for("a second part", || (size() > part).then_some(()));
}
