//! Runs `prof` as a user would, and reads back what it recorded through its own reports.

use crate::harness::machine::Crowd;
use crate::harness::running::times_of_threads;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The binary under test.
pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_prof"))
}

/// Seconds after which a command hangs, however crowded the machine is.
pub(crate) const HANGS_AFTER: &str = "600";

/// A command that runs `prof` and ends it when it hangs: a test fails, it does not wait for ever. `timeout` hands the exit
/// status through.
pub(crate) fn prof() -> Command {
    prof_at(binary())
}

/// As [`prof`], for a copy of the binary.
pub(crate) fn prof_at(binary: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--foreground", "--kill-after=300", HANGS_AFTER]).arg(binary);
    // Tests neither write into a user's home nor depend on what was recorded before.
    command.env("PROF_NO_CACHE", "1");
    command
}

/// A shell script with the binary under test as `$0`, in a mount namespace of its own.
pub(crate) fn with_own_mounts(script: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--foreground", HANGS_AFTER, "unshare", "--mount", "--propagation", "private"]);
    command.args(["sh", "-c", script]).arg(binary());
    command
}

/// What a command wrote to standard error.
pub(crate) fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command wrote to standard output.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A profile in a folder of its own.
pub(crate) struct Recording {
    folder: TempDir,
    /// What `prof record` said.
    pub(crate) messages: String,
    /// What the recorded command wrote to standard output.
    pub(crate) output: Vec<u8>,
    /// More threads wanted to run than there were processors.
    pub(crate) was_crowded: bool,
}

impl Recording {
    /// `prof record -o FILE ARGUMENTS…`, which has to succeed.
    pub(crate) fn with<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Recording {
        Recording::ending_with(0, arguments)
    }

    /// `prof record -o FILE ARGUMENTS…`, which has to end with `status`.
    pub(crate) fn ending_with<S: AsRef<OsStr>>(
        status: i32,
        arguments: impl IntoIterator<Item = S>,
    ) -> Recording {
        Recording::made_by(status, |file| {
            let mut command = prof();
            command.arg("record").arg("-o").arg(file).args(arguments);
            command
        })
    }

    /// By a command that writes the file it is given, and has to end with `status`.
    pub(crate) fn made_by(status: i32, command_for: impl FnOnce(&Path) -> Command) -> Recording {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut command = command_for(&folder.path().join("prof.data"));
        let crowd = Crowd::watch();
        let output = command.output().expect("`timeout` can be run");
        let was_crowded = crowd.is_busy();
        let messages = messages(&output);
        assert_eq!(output.status.code(), Some(status), "{command:?} said:\n{messages}");
        Recording { folder, messages, output: output.stdout, was_crowded }
    }

    /// Records a process for `seconds` ("2s"), and for as long as it has meanwhile waited for a CPU that others had.
    pub(crate) fn of_pid(pid: u32, seconds: &str) -> Recording {
        Recording::of_pid_with(pid, seconds, &[])
    }

    /// As [`Recording::of_pid`], with further options.
    pub(crate) fn of_pid_with(pid: u32, seconds: &str, options: &[&str]) -> Recording {
        let target = ["-p", &pid.to_string()];
        Recording::while_running(&[pid], seconds, &[&target, options].concat())
    }

    /// As [`Recording::of_pid`], of a program with files so large that sampling begins before their tables are there, where they
    /// have to be read from a disk: a short recording before it has them kept.
    pub(crate) fn of_large_program(pid: u32, seconds: &str) -> Recording {
        drop(Recording::of_pid(pid, "200ms"));
        Recording::of_pid(pid, seconds)
    }

    /// As [`Recording::of_pid`], of all these processes, with further options.
    pub(crate) fn of_pids_with(pids: &[u32], seconds: &str, options: &[&str]) -> Recording {
        let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        Recording::while_running(pids, seconds, &[&["-p", &list], options].concat())
    }

    /// `prof record ARGUMENTS…` for so long, and for as much longer as the processes are kept waiting for a CPU.
    pub(crate) fn while_running(pids: &[u32], seconds: &str, arguments: &[&str]) -> Recording {
        let wanted = humantime::parse_duration(seconds).expect("a duration");
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut command = prof();
        command.arg("record").args(arguments);
        command.arg("-o").arg(folder.path().join("prof.data")).stderr(Stdio::piped());
        let crowd = Crowd::watch();
        let mut recorder = command.spawn().expect("`timeout` can be run");
        let mut lines = BufReader::new(recorder.stderr.take().expect("it is piped")).lines();
        let mut messages = String::new();
        let mut until = |is_last: &dyn Fn(&str) -> bool| {
            for line in lines.by_ref().map_while(Result::ok) {
                messages.push_str(&line);
                messages.push('\n');
                if is_last(&line) {
                    return;
                }
            }
        };
        until(&|line| line.starts_with("recording "));
        RunningFor::begin(pids, wanted).wait();
        let _ = rustix::process::kill_process(
            Pid::from_raw(recorder.id() as i32).expect("a process id"),
            Signal::INT,
        );
        until(&|_| false);
        let status = recorder.wait().expect("own child");
        assert!(status.success(), "{command:?} ended with {status} and said:\n{messages}");
        let recording = Recording { folder, messages, output: Vec::new(), was_crowded: crowd.is_busy() };
        if recording.was_crowded {
            recording.complete_names();
        }
        recording
    }

    /// The file.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("prof.data")
    }

    /// Runs another command of `prof` on the file; it has to succeed.
    fn read(&self, command: &str, arguments: &[&str]) -> Output {
        let mut reader = prof();
        reader.arg(command).arg(self.file()).args(arguments);
        let output = reader.output().expect("`timeout` can be run");
        assert!(output.status.success(), "{reader:?} said:\n{}", messages(&output));
        output
    }

    /// Gives functions the names for which there was no time while it was recorded.
    pub(crate) fn complete_names(&self) {
        self.read("symbolize", &[]);
    }

    /// The whole report, with all rows.
    pub(crate) fn report(&self) -> Report {
        self.report_with(&[])
    }

    /// The whole report with further options.
    pub(crate) fn report_with(&self, options: &[&str]) -> Report {
        let output = self.read("report", &[&["--json", "-n", "0"], options].concat());
        Report(serde_json::from_slice(&output.stdout).expect("`report --json` prints JSON"), self.was_crowded)
    }

    /// The counters of `prof info`.
    pub(crate) fn info(&self) -> Value {
        self.info_document()["counters"].clone()
    }

    /// All of `prof info`.
    pub(crate) fn info_document(&self) -> Value {
        let output = self.read("info", &["--json"]);
        serde_json::from_slice(&output.stdout).expect("`info --json` prints JSON")
    }

    /// `prof info` as people see it.
    pub(crate) fn info_text(&self) -> String {
        text(&self.read("info", &[]))
    }

    /// The report as people see it.
    pub(crate) fn report_text(&self, options: &[&str]) -> String {
        text(&self.read("report", options))
    }

    /// All stacks.
    pub(crate) fn stacks(&self) -> Stacks {
        self.stacks_with(&[])
    }

    /// The stacks that these options choose.
    pub(crate) fn stacks_with(&self, options: &[&str]) -> Stacks {
        let output = self.read("export", &[&["--format", "folded", "-o", "-"], options].concat());
        Stacks(text(&output).lines().map(Stack::parse).collect())
    }

    /// `prof export -o OUT`.
    pub(crate) fn export(&self, out: &Path) {
        self.read("export", &["-o", out.to_str().expect("a temporary path is text")]);
    }
}

/// A time for processes to run, which is longer by as much as they are kept waiting for a CPU.
pub(crate) struct RunningFor<'a> {
    pids: &'a [u32],
    wanted: Duration,
    begun: Instant,
    queued: Vec<Duration>,
}

impl<'a> RunningFor<'a> {
    /// From now on.
    pub(crate) fn begin(pids: &'a [u32], wanted: Duration) -> Self {
        let queued = pids.iter().map(|pid| time_in_queues(*pid)).collect();
        RunningFor { pids, wanted, begun: Instant::now(), queued }
    }

    /// Returns when it is over, or when none of the processes is there any more.
    pub(crate) fn wait(&self) {
        let is_there = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
        while !self.left().is_zero() && self.pids.iter().any(is_there) {
            std::thread::sleep(self.left().min(Duration::from_millis(50)));
        }
    }

    fn left(&self) -> Duration {
        let of_each = (self.pids.iter().zip(&self.queued))
            .map(|(pid, then)| time_in_queues(*pid).saturating_sub(*then));
        // Longer than so many times the program itself may not live.
        let kept_waiting = of_each.max().unwrap_or_default().min(self.wanted * 4);
        (self.wanted + kept_waiting).saturating_sub(self.begun.elapsed())
    }
}

/// The longest time that a thread of a process has waited for a CPU since it began.
fn time_in_queues(pid: u32) -> Duration {
    times_of_threads(pid).into_iter().map(|times| times.queued).max().unwrap_or_default()
}

/// What `report --json` printed, and whether the recording was made where more threads wanted to run than could.
#[derive(Debug)]
pub(crate) struct Report(pub(crate) Value, bool);

impl Report {
    /// A number of the report, by its JSON pointer.
    pub(crate) fn number(&self, path: &str) -> f64 {
        let value = self.0.pointer(path).and_then(Value::as_f64);
        value.unwrap_or_else(|| panic!("`report --json` has no number {path}"))
    }

    /// How many samples it is about.
    pub(crate) fn samples(&self) -> u64 {
        self.number("/samples") as u64
    }

    /// Asserts that there are so many samples, or on a busy machine as many as the scheduler let the target run for.
    pub(crate) fn assert_enough(&self, least_samples: u64) {
        let samples = self.samples();
        assert!(samples >= self.due_of(least_samples), "only {samples} samples of {}", self.0["totals"]);
    }

    /// So many samples, or four fifths of those that the running time by the scheduler's books makes, if that is less: a few at
    /// least. Of few it depends on chance how many there are. Nothing says how long the target of a recording without waits ran:
    /// on a busy machine a few samples are enough of it.
    pub(crate) fn due_of(&self, least_samples: u64) -> u64 {
        const A_FEW: u64 = 10;
        let totals = &self.0["totals"];
        let is_known = totals["is_by_scheduler"] == true;
        if !is_known && self.1 {
            return least_samples.min(A_FEW);
        }
        let ran_ns = totals["on_cpu_ns"].as_f64().filter(|_| is_known).unwrap_or(f64::INFINITY);
        let period_ns = self.number("/total") / self.samples().max(1) as f64;
        let expected = ran_ns / period_ns.max(1.0);
        least_samples.min((0.8 * expected).min(expected - 4.0 * expected.sqrt()) as u64).max(A_FEW)
    }

    /// Samples that the recorder lost.
    pub(crate) fn lost(&self) -> u64 {
        self.number("/quality/lost") as u64
    }

    /// Samples whose stack ended for `cause`.
    pub(crate) fn cause_samples(&self, cause: &str) -> u64 {
        self.0["quality"]["by_cause"][cause].as_u64().unwrap_or(0)
    }

    /// Length of the recording in seconds.
    pub(crate) fn duration_seconds(&self) -> f64 {
        self.number("/duration_ns") * 1e-9
    }

    /// Share of the samples for which the recorder came too late, percent: where others take the processors from it, tables
    /// are made, and mappings heard of, when it is given one.
    pub(crate) fn late_percent(&self) -> f64 {
        if self.1 { self.late_anywhere_percent() } else { 0.0 }
    }

    /// The same where files change under a program: the recorder has to hear of that first, however free the machine is. A
    /// tenth at most.
    pub(crate) fn late_anywhere_percent(&self) -> f64 {
        const MOST: f64 = 10.0;
        let causes = ["table_not_loaded", "unknown_mapping", "copy_too_short"];
        causes.iter().map(|cause| self.cause_percent(cause)).sum::<f64>().min(MOST)
    }

    /// Share of the samples whose stack reaches the thread's root, percent.
    pub(crate) fn complete_percent(&self) -> f64 {
        self.number("/quality/complete_pct")
    }

    /// Share of the samples whose stack ended for `cause`, percent.
    pub(crate) fn cause_percent(&self, cause: &str) -> f64 {
        let samples = self.0["quality"]["by_cause"][cause].as_f64().unwrap_or(0.0);
        100.0 * samples / self.number("/samples").max(1.0)
    }

    /// Why stacks ended early.
    pub(crate) fn causes(&self) -> String {
        self.0["quality"]["by_cause"].to_string()
    }

    fn rows(&self) -> &[Value] {
        self.0["rows"].as_array().expect("`report --json` has rows")
    }

    /// Total share of the function called exactly `name`, percent; 0 if there is none.
    pub(crate) fn total_percent(&self, name: &str) -> f64 {
        self.percent_of(|row| row["function"] == name, "total")
    }

    /// Self share of all functions in modules whose name contains `module`, percent.
    pub(crate) fn module_percent(&self, module: &str) -> f64 {
        self.percent_of(|row| row["module"].as_str().is_some_and(|name| name.contains(module)), "self")
    }

    /// Self share of all functions whose name contains `part`, percent.
    pub(crate) fn self_percent_containing(&self, part: &str) -> f64 {
        self.percent_of(|row| row["function"].as_str().is_some_and(|name| name.contains(part)), "self")
    }

    /// The largest total share of a function whose name contains `part`, percent.
    pub(crate) fn largest_total_percent_containing(&self, part: &str) -> f64 {
        let matching =
            self.rows().iter().filter(|row| row["function"].as_str().is_some_and(|n| n.contains(part)));
        let largest = matching.filter_map(|row| row["total"].as_f64()).fold(0.0, f64::max);
        100.0 * largest / self.number("/total").max(1.0)
    }

    fn percent_of(&self, matches: impl Fn(&Value) -> bool, field: &str) -> f64 {
        let sum: f64 =
            self.rows().iter().filter(|row| matches(row)).filter_map(|row| row[field].as_f64()).sum();
        100.0 * sum / self.number("/total").max(1.0)
    }

    /// Asserts that there is enough to judge, and that at least 99 % of the stacks are whole.
    pub(crate) fn assert_whole(&self, least_samples: u64) {
        self.assert_whole_or(least_samples, &[]);
    }

    /// As [`Report::assert_whole`], where stacks that ended for one of `allowed` count as whole too.
    pub(crate) fn assert_whole_or(&self, least_samples: u64, allowed: &[&str]) {
        self.assert_enough(least_samples);
        let allowed: f64 = allowed.iter().map(|cause| self.cause_percent(cause)).sum();
        let whole = self.complete_percent() + allowed + self.late_percent();
        assert!(whole >= 99.0, "{whole:.2} % of the stacks are whole; the others: {}", self.causes());
    }

    /// The first functions by self time, for messages.
    pub(crate) fn top(&self) -> String {
        let names = self.rows().iter().take(12).map(|row| format!("{} ({})", row["function"], row["module"]));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// One line of the folded form: command name, then functions from the root to the leaf.
#[derive(Debug)]
pub(crate) struct Stack {
    frames: Vec<String>,
    /// Nanoseconds.
    pub(crate) weight: u64,
}

impl Stack {
    fn parse(line: &str) -> Stack {
        let (frames, weight) = line.rsplit_once(' ').expect("a folded line ends in a weight");
        // Without the marks of inlined and kernel frames.
        let bare = |frame: &str| frame.trim_end_matches("_[i]").trim_end_matches("_[k]").to_owned();
        Stack {
            frames: frames.split(';').map(bare).collect(),
            weight: weight.parse().expect("a folded weight is a number"),
        }
    }

    /// Whether `path` occurs in this order, perhaps with other frames between.
    pub(crate) fn has(&self, path: &[&str]) -> bool {
        let mut rest = path.iter();
        let mut next = rest.next();
        for frame in &self.frames {
            if next.is_some_and(|name| frame == name) {
                next = rest.next();
            }
        }
        next.is_none()
    }

    /// How many frames are called `name`.
    pub(crate) fn count_of(&self, name: &str) -> usize {
        self.frames.iter().filter(|frame| *frame == name).count()
    }

    /// Whether the walk ended before the root.
    pub(crate) fn is_cut(&self) -> bool {
        self.any_contains("[truncated")
    }

    /// Whether the name of some frame contains `part`.
    pub(crate) fn any_contains(&self, part: &str) -> bool {
        self.frames.iter().any(|frame| frame.contains(part))
    }

    /// Whether some frame called `caller` comes directly before one called `callee`.
    pub(crate) fn calls(&self, caller: &str, callee: &str) -> bool {
        self.frames.windows(2).any(|pair| pair[0] == caller && pair[1] == callee)
    }

    /// Number of frames, the command name among them.
    pub(crate) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// The command name.
    pub(crate) fn comm(&self) -> &str {
        &self.frames[0]
    }
}

/// All lines of the folded form.
pub(crate) struct Stacks(pub(crate) Vec<Stack>);

impl Stacks {
    /// Share of the weight whose stacks match, percent.
    pub(crate) fn percent(&self, matches: impl Fn(&Stack) -> bool) -> f64 {
        let all: u64 = self.0.iter().map(|stack| stack.weight).sum();
        let matching: u64 = self.0.iter().filter(|stack| matches(stack)).map(|stack| stack.weight).sum();
        100.0 * matching as f64 / all.max(1) as f64
    }

    /// Whether some stack contains `path` in order.
    pub(crate) fn any_has(&self, path: &[&str]) -> bool {
        self.0.iter().any(|stack| stack.has(path))
    }

    /// Asserts that some stack contains `path` in order.
    pub(crate) fn assert_has(&self, path: &[&str]) {
        if !self.any_has(path) {
            let heaviest = self.0.iter().max_by_key(|stack| stack.weight);
            panic!("no stack has {path:?}; the heaviest is {:?}", heaviest.map(|stack| &stack.frames));
        }
    }
}
