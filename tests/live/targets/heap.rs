//! The heap of programs: sums against what a program says of itself, and programs that are patched and given back while they do
//! all that could be harmed by it.

use crate::harness::fixture;
use crate::harness::heap_storm::HeapStorm;
use crate::harness::machine::{account, copy_for_everyone, skip, turn};
use crate::harness::profiler::{Recording, binary, messages, prof};
use crate::harness::running::{Running, children, wait_for};
use serde_json::Value;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The row of a function: bytes, and their error.
fn bytes_of(report: &Value, function: &str) -> Option<(f64, f64)> {
    let rows = report["rows"].as_array().expect("a table");
    let row = rows.iter().find(|row| row["function"] == function)?;
    Some((number(&row["bytes"]), number(&row["error_bytes"])))
}

#[test]
fn what_functions_allocate_and_keep_is_what_the_program_says() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("heap") else { return };
    let recording = Recording::with(["-e", "heap", "--", program.to_str().expect("a plain path"), "50000"]);
    let said = String::from_utf8_lossy(&recording.output).into_owned();
    let said = |name: &str| -> f64 {
        let line = said.lines().find_map(|line| line.strip_prefix(name)).expect("it says all");
        line.trim().parse().expect("a number")
    };
    let allocated = recording.report_with(&["--heap", "--allocated"]).0;
    for function in ["keep", "waste", "hold"] {
        let (bytes, error) = bytes_of(&allocated, function).expect("it allocates");
        // The error is that of 95 %: twice as much is hardly ever passed.
        assert!(
            (bytes - said(function)).abs() <= 2.5 * error,
            "{function}: {bytes} ± {error} of {}",
            said(function)
        );
    }
    let live = recording.report_with(&["--heap"]).0;
    let (bytes, error) = bytes_of(&live, "keep").expect("it keeps all");
    assert!((bytes - said("keep")).abs() <= 2.5 * error, "{bytes} ± {error}");
    // It frees what it allocates. On a crowded machine an end of a block has been missed.
    let left = bytes_of(&live, "waste").map_or(0.0, |(bytes, _)| bytes);
    let most = if recording.was_crowded { 0.005 * said("waste") } else { 0.0 };
    assert!(left <= most, "{left} bytes: {live:#}");
    let stacks = recording.stacks_with(&["--heap"]);
    stacks.assert_has(&["main", "keep"]);
    let short = recording.report_with(&["--heap", "--short", "1s"]).0;
    assert!(bytes_of(&short, "waste").is_some() && bytes_of(&short, "keep").is_none(), "{short:#}");
}

/// With a copy of its parent's countdown, each worker would have the same of its blocks sampled, or none of them any.
#[test]
fn children_of_fork_are_sampled_independently() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("forked_heap") else { return };
    let program = program.to_str().expect("a plain path");
    // 320 workers allocate 0.5 MB each: as much as there is between two samples.
    let recording = Recording::with(["-e", "heap", "--children", "--", program, "320", "256"]);
    let said = String::from_utf8_lossy(&recording.output).into_owned();
    let said: f64 =
        said.trim().strip_prefix("work ").and_then(|number| number.parse().ok()).expect("it says");
    let allocated = recording.report_with(&["--heap", "--allocated"]).0;
    let (bytes, error) = bytes_of(&allocated, "work").expect("it allocates");
    // What is sampled is 320 blocks in the mean, with a standard error of 18.
    assert!((bytes - said).abs() <= 2.5 * error, "{bytes} ± {error} of {said}");
    // They have all ended.
    let (profile, _) = prof::internals::profile::read_path(&recording.file()).expect("it can be read");
    let live = profile
        .events
        .iter()
        .flat_map(|event| event.samples())
        .filter(|sample| sample.block.is_some_and(|block| block.lifetime_ns.is_none()));
    assert!(live.count() <= 1, "only the parent's block may be live at its end");
}

/// A sampler stays mapped, and children of fork have its file: a probe in one of them is in all.
#[test]
fn workers_of_a_server_that_was_recorded_before_are_all_sampled() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("prefork") else { return };
    let mut server = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut input = server.stdin.take().expect("it was piped");
    let mut ready = String::new();
    let output = server.stdout.take().expect("it was piped");
    BufReader::new(output).read_line(&mut ready).expect("it says that it is ready");
    let own = server.id();
    Recording::with(["-e", "heap", "-d", "1s", "-p", &own.to_string()]);
    input.write_all(b"1").expect("it reads");
    let mut pids = wait_for("three workers", || Some(children(own)).filter(|workers| workers.len() == 3));
    pids.push(own);
    let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let recording = Recording::with(["-e", "heap", "-d", "2s", "-p", &list]);
    assert!(!recording.messages.contains("is not sampled"), "{}", recording.messages);
    let (profile, _) = prof::internals::profile::read_path(&recording.file()).expect("it can be read");
    let samples = profile.events.iter().flat_map(|event| event.samples());
    let sampled: std::collections::BTreeSet<u32> =
        samples.map(|sample| profile.tables.task(sample.task).pid).collect();
    pids.sort_unstable();
    assert_eq!(sampled.into_iter().collect::<Vec<_>>(), pids);
    // Each block once: two listeners to one file would see each twice.
    assert_eq!(profile.counter("block_ends_missed"), 0, "{:?}", profile.counters);
    drop(input);
    assert!(server.wait().expect("it ends").success());
}

/// A lock without a name is described by what allocated its memory; a block of megabytes is hardly ever left out.
#[test]
fn a_lock_in_a_block_is_described_by_what_allocated_it() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("lock_in_block") else { return };
    let program = program.to_str().expect("a plain path");
    let recording = Recording::with(["-e", "heap,lock", "--", program]);
    let locks = recording.report_with(&["--locks"]).0;
    let rows = locks["rows"].as_array().expect("a table");
    let row = rows.iter().find(|row| row["lock"]["allocated_by"] == "make_table");
    let row = row.unwrap_or_else(|| panic!("{locks:#}"));
    assert!(
        row["lock"]["name"].as_str().is_some_and(|name| name.ends_with(" in a block of make_table")),
        "{row}"
    );
    // Two recordings of it can be compared by their locks.
    let file = recording.file();
    let diff = prof().arg("diff").args([&file, &file]).args(["--locks", "--json"]).output();
    let diff = diff.expect("`timeout` can be run");
    assert!(diff.status.success(), "{}", messages(&diff));
    let diff: Value = serde_json::from_slice(&diff.stdout).expect("it is JSON");
    assert!(
        diff["rows"].as_array().is_some_and(|rows| rows.iter().any(|row| row["function"] == "take_turns"))
    );
}

/// Two recordings cannot have one sampler: the end of one would be that of the other.
#[test]
fn a_heap_that_is_being_recorded_is_not_recorded_by_another() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("temporary") else { return };
    let program = Running::start_ready(&mut Command::new(program));
    let pid = program.pid().to_string();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let mut first = Command::new(binary())
        .args(["record", "-e", "heap", "-d", "6s", "-p", &pid, "-o"])
        .arg(folder.path().join("first.data"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut said = BufReader::new(first.stderr.take().expect("it was piped")).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("patched")), "it says when it has patched the functions");
    let mut second = prof();
    second
        .args(["record", "-e", "heap", "-d", "1s", "-p", &pid, "-o"])
        .arg(folder.path().join("second.data"));
    let second = second.output().expect("`timeout` can be run");
    let words = messages(&second);
    assert!(!second.status.success() && words.contains("another recording samples its heap"), "{words}");
    said.for_each(drop);
    assert!(first.wait().expect("it ends").success());
    let (profile, _) =
        prof::internals::profile::read_path(&folder.path().join("first.data")).expect("it is there");
    let last = profile.events.iter().flat_map(|event| event.samples()).map(|sample| sample.time_ns).max();
    // It has gone on after the other one was refused.
    assert!(last.is_some_and(|last_ns| last_ns > profile.duration_ns() * 3 / 4), "{last:?}");
}

/// A program with probes of `otel_memory` is listened to: none of its functions is patched, and what it says is what counts.
#[test]
fn a_program_that_samples_blocks_itself_is_not_changed() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("self_sampled") else { return };
    for variant in ["", ".library"] {
        let program = format!("{}{variant}", program.display());
        let command = ["--max-overhead", "0", "--", &program, "8000"];
        let recording = Recording::with(["-e", "heap"].into_iter().chain(command));
        let said = &recording.messages;
        assert!(said.contains("listens to the otel_memory probes of ") && !said.contains("patch"), "{said}");
        assert!(said.contains("samples blocks itself, by a rule of its own"), "{said}");
        let allocated = recording.report_with(&["--heap", "--allocated"]).0;
        assert_eq!(number(&allocated["total"]), 8000.0 * (4096.0 + 8192.0), "{variant}: {allocated:#}");
        let live = recording.report_with(&["--heap"]).0;
        assert_eq!(number(&live["total"]), 8000.0 * 4096.0, "{variant}: what is wasted is freed: {live:#}");
        // A library's own frames are left out, as those of an allocator that is patched are.
        let (function, path) = match variant {
            "" => ("take_block", vec!["main", "keep", "take_block"]),
            _ => ("keep", vec!["main", "keep"]),
        };
        let found = bytes_of(&live, function).map(|(bytes, _)| bytes);
        assert_eq!(found, Some(8000.0 * 4096.0), "{variant}: {live:#}");
        recording.stacks_with(&["--heap"]).assert_has(&path);
    }
    // Within its share, fewer are taken, and count as more.
    let program = format!("{}.library", program.display());
    let recording = Recording::with(["-e", "heap", "--", &program, "200000"]);
    let allocated = recording.report_with(&["--heap", "--allocated"]).0;
    for (function, said) in [("keep", 200_000.0 * 4096.0), ("waste", 200_000.0 * 8192.0)] {
        let (bytes, error) = bytes_of(&allocated, function).expect("it allocates");
        assert!((bytes - said).abs() <= 2.5 * error, "{function}: {bytes} ± {error} of {said}");
    }
}

/// Allocators have operators of their own, which do not call their `malloc`; those of the C++ library do.
#[test]
fn each_form_of_operator_new_is_counted_once_and_may_throw() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("operators") else { return };
    const ROUNDS: u64 = 40_000;
    for (variant, options) in
        [("", ""), (".static", ""), (".jemalloc", ""), (".tcmalloc_minimal", ""), (".mimalloc", "tame")]
    {
        let program = format!("{}{variant}", program.display());
        let rounds = ROUNDS.to_string();
        let command = [program.as_str(), &rounds, options];
        let command = command.into_iter().filter(|argument| !argument.is_empty());
        let recording = Recording::with(["-e", "heap", "--"].into_iter().chain(command));
        let output = String::from_utf8_lossy(&recording.output).into_owned();
        let said = |name: &str| -> f64 {
            let line = output.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.trim().parse().ok()).unwrap_or_else(|| panic!("{variant}: {output}"))
        };
        let thrown = if options.is_empty() { ROUNDS / 100 } else { 0 };
        assert_eq!(said("fail"), thrown as f64, "{variant}: exceptions that were caught");
        let allocated = recording.report_with(&["--heap", "--allocated"]).0;
        let library = (variant == ".mimalloc").then_some("library");
        for function in ["keep", "waste", "align", "ask"].into_iter().chain(library) {
            let found = bytes_of(&allocated, &format!("{function}(unsigned long)"));
            let (bytes, error) = found.unwrap_or_else(|| panic!("{variant}: no {function} in {allocated:#}"));
            let off = (bytes - said(function)).abs();
            assert!(off <= 2.5 * error, "{variant}: {function}: {bytes} ± {error} of {}", said(function));
        }
        let live = recording.report_with(&["--heap"]).0;
        let (bytes, error) = bytes_of(&live, "keep(unsigned long)").expect("it keeps all");
        assert!((bytes - said("keep")).abs() <= 2.5 * error, "{variant}: {bytes} ± {error}");
        let left: f64 = ["waste", "align", "ask", "library"]
            .iter()
            .filter_map(|name| Some(bytes_of(&live, &format!("{name}(unsigned long)"))?.0))
            .sum();
        let most = if recording.was_crowded { 0.005 * said("waste") } else { 0.0 };
        assert!(left <= most, "{variant}: {left} bytes of what was deleted: {live:#}");
    }
}

/// The fixture that keeps nothing, and the numbers of an account that is not root's.
fn temporary_and_another_user() -> Option<(PathBuf, u32, u32)> {
    let (uid, gid) = account("nobody").or_else(|| skip("there is no account `nobody`"))?;
    Some((fixture::build("temporary")?, uid, gid))
}

#[test]
fn what_is_freed_while_the_recording_ends_is_not_kept() {
    let Some(_turn) = turn() else { return };
    let Some((program, uid, gid)) = temporary_and_another_user() else { return };
    // Another user's, whose files and memory root may not write without a right that `prof` does not keep.
    let folder = tempfile::tempdir().expect("a folder can be made");
    let program = copy_for_everyone(&program, folder.path());
    let program = Running::start_ready(Command::new(program).uid(uid).gid(gid));
    let pid = program.pid().to_string();
    let recording = Recording::with(["-e", "heap", "-d", "2s", "-p", &pid]);
    let (allocated, live) = (["--heap", "--allocated"], ["--heap"]);
    let (allocated, _) =
        bytes_of(&recording.report_with(&allocated).0, "waste").expect("it allocates gigabytes");
    assert!(allocated > 100e6, "{allocated} bytes");
    // Each of its threads may be between an allocation and its end.
    let report = prof().args(["report", "--json"]).args(live).arg(recording.file()).output();
    let report = report.expect("`timeout` can be run");
    if report.status.success() {
        let live: Value = serde_json::from_slice(&report.stdout).expect("it is JSON");
        let (bytes, _) = bytes_of(&live, "waste").unwrap_or_default();
        assert!(bytes < 3.0 * 530_000.0, "{bytes} of {allocated} bytes are live: {live:#}");
    }
    let (profile, _) = prof::internals::profile::read_path(&recording.file()).expect("it can be read");
    assert_eq!(profile.counter("block_ends_missed"), 0, "{:?}", profile.counters);
}

/// A program that has another file mapped where the sampler was: its own files are written, and no others.
#[test]
fn no_file_but_the_samplers_own_is_written() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("usurper") else { return };
    let Some((uid, gid)) = account("nobody") else {
        return skip("there is no user nobody").unwrap_or_default();
    };
    let folder = tempfile::tempdir().expect("a folder can be made");
    let program = copy_for_everyone(&program, folder.path());
    let precious = folder.path().join("precious");
    let content = vec![b'R'; 20_000];
    std::fs::write(&precious, &content).expect("own folder");
    std::fs::set_permissions(&precious, Permissions::from_mode(0o644)).expect("own file");
    // Whether it comes in time is the machine's choice.
    let mut was_noticed = false;
    for attempt in 0..20 {
        let usurper = Running::start_ready(Command::new(&program).arg(&precious).uid(uid).gid(gid));
        let output = prof()
            .args(["record", "-e", "heap", "-d", "200ms", "-p", &usurper.pid().to_string(), "-o"])
            .arg(folder.path().join(format!("{attempt}.data")))
            .output()
            .expect("it can be started");
        assert!(std::fs::read(&precious).expect("own file") == content, "{}", messages(&output));
        was_noticed |= messages(&output).contains("another file was mapped in the place of the sampler");
        if was_noticed {
            break;
        }
    }
    assert!(was_noticed, "it never came in time");
}

#[test]
fn a_program_in_a_storm_is_as_it_was_after_it_was_recorded() {
    let Some(_turn) = turn() else { return };
    let Some(storm) = HeapStorm::start() else { return };
    let (before, pid) = (storm.code(), storm.pid());
    let folder = tempfile::tempdir().expect("a folder can be made");
    for round in 0..3 {
        let file = folder.path().join(format!("{round}.data"));
        let output = prof()
            .args(["record", "-e", "heap", "-d", "1s", "-o"])
            .arg(file)
            .args(["-p", &pid.to_string()])
            .output()
            .expect("it can be started");
        let said = messages(&output);
        assert!(output.status.success(), "{said}");
        assert!(
            said.contains("heap: patches ") && said.contains(" of libc.so.6 in pid "),
            "it says what it does: {said}"
        );
        assert!(storm.code() == before, "no byte of the C library is another one");
    }
    storm.end().expect("nothing was wrong");
}

#[test]
fn a_recorder_that_is_killed_leaves_the_program_well() {
    let Some(_turn) = turn() else { return };
    let Some(storm) = HeapStorm::start() else { return };
    let (before, pid) = (storm.code(), storm.pid());
    let folder = tempfile::tempdir().expect("a folder can be made");
    for round in 0..5 {
        let mut recorder = Command::new(binary())
            .args(["record", "-e", "heap", "-o"])
            .arg(folder.path().join(format!("{round}.data")))
            .args(["-p", &pid.to_string()])
            .stderr(Stdio::null())
            .spawn()
            .expect("it can be started");
        std::thread::sleep(std::time::Duration::from_millis(400 + 150 * round));
        recorder.kill().expect("it can be killed");
        recorder.wait().expect("it ends");
    }
    // The process that keeps the rights gives the functions back when the recorder is gone.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while storm.code() != before && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(storm.code() == before, "no byte of the C library is another one");
    storm.end().expect("nothing was wrong");
}

/// What a recorder that is killed has is what matters most of a program that ends because there is no memory left.
#[test]
fn what_was_live_when_the_recorder_was_killed_is_in_the_file() {
    let Some(_turn) = turn() else { return };
    let Some(program) = fixture::build("heap") else { return };
    let mut program = Command::new(program)
        .args(["20000", "wait"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it can be started");
    let mut input = program.stdin.take().expect("it was piped");
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("killed.data");
    let mut recorder = Command::new(binary())
        .args(["record", "-e", "heap", "-p", &program.id().to_string(), "-o"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let said = recorder.stderr.take().expect("it was piped");
    let mut said = BufReader::new(said).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("patched")), "it says when it has patched the functions");
    input.write_all(b"1").expect("it reads");
    let live = || {
        let report = prof().args(["report", "--heap", "--json", "-n", "0"]).arg(&file).output();
        let report: Value = serde_json::from_slice(&report.expect("`timeout` can be run").stdout).ok()?;
        bytes_of(&report, "keep")
    };
    // Once it has been live for some seconds.
    wait_for("blocks in the file", || live().filter(|(bytes, _)| *bytes > 60e6));
    recorder.kill().expect("it can be killed");
    recorder.wait().expect("it ends");
    let (bytes, error) = live().expect("the file has what was live");
    assert!((bytes - 20000.0 * 4096.0).abs() <= 2.5 * error, "{bytes} ± {error}");
    drop(input);
    assert!(program.wait().expect("it ends").success());
}

#[test]
fn a_program_that_runs_as_its_owner_is_recorded() {
    let Some(_turn) = turn() else { return };
    let Some((program, uid, gid)) = temporary_and_another_user() else { return };
    let folder = tempfile::tempdir().expect("a folder can be made");
    let program = copy_for_everyone(&program, folder.path());
    std::os::unix::fs::chown(&program, Some(uid), Some(gid)).expect("root can give files away");
    let setuid = Permissions::from_mode(0o4755);
    std::fs::set_permissions(&program, setuid).expect("own file");
    let program = Running::start_ready(&mut Command::new(program));
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid())).expect("it runs");
    let ids = format!("Uid:\t0\t{uid}\t");
    if !status.contains(&ids) {
        return skip("programs in the temporary folder do not run as their owners").unwrap_or_default();
    }
    let recording = Recording::with(["-e", "heap", "-d", "1s", "-p", &program.pid().to_string()]);
    let allocated = recording.report_with(&["--heap", "--allocated"]).0;
    assert!(bytes_of(&allocated, "waste").is_some(), "{allocated:#}");
    assert!(program.is_alive());
}

#[test]
fn processes_that_must_not_be_changed_are_refused_in_words() {
    let Some(_turn) = turn() else { return };
    let refused = |arguments: &[&str]| {
        let output = prof().arg("record").args(["-e", "heap", "-d", "1s"]).args(arguments).output();
        let output = output.expect("it can be started");
        assert!(!output.status.success());
        messages(&output)
    };
    assert!(refused(&["-a"]).contains("is not for the whole machine"));
    let programs = fixture::build("seccomp").zip(fixture::build("temporary"));
    let Some((filter, program)) = programs else { return };
    // SYS_memfd_create. A filter of calls that the sampler does not take is none for it: as in containers.
    let filtered = Running::start_ready(Command::new(&filter).arg("1:319").arg(&program));
    let said = refused(&["-p", &filtered.pid().to_string()]);
    assert!(said.contains("a seccomp filter restricts its system calls: memfd_create"), "{said}");
    drop(filtered);
    let filtered = Running::start_ready(Command::new(filter).arg("1").arg(program));
    let recording = Recording::with(["-e", "heap", "-d", "1s", "-p", &filtered.pid().to_string()]);
    assert!(bytes_of(&recording.report_with(&["--heap", "--allocated"]).0, "waste").is_some());
    drop(filtered);
    let Some(storm) = HeapStorm::start() else { return };
    let pid = storm.pid().to_string();
    let mut tracer = match Command::new("strace").args(["-qq", "-o", "/dev/null", "-p", &pid]).spawn() {
        Ok(tracer) => tracer,
        Err(_) => return skip("there is no strace").unwrap_or_default(),
    };
    let is_traced = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        !status.contains("TracerPid:\t0\n")
    };
    while !is_traced() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let said = refused(&["-p", &pid]);
    tracer.kill().expect("it can be killed");
    tracer.wait().expect("it ends");
    assert!(said.contains("traces it"), "{said}");
    storm.end().expect("nothing was wrong");
}
