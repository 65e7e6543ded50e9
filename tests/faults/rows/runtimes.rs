//! Programs of runtimes that have signals, stacks and code of their own, recorded for long.

use super::storage::needs;
use crate::fault::{Fault, How, Outcome};
use crate::recorder::{Recorder, samples};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Exit status of a program all of whose sums were right.
const STATUS: i32 = 7;

/// A program in a language: it computes what it knows, makes garbage, throws, and sleeps, in two threads, until its input ends.
struct Program {
    /// What runs or compiles it.
    tool: &'static str,
    file: &'static str,
    source: &'static str,
    /// Compiles it in its folder.
    compile: &'static [&'static str],
    run: &'static [&'static str],
}

const PROGRAMS: [Program; 4] = [
    Program {
        tool: "python3",
        file: "sums.py",
        source: r"
import os, sys, threading, time
wrong = 0
over = False
def fails(n):
    raise ValueError(n)
def work():
    global wrong
    while not over:
        for n in range(200):
            try:
                fails(n)
            except ValueError as error:
                wrong += error.args[0] != n
        wrong += sum(str(n).count('7') for n in range(1000)) != 300
        time.sleep(0.001)
threads = [threading.Thread(target=work) for _ in range(2)]
[thread.start() for thread in threads]
print('ready', flush=True)
sys.stdin.read()
over = True
[thread.join() for thread in threads]
os._exit(7 if wrong == 0 else 1)
",
        compile: &[],
        run: &["python3", "sums.py"],
    },
    Program {
        tool: "node",
        file: "sums.js",
        source: r"
let wrong = 0;
function fails(n) { throw new Error(n); }
function turn() {
  for (let n = 0; n < 200; n++) {
    try { fails(n); } catch (error) { wrong += Number(error.message) !== n; }
  }
  const texts = Array.from({ length: 1000 }, (_, n) => String(n));
  wrong += texts.join('').split('7').length - 1 !== 300;
  setTimeout(turn, 1);
}
turn();
console.log('ready');
process.stdin.on('data', () => {});
process.stdin.on('end', () => process.exit(wrong === 0 ? 7 : 1));
",
        compile: &[],
        run: &["node", "sums.js"],
    },
    Program {
        tool: "javac",
        file: "Sums.java",
        source: r#"
public class Sums {
    static volatile boolean over;
    static volatile int wrong;
    static void fails(int n) { throw new IllegalStateException(Integer.toString(n)); }
    static void work() {
        while (!over) {
            for (int n = 0; n < 200; n++) {
                try { fails(n); } catch (IllegalStateException error) { if (!error.getMessage().equals("" + n)) wrong = 1; }
            }
            StringBuilder text = new StringBuilder();
            for (int n = 0; n < 1000; n++) text.append(n);
            if (text.chars().filter(c -> c == '7').count() != 300) wrong = 1;
            try { Thread.sleep(1); } catch (InterruptedException error) { wrong = 1; }
        }
    }
    public static void main(String[] arguments) throws Exception {
        Thread[] threads = { new Thread(Sums::work), new Thread(Sums::work) };
        for (Thread thread : threads) thread.start();
        System.out.println("ready");
        while (System.in.read() >= 0) {}
        over = true;
        for (Thread thread : threads) thread.join();
        System.exit(wrong == 0 ? 7 : 1);
    }
}
"#,
        compile: &["javac", "Sums.java"],
        run: &["java", "-cp", ".", "Sums"],
    },
    Program {
        tool: "go",
        file: "sums.go",
        source: r#"
package main

import ("fmt"; "io"; "os"; "strings"; "sync"; "sync/atomic"; "time")

var over, wrong atomic.Bool

func deep(n int) int {
	if n == 0 { return 0 }
	return 1 + deep(n-1)
}

func fails(n int) (told int) {
	defer func() { told = recover().(int) }()
	panic(n)
}

func work(group *sync.WaitGroup) {
	defer group.Done()
	for !over.Load() {
		for n := 0; n < 200; n++ {
			if fails(n) != n { wrong.Store(true) }
		}
		var text strings.Builder
		for n := 0; n < 1000; n++ { fmt.Fprint(&text, n) }
		if strings.Count(text.String(), "7") != 300 { wrong.Store(true) }
		done := make(chan int)
		go func() { done <- deep(10000) }()
		if <-done != 10000 { wrong.Store(true) }
		time.Sleep(time.Millisecond)
	}
}

func main() {
	var group sync.WaitGroup
	group.Add(2)
	go work(&group)
	go work(&group)
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	over.Store(true)
	group.Wait()
	if wrong.Load() { os.Exit(1) }
	os.Exit(7)
}
"#,
        compile: &["go", "build", "-o", "sums", "sums.go"],
        run: &["./sums"],
    },
];

pub(super) fn rows() -> Vec<Fault> {
    vec![Fault {
        number: "52",
        name: "Go, Java, Node and Python are recorded for minutes",
        holds: "each sum is right, and the programs end as without prof",
        tests: &[],
        how: How::Injected { short: None, long: 600, run: recorded_for },
    }]
}

impl Program {
    /// Compiles and starts it, next to where it writes.
    fn start(&self, folder: &Path) -> Child {
        fs::write(folder.join(self.file), self.source).expect("own folder");
        if let Some((tool, arguments)) = self.compile.split_first() {
            let mut compile = Command::new(tool);
            compile.env("GOCACHE", folder.join("cache")).env("HOME", folder);
            let output =
                compile.args(arguments).current_dir(folder).output().expect("the compiler can be run");
            assert!(output.status.success(), "{}: {}", self.file, String::from_utf8_lossy(&output.stderr));
        }
        let (program, arguments) = self.run.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().expect("it can be run")
    }
}

/// All at once for so many seconds, at 999 Hz on and off CPU.
fn recorded_for(seconds: u64) -> Outcome {
    let mut outcome = Outcome { faults: PROGRAMS.len() as u64, ..Outcome::default() };
    if !PROGRAMS.iter().all(|program| needs(program.tool, &mut outcome)) {
        return outcome;
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut running: Vec<(&Program, Child)> =
        PROGRAMS.iter().map(|program| (program, program.start(folder.path()))).collect();
    // Runtimes take some time to come to their work.
    std::thread::sleep(Duration::from_secs(2));
    let length = format!("{seconds}s");
    let begin =
        |pid: u32| Recorder::start(&["-F", "999", "-e", "cpu,off", "-p", &pid.to_string(), "-d", &length]);
    let recorders: Vec<Recorder> = running.iter().map(|(_, child)| begin(child.id())).collect();
    let mut said = Vec::new();
    for (recorder, (program, child)) in recorders.into_iter().zip(&mut running) {
        let ended = recorder.end_within(Duration::from_secs(seconds), &mut outcome);
        outcome.expect(ended.status.success(), || format!("{}: `{}`", program.file, ended.said.trim()));
        let facts = ended.count(&mut outcome).unwrap_or_default();
        outcome.expect(samples(&facts) > 0, || format!("{}: no samples", program.file));
        drop(child.stdin.take());
        let status = child.wait().expect("own child");
        if status.code() != Some(STATUS) {
            outcome.harmed += 1;
            outcome.problems.push(format!("{} ended with {status}", program.file));
        }
        said.push(format!("{} {}", program.file, crate::recorder::counter(&facts, "kernel_hits")));
    }
    outcome.note = format!("hits of {}", said.join(", "));
    outcome
}
