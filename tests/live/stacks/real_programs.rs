//! Programs that no one here wrote, as the distribution ships them.

use crate::harness::machine::{tool, tool_or_skip, turn};
use crate::harness::postgres::Postgres;
use crate::harness::profiler::Recording;
use crate::harness::running::Running;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Detail 3 of the promises: stacks of stock binaries are complete, and files are small.
#[test]
fn postgres_under_pgbench() {
    let Some(_turn) = turn() else { return };
    let Some(server) = Postgres::start() else { return };
    let _load = server.load();
    let backends = server.backends();
    let list = backends.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let recording = Recording::with(["-p", &list, "-d", "4s"]);
    let report = recording.report();
    report.assert_whole(200);
    assert!(report.total_percent("PostgresMain") > 80.0, "top: {}", report.top());
    assert!(report.module_percent("[kernel]") > 5.0, "a server talks to its clients: {}", report.top());
    recording.stacks().assert_has(&["main", "PostmasterMain", "PostgresMain"]);
}

#[test]
fn sqlite_on_a_heavy_query() {
    let Some(_turn) = turn() else { return };
    let Some(sqlite) = tool_or_skip("sqlite3") else { return };
    let query = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
        WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 100000)
            INSERT INTO t SELECT x, hex(x * 7919 % 100003), x * 0.5 FROM n;
        WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1000)
            SELECT sum(s) FROM n, (SELECT sum(c) AS s, substr(b, 1, 3) AS p FROM t GROUP BY p ORDER BY s)
            WHERE (x + s) % 2 < 5;
        SELECT count(*) FROM t a, t b WHERE a.b < b.b;";
    let program = Running::start(Command::new(sqlite).args([":memory:", query]));
    program.let_it_start();
    let recording = Recording::of_pid(program.pid(), "3s");
    let report = recording.report();
    report.assert_whole(500);
    assert!(report.total_percent("sqlite3_step") > 70.0, "top: {}", report.top());
    assert!(report.module_percent("libsqlite3") > 50.0, "top: {}", report.top());
}

#[test]
fn python_on_its_own_interpreter() {
    let Some(_turn) = turn() else { return };
    // The distribution's own, not one that a version manager puts before it.
    let system = Path::new("/usr/bin/python3");
    let python = if system.exists() { Some(system.to_path_buf()) } else { tool_or_skip("python3") };
    let Some(python) = python else { return };
    let code = "
import json, re
def parse(text): return json.loads(text)
def scan(text): return len(re.findall(r'[a-z]+[0-9]{2,}', text))
def sort(items): return sorted(items, key=lambda item: (item[1], item[0]))
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
items = [('key%d' % (i * 7919 % 1009), i % 17) for i in range(2000)]
text = json.dumps(items)
while True:
    parse(text); scan(text); sort(items); fib(14)
";
    let program = Running::start(Command::new(python).args(["-c", code]));
    program.let_it_start();
    let recording = Recording::of_pid_with(program.pid(), "3s", &["--runtime", "full"]);
    let report = recording.report();
    report.assert_whole(500);
    let interpreter = report.largest_total_percent_containing("_PyEval_EvalFrameDefault");
    assert!(interpreter > 70.0, "top: {}", report.top());
}

#[test]
fn node_up_to_its_generated_code() {
    let Some(_turn) = turn() else { return };
    let Some(node) = tool_or_skip("node") else { return };
    let code = "
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
const items = Array.from({ length: 3000 }, (_, i) => ({ key: 'k' + i * 7919 % 1009, value: i }));
for (;;) {
    const text = JSON.stringify(items);
    const back = JSON.parse(text);
    back.sort((a, b) => a.key < b.key ? -1 : 1);
    text.match(/k[0-9]+5/g);
    fib(18);
}";
    let program = Running::start(Command::new(node).args(["-e", code]));
    program.let_it_start();
    let recording = Recording::of_pid(program.pid(), "3s");
    let report = recording.report();
    report.assert_whole_or(500, &["jit_end"]);
    assert!(report.complete_percent() >= 97.0, "{} %: {}", report.complete_percent(), report.causes());
    // JSON, sorting and regular expressions are V8's own C++ and built-ins.
    assert!(report.module_percent("node") > 10.0, "top: {}", report.top());
}

/// C with thousands of functions, so that compiling it takes a while.
fn big_source(functions: usize) -> String {
    let mut source = String::from("#include <stdint.h>\n");
    for number in 0..functions {
        // Writing to a String cannot fail.
        let _ = writeln!(
            source,
            "uint64_t f{number}(uint64_t *p, int n) {{ uint64_t s = {number};
  for (int i = 0; i < n; i++) {{ switch (p[i] % 7) {{ case 0: s += p[i] * {number}; break;
    case 1: s ^= p[i] << 3; break; case 2: s = s * 31 + i; break; case 3: for (int j = 0; j < i; j++) s += p[j];
    break; default: s -= p[i] / ({number} + 3); }} }} return s ^ p[n / 2]; }}"
        );
    }
    source
}

/// Detail 3 of the promises: stacks of stock binaries are complete, and files are small.
#[test]
fn gcc_compiling_something_large() {
    let Some(_turn) = turn() else { return };
    let Some(gcc) = tool_or_skip("gcc") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let source = folder.path().join("big.c");
    fs::write(&source, big_source(250)).expect("a temporary file can be written");
    let (gcc, source) = (gcc.to_string_lossy(), source.to_string_lossy());
    // As a command: the compiler proper is a child that gcc executes.
    let recording = Recording::with(["--", &gcc, "-O2", "-S", "-o", "/dev/null", &source]);
    let report = recording.report();
    report.assert_whole(500);
    assert!(report.module_percent("cc1") > 70.0, "top: {}", report.top());
}

#[test]
fn clang_compiling_something_large() {
    let Some(_turn) = turn() else { return };
    let Some(clang) = tool_or_skip("clang") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let source = folder.path().join("big.c");
    fs::write(&source, big_source(300)).expect("a temporary file can be written");
    let (clang, source) = (clang.to_string_lossy(), source.to_string_lossy());
    // All of it: code is made at the end.
    let recording = Recording::with(["--", &clang, "-O2", "-S", "-o", "/dev/null", &source]);
    let report = recording.report();
    report.assert_whole(500);
    assert!(report.module_percent("LLVM") > 20.0, "top: {}", report.top());
    assert!(report.largest_total_percent_containing("llvm::") > 20.0, "top: {}", report.top());
    recording.stacks().assert_has(&["main"]);
}

#[test]
fn rustc_compiling_something_large() {
    let Some(_turn) = turn() else { return };
    let Some(rustc) = tool("rustc") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let source = folder.path().join("big.rs");
    let mut text = String::from("#![allow(dead_code)]\nfn main() {}\n");
    for number in 0..2500 {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "pub fn f{number}(v: &[u64]) -> Vec<String> {{ let mut out: Vec<String> = v.iter().filter(|x| **x % {number}u64.max(1) == 0)
  .map(|x| format!(\"{{x}} {number}\")).collect(); out.sort(); out.dedup(); out }}"
        );
    }
    fs::write(&source, text).expect("a temporary file can be written");
    let program = Running::start(
        Command::new(rustc).args(["--crate-type", "lib", "-O", "--out-dir"]).arg(folder.path()).arg(&source),
    );
    program.let_it_start();
    let recording = Recording::of_large_program(program.pid(), "3s");
    let report = recording.report();
    report.assert_whole(300);
    assert!(report.module_percent("rustc_driver") > 30.0, "top: {}", report.top());
}
