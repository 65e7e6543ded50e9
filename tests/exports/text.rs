//! Callgrind's text in `callgrind_annotate`, and that of `perf script` in inferno.

use crate::{CHOICES, export, recording, report, support, totals};
use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options};
use std::collections::BTreeMap;
use std::process::Command;

/// The numbers of the row of `callgrind_annotate` that ends in `name`: `1,234 (12.3%)  5 (0.1%)  name`.
fn row(text: &str, name: &str) -> Option<Vec<u64>> {
    let line = text.lines().find(|line| line.trim_end().ends_with(name))?;
    let values = line.split_whitespace().map(|word| word.replace(',', ""));
    Some(
        values
            .map_while(|word| if word.starts_with('(') { Some(None) } else { word.parse().ok().map(Some) })
            .flatten()
            .collect(),
    )
}

fn annotated(file: &std::path::Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("callgrind_annotate");
    command.args(["--threshold=100", "--show-percs=no"]).args(arguments).arg(file);
    Some(String::from_utf8_lossy(&support::run_well(&mut command)?.stdout).into_owned())
}

#[test]
fn callgrind_annotate_adds_up_what_the_report_says() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, choices) in CHOICES {
        let (file, _) = export(folder.path(), "callgrind.out.app", &[arguments, &["-f"]].concat());
        let Some(text) = annotated(&file, &[]) else { return };
        let events: Vec<&str> = text
            .lines()
            .find_map(|line| line.strip_prefix("Events recorded:"))
            .unwrap()
            .split_whitespace()
            .collect();
        let all = row(&text, "PROGRAM TOTALS").unwrap();
        for choice in choices {
            let event = match *choice {
                "--on-cpu" => "cpu_ns",
                "--off-cpu" => "off_cpu_ns",
                _ => "page_faults",
            };
            let at = events.iter().position(|name| *name == event).unwrap();
            assert_eq!(all[at], totals(&[choice]), "{arguments:?} {choice}");
        }
    }
}

#[test]
fn callgrind_annotate_has_the_totals_of_functions() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = export(folder.path(), "app.callgrind", &["--on-cpu"]);
    let Some(text) = annotated(&file, &["--inclusive=yes"]) else { return };
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains(" [/usr/bin/ingest]")) {
        let mut words = line.split_whitespace();
        let cost: u64 = words.next().unwrap().replace(',', "").parse().unwrap();
        let rest = line.split_once("cpp:").unwrap().1;
        *found.entry(rest.trim_end_matches(" [/usr/bin/ingest]").to_owned()).or_default() += cost;
    }
    let said = report("--on-cpu");
    let rows = said["rows"].as_array().unwrap();
    assert!(rows.len() > 100);
    for row in rows {
        let (name, total) = (row["function"].as_str().unwrap(), row["total"].as_u64().unwrap());
        assert_eq!(found.get(name), Some(&total), "{name}");
    }
}

/// The sum of the stacks of an event.
fn folded(text: &[u8], event: &str) -> u64 {
    let mut options = Options::default();
    options.event_filter = Some(event.to_owned());
    options.nthreads = 1;
    let mut folded = Vec::new();
    Folder::from(options).collapse(text, &mut folded).unwrap();
    let folded = String::from_utf8(folded).unwrap();
    folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

#[test]
fn inferno_adds_up_what_the_report_says() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, choices) in CHOICES {
        let (file, _) = export(folder.path(), "app.perf-script", &[arguments, &["-f"]].concat());
        let text = std::fs::read(file).unwrap();
        for choice in choices {
            let event = match *choice {
                "--on-cpu" => "cpu-clock",
                "--off-cpu" => "off-cpu",
                _ => "page-faults",
            };
            assert_eq!(folded(&text, event), totals(&[choice]), "{arguments:?} {choice}");
        }
        let times = String::from_utf8(text).unwrap();
        let times: Vec<f64> = times
            .lines()
            .filter(|line| line.ends_with(": "))
            .map(|line| line.split("] ").nth(1).unwrap().split(':').next().unwrap().parse().unwrap())
            .collect();
        assert!(times.is_sorted() && times.len() >= 500, "{}", times.len());
    }
    assert!(recording().exists());
}
