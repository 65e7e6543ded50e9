//! pprof's protobuf in `go tool pprof`.

use crate::{CHOICES, export, support, total};
use std::path::Path;
use std::process::Command;

fn pprof(folder: &Path, arguments: &[&str], file: &Path) -> Option<String> {
    let mut command = Command::new("go");
    command.args(["tool", "pprof"]).args(arguments).arg(file);
    // Nothing of the user's may be looked at.
    command
        .env("HOME", folder)
        .env("PPROF_TMPDIR", folder)
        .env("GOFLAGS", "-mod=mod")
        .env("GOTOOLCHAIN", "local");
    command.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache")).current_dir(folder);
    Some(String::from_utf8(support::run_well(&mut command)?.stdout).unwrap())
}

/// The names of the values of `pprof -raw`, and their sums.
fn sums(raw: &str) -> Vec<(String, u64)> {
    let mut lines = raw.lines().skip_while(|line| *line != "Samples:").skip(1);
    let names: Vec<String> = lines.next().unwrap().split_whitespace().map(str::to_owned).collect();
    let mut sums: Vec<(String, u64)> = names.into_iter().map(|name| (name, 0)).collect();
    for line in lines.take_while(|line| *line != "Locations") {
        // Labels stand on lines of their own, without numbers of locations.
        let Some((values, _)) = line.split_once(':') else { continue };
        let values: Vec<Result<u64, _>> = values.split_whitespace().map(str::parse).collect();
        if values.len() == sums.len() && values.iter().all(Result::is_ok) {
            sums.iter_mut().zip(values).for_each(|(sum, value)| sum.1 += value.unwrap());
        }
    }
    sums
}

#[test]
fn go_tool_pprof_adds_up_what_the_report_says() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, choices) in CHOICES {
        let (file, _) = export(folder.path(), "app.pb.gz", &[arguments, &["-f"]].concat());
        let Some(raw) = pprof(folder.path(), &["-raw"], &file) else { return };
        let sums = sums(&raw);
        let of = |name: &str| {
            sums.iter().find(|(found, _)| found.trim_end_matches("[dflt]") == name).map(|(_, sum)| *sum)
        };
        for choice in choices {
            let name = match *choice {
                "--on-cpu" => "cpu/nanoseconds",
                "--off-cpu" => "off_cpu/nanoseconds",
                _ => "page-faults/count",
            };
            assert_eq!(of(name), Some(total(choice)), "{arguments:?} {sums:?}");
        }
        let default = match arguments {
            [] | ["--on-cpu"] => "cpu/nanoseconds[dflt]",
            ["--off-cpu"] => "off_cpu/nanoseconds[dflt]",
            ["--wall"] => "wall/nanoseconds[dflt]",
            _ => "page-faults/count[dflt]",
        };
        assert!(sums.iter().any(|(name, _)| name == default), "{arguments:?} {sums:?}");
    }
}

#[test]
fn go_tool_pprof_shows_the_main_program_lines_and_inlined_functions() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = export(folder.path(), "app.pb.gz", &[]);
    let Some(top) = pprof(folder.path(), &["-top", "-unit=ns", "-nodecount=0"], &file) else { return };
    assert!(top.starts_with("File: ingest\nBuild ID: 000102030405060708090a0b0c0d0e0f10111213\n"), "{top}");
    assert!(top.contains("\nType: cpu\n"), "{top}");
    assert!(top.contains(&format!("of {}ns total", total("--on-cpu"))), "{top}");
    let report = crate::report("--on-cpu");
    // The name is cut by no one, and own time is the report's.
    let first = &report["rows"][0];
    let (name, own) = (first["function"].as_str().unwrap(), first["self"].as_u64().unwrap());
    let flat = pprof(folder.path(), &["-traces", "-unit=ns"], &file).unwrap();
    assert!(flat.contains(name), "{name}");
    let peek = pprof(folder.path(), &["-top", "-unit=ns", "-nodecount=1"], &file).unwrap();
    assert!(peek.contains(&format!("{own}ns ")), "{own}: {peek}");
    let lines = pprof(folder.path(), &["-top", "-lines", "-nodecount=5"], &file).unwrap();
    assert!(lines.contains(".cpp:"), "{lines}");
    let tags = pprof(folder.path(), &["-tags", "-sample_index=off_cpu"], &file).unwrap();
    for tag in ["thread:", "process:", "pid:", "tid:", "reason:", ": pipe", ": no CPU", ": worker", ": 4313"]
    {
        assert!(tags.contains(tag), "{tag}: {tags}");
    }
    let raw = pprof(folder.path(), &["-raw"], &file).unwrap();
    assert!(
        raw.contains("/usr/bin/ingest 000102030405060708090a0b0c0d0e0f10111213 [FN][FL][LN][IN]"),
        "{raw}"
    );
    assert!(raw.starts_with("Comment: prof record -p 4312\n"), "{raw}");
    assert!(raw.contains("\nPeriodType: cpu nanoseconds\nPeriod: 1001001\n"), "{raw}");
}
