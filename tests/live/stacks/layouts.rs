//! Programs that are linked in every way there is, and code that says little about itself. Many programs share one
//! recording: each has a part of the processors for long enough.

use crate::harness::fixture::{self, sources};
use crate::harness::machine::{skip, tool, turn};
use crate::harness::profiler::{Recording, Report, Stacks};
use crate::harness::running::{Running, UNTIL_ENDED};
use prof::internals::profile::read_path;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One way to build `layout.c`: a name, what else must be installed, and the command without its output.
type Layout = (&'static str, &'static str, &'static str);

const LAYOUTS: [Layout; 15] = [
    ("lay-pie", "cc", "cc"),
    ("lay-fixed", "cc", "cc -no-pie"),
    ("lay-lld", "ld.lld", "cc -fuse-ld=lld"),
    ("lay-mold", "mold", "cc -fuse-ld=mold"),
    ("lay-gold", "ld.gold", "cc -fuse-ld=gold"),
    ("lay-joined", "cc", "cc -Wl,-z,noseparate-code"),
    ("lay-bigpages", "cc", "cc -Wl,-z,max-page-size=0x200000"),
    // Two executable segments, as after BOLT.
    ("lay-two", "cc", "cc -no-pie -Wl,--section-start=.far=0x8000000"),
    ("lay-two-lld", "ld.lld", "cc -fuse-ld=lld -no-pie -Wl,--section-start=.far=0x8000000"),
    // A first address that is not zero, as prelinking leaves it.
    ("lay-prelinked", "cc", "cc -Wl,-Ttext-segment=0x7000000"),
    ("lay-static", "cc", "cc -static"),
    ("lay-static-pie", "cc", "cc -static-pie -fPIE"),
    ("lay-musl", "musl-gcc", "musl-gcc -static"),
    ("lay-musl-dyn", "musl-gcc", "musl-gcc"),
    // Its wrapper knows no `-static-pie`.
    (
        "lay-musl-pie",
        "musl-gcc",
        "musl-gcc -fPIE -nostartfiles -static -Wl,-pie,--no-dynamic-linker /usr/lib/x86_64-linux-musl/rcrt1.o",
    ),
];

fn build_layout(&(name, needs, command): &Layout) -> Option<PathBuf> {
    if tool(needs).is_none() {
        return skip(&format!("{needs} is not installed, which builds {name}"));
    }
    Some(fixture::once(name, |program| {
        let mut words = command.split(' ');
        let output = Command::new(words.next().expect("a command has a first word"))
            .args(words)
            .args(["-O2", "-g", "-fomit-frame-pointer", "layout.c", "-o"])
            .arg(program)
            .current_dir(sources())
            .output()
            .expect("a compiler can be run");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }))
}

/// The share of one process of a recording.
fn report_of(recording: &Recording, program: &Running) -> Report {
    recording.report_with(&["--pid", &program.pid().to_string()])
}

fn stacks_of(recording: &Recording, command_name: &str) -> Stacks {
    let mut stacks = recording.stacks();
    stacks.0.retain(|stack| stack.comm() == command_name);
    stacks
}

#[test]
fn every_layout_of_a_file_has_whole_and_named_stacks() {
    let Some(_turn) = turn() else { return };
    let built: Vec<(&str, PathBuf)> =
        LAYOUTS.iter().filter_map(|layout| Some((layout.0, build_layout(layout)?))).collect();
    // All at once, and only now: on a busy machine the builds take long.
    let start =
        |(name, program): (_, PathBuf)| (name, Running::start_ready(Command::new(program).arg(UNTIL_ENDED)));
    let programs: Vec<(&str, Running)> = built.into_iter().map(start).collect();
    let pids: Vec<String> = programs.iter().map(|(_, program)| program.pid().to_string()).collect();
    let recording = Recording::with(["-e", "cpu", "-d", "6s", "-F", "1999", "-p", &pids.join(",")]);
    for (name, program) in &programs {
        let report = report_of(&recording, program);
        assert!(report.samples() >= 10, "{name}: only {} samples", report.samples());
        let whole = report.complete_percent();
        assert!(whole >= 99.0, "{name}: {whole:.2} % are whole; the others: {}", report.causes());
        let stacks = stacks_of(&recording, name);
        let named = stacks.percent(|stack| stack.has(&["main", "layout_outer", "layout_far", "layout_leaf"]));
        assert!(named >= 97.0, "{name}: only {named:.2} % have all functions; top: {}", report.top());
    }
}

/// Until user space has heard of a program, the kernel's side finds by itself how its mappings lie.
#[test]
fn executable_segments_that_share_a_page_are_walked_from_the_first_sample() {
    let Some(_turn) = turn() else { return };
    for layout in LAYOUTS.iter().filter(|layout| ["lay-lld", "lay-two", "lay-two-lld"].contains(&layout.0)) {
        let Some(program) = build_layout(layout) else { continue };
        let recording =
            Recording::with([Path::new("-F"), Path::new("1999"), Path::new("--"), &program, Path::new("1")]);
        let report = recording.report();
        report.assert_whole(100);
        assert!(recording.info()["exec_mapped"].as_f64() > Some(0.0), "the kernel's side was not asked");
        let mut stacks = recording.stacks();
        // Those of the program's own code: how long its start takes is not what this is about.
        let own = ["layout_outer", "layout_far", "layout_leaf"];
        stacks.0.retain(|stack| own.iter().any(|function| stack.has(&[function])));
        let named = stacks.percent(|stack| stack.has(&["main", "layout_outer", "layout_far", "layout_leaf"]));
        assert!(named >= 95.0, "{}: only {named:.2} % have all functions", layout.0);
    }
}

#[test]
fn calls_through_a_lazy_linkage_table_keep_their_caller() {
    let Some(_turn) = turn() else { return };
    let Some(plain) = fixture::build("linkage") else { return };
    // With indirect branch tracking an entry has two halves, in sections of their own.
    let tracked = plain.with_file_name("linkage-ibt");
    let library = plain.with_file_name("linkage.empty.so");
    let output = Command::new("cc")
        .args(["-O2", "-g", "-fomit-frame-pointer", "-fcf-protection", "-Wl,-z,lazy", "-Wl,-z,ibtplt"])
        .args(["linkage.c", "-o"])
        .args([&tracked, &library])
        .arg(format!("-Wl,-rpath,{}", library.parent().expect("a file is in a folder").display()))
        .current_dir(sources())
        .output()
        .expect("cc can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let programs =
        [plain, tracked].map(|program| Running::start_ready(Command::new(program).arg(UNTIL_ENDED)));
    let pids = programs.each_ref().map(Running::pid);
    let recording = Recording::of_pids_with(&pids, "3s", &["-e", "cpu", "-F", "1999"]);
    for (name, program) in ["linkage", "linkage-ibt"].iter().zip(&programs) {
        let report = report_of(&recording, program);
        report.assert_whole(200);
        let named = stacks_of(&recording, name).percent(|stack| stack.has(&["main", "calls_empty_function"]));
        assert!(named >= 99.0, "{name}: {named:.2} % know who called; top: {}", report.top());
    }
}

#[test]
fn a_call_that_never_returns_belongs_to_its_own_function() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("linkage", &[UNTIL_ENDED, "tail"]) else { return };
    let recording = Recording::of_pid_with(program.pid(), "2s", &["-e", "cpu"]);
    recording.report().assert_whole(200);
    let stacks = recording.stacks();
    let named = stacks.percent(|stack| stack.has(&["main", "ends_in_a_call", "never_returns"]));
    assert!(named >= 99.0, "only {named:.2} %");
    assert!(!stacks.any_has(&["neighbour"]), "the function behind the call was taken for the caller");
}

#[test]
fn assembly_without_unwind_information_keeps_its_callers() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("assembly", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid_with(program.pid(), "3s", &["-e", "cpu"]);
    let report = recording.report();
    report.assert_whole(500);
    let stacks = recording.stacks();
    for function in ["asm_leaf", "asm_saves", "asm_aligns", "asm_keeps", "asm_saves_for"] {
        stacks.assert_has(&["main", "calls_assembly", function]);
    }
    stacks.assert_has(&["main", "calls_assembly", "asm_calls", "called_back"]);
    // All of them, parts that keep their caller's frame in a register or have overwritten rbp included.
    assert!(report.complete_percent() >= 99.9, "the others: {}", report.causes());
    let named = stacks.percent(|stack| stack.has(&["main", "calls_assembly"]));
    assert!(named >= 99.0, "only {named:.2} % have all callers; top: {}", report.top());
}

/// Rust without unwind tables in its own code, but with frame pointers.
#[test]
fn rust_without_tables_is_walked_by_frame_pointers() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let source = folder.path().join("tableless.rs");
    let program = folder.path().join("tableless");
    let text = "
#[inline(never)] fn table_leaf(n: u64) -> u64 { (0..n).fold(n, |x, i| std::hint::black_box(x ^ (x << 3) ^ i)) }
#[inline(never)] fn table_middle(n: u64) -> u64 { std::hint::black_box(table_leaf(n)) + 1 }
#[inline(never)] fn table_outer(n: u64) -> u64 { std::hint::black_box(table_middle(n)) + 1 }
fn main() {
    println!(\"ready\");
    let start = std::time::Instant::now();
    while start.elapsed().as_secs() < 900 { std::hint::black_box(table_outer(100_000)); }
}";
    fs::write(&source, text).expect("a temporary folder is writable");
    let flags = ["-O", "-g", "-Cpanic=abort", "-Cforce-unwind-tables=no", "-Cforce-frame-pointers=yes", "-o"];
    let output = Command::new("rustc").args(flags).args([&program, &source]).output();
    let Ok(output) = output else {
        let _: Option<()> = skip("rustc is not in PATH");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let program = Running::start_ready(&mut Command::new(program));
    let recording = Recording::of_pid_with(program.pid(), "2s", &["-e", "cpu"]);
    recording.report().assert_whole(200);
    let path = ["tableless::table_outer", "tableless::table_middle", "tableless::table_leaf"];
    let named = recording.stacks().percent(|stack| stack.has(&path));
    assert!(named >= 98.0, "only {named:.2} %");
}

#[test]
fn entries_that_walks_need_are_read_once_and_not_for_each_sample() {
    let Some(_turn) = turn() else { return };
    let Some(program) = Running::fixture("dense", &[UNTIL_ENDED]) else { return };
    let recording = Recording::of_pid_with(program.pid(), "1500ms", &["-e", "cpu"]);
    let report = recording.report();
    report.assert_whole(200);
    assert!(report.total_percent("work_in_dense_code") > 90.0, "top: {}", report.top());
    let (profile, _) = read_path(&recording.file()).expect("it can be read");
    let walked = profile.counter("rescued");
    assert!(walked >= 10, "walks in user space: {walked}");
    // To read and index all entries takes 15 to 20 ms. A second is for the rest of a recording.
    let cpu_ms = profile.end.as_ref().map_or(0, |end| end.cpu_ns) / 1_000_000;
    assert!(cpu_ms < 1_000 + walked * 4, "{cpu_ms} ms of CPU for {walked} walks");
}
