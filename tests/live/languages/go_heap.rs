//! The heap of Go programs, against the runtime's own count of it.

use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::{Recording, messages, prof};
use crate::harness::running::Running;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Sum of the rows in which `function` allocates, bytes.
fn bytes_of(report: &Value, function: &str) -> f64 {
    let rows = report["rows"].as_array().expect("a table").iter();
    let rows = rows.filter(|row| row["function"] == function);
    rows.map(|row| row["bytes"].as_f64().expect("a number")).sum()
}

/// Has the program allocate, again and again, as long as `recorded` takes. Returns what that gives, and what the program says of
/// what is in use after each time.
fn while_allocating<T>(program: &mut Child, recorded: impl FnOnce() -> T) -> (T, Vec<f64>) {
    let mut input = program.stdin.take().expect("it is piped");
    let mut lines = BufReader::new(program.stdout.take().expect("it is piped")).lines();
    let mut line = move || lines.next().expect("it says something").expect("in words");
    assert_eq!(line(), "ready");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let allocating = scope.spawn(|| {
            let mut said = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                writeln!(input).expect("it reads");
                let line = line();
                let number = line.strip_prefix("in use ").and_then(|number| number.parse().ok());
                said.push(number.unwrap_or_else(|| panic!("{line}")));
                std::thread::sleep(Duration::from_millis(300));
            }
            said
        });
        let recorded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(recorded));
        is_over.store(true, Ordering::Relaxed);
        let said = allocating.join().expect("it goes on");
        (recorded.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), said)
    })
}

fn check(version: &str, program: &Path) {
    let mut program = Command::new(program)
        .arg("16")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a fixture can be started");
    let pid = program.id().to_string();
    let (recording, said) =
        while_allocating(&mut program, || Recording::with(["-e", "heap", "-d", "4s", "-p", &pid]));
    let words = "heap: reads what the Go runtime samples, one of 524,288 bytes in pid ";
    assert!(recording.messages.contains(words), "{version}: {}", recording.messages);
    let live = recording.report_with(&["--heap"]).0;
    let bytes = bytes_of(&live, "main.newBlock");
    // That of its last collection, which was one of these.
    let is_same = |said: &&f64| (bytes - **said).abs() <= 0.001 * **said;
    assert!(said.iter().any(|said| is_same(&said)), "{version}: {bytes} is none of {said:?}");
    let allocated = recording.report_with(&["--heap", "--allocated"]).0;
    let [kept, wasted] = ["main.newBlock", "main.waste"].map(|name| bytes_of(&allocated, name));
    assert!(kept > 0.0 && kept < bytes, "{version}: {kept} bytes of {bytes} are new");
    assert!(wasted > kept, "{version}: {wasted} bytes of garbage, and {kept}");
    let waste = bytes_of(&live, "main.waste");
    assert!(waste <= 2.0 * 530_000.0, "{version}: {waste} bytes of garbage are live");
    // A call that the compiler has put into its caller is there once.
    let stacks = recording.stacks_with(&["--heap"]);
    stacks.assert_has(&["runtime.main", "main.main", "main.keep"]);
    let is_twice = |name: &str| stacks.any_has(&[name, name]);
    assert!(!is_twice("main.keep") && !is_twice("main.newBlock"), "{version}");
    program.kill().expect("it is ours");
    program.wait().expect("it is ours");
}

#[test]
fn what_go_has_in_use_is_what_its_runtime_says() {
    let Some(_turn) = turn() else { return };
    let own = fixture::build("goheap").map(|program| ("go", program));
    let old =
        fixture::build_by_distribution("goheap", "go").map(|program| ("the distribution's go", program));
    for (version, program) in own.into_iter().chain(old) {
        check(version, &program);
    }
}

/// It is read from its beginning on: all that it has is new.
#[test]
fn a_go_program_that_is_started_is_read_before_it_ends() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("goheap") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = folder.path().join("input");
    std::fs::write(&input, "\n".repeat(20)).expect("a file can be written");
    let recording = Recording::made_by(0, |file| {
        let mut command = prof();
        command.args(["record", "-e", "heap", "-o"]).arg(file).arg("--").arg(&program).arg("64");
        command.stdin(std::fs::File::open(&input).expect("it is there"));
        command
    });
    let allocated = recording.report_with(&["--heap", "--allocated"]).0;
    assert!(bytes_of(&allocated, "main.newBlock") > 0.0, "{allocated:#}");
}

#[test]
fn a_go_program_that_samples_nothing_is_refused_with_the_reason() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("goburn", &["600"]) else { return };
    let output = prof().args(["record", "-e", "heap", "-d", "1s", "-p", &program.pid().to_string()]).output();
    let output = output.expect("`timeout` can be run");
    let said = messages(&output);
    assert!(!output.status.success() && said.contains("nothing in it uses runtime.MemProfile"), "{said}");
}
