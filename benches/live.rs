//! What watching costs, and what days of it take: how long it is from the start of `prof tui -p` to a screen with boxes, and
//! its CPU, its screen drawn in a pseudo-terminal; memory, folding and snapshots of a recording that has gone on for days.
//! The first two parts need root.
//!
//! `cargo bench --bench live`, with `-- first` for the first part alone, or with `-- PROGRAM` for another build of `prof`.

#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

mod database;
mod pty;

use database::Database;
use prof::internals::record::live::{Simulation, own_memory_kb};
use pty::Screen;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the CPU time of the interface is watched, after its start.
const WATCHED: Duration = Duration::from_secs(20);

/// A program that is ended with this.
struct Target(Child);

impl Target {
    fn start(command: &str) -> Target {
        let shell = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).spawn();
        Target(shell.expect("sh can be run"))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts of each kind of target; what is printed is the median and the longest.
const STARTS: usize = 5;
/// From the start of the program to a screen that shows something, ms: of a small program, and of a database.
const FIRST_SCREEN_GOAL: f64 = 300.0;
const DATABASE_SCREEN_GOAL: f64 = 600.0;

/// A small C program that keeps one CPU busy, built here; `None` without a compiler.
fn small_program(folder: &Path) -> Option<String> {
    let source = folder.join("busy.c");
    std::fs::write(&source, "int main(void) { for (volatile long i = 0;; i++) ; }\n").ok()?;
    built(&source, folder)
}

/// A pool of a thousand threads that sleep, wait for a lock and work by turns.
fn crowd(folder: &Path) -> Option<String> {
    built(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/crowd.c"), folder)
}

/// The command that runs a C program for ten minutes, built here; `None` without a compiler.
fn built(source: &Path, folder: &Path) -> Option<String> {
    let program = folder.join(source.file_stem()?);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-pthread", "-o"]).arg(&program).arg(source);
    cc.status().ok()?.success().then(|| format!("exec {} 600", program.display()))
}

fn first_screens(program: &str) {
    println!("{:<44} {:>12} {:>12}   goal, ms", "start to first boxes", "median, ms", "longest, ms");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let python = "exec python3 -c 'while True: sum(range(1000))'".to_owned();
    let commands = [("a small C program", small_program(folder.path())), ("python3", Some(python))];
    for (what, command) in commands {
        let Some(command) = command else {
            println!("{what:<44} cannot be built here");
            continue;
        };
        let target = Target::start(&command);
        // What is measured is the profiler, not how its target starts.
        std::thread::sleep(Duration::from_secs(1));
        first_screen(what, program, ["-p".into(), target.0.id().to_string().into()], FIRST_SCREEN_GOAL);
    }
    let what = "postgres under pgbench";
    match Database::start() {
        Some(_database) => {
            first_screen(what, program, ["--name".into(), "^postgres$".into()], DATABASE_SCREEN_GOAL);
        }
        None => println!("{what:<44} is not installed, or cannot be run as its account"),
    }
    println!();
}

fn first_screen(what: &str, program: &str, target: [OsString; 2], goal: f64) {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let began = Instant::now();
        let mut screen = Screen::start(program, &["tui".as_ref(), &target[0], &target[1]]);
        screen.wait_for("▏all");
        times.push(began.elapsed().as_secs_f64() * 1e3);
        screen.quit();
    }
    times.sort_unstable_by(f64::total_cmp);
    let (median, longest) = (times[STARTS / 2], times[STARTS - 1]);
    let over = if median > goal { "  OVER" } else { "" };
    println!("{what:<44} {median:>12.0} {longest:>12.0}   {goal}{over}");
}

fn watching(program: &str) {
    println!("{:<44} {:>12} {:>12}   goal, % of a CPU", "watching", "% of a CPU", "memory, MB");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (what, command, cpus, goal) in [
        ("an idle program", Some("exec sleep 100".to_owned()), 1, 1.0),
        ("a busy thread at 999 Hz", small_program(folder.path()), 1, 1.0),
        ("two busy CPUs at 999 Hz", Some("while :; do :; done".to_owned()), 2, 3.0),
        ("a busy pool of 1,000 threads", crowd(folder.path()), 1, 5.0),
    ] {
        let Some(command) = command else {
            println!("{what:<44} cannot be built here");
            continue;
        };
        let targets: Vec<Target> = (0..cpus).map(|_| Target::start(&command)).collect();
        let pids: Vec<String> = targets.iter().map(|target| target.0.id().to_string()).collect();
        let mut screen = Screen::start(program, &["tui".as_ref(), "-p".as_ref(), pids.join(",").as_ref()]);
        screen.wait_for("LIVE");
        screen.draw_for(Duration::from_secs(5));
        let before = screen.cpu_time();
        screen.draw_for(WATCHED);
        let share = 100.0 * (screen.cpu_time() - before).as_secs_f64() / WATCHED.as_secs_f64();
        let memory = screen.most_resident_kb() >> 10;
        println!(
            "{what:<44} {share:>12.2} {memory:>12}   {goal}{}",
            if share > goal { "  OVER" } else { "" }
        );
        screen.quit();
    }
}

fn days() {
    println!(
        "\n{:<16} {:>10} {:>12} {:>9} {:>9} {:>11} {:>13} {:>9} {:>9}",
        "time",
        "rows",
        "table rows",
        "fold, ms",
        "longest",
        "waits, ms",
        "snapshot, ms",
        "RSS, MB",
        "most, MB"
    );
    let mut simulation = Simulation::new(16);
    let (mut folds, mut waits, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
    for minute in (10..=3 * 24 * 60u32).step_by(10) {
        // 200 samples and 100 waits a second, and a stack in three seconds that is new.
        simulation.pass(Duration::from_secs(600), 120_000, 60_000, 200);
        let (fold, wait) = simulation.downsample();
        let (snapshot, took) = simulation.snapshot();
        drop(snapshot);
        folds.push(fold);
        waits.push(wait);
        snapshots.push(took);
        if [10, 60, 6 * 60, 24 * 60, 3 * 24 * 60].contains(&minute) {
            let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
            let longest = |times: &[Duration]| times.iter().max().copied().map_or(0.0, milliseconds);
            folds.sort_unstable();
            let ((rows, table_rows), (now_kb, most_kb)) = (simulation.rows_kept(), own_memory_kb());
            println!(
                "{:<16} {rows:>10} {table_rows:>12} {:>9.1} {:>9.1} {:>11.2} {:>13.2} {:>9} {:>9}",
                format!("{} min", minute),
                milliseconds(folds[folds.len() / 2]),
                longest(&folds),
                longest(&waits),
                longest(&snapshots),
                now_kb >> 10,
                most_kb >> 10
            );
            (folds, waits, snapshots) = Default::default();
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let program = words.iter().find(|word| *word != "first");
    let program = program.map_or(env!("CARGO_BIN_EXE_prof"), String::as_str);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load at the start: {}", load.trim());
    first_screens(program);
    if words.iter().any(|word| word == "first") {
        return;
    }
    watching(program);
    days();
}
