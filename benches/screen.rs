//! The real program in a real terminal, by a script of keys: from the start to the first screen, from a key to the next
//! screen, from a filter to the picture that follows it, and the memory that it takes. The profile has 1,000,000 samples
//! and some 100,000 nodes of a call tree; others have 1,000,000 waits besides, and 5,000 threads. Two of them are compared.
//!
//! `cargo bench --bench screen`, or with `-- PROGRAM` for another build of `prof`. Other jobs on the machine make single keys late: the medians are what to compare, and the
//! largest value is that of the best of several rounds. The exit status is 1 when a goal is missed.

#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

mod pty;
mod steady;

use prof::internals::profile::{Profile, Writer};
use pty::{Pressed, Screen};
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Rounds; what is printed of maxima is the least of all rounds.
const ROUNDS: usize = 3;
/// A screen that has not changed for so long is the one that a key leads to.
const SETTLED: Duration = Duration::from_millis(700);
/// A key whose screen is there at once.
const AT_ONCE: Duration = Duration::from_millis(12);

/// What keys of one kind took.
#[derive(Debug, Default)]
struct Times {
    /// All rounds.
    all: Vec<Duration>,
    /// The largest of each round.
    largest: Vec<Duration>,
}

impl Times {
    fn add_round(&mut self, times: Vec<Duration>) {
        self.largest.extend(times.iter().max());
        self.all.extend(times);
    }

    fn median(&mut self) -> Duration {
        self.all.sort_unstable();
        self.all.get(self.all.len() / 2).copied().unwrap_or_default()
    }

    /// Prints them; false when a goal is missed.
    fn line(&mut self, what: &str, (median, most): (u64, u64)) -> bool {
        let (found, largest) = (self.median(), self.largest.iter().min().copied().unwrap_or_default());
        let worst = self.largest.iter().max().copied().unwrap_or_default();
        let is_over = found > Duration::from_millis(median) || largest > Duration::from_millis(most);
        println!(
            "{what:<44} {:>5} {:>9.1} {:>9.1} {:>9.1}   {median}/{most}{}",
            self.all.len(),
            milliseconds(found),
            milliseconds(largest),
            milliseconds(worst),
            if is_over { "  OVER" } else { "" }
        );
        !is_over
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Everything that one profile is asked for.
#[derive(Debug, Default)]
struct Figures {
    first_screen: Times,
    keys: Times,
    letters: Times,
    asking: Times,
    answers: Times,
    meanwhile: Times,
    /// By key, in the order of the script: the least of all rounds.
    by_key: Vec<(&'static str, Duration)>,
    resident_kb: u64,
}

/// Keys whose next screen needs no other picture.
const MOVES: &[&str] = &[
    "1", "j", "j", "l", "l", "h", "\r", "j", "j", "l", "\r", "\x1b[B", "\x1b[B", "\x1b[A", "\x1b", "\x1b",
    "0", "G", "g", "\x04", "\x15", "v", "v", "v", "2", "j", "j", "j", "k", "\x1b[6~", "\x1b[6~", "\x1b[5~",
    "G", "g", "S", "S", "5", "j", "k", "1", "?", "?", "!", "!", "4", "j", "l", "l", "l", "h", "k", "H", "l",
    "j", "h", "H", "3", "j", "k", "G", "g", "1",
];
/// Keys that ask for another picture, and those that take it back.
const QUERIES: &[&str] = &[
    "i", "i", "2", "j", "f", "u", "d", "u", "s", "s", "r", "u", "c", "u", "\r", "1", "4", "[", "l", "l", "l",
    "]", "\r", "\x1b", "0", "T", "T", "1",
];
/// The same, where there are waits.
const WAIT_QUERIES: &[&str] = &["m", "m", "m", "4", "m", "m", "m", "1", "2", "m", "f", "u", "m", "m", "1"];

/// The same, in a comparison: the other side, and filters on both.
const COMPARED_QUERIES: &[&str] = &["B", "B", "2", "f", "u", "B", "B", "3", "i", "i", "1"];

/// What is shown, and how.
struct Case<'c> {
    files: Vec<&'c Path>,
    has_waits: bool,
    /// Columns and rows of the terminal.
    size: (u16, u16),
}

fn round(figures: &mut Figures, program: &str, case: &Case<'_>) {
    let began = Instant::now();
    let arguments: Vec<&OsStr> =
        [OsStr::new("tui")].into_iter().chain(case.files.iter().map(|file| file.as_os_str())).collect();
    let mut screen = Screen::start_in(case.size, program, &arguments);
    // The first box: below it a warning may stand, since no one has ended this recording.
    screen.wait_for("all · ");
    figures.first_screen.add_round(vec![began.elapsed()]);
    screen.settle(SETTLED);
    // What is computed when a view is opened for the first time counts among the answers.
    let mut answers: Vec<Duration> = ["4", "3", "1"].map(|key| screen.press(key, SETTLED).settled).into();
    let redraw = |pressed: Pressed| pressed.redraw;
    let keys = MOVES.iter().map(|key| redraw(screen.press(key, AT_ONCE))).collect();
    figures.keys.add_round(keys);
    // A function to filter by.
    screen.press("1", AT_ONCE);
    screen.press("/", AT_ONCE);
    let letters = ["f", "u", "n", "c", "t", "i", "o", "n", "_", "1", "7"];
    figures.letters.add_round(letters.map(|key| redraw(screen.press(key, AT_ONCE))).into());
    screen.press("\r", AT_ONCE);
    figures.keys.add_round(["n", "n", "N", "n"].map(|key| redraw(screen.press(key, AT_ONCE))).into());

    let mut queries = QUERIES.to_vec();
    if case.has_waits {
        queries.extend(WAIT_QUERIES);
    }
    if case.files.len() > 1 {
        queries.extend(COMPARED_QUERIES);
    }
    let pressed: Vec<Pressed> = queries.iter().map(|key| screen.press(key, SETTLED)).collect();
    figures.asking.add_round(pressed.iter().map(|pressed| pressed.redraw).collect());
    answers.extend(pressed.iter().map(|pressed| pressed.settled));
    if figures.by_key.is_empty() {
        figures.by_key = queries.iter().map(|key| (*key, Duration::MAX)).collect();
    }
    for ((_, least), pressed) in figures.by_key.iter_mut().zip(&pressed) {
        *least = pressed.settled.min(*least);
    }
    figures.answers.add_round(answers);
    // While a picture is computed, the screen follows other keys.
    let mut meanwhile = Vec::new();
    for ask in ["i", "i", "I", "I"] {
        screen.send(ask);
        for key in ["j", "k", "j", "l", "h", "k", "j", "k"] {
            meanwhile.push(redraw(screen.press(key, AT_ONCE)));
        }
        screen.settle(SETTLED);
    }
    figures.meanwhile.add_round(meanwhile);
    figures.resident_kb = figures.resident_kb.max(screen.most_resident_kb());
    screen.quit();
}

fn write(mut profile: Profile, file: &Path) {
    let out = File::create(file).expect("a temporary file can be made");
    let mut writer = Writer::new(out, &profile.meta).expect("the file takes all");
    writer.flush(&mut profile, false).expect("the file takes all");
}

/// Measures and prints everything of one case; false when a goal is missed.
fn measure(name: &str, program: &str, case: &Case<'_>) -> bool {
    let mut figures = Figures::default();
    for _ in 0..ROUNDS {
        round(&mut figures, program, case);
    }
    println!("\n{name:<44} {:>5} {:>9} {:>9} {:>9}   goal, ms", "keys", "median", "most", "worst");
    let are_met = [
        figures.first_screen.line("start to first screen", (500, 500)),
        figures.keys.line("key to screen", (16, 50)),
        figures.letters.line("letter of a search to screen", (16, 50)),
        figures.asking.line("key that asks for a picture, to screen", (16, 50)),
        figures.meanwhile.line("key while a picture is computed, to screen", (16, 50)),
        figures.answers.line("key to the picture that it asks for", (150, 150)),
    ];
    let by_key: Vec<String> = (figures.by_key.iter())
        .map(|(key, least)| format!("{} {:.0}", key.escape_debug(), milliseconds(*least)))
        .collect();
    println!("  each, the least of {ROUNDS}: {}", by_key.join(", "));
    println!("{:<44} {:>15} MB", "memory at most", figures.resident_kb >> 10);
    are_met.into_iter().all(|is_met| is_met)
}

fn main() -> ExitCode {
    let program = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let program = program.as_deref().unwrap_or(env!("CARGO_BIN_EXE_prof"));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load at the start: {}", load.trim());
    let [samples, waits, threads] = ["samples", "waits", "threads"].map(|name| folder.path().join(name));
    let running = steady::recording(1_000_000, 6_500).profile.clone();
    write(running.clone(), &samples);
    write(steady::with_waits(running, 1_000_000, 10_000), &waits);
    write(steady::recording_of_threads(1_000_000, 6_500, 5_000).profile.clone(), &threads);
    let (usual, wide) = ((120, 40), (240, 60));
    let case = |files, has_waits, size| Case { files, has_waits, size };
    let cases = [
        ("1,000,000 samples", case(vec![&*samples], false, usual)),
        ("the same in 240 columns and 60 rows", case(vec![&*samples], false, wide)),
        ("the same and 1,000,000 waits", case(vec![&*waits], true, usual)),
        ("1,000,000 samples of 5,000 threads", case(vec![&*threads], false, usual)),
        ("a comparison of 1,000,000 samples a side", case(vec![&*samples, &*threads], false, usual)),
    ];
    let met = cases.iter().filter(|(name, case)| measure(name, program, case)).count();
    if met == cases.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
