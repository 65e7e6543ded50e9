//! The walker under a fuzzer: cases grow from recorded and stated ones until a sanitizer objects.

use std::path::Path;
use std::process::Command;

use prof::internals::unwind::Architecture;

use crate::host::build;

/// How long the fuzzer runs in the tests, in seconds; `make fuzz` says more.
const SECONDS: &str = "20";

#[test]
fn no_registers_memory_or_tables_lead_the_walker_astray() {
    let folder = tempfile::tempdir().unwrap();
    let program = build("fuzz", Architecture::X86_64, "fuzzer,address,undefined");
    // What an earlier run has found is kept where it can be found again.
    let corpus = Path::new(env!("CARGO_TARGET_TMPDIR")).join("walker-corpus");
    std::fs::create_dir_all(&corpus).unwrap();
    let seeds = folder.path().join("seeds");
    std::fs::create_dir(&seeds).unwrap();
    for (index, case) in crate::seeds().iter().enumerate() {
        std::fs::write(seeds.join(index.to_string()), case.encode()).unwrap();
    }
    let seconds = std::env::var("PROF_FUZZ_SECONDS").unwrap_or(SECONDS.into());
    let output = Command::new(program)
        .current_dir(folder.path())
        .arg(format!("-max_total_time={seconds}"))
        .args(["-max_len=65536", "-timeout=10", "-print_final_stats=1", "-verbosity=0"])
        .args([&corpus, &seeds])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let runs = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let runs: u64 = runs.map_or(0, |number| number.trim().parse().unwrap());
    println!("{runs} executions");
    assert!(runs > 1000, "the fuzzer has run {runs} times: {said}");
}
