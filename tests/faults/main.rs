//! The fault suite: what goes wrong around a profiler, one row for each kind of fault, and what must hold all the same.
//!
//! A row either injects its faults here, many times, or names the tests that cover it, or says where it runs or why it cannot.
//! The table at the end counts what was injected, which recordings can be read, samples that no counter accounts for, targets
//! that noticed, and what was left behind in the kernel, on disk or as processes. docs/reliability.md has the table of a run.
//!
//! `cargo test --test faults` runs a short form of each row that has one; `make test-faults` (`PROF_FAULTS=all`) runs all, with
//! the numbers of the contract. `PROF_FAULTS=7,8,N` runs these rows in their long form,
//! `PROF_FAULTS=8:50` one of them with 50 faults (or seconds, or threads: what the row counts).

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking and says what it cannot do"
)]

mod fault;
mod fuse;
#[allow(dead_code, unused_imports, reason = "the live tests use the rest")]
#[path = "../live/harness/mod.rs"]
mod harness;
mod known_tests;
mod leftovers;
mod recorder;
mod rows;
#[path = "../support/mod.rs"]
mod support;
mod target;

use fault::{Fault, How, Outcome};
use std::process::ExitCode;
use std::time::Instant;

/// Which rows run, and in which form.
enum Chosen {
    /// The short form of those that have one.
    Short,
    /// The long form of all, or of the rows with these numbers.
    Long(Option<Vec<String>>),
}

impl Chosen {
    fn from_environment() -> Self {
        match std::env::var("PROF_FAULTS") {
            Err(_) => Chosen::Short,
            Ok(text) if text == "all" => Chosen::Long(None),
            Ok(text) => Chosen::Long(Some(text.split(',').map(|row| row.trim().to_owned()).collect())),
        }
    }

    /// What was chosen, and is no row that injects faults, or no number of them.
    fn unknown(&self, faults: &[Fault]) -> Option<&str> {
        let Chosen::Long(Some(rows)) = self else { return None };
        let is_known = |row: &&String| {
            let (number, count) = row.split_once(':').unwrap_or((row, "1"));
            let is_injected =
                |fault: &Fault| fault.number == number && matches!(fault.how, How::Injected { .. });
            faults.iter().any(is_injected) && count.parse::<u64>().is_ok()
        };
        rows.iter().find(|row| !is_known(row)).map(String::as_str)
    }

    /// How often a row injects its fault; `None` if it does not run.
    fn count(&self, fault: &Fault) -> Option<u64> {
        let How::Injected { short, long, .. } = &fault.how else { return None };
        match self {
            Chosen::Short => *short,
            Chosen::Long(None) => Some(*long),
            Chosen::Long(Some(rows)) => rows.iter().find_map(|row| {
                let (number, count) = row.split_once(':').unwrap_or((row, ""));
                (number == fault.number).then(|| count.parse().unwrap_or(*long))
            }),
        }
    }
}

fn main() -> ExitCode {
    // Arguments of the ordinary harness: a name chooses tests, and there is one here.
    let mut names = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    if std::env::args().any(|argument| argument == "--list")
        || names.next().is_some_and(|name| !"faults".contains(&name))
    {
        return ExitCode::SUCCESS;
    }
    let Some(_turn) = harness::machine::turn_alone() else { return ExitCode::SUCCESS };
    let (chosen, faults) = (Chosen::from_environment(), rows::all());
    if let Some(row) = chosen.unknown(&faults) {
        eprintln!("PROF_FAULTS: `{row}` is no row that injects faults, with a number of them");
        return ExitCode::FAILURE;
    }
    let known = known_tests::all();
    let mut failed = false;
    let mut lines = vec![fault::HEADING.to_owned()];
    let mut total = Outcome::default();
    for fault in faults {
        let begun = Instant::now();
        let verdict = verdict(&fault, &chosen, &known);
        failed |= verdict.is_err();
        let (outcome, words) = match verdict {
            Ok((outcome, words)) => (outcome, words),
            Err(problem) => (None, format!("FAILED: {problem}")),
        };
        if let Some(outcome) = &outcome {
            total.add(outcome);
        }
        let line = fault::line(&fault, outcome.as_ref(), &words, begun.elapsed());
        eprintln!("{line}");
        lines.push(line);
    }
    println!("\n{}", lines.join("\n"));
    println!(
        "faults injected {}, recordings readable {} of {}, samples unaccounted {}, targets harmed {}, leftovers {}",
        total.faults, total.readable, total.recordings, total.unaccounted, total.harmed, total.leftovers
    );
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What became of a row: its numbers if it was injected, and a few words; or what is wrong.
fn verdict(
    fault: &Fault,
    chosen: &Chosen,
    known: &std::collections::BTreeSet<String>,
) -> Result<(Option<Outcome>, String), String> {
    for test in fault.tests {
        if !known.contains(*test) {
            return Err(format!("no test is called {test}"));
        }
    }
    let of_tests = match fault.tests.len() {
        0 => String::new(),
        1 => "; 1 test".to_owned(),
        count => format!("; {count} tests"),
    };
    match (&fault.how, chosen.count(fault)) {
        (How::Tests, _) => Ok((None, format!("covered by {}", of_tests.trim_start_matches("; ")))),
        (How::Guest(what), _) => Ok((None, format!("in a guest: {what}{of_tests}"))),
        (How::Injected { .. }, None) => Ok((None, format!("in the long form{of_tests}"))),
        (How::Injected { run, .. }, Some(count)) => {
            let before = leftovers::Before::now();
            let run = std::panic::catch_unwind(|| run(count));
            let mut outcome = run.map_err(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap_or_default()
            })?;
            let left = before.left();
            outcome.leftovers += left.len() as u64;
            outcome.problems.extend(left);
            outcome.judged().map(|words| (Some(outcome), format!("{words}{of_tests}")))
        }
    }
}
