//! A row of the table, and what came of it.

use std::time::Duration;

/// One kind of fault.
pub(crate) struct Fault {
    /// Number of the row.
    pub(crate) number: &'static str,
    pub(crate) name: &'static str,
    /// What must hold.
    pub(crate) holds: &'static str,
    /// Tests that assert it, too, or instead.
    pub(crate) tests: &'static [&'static str],
    pub(crate) how: How,
}

/// Where a fault happens.
pub(crate) enum How {
    /// Here, so many times.
    Injected {
        /// In the short form; `None` if the row is only in the long one.
        short: Option<u64>,
        long: u64,
        run: fn(u64) -> Outcome,
    },
    /// In tests that exist.
    Tests,
    /// Only on a machine of its own: what is done there.
    Guest(&'static str),
}

/// What came of the faults of a row.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) faults: u64,
    /// Recordings that were to be readable, or refused with a message and no file.
    pub(crate) recordings: u64,
    pub(crate) readable: u64,
    /// Samples that the kernel side counted, and that are neither written, nor lost, nor left out.
    pub(crate) unaccounted: u64,
    pub(crate) harmed: u64,
    pub(crate) leftovers: u64,
    /// What is worth saying of the run.
    pub(crate) note: String,
    /// What did not hold.
    pub(crate) problems: Vec<String>,
}

impl Outcome {
    pub(crate) fn add(&mut self, other: &Outcome) {
        self.faults += other.faults;
        self.recordings += other.recordings;
        self.readable += other.readable;
        self.unaccounted += other.unaccounted;
        self.harmed += other.harmed;
        self.leftovers += other.leftovers;
    }

    /// Notes what does not hold.
    pub(crate) fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(otherwise());
        }
    }

    /// A few words if all holds.
    ///
    /// # Errors
    ///
    /// What does not hold.
    pub(crate) fn judged(&self) -> Result<String, String> {
        let sums = [
            (self.recordings - self.readable, "recordings cannot be read"),
            (self.unaccounted, "samples are unaccounted for"),
            (self.harmed, "targets were harmed"),
            (self.leftovers, "things were left behind"),
        ];
        let wrong =
            sums.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let mut wrong: Vec<String> = wrong.collect();
        const MOST_SAID: usize = 5;
        wrong.extend(self.problems.iter().take(MOST_SAID).cloned());
        if wrong.is_empty() { Ok(self.note.clone()) } else { Err(wrong.join("; ")) }
    }
}

pub(crate) const HEADING: &str = "row  fault                                     faults  readable  unacc.  harmed  left      s  what came of it";

/// The line of a row.
pub(crate) fn line(fault: &Fault, outcome: Option<&Outcome>, words: &str, took: Duration) -> String {
    let numbers = match outcome {
        Some(outcome) => format!(
            "{:>6}  {:>8}  {:>6}  {:>6}  {:>4}  {:>5}",
            outcome.faults,
            format!("{}/{}", outcome.readable, outcome.recordings),
            outcome.unaccounted,
            outcome.harmed,
            outcome.leftovers,
            took.as_secs()
        ),
        None => format!("{:>6}  {:>8}  {:>6}  {:>6}  {:>4}  {:>5}", "-", "-", "-", "-", "-", "-"),
    };
    let words = words.trim_start_matches("; ");
    let says = if words.starts_with("FAILED") {
        format!("{words} (must hold: {})", fault.holds)
    } else {
        words.to_owned()
    };
    format!("{:<4} {:<40}  {numbers}  {says}", fault.number, fault.name)
}
