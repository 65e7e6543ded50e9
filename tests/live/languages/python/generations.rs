//! Functions that are made, run and freed, a thousand times a second: none has the name of another one.

use crate::harness::machine::turn;
use crate::languages::python::interpreters::{Target, recorded_in_all};
use crate::languages::recorded::{RunSample, RunStacks, UNREAD};

/// A function that was made, and from when to when it ran, CLOCK_MONOTONIC, ns.
struct Made {
    number: u32,
    from_ns: u64,
    to_ns: u64,
}

fn book(target: &Target) -> Vec<Made> {
    let entry = |line: &str| {
        let mut words = line.split(' ');
        let number = words.next()?.parse().ok()?;
        Some(Made { number, from_ns: words.next()?.parse().ok()?, to_ns: words.next()?.parse().ok()? })
    };
    target.printed.lines().filter_map(entry).collect()
}

/// How many names were right, wrong, and missing.
#[derive(Debug, Default)]
struct Names {
    right: u64,
    wrong: u64,
    unread: u64,
    /// The first wrong one.
    example: String,
}

impl Names {
    fn judge(&mut self, made: &Made, sample: &RunSample) {
        let run = sample.run();
        // `run` > `make` > the function > `burn`.
        let at = run.iter().position(|step| step.name == "make");
        let Some(step) = at.and_then(|index| run.get(index + 1)) else { return };
        let expected = (format!("made_{:06}", made.number), format!("/made/{:06}.py", made.number));
        let is_made = step.name.starts_with("made_") || step.file.starts_with("/made/");
        if step.name == UNREAD {
            self.unread += 1;
        } else if (&step.name, &step.file) == (&expected.0, &expected.1) {
            self.right += 1;
        } else if is_made {
            self.wrong += 1;
            self.example = format!("{} ({}) instead of {expected:?}", step.name, step.file);
        }
    }
}

#[test]
fn functions_at_the_places_of_others_do_not_have_their_names() {
    let Some(_turn) = turn() else { return };
    let Some((recording, targets)) = recorded_in_all("made.py", "4s", &["-F", "1999", "-e", "cpu"]) else {
        return;
    };
    let stacks = RunStacks::read(&recording.file());
    let uncertain = stacks.profile.counter("interpreter_frames_uncertain");
    let mut wrong = Vec::new();
    for target in &targets {
        let book = book(target);
        let mut names = Names::default();
        for sample in stacks.of(target.pid) {
            let time_ns = stacks.profile.meta.start_mono_ns + sample.sample.time_ns;
            let next = book.partition_point(|made| made.from_ns <= time_ns);
            let made = next.checked_sub(1).map(|index| &book[index]);
            if let Some(made) = made.filter(|made| time_ns < made.to_ns) {
                names.judge(made, sample);
            }
        }
        println!("python {}: {names:?}", target.python.version);
        let judged = names.right + names.wrong + names.unread;
        // Each was there while the kernel side looked, and was sent with the sample.
        if names.wrong > 0 || judged < 50 || names.unread > names.right {
            wrong.push(format!("python {}: {names:?} of {} functions", target.python.version, book.len()));
        }
    }
    assert!(wrong.is_empty(), "uncertain: {uncertain}\n{}", wrong.join("\n"));
}
