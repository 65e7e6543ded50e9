//! Programs and processes that end before anyone could ask them.

use super::recorded::{RunSample, RunStacks, UNREAD};
use crate::harness::machine::{tool_or_skip, turn};
use crate::harness::profiler::Recording;
use std::ffi::OsString;

/// Nothing but a wait, which ends with the program.
const SLEEPERS: [(&str, &str, &str, &str); 4] = [
    (
        "python3",
        "py",
        "import time\ndef fetch(): time.sleep(0.5)\ndef job(): fetch()\njob()\n",
        "<module> job fetch",
    ),
    ("ruby", "rb", "def fetch; sleep 0.5; end\ndef job; fetch; end\njob\n", "<main> job fetch sleep"),
    (
        "php",
        "php",
        "<?php\nfunction fetch() { usleep(500000); }\nfunction job() { fetch(); }\njob();\n",
        "<main> job fetch usleep",
    ),
    (
        "perl",
        "pl",
        "sub fetch { select undef, undef, undef, 0.5 }\nsub job { fetch(); }\njob();\n",
        "(main) main::job main::fetch",
    ),
];

/// Each child ends when it has done its work; what they come from stays until it can have been read.
const FORKS: &str = "def work; sum = 0; 300_000.times { |i| sum += i }; end
def each_child; Process.wait(fork { work }); end
30.times { each_child }
sleep 2
";

fn recorded(tool: &OsString, ending: &str, program: &str) -> RunStacks {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("program").with_extension(ending);
    std::fs::write(&file, program).expect("it can be written");
    let recording = Recording::with([OsString::from("--"), tool.clone(), file.into()]);
    RunStacks::read(&recording.file())
}

#[test]
fn a_wait_that_ends_with_its_program_has_its_functions() {
    let Some(_turn) = turn() else { return };
    for (tool, ending, program, expected) in SLEEPERS {
        let Some(tool) = tool_or_skip(tool) else { continue };
        let stacks = recorded(&tool.into(), ending, program);
        let length = |wait: &&RunSample| wait.sample.wait.map_or(0, |wait| wait.duration_ns);
        let longest = stacks.waits.iter().max_by_key(length).expect("it waits");
        let names: Vec<&str> = longest.run().iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names.join(" "), expected, "{}", longest.text());
        let line = longest.run().into_iter().rev().find(|step| step.line > 0).map(|step| step.line);
        assert_eq!(line, Some(if ending == "py" || ending == "php" { 2 } else { 1 }), "{}", longest.text());
    }
}

/// What lies in a program's file is not in the memory of a child until that asks for it.
#[test]
fn children_that_end_soon_have_the_names_of_their_functions() {
    let Some(_turn) = turn() else { return };
    let Some(ruby) = tool_or_skip("ruby") else { return };
    let stacks = recorded(&ruby.into(), "rb", FORKS);
    let main = stacks.samples.iter().map(|sample| sample.pid).min();
    let children = stacks.samples.iter().filter(|sample| Some(sample.pid) != main);
    let with_run: Vec<Vec<&str>> = children
        .map(|sample| sample.run().iter().map(|step| step.name.as_str()).collect::<Vec<_>>())
        .filter(|run| run.contains(&"work"))
        .collect();
    let unread = with_run.iter().filter(|run| run.contains(&UNREAD)).count();
    println!("{unread} of {} samples have a function that was not read", with_run.len());
    assert!(with_run.len() > 50, "only {} samples", with_run.len());
    assert!(unread * 4 <= with_run.len(), "{unread} of {}", with_run.len());
}
