//! Walks stopped processes with `prof::internals::unwind` and looks for the functions that must be there.
//!
//! The programs are compiled here; a case whose compiler is not installed is skipped, saying so.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it skips"
)]

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use object::{Object, ObjectSymbol};
use prof::internals::unwind::{
    CfiSections, ElfImage, End, FrameState, Limits, MappedModule, Memory, MemoryError, ModuleCode, ModuleMap,
    Registers, Stack, Table, compile, walk,
};
use support::{run_well, skip};

struct Mapping {
    start: u64,
    end: u64,
    bias: u64,
    module: Option<PathBuf>,
}

struct Module {
    table: Table,
    cfi: CfiSections,
    symbols: BTreeMap<u64, String>,
}

struct Process {
    mappings: Vec<Mapping>,
    modules: BTreeMap<PathBuf, Module>,
    memory: File,
}

impl Process {
    fn read(pid: u32) -> Self {
        let limits = Limits::default();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
        let mut process = Self { mappings: Vec::new(), modules: BTreeMap::new(), memory };
        for line in maps.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if !words[1].contains('x') {
                continue;
            }
            let (start, end) = words[0].split_once('-').unwrap();
            let hex = |word| u64::from_str_radix(word, 16).unwrap();
            let (start, end, offset) = (hex(start), hex(end), hex(words[2]));
            let path = words.get(5).map(PathBuf::from);
            let image = match &path {
                Some(path) if path.starts_with("/") => {
                    ElfImage::open(&File::open(path).unwrap(), &limits.elf).unwrap()
                }
                Some(path) if path.as_os_str() == "[vdso]" => {
                    let mut bytes = vec![0; (end - start) as usize];
                    process.memory.read_exact_at(&mut bytes, start).unwrap();
                    ElfImage::parse(bytes, &limits.elf).unwrap()
                }
                _ => {
                    process.mappings.push(Mapping { start, end, bias: 0, module: None });
                    continue;
                }
            };
            let bias = image.bias_of_mapping(start, end, offset).unwrap();
            process.mappings.push(Mapping { start, end, bias, module: path.clone() });
            let path = path.unwrap();
            let module = Module {
                table: compile(&image, &limits).unwrap(),
                cfi: CfiSections::load(&image).unwrap(),
                symbols: symbols(&path),
            };
            process.modules.insert(path, module);
        }
        process
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
    }

    fn name(&self, address: u64) -> String {
        let Some(mapping) = self.mapping(address) else { return format!("{address:#x}") };
        let Some(path) = &mapping.module else { return "[anonymous]".into() };
        let own = address.wrapping_sub(mapping.bias);
        match self.modules[path].symbols.range(..=own).next_back() {
            Some((_, name)) => name.clone(),
            None => format!("{}+{own:#x}", path.display()),
        }
    }
}

fn symbols(path: &Path) -> BTreeMap<u64, String> {
    let Ok(bytes) = std::fs::read(path) else { return BTreeMap::new() };
    let object = object::File::parse(&bytes[..]).unwrap();
    let defined = object.dynamic_symbols().chain(object.symbols());
    defined
        .filter(|symbol| symbol.is_definition() && symbol.kind() == object::SymbolKind::Text)
        .map(|symbol| (symbol.address(), symbol.name().unwrap_or_default().to_owned()))
        .collect()
}

impl ModuleMap for Process {
    fn find(&self, address: u64) -> Option<MappedModule<'_>> {
        let mapping = self.mapping(address)?;
        let code = match &mapping.module {
            Some(path) => ModuleCode::Table(&self.modules[path].table),
            None => ModuleCode::Jit,
        };
        Some(MappedModule { bias: mapping.bias, code })
    }

    fn cfi(&self, address: u64) -> Option<&CfiSections> {
        let path = self.mapping(address)?.module.as_ref()?;
        Some(&self.modules[path].cfi)
    }
}

impl Memory for Process {
    fn read(&self, address: u64) -> Result<u64, MemoryError> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, address).map_err(|_| MemoryError::Unreadable)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Stops a thread and reads what a walk starts from.
fn stopped_state(tid: u32) -> Option<FrameState> {
    let tid = tid as libc::pid_t;
    // SAFETY: PTRACE_SEIZE and PTRACE_INTERRUPT take no pointers; `tid` is a child of this test.
    let attached = unsafe {
        libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0) == 0
            && libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0) == 0
    };
    if !attached {
        return None;
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    unsafe { libc::waitpid(tid, &mut status, libc::__WALL) };
    // SAFETY: `user_regs_struct` is plain numbers, for which zero is a value.
    let mut regs: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills `regs`, which has the type that PTRACE_GETREGS writes.
    if unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid, 0, &mut regs) } != 0 {
        return None;
    }
    let general = [
        regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi, regs.rbp, regs.rsp, regs.r8, regs.r9,
        regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
    ];
    let registers = Registers { general, rip: regs.rip };
    let state = if regs.orig_rax == u64::MAX {
        FrameState::interrupted(&registers)
    } else {
        FrameState::in_system_call(&registers)
    };
    Some(FrameState { thread_pointer: Some(regs.fs_base), ..state })
}

fn resume(tid: u32) {
    // SAFETY: PTRACE_DETACH takes no pointers.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, tid as libc::pid_t, 0, 0) };
}

/// Kills the program however the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Sampled {
    stack: Stack,
    /// Leaf first.
    names: Vec<String>,
}

/// Runs a program and samples each of its threads `count` times.
fn sample(program: &Path, arguments: &[&str], count: usize) -> Option<Vec<Sampled>> {
    let child = Command::new(program).args(arguments).stdout(Stdio::null()).spawn().unwrap();
    let child = Running(child);
    std::thread::sleep(Duration::from_millis(300));
    let pid = child.0.id();
    let process = Process::read(pid);
    let mut samples = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(120);
    for round in 0..count {
        if Instant::now() > deadline {
            break;
        }
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let tid: u32 = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
            let Some(start) = stopped_state(tid) else {
                return skip("ptrace is not permitted");
            };
            let stack = walk(&start, &process, &process, 1000);
            resume(tid);
            let names = stack.frames.iter().map(|frame| process.name(frame.lookup_address())).collect();
            samples.push(Sampled { stack, names });
        }
        // Pauses that differ by all parts of the program's period, or samples fall into step with it: one of eleven pauses may
        // always end in the same function.
        let odd = (round as u64).wrapping_mul(2_654_435_761) % 1_500_007;
        std::thread::sleep(Duration::from_nanos(700_000 + odd));
    }
    Some(samples)
}

/// Compiles a fixture, or says why not.
fn build(folder: &Path, name: &str, source: &str, command: &[&str]) -> Option<PathBuf> {
    let extension = if command[0] == "go" { "go" } else { "c" };
    let source_path = folder.join(format!("{name}.{extension}"));
    std::fs::write(&source_path, source).unwrap();
    let program = folder.join(name);
    let mut full = Command::new(command[0]);
    full.args(&command[1..]).arg("-o").arg(&program).arg(&source_path);
    full.env("GOCACHE", folder.join("cache")).env("GOFLAGS", "-mod=mod");
    run_well(&mut full)?;
    Some(program)
}

/// How many stacks are complete; the others are printed.
fn complete(samples: &[Sampled]) -> usize {
    for sample in samples.iter().filter(|sample| sample.stack.end != End::Complete).take(5) {
        println!("{:x?}: {:?}", sample.stack.end, sample.names);
    }
    samples.iter().filter(|sample| sample.stack.end == End::Complete).count()
}

const RECURSION: &str = r#"
#include <string.h>
#include <stdlib.h>
#include <stdio.h>
static char text[4096];
__attribute__((noinline)) unsigned leaf(unsigned n) {
    unsigned sum = n;
    for (int i = 0; i < 2000; i++) sum = sum * 31 + (sum >> 3);
    snprintf(text, sizeof text, "%u %s %g", sum, "words", sum / 3.0);
    return sum + strlen(text);
}
__attribute__((noinline)) unsigned down(int depth) {
    volatile unsigned kept = depth;
    if (depth == 0) return leaf(kept) + kept;
    return down(depth - 1) + kept;
}
__attribute__((noinline)) int compare(const void *a, const void *b) {
    return (int)(down(3) & 1) - (*(const int *)a < *(const int *)b);
}
int main(void) {
    int values[4] = {0};
    for (;;) {
        down(20);
        qsort(values, 4, sizeof *values, compare);
    }
}
"#;

/// Complete stacks that musl's C library has to reach where neither symbols nor unwind entries say where its functions
/// are: what is known then is found by following instructions, and that misses about one stack in a hundred here (a part of
/// its qsort). A sample of 200 varies by some more.
const STRIPPED_MUSL_PERCENT: usize = 96;

fn check_recursion(command: &[&str], name: &str) {
    check_recursion_with(command, name, 99);
}

fn check_recursion_with(command: &[&str], name: &str, least_percent: usize) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), name, RECURSION, command) else { return };
    let Some(samples) = sample(&program, &[], 200) else { return };
    let good = complete(&samples);
    println!("{name}: {good} of {} complete", samples.len());
    assert!(good * 100 >= samples.len() * least_percent, "{good} of {} stacks complete", samples.len());
    let has_main = samples.iter().filter(|s| s.names.iter().any(|name| name == "main")).count();
    assert!(has_main * 100 >= samples.len() * least_percent, "main in {has_main} of {}", samples.len());
    let deepest = samples.iter().map(|s| s.names.iter().filter(|n| *n == "down").count()).max();
    assert_eq!(deepest, Some(21));
    // Between `down` frames there is nothing else.
    for sample in &samples {
        let first = sample.names.iter().position(|name| name == "down");
        let last = sample.names.iter().rposition(|name| name == "down");
        if let (Some(first), Some(last)) = (first, last) {
            assert!(sample.names[first..=last].iter().all(|name| name == "down"), "{:?}", sample.names);
        }
    }
}

#[test]
fn recursion_without_frame_pointers() {
    check_recursion(&["cc", "-O2", "-fomit-frame-pointer"], "dynamic");
}

#[test]
fn recursion_in_a_static_program() {
    check_recursion(&["cc", "-O2", "-static"], "static");
}

#[test]
fn recursion_in_a_static_position_independent_program() {
    check_recursion(&["cc", "-O2", "-static-pie", "-fPIE"], "static_pie");
}

#[test]
fn recursion_in_a_program_at_fixed_addresses() {
    check_recursion(&["cc", "-O2", "-no-pie", "-Wl,-z,noseparate-code"], "fixed");
}

#[test]
fn recursion_in_a_program_linked_by_lld() {
    check_recursion(&["cc", "-O2", "-fuse-ld=lld"], "lld");
}

#[test]
fn recursion_in_a_program_linked_by_gold() {
    check_recursion(&["cc", "-O2", "-fuse-ld=gold"], "gold");
}

#[test]
fn recursion_in_a_static_musl_program() {
    check_recursion(&["musl-gcc", "-O2", "-static"], "musl");
}

#[test]
fn recursion_in_a_dynamic_musl_program() {
    check_recursion_with(&["musl-gcc", "-O2"], "musl_dynamic", STRIPPED_MUSL_PERCENT);
}

/// Nothing but instructions says where the C library's functions are.
#[test]
fn a_stripped_static_musl_program_is_walked_to_its_root() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) =
        build(folder.path(), "musl_stripped", RECURSION, &["musl-gcc", "-O2", "-static", "-s"])
    else {
        return;
    };
    let Some(samples) = sample(&program, &[], 200) else { return };
    let good = complete(&samples);
    println!("stripped musl: {good} of {} complete", samples.len());
    assert!(
        good * 100 >= samples.len() * STRIPPED_MUSL_PERCENT,
        "{good} of {} stacks complete",
        samples.len()
    );
}

const SIGNAL: &str = r#"
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
static volatile unsigned sink;
__attribute__((noinline)) void in_handler(void) { for (int i = 0; i < 4000000; i++) sink += i; }
static void handler(int signal) { in_handler(); sink += signal; }
__attribute__((noinline)) void interrupted(void) { for (;;) sink++; }
int main(void) {
    stack_t other = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
    sigaltstack(&other, 0);
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
    sigaction(SIGALRM, &action, 0);
    struct itimerval every = { { 0, 8000 }, { 0, 8000 } };
    setitimer(ITIMER_REAL, &every, 0);
    interrupted();
}
"#;

#[test]
fn a_signal_handler_on_another_stack_leads_to_the_interrupted_function() {
    let folder = tempfile::tempdir().unwrap();
    for (name, compiler) in [("glibc", "cc"), ("musl", "musl-gcc")] {
        let Some(program) = build(folder.path(), name, SIGNAL, &[compiler, "-O2", "-static"]) else {
            continue;
        };
        let Some(samples) = sample(&program, &[], 150) else { return };
        let good = complete(&samples);
        assert!(good * 100 >= samples.len() * 99, "{name}: {good} of {} complete", samples.len());
        let handled: Vec<_> = samples.iter().filter(|s| s.names[0] == "in_handler").collect();
        assert!(handled.len() > 3, "{name}: the handler was seen {} times", handled.len());
        for sample in handled {
            let names: Vec<&str> = sample.names.iter().map(String::as_str).collect();
            assert_eq!(names[1], "handler");
            assert_eq!(names[3..5], ["interrupted", "main"], "{name}: {names:?}");
        }
    }
}

const GO: &str = r#"
package main

import (
	"fmt"
	"sort"
	"time"
)

//go:noinline
func down(depth int, values []int) int {
	if depth == 0 {
		sort.Slice(values, func(a, b int) bool { return (values[a]*7919)%1009 < (values[b]*7919)%1009 })
		return len(fmt.Sprintf("%v", values[:4]))
	}
	return down(depth-1, values) + depth
}

func work() {
	values := make([]int, 300)
	for round := 0; ; round++ {
		for i := range values {
			values[i] = (i * round) % 997
		}
		down(10, append([]int(nil), values...))
	}
}

func main() {
	go work()
	go func() {
		for {
			time.Sleep(time.Millisecond)
		}
	}()
	work()
}
"#;

fn check_go(command: &[&str], name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path(), name, GO, command) else { return };
    let Some(samples) = sample(&program, &[], 100) else { return };
    let good = complete(&samples);
    println!("{name}: {good} of {} complete", samples.len());
    assert!(good * 100 >= samples.len() * 99, "{name}: {good} of {} complete", samples.len());
    if name == "go" {
        let named = samples.iter().filter(|s| s.names.iter().any(|name| name == "main.work")).count();
        assert!(named > 50, "main.work in {named} of {}", samples.len());
    }
}

#[test]
fn goroutines() {
    check_go(&["go", "build"], "go");
}

#[test]
fn goroutines_of_a_stripped_program() {
    check_go(&["go", "build", "-ldflags=-s -w"], "go_stripped");
}
