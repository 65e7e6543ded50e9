//! Waits of goroutines for locks, against what the runtime has counted itself.

use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::pane::Terminal;
use crate::harness::profiler::{Recording, binary, prof};
use serde_json::Value;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The fixture, which says what it has counted whenever it is asked.
struct GoLocks {
    program: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// What it says: number and time of waits in `want`, and of locks that `hold` has let go, the fraction of these that is sampled, and
/// the number of waits that are sampled of fifty.
#[derive(Debug)]
struct Counted {
    waits: f64,
    waited_ms: f64,
    releases: f64,
    held_ms: f64,
    fraction: i64,
    sampled: i64,
}

impl GoLocks {
    fn start(program: &Path, arguments: &[&str]) -> Self {
        let program =
            Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut program = program.expect("a fixture can be started");
        let input = program.stdin.take().expect("it is piped");
        let mut lines = BufReader::new(program.stdout.take().expect("it is piped")).lines();
        assert_eq!(lines.next().expect("it says something").expect("in words"), "ready");
        GoLocks { program, input, lines }
    }

    fn pid(&self) -> String {
        self.program.id().to_string()
    }

    fn counted(&mut self) -> Counted {
        writeln!(self.input).expect("it reads");
        let line = self.lines.next().expect("it says something").expect("in words");
        let numbers: Vec<i64> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
        let [waits, waited_ms, releases, held_ms, fraction, sampled] = numbers[..] else { panic!("{line}") };
        let [waits, waited_ms, releases, held_ms] = [waits, waited_ms, releases, held_ms].map(|n| n as f64);
        Counted { waits, waited_ms, releases, held_ms, fraction, sampled }
    }
}

impl Drop for GoLocks {
    fn drop(&mut self) {
        self.program.kill().expect("it is ours");
        self.program.wait().expect("it is ours");
    }
}

/// Number and milliseconds of the rows of a table of locks in which `field` is `value`.
fn sum(report: &Value, field: &str, value: &str) -> (f64, f64) {
    let rows = report["rows"].as_array().expect("a table").iter().filter(|row| row[field] == value);
    rows.fold((0.0, 0.0), |(count, ms), row| {
        let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row:#}"));
        (count + number("count"), ms + number("wait_ns") / 1e6)
    })
}

fn check(version: &str, program: &Path) {
    let mut program = GoLocks::start(program, &[]);
    let pid = program.pid();
    let recording = Recording::with(["-e", "cpu,lock", "-d", "3s", "-p", &pid]);
    let words = format!("lock: has the Go runtime sample waits for locks in pid {pid} while it records");
    assert!(recording.messages.contains(&words), "{version}: {}", recording.messages);
    let truth = program.counted();
    // As it was, and what it counted is what is in the file, but for the moment before it was so.
    assert_eq!((truth.fraction, truth.sampled), (0, 0), "{version}: {truth:?}");
    // The runtime counts ticks, whose rate old versions measure in a tenth of a second: a thread that is off the CPU for a millisecond
    // meanwhile puts it off by a hundredth.
    let is_near = |found: f64, counted: f64| found <= 1.03 * counted + 1.0 && found >= 0.7 * counted - 3.0;
    let by_waiter = recording.report_with(&["--locks", "--by", "waiter"]).0;
    let (waits, waited_ms) = sum(&by_waiter, "function", "main.want");
    assert!(truth.waits > 20.0 && is_near(waits, truth.waits), "{version}: {waits} of {truth:?}");
    assert!(is_near(waited_ms, truth.waited_ms), "{version}: {waited_ms} ms of {truth:?}");
    assert_eq!(sum(&by_waiter, "function", "main.take").0, 0.0, "{version}: a channel is no lock");
    let by_holder = recording.report_with(&["--locks", "--by", "holder"]).0;
    let (releases, held_ms) = sum(&by_holder, "function", "main.hold");
    assert!(truth.releases > 5.0 && is_near(releases, truth.releases), "{version}: {releases} of {truth:?}");
    assert!(is_near(held_ms, truth.held_ms), "{version}: {held_ms} ms of {truth:?}");
    // One row has both sides.
    let by_lock = recording.report_with(&["--locks"]).0;
    let (count, ms) = sum(&by_lock, "function", "[locks of goroutines]");
    assert!(count >= waits && ms >= waited_ms, "{version}: {by_lock:#}");
    let row = by_lock["rows"]
        .as_array()
        .expect("a table")
        .iter()
        .find(|row| row["function"] == "[locks of goroutines]");
    let row = row.expect("it was counted");
    assert_eq!(
        (&row["waiters"][0]["function"], &row["released_by"][0]["function"], &row["kind"]),
        (&"main.want".into(), &"main.hold".into(), &"mutex".into()),
        "{version}: {row:#}"
    );
    let idle = recording.report_with(&["--locks", "--idle", "--by", "waiter"]).0;
    assert!(sum(&idle, "function", "main.take").0 > 0.0, "{version}: {idle:#}");
    // Calls that the compiler has put into their callers are there once.
    let stacks = recording.stacks_with(&["--locks", "--by", "holder"]);
    stacks.assert_has(&["main.hold", "sync.(*Mutex).Unlock"]);
    assert!(!stacks.any_has(&["main.hold", "main.hold"]), "{version}");
    recording.stacks_with(&["--locks"]).assert_has(&["main.want", "sync.(*Mutex).Lock"]);
}

#[test]
fn locks_of_goroutines_have_both_sides_by_the_runtimes_own_count() {
    let Some(_turn) = turn() else { return };
    let own = fixture::build("golocks").map(|program| ("go", program));
    let old =
        fixture::build_by_distribution("golocks", "go").map(|program| ("the distribution's go", program));
    for (version, program) in own.into_iter().chain(old) {
        check(version, &program);
    }
}

/// Its events come once there is something in them.
#[test]
fn a_live_view_has_locks_of_goroutines() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("golocks") else { return };
    let Some(terminal) = Terminal::open(140, 30) else { return };
    let program = GoLocks::start(&program, &[]);
    terminal.type_text(&format!("{} live -e lock -p {}", binary().display(), program.pid()));
    terminal.press(&["Enter"]);
    terminal.wait_for("LIVE");
    terminal.press(&["7"]);
    terminal.wait_for("[locks of goroutines]");
    terminal.press(&["L"]);
    terminal.wait_for("main.want");
    terminal.press(&["q"]);
}

#[test]
fn rates_that_a_go_program_has_set_stay_and_a_killed_recorder_leaves_none() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("golocks") else { return };
    let mut own = GoLocks::start(&program, &["own"]);
    let recording = Recording::with(["-e", "lock", "-d", "2s", "-p", &own.pid()]);
    let truth = own.counted();
    assert!((truth.fraction, truth.sampled > 0) == (5, true), "{truth:?}");
    let by_waiter = recording.report_with(&["--locks", "--by", "waiter"]).0;
    assert!(sum(&by_waiter, "function", "main.want").0 > 0.0, "{by_waiter:#}");
    drop(own);
    let mut killed = GoLocks::start(&program, &[]);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_prof"));
    recorder
        .args(["record", "-q", "-e", "lock", "-p", &killed.pid(), "-o"])
        .arg(folder.path().join("prof.data"));
    let mut recorder = recorder.spawn().expect("it was built");
    let is_sampled = |killed: &mut GoLocks, is_wanted: bool| {
        (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            (killed.counted().sampled > 0) == is_wanted
        })
    };
    assert!(is_sampled(&mut killed, true), "it is recorded");
    recorder.kill().expect("it is ours");
    recorder.wait().expect("it is ours");
    assert!(is_sampled(&mut killed, false), "the process that keeps the rights takes them back");
    assert_eq!(killed.counted().fraction, 0);
}

#[test]
fn a_go_program_that_is_started_has_its_waits_recorded() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("golocks") else { return };
    let recording = Recording::made_by(0, |file| {
        let mut command = prof();
        command.args(["record", "-e", "lock", "-o"]).arg(file).arg("--").arg(&program).arg("3");
        command
    });
    let by_waiter = recording.report_with(&["--locks", "--by", "waiter"]).0;
    assert!(sum(&by_waiter, "function", "main.want").0 > 0.0, "{by_waiter:#}");
}

/// The first of two recorders to end takes the rates away from the other, which says so.
#[test]
fn rates_that_another_recorder_takes_back_are_missed() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("golocks") else { return };
    let mut program = GoLocks::start(&program, &[]);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("prof.data");
    let mut longer = Command::new(env!("CARGO_BIN_EXE_prof"));
    longer.args(["record", "-q", "-e", "lock", "-p", &program.pid(), "-o"]).arg(&file);
    let mut longer = longer.spawn().expect("it was built");
    let is_sampled = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        program.counted().sampled > 0
    });
    assert!(is_sampled, "it is recorded");
    Recording::with(["-e", "lock", "-d", "500ms", "-p", &program.pid()]);
    // It looks five times a second.
    std::thread::sleep(Duration::from_secs(2));
    let end = rustix::process::Signal::INT;
    rustix::process::kill_process(rustix::process::Pid::from_child(&longer), end).expect("it is ours");
    assert!(longer.wait().expect("it is ours").success());
    let report = prof().args(["report"]).arg(&file).output().expect("`timeout` can be run");
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    // Whatever the width of its lines.
    let words = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("were changed while it was recorded"), "{report}");
    assert_eq!(program.counted().fraction, 0);
}
