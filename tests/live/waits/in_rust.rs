//! Waits in Rust are shown in the program's own functions, with full debug information and with line tables alone.

use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::Recording;
use crate::harness::running::Running;
use std::collections::BTreeSet;
use std::process::Command;

/// The function of a name, without its path and what it was made for.
fn last_part(name: &str) -> String {
    let name = &name[..name.find('<').unwrap_or(name.len())];
    name.rsplit("::").next().unwrap_or(name).to_owned()
}

#[test]
fn blocked_in_and_called_by_are_the_programs_own_functions() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("rustwaits") else { return };
    let mut lines_only = program.clone();
    lines_only.as_mut_os_string().push("-lines");
    for program in [program, lines_only] {
        let running = Running::start_ready(&mut Command::new(&program));
        let recording = Recording::with(["-p", &running.pid().to_string(), "-d", "1500ms"]);
        let report = recording.report_with(&["--off-cpu", "--idle"]);
        let rows = report.0["rows"].as_array().expect("a table of waits");
        let text = |value: &serde_json::Value| last_part(value.as_str().unwrap_or_default());
        let waits: BTreeSet<(String, String)> = (rows.iter())
            .filter(|row| ["lock", "condvar", "futex", "sleep"].map(Into::into).contains(&row["reason"]))
            // A lock may be given back before its waiter sleeps: such waits are summed without a stack.
            .filter(|row| !row["function"].as_str().is_some_and(|name| name.starts_with("[waits below ")))
            .map(|row| (text(&row["reason"]), text(&row["function"])))
            .collect();
        // With full debug information, a closure may have the name that its function has in the symbol table.
        for (reason, function) in [
            ("condvar", "take_job"),
            ("lock", "add_slowly"),
            ("sleep", "add_slowly"),
            ("futex", "receive"),
            ("sleep", "fill"),
            ("futex", "main"),
        ] {
            let wait = (reason.to_owned(), function.to_owned());
            assert!(waits.contains(&wait), "{}: {wait:?} is not in {rows:#?}", program.display());
        }
        for (_, function) in &waits {
            // The first closure sends, which takes a lock. It has either name.
            let own = ["take_job", "add_slowly", "receive", "fill", "main", "{closure#0}", "{{closure}}"];
            assert!(own.contains(&function.as_str()), "{}: {function} in {rows:#?}", program.display());
        }
        for caller in rows.iter().filter_map(|row| row["called_by"].as_str()) {
            let is_glue = ["call_once", "closure_env", "catch_unwind", "lang_start"]
                .iter()
                .any(|part| caller.contains(part));
            assert!(!is_glue, "{}: called by {caller}", program.display());
        }
    }
}
