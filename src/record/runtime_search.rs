//! The search for the runtimes of languages in recorded processes, as far as it is the same for all of them: when to look
//! again, and what is said of those that cannot be read.

/// Time after which a runtime that has not begun is not looked for any more, ns.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Shortest time between two attempts, ns; longer ones grow with the time since the first.
const LEAST_INTERVAL_NS: u64 = 1_000_000;
/// Sentences that are kept, and the one in place of all others.
const MOST_PROBLEMS: usize = 16;
const MORE_PROBLEMS: &str =
    "further processes have runtimes of languages that cannot be read: `prof doctor -p PID` says why";

/// The time of the next attempt after one at `now_ns` that failed for the moment; `None` when it is time to give up. The first
/// was at `since_ns`. All CLOCK_MONOTONIC, ns.
pub(super) fn next_attempt_ns(now_ns: u64, since_ns: u64) -> Option<u64> {
    let age_ns = now_ns.saturating_sub(since_ns);
    (age_ns < PATIENCE_NS).then(|| now_ns + (age_ns / 16).max(LEAST_INTERVAL_NS))
}

/// Sentences about runtimes that cannot be read, each once.
#[derive(Debug, Default)]
pub(super) struct RuntimeProblems {
    known: Vec<String>,
    /// Number of these that were taken.
    taken: usize,
}

impl RuntimeProblems {
    /// Adds a sentence.
    pub(super) fn note(&mut self, problem: &str) {
        if self.known.len() > MOST_PROBLEMS || self.known.iter().any(|known| known == problem) {
            return;
        }
        let is_last = self.known.len() == MOST_PROBLEMS;
        self.known.push(if is_last { MORE_PROBLEMS } else { problem }.to_owned());
    }

    /// Takes those that were not taken before.
    pub(super) fn take(&mut self) -> Vec<String> {
        let from = std::mem::replace(&mut self.taken, self.known.len());
        self.known[from..].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_said_once_and_that_there_are_more() {
        let mut problems = RuntimeProblems::default();
        (0..2 * MOST_PROBLEMS).for_each(|number| problems.note(&format!("problem {number}")));
        problems.note("problem 0");
        let said = problems.take();
        assert_eq!((said.len(), said[0].as_str()), (MOST_PROBLEMS + 1, "problem 0"));
        assert_eq!(said[MOST_PROBLEMS], MORE_PROBLEMS);
        assert!(problems.take().is_empty());
    }

    #[test]
    fn attempts_become_rarer_and_end() {
        let began = 5_000_000_000;
        assert_eq!(next_attempt_ns(began, began), Some(began + LEAST_INTERVAL_NS));
        let later = began + 3_200_000_000;
        assert_eq!(next_attempt_ns(later, began), Some(later + 200_000_000));
        assert_eq!(next_attempt_ns(began + PATIENCE_NS, began), None);
    }
}
