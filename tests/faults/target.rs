//! A program that notices what is done to it (`tests/fixtures/unharmed.c`).

use crate::fault::Outcome;
use crate::harness::fixture;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Exit status of a target that ended by itself.
const STATUS: i32 = 7;

/// The running program.
pub(crate) struct Target {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// A program that starts or loads things all the time (`tests/fixtures/storm.c`).
pub(crate) struct Storm(Target);

impl Storm {
    pub(crate) fn start(arguments: &[&str]) -> Storm {
        let program = fixture::build("storm").expect("a C compiler is there");
        let mut command = Command::new(program);
        Storm(Target::ready(command.args(arguments)))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Ends it, and counts it as harmed if it has failed; how many there were.
    pub(crate) fn finish(mut self, outcome: &mut Outcome) -> u64 {
        let (status, text) = self.0.end();
        if status.code() != Some(STATUS) {
            outcome.harmed += 1;
            outcome.problems.push(format!("the target ended with {status}"));
        }
        text.trim().parse().unwrap_or(0)
    }
}

impl Target {
    /// Starts it, with so many threads that sleep.
    pub(crate) fn start(threads: u32) -> Target {
        let program = fixture::build("unharmed").expect("a C compiler is there");
        let mut command = Command::new(program);
        Target::ready(command.arg(threads.to_string()))
    }

    /// Starts a fixture that says when it is ready, and ends when its input does.
    pub(crate) fn ready(command: &mut Command) -> Target {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be run");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the fixture speaks");
        assert_eq!(line, "ready\n", "{command:?} starts");
        Target { child, output }
    }

    /// Ends it: how, and what it has said.
    fn end(&mut self) -> (ExitStatus, String) {
        drop(self.child.stdin.take());
        let mut text = String::new();
        // An error leaves the text short, which is judged.
        let _ = self.output.read_to_string(&mut text);
        (self.child.wait().expect("own child"), text)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The longest time that its working thread was held up between two turns since the last such question.
    pub(crate) fn longest_gap_since(&mut self) -> Duration {
        let input = self.child.stdin.as_mut().expect("it is piped");
        input.write_all(b"?").expect("it reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the fixture speaks");
        let number = line.trim().strip_prefix("gap ").and_then(|number| number.parse().ok());
        Duration::from_nanos(number.expect("the fixture answers"))
    }

    /// Ends it, and counts it as harmed if it has noticed anything.
    pub(crate) fn finish(mut self, outcome: &mut Outcome) {
        let (status, text) = self.end();
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |name: &str| -> Option<u64> {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.parse().ok()
        };
        let is_well = status.code() == Some(STATUS)
            && ["interrupted", "signals", "wrong"].iter().all(|name| number(name) == Some(0));
        if !is_well {
            outcome.harmed += 1;
            outcome.problems.push(format!("the target ended with {status} and said `{}`", text.trim()));
        }
    }
}
