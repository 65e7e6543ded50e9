//! What Linux perf records, compared with what perf says of it.

use crate::{functions, import, prof, report, run, support};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

/// A program of known shares with frame pointers, recorded by perf with `arguments`; `None` where that cannot be done.
fn recorded(folder: &Path, arguments: &[&str]) -> Option<PathBuf> {
    recorded_of("-fno-omit-frame-pointer", folder, arguments)
}

/// As [`recorded`], of a program that was built with `option`.
fn recorded_of(option: &str, folder: &Path, arguments: &[&str]) -> Option<PathBuf> {
    let program = built("shares", option, folder)?;
    let file = folder.join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-o"]).arg(&file).args(arguments);
    perf.arg("--").arg(&program).arg("1").current_dir(folder);
    recorded_well(support::run(&mut perf)?, file)
}

/// A program of the fixtures, built with `option` in `folder`.
fn built(name: &str, option: &str, folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name).with_extension("c");
    let program = folder.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-g", option, "-o"]).arg(&program).arg(source);
    support::run_well(&mut cc)?;
    Some(program)
}

/// The file that perf has written, by what came of it.
fn recorded_well(output: Output, file: PathBuf) -> Option<PathBuf> {
    if !output.status.success() {
        return support::skip(&format!("perf record: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Some(file)
}

/// The samples of a file by perf: the sum of their periods, and how many there are.
fn by_perf(file: &Path) -> (u64, u64) {
    let mut perf = Command::new("perf");
    perf.args(["script", "-F", "period", "-G", "-i"]).arg(file);
    let output = support::run_well(&mut perf).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let periods: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    (periods.iter().sum(), periods.len() as u64)
}

fn check(file: &Path, imported: &Path) {
    let json = report(imported, &["--on-cpu"]);
    let (total, samples) = by_perf(file);
    // How many there are is up to what else runs here; the fewer, the more they are off.
    assert!(samples > 20, "{samples}");
    let allowed = 0.1_f64.max(4.0 * (0.25 / samples as f64).sqrt());
    assert_eq!((json["total"].as_u64(), json["samples"].as_u64()), (Some(total), Some(samples)));
    let functions = functions(&json);
    let share = |name: &str| functions.get(name).map_or(0.0, |sums| sums.1 as f64 / total as f64);
    for (name, wanted) in [("share_fifty", 0.5), ("share_thirty", 0.3), ("share_twenty", 0.2)] {
        let found = share(name);
        assert!((found - wanted).abs() < allowed, "{name}: {found}; {functions:?}");
    }
}

#[test]
fn call_chains_of_perf_have_its_totals_and_the_known_shares() {
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = recorded(folder.path(), &["-g"]) else { return };
    let (imported, said) = import(&file, &[]);
    assert!(!said.contains("damaged"), "{said}");
    check(&file, &imported);
    let main = functions(&report(&imported, &["--on-cpu"]));
    let total = report(&imported, &["--on-cpu"])["total"].as_u64().unwrap();
    assert!(main["main"].1 as f64 > 0.9 * total as f64, "{main:?}");
    let info = String::from_utf8(run(&["info", imported.to_str().unwrap()]).stdout).unwrap();
    assert!(info.contains("source    perf.data, file ") && info.contains("recorded by perf"), "{info}");
    is_annotated_and_compared(&imported);
}

/// What is imported has source and machine code, and can be compared.
fn is_annotated_and_compared(imported: &Path) {
    let file = imported.to_str().unwrap();
    let annotation: Value =
        serde_json::from_slice(&prof(&["annotate", "share_fifty", "-i", file, "--json"]).stdout).unwrap();
    let instructions = annotation["instructions"].as_array().unwrap();
    let sum: u64 = instructions.iter().filter_map(|at| at["self"].as_u64()).sum();
    assert!(sum > 0 && instructions.iter().all(|at| at["text"].is_string()), "{annotation}");
    let lines = annotation["lines"].as_array().unwrap();
    let sum: u64 =
        lines.iter().filter_map(|line| Some(line["self"].as_u64()? + line["inlined"].as_u64()?)).sum();
    assert!(sum > 0 && lines.iter().any(|line| line["line"].as_u64() > Some(0)), "{annotation}");
    let output = prof(&["diff", file, file, "--json"]);
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = comparison["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["function"] == "share_fifty").unwrap();
    // Its work is inlined into it. Of few samples, on a busy machine, nothing may be known of the spread.
    let total = &row["total"];
    assert!(total["base"].as_f64() > Some(0.0) && total["base"] == total["new"], "{row}");
    assert_ne!(total["outcome"], "changed", "{row}");
}

/// perf unwinds by libunwind or libdw.
#[test]
fn stacks_that_perf_copied_are_those_that_perf_unwinds() {
    let folder = tempfile::tempdir().unwrap();
    let dwarf = ["--call-graph", "dwarf"];
    let Some(file) = recorded_of("-fomit-frame-pointer", folder.path(), &dwarf) else { return };
    let (imported, said) = import(&file, &[]);
    assert!(said.contains("unwound from copies"), "{said}");
    check(&file, &imported);
    let mut perf = Command::new("perf");
    perf.args(["script", "--no-inline", "-F", "comm,tid,time,period,event,ip,sym,dso", "-i"]).arg(&file);
    let text = folder.path().join("script.txt");
    std::fs::write(&text, support::run_well(&mut perf).unwrap().stdout).unwrap();
    let (by_perf, _) = import(&text, &[]);
    let [ours, theirs] = [&imported, &by_perf].map(|file| functions(&report(file, &["--on-cpu"])));
    if !theirs.contains_key("main") {
        let _: Option<()> = support::skip("this perf cannot unwind copied stacks");
        return;
    }
    let json = report(&imported, &["--on-cpu"]);
    let (total, samples) = (json["total"].as_u64().unwrap(), json["samples"].as_u64().unwrap());
    assert!(ours["main"].1 as f64 > 0.95 * total as f64, "{ours:?}");
    // Some samples are in the vDSO, or before main.
    let allowed = total / 100 + 3 * total / samples;
    for name in ["main", "one_round", "share_fifty", "share_thirty", "share_twenty"] {
        let (ours, theirs) = (ours[name].1, theirs[name].1);
        assert!(ours.abs_diff(theirs) <= allowed, "{name}: {ours}, {theirs} by perf, of {total}");
    }
}

#[test]
fn packed_files_and_pipes_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    if let Some(file) = recorded(folder.path(), &["-g", "-z"]) {
        let (imported, _) = import(&file, &[]);
        check(&file, &imported);
    }
}

#[test]
fn the_text_of_perf_script_has_the_same_totals() {
    let folder = tempfile::tempdir().unwrap();
    let Some(file) = recorded(folder.path(), &["-g"]) else { return };
    for fields in [&[][..], &["-F", "comm,tid,time,period,event,ip,sym,dso"]] {
        let mut perf = Command::new("perf");
        perf.arg("script").args(fields).arg("-i").arg(&file);
        let text = folder.path().join("script.txt");
        std::fs::write(&text, support::run_well(&mut perf).unwrap().stdout).unwrap();
        let (imported, said) = import(&text, &[]);
        assert!(!said.contains("left out"), "{said}");
        check(&file, &imported);
    }
}

/// A program that generates code, recorded by perf and killed, so that it leaves its perf map: its recording and the map.
fn recorded_and_left(folder: &Path) -> Option<(PathBuf, LeftMap)> {
    let program = built("jit_leaf", "-fomit-frame-pointer", folder)?;
    let mut child = Command::new(&program).arg("3600").stdout(Stdio::piped()).spawn().unwrap();
    let map = LeftMap(PathBuf::from(format!("/tmp/perf-{}.map", child.id())));
    let ready = BufReader::new(child.stdout.take().unwrap()).lines().next();
    let file = folder.join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-o"]).arg(&file);
    perf.args(["-p", &child.id().to_string(), "--", "sleep", "2"]).current_dir(folder);
    let output = support::run(&mut perf);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready.is_some_and(|line| line.is_ok()), "it starts");
    recorded_well(output?, file).map(|file| (file, map))
}

/// A perf map, removed at the end.
struct LeftMap(PathBuf);

impl Drop for LeftMap {
    fn drop(&mut self) {
        // Not there: nothing to do.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn generated_code_is_named_by_the_map_that_its_process_has_left() {
    let folder = tempfile::tempdir().unwrap();
    let Some((file, map)) = recorded_and_left(folder.path()) else { return };
    let (imported, said) = import(&file, &[]);
    let used = format!("generated code is named by {}, as that is now", map.0.display());
    assert!(said.contains(&used), "{said}");
    let json = report(&imported, &["--on-cpu"]);
    let (ours, total) = (functions(&json), json["total"].as_u64().unwrap());
    // It does nothing else, but for what the kernel does meanwhile.
    let [caller, leaf] = ["generated_caller", "generated_leaf"].map(|name| ours[name].0);
    assert!(caller > 0 && leaf > 0 && caller + leaf > total / 2, "{ours:?}");
    let mut perf = Command::new("perf");
    perf.args(["script", "-F", "period,ip,sym", "-i"]).arg(&file);
    let text = String::from_utf8(support::run_well(&mut perf).unwrap().stdout).unwrap();
    for (name, weight) in [("generated_caller", caller), ("generated_leaf", leaf)] {
        let of_perf = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.contains(&name).then(|| words[0].parse::<u64>().unwrap())
        };
        let by_perf: u64 = text.lines().filter_map(of_perf).sum();
        // This perf may not know that shared memory without a file is code of that process.
        assert!(by_perf == 0 || by_perf == weight, "{name}: {weight}, {by_perf} by perf");
    }

    // The file of an earlier recording: the map is that of another process.
    let earlier = SystemTime::now() - Duration::from_secs(3600);
    File::options().write(true).open(&file).unwrap().set_modified(earlier).unwrap();
    let (imported, said) = import(&file, &[]);
    assert!(said.contains("was not read for names: it was begun after the recording"), "{said}");
    let names = functions(&report(&imported, &["--on-cpu"]));
    assert!(!names.contains_key("generated_leaf"), "{names:?}");
}
