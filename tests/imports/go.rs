//! Profiles of Go programs, compared with `go tool pprof`.

use crate::{functions, import, report, support};
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = r#"package main

import (
	"os"
	"runtime/pprof"
	"time"
)

var sink uint64

//go:noinline
func busy(until time.Time) {
	for time.Now().Before(until) {
		for i := 0; i < 100000; i++ {
			sink += uint64(i) * sink
		}
	}
}

func main() {
	file, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(file)
	busy(time.Now().Add(700 * time.Millisecond))
	pprof.StopCPUProfile()
	file.Close()
}
"#;

fn go(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("go");
    // Nothing of the user's may be looked at.
    command.args(arguments).env("HOME", folder).env("GOTOOLCHAIN", "local").env("PPROF_TMPDIR", folder);
    command.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache")).current_dir(folder);
    Some(String::from_utf8(support::run_well(&mut command)?.stdout).unwrap())
}

#[test]
fn a_profile_of_go_has_the_sums_of_go_tool_pprof() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("busy.go"), PROGRAM).unwrap();
    let file = folder.path().join("cpu.pb.gz");
    if go(folder.path(), &["run", "busy.go", file.to_str().unwrap()]).is_none() {
        return;
    }
    let (imported, said) = import(&file, &[]);
    assert!(said.contains("imported pprof"), "{said}");
    let json = report(&imported, &["--on-cpu"]);
    let (total, functions) = (json["total"].as_u64().unwrap(), functions(&json));
    let file = file.to_str().unwrap();
    let top = go(folder.path(), &["tool", "pprof", "-top", "-unit=ns", "-nodecount=0", file]).unwrap();
    assert!(total > 0 && top.contains(&format!("of {total}ns total")), "{total}: {top}");
    // Flat and total of each row: `640000000ns 91.43% 91.43% 700000000ns   100%  main.busy`.
    let rows = top.lines().skip_while(|line| !line.trim().starts_with("flat")).skip(1);
    let mut compared = 0;
    for row in rows {
        let cells: Vec<&str> = row.split_whitespace().collect();
        let number = |at: usize| cells[at].trim_end_matches("ns").parse::<u64>().unwrap();
        let name = cells[5..].join(" ").trim_end_matches(" (inline)").to_owned();
        assert_eq!(functions.get(&name), Some(&(number(0), number(3))), "{name}: {functions:?}");
        compared += 1;
    }
    assert!(compared > 0, "{top}");
    assert!(functions["main.busy"].1 * 2 > total, "{functions:?}");
}
