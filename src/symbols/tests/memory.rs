//! Memory of name lookups, measured from outside: by the kernel's figures for a process that does them.

use super::hostile::{header_of, made_dwarf, plain_victim, put_u64, replace_section};
use super::program::{Workshop, nm};
use crate::base::deadline::Deadline;
use crate::base::memory_budget::MemoryBudget;
use crate::elf::ElfFile;
use crate::elf::source::Source;
use crate::symbols::*;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Environment variable with the task for the process that measures: a file, then addresses.
const TASK: &str = "PROF_TEST_NAMES";
/// The name of the test that measures.
const CHILD: &str = "symbols::tests::memory::names_are_looked_up_in_a_process_of_their_own";

const MB: u64 = 1 << 20;

/// Peak memory of this process, bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// Does nothing except in the process that [`measure`] starts.
#[test]
#[allow(clippy::print_stdout)]
fn names_are_looked_up_in_a_process_of_their_own() {
    let Ok(task) = std::env::var(TASK) else { return };
    let mut words = task.split(' ');
    let file = Arc::new(File::open(words.next().unwrap()).unwrap());
    let addresses: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
    let (end, memory) = (Deadline::default(), MemoryBudget::shared());
    // Name something first: memory that only the first lookup needs (threads, code) is not counted.
    let own = Arc::new(File::open("/proc/self/exe").unwrap());
    let mut names = ModuleNames::open(&own, None, &NamingLimits::default(), &end, memory).unwrap();
    names.resolve(&[1], &end);
    drop(names);
    let before = peak_bytes();
    let limits = NamingLimits { max_time: Duration::from_secs(600), ..NamingLimits::default() };
    let mut names = ModuleNames::open(&file, None, &limits, &end, memory).unwrap();
    let locations = names.resolve(&addresses, &end);
    let named = locations.iter().filter(|locations| !locations.is_empty()).count();
    let problem = names.problem().map_or("none".to_owned(), |problem| problem.to_string());
    println!("\nmeasured\t{}\t{named}\t{problem}", peak_bytes() - before);
}

/// Memory that naming takes in bytes, the number of addresses with names, and the problem.
fn measure(file: &Path, addresses: &[u64]) -> (u64, usize, String) {
    let words = addresses.iter().map(u64::to_string);
    let task: Vec<String> = [file.display().to_string()].into_iter().chain(words).collect();
    // The test binary of a developer's side crate may have a prefix in the test name.
    let output = Command::new(std::env::current_exe().unwrap())
        .args([CHILD, "--exact", "--nocapture", "--test-threads=1"])
        .env(TASK, task.join(" "))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("measured\t"));
    let fields: Vec<&str> = line.unwrap_or_else(|| panic!("{text}")).split('\t').collect();
    (fields[0].parse().unwrap(), fields[1].parse().unwrap(), fields[2].to_owned())
}

fn written(shop: &Workshop, bytes: &[u8]) -> PathBuf {
    let path = shop.path().join("made");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Sections of a gibibyte in a file of some kilobytes.
#[test]
fn holes_in_sections_take_no_memory() {
    let Some(victim) = plain_victim() else { return };
    let shop = Workshop::new();
    for names in [&[&b".debug_str"[..], b".debug_line_str"][..], &[b".debug_info"], &[b".symtab"]] {
        let mut bytes = victim.bytes.clone();
        for (place, name) in (1..).zip(names) {
            let header = header_of(&bytes, name);
            put_u64(&mut bytes, header + 24, place << 30);
            put_u64(&mut bytes, header + 32, 1 << 30);
        }
        let path = written(&shop, &bytes);
        File::options().write(true).open(&path).unwrap().set_len(4 << 30).unwrap();
        let (memory, named, problem) = measure(&path, &victim.addresses);
        assert!(memory < 16 * MB, "{memory}");
        let is_symtab = names[0] == b".symtab";
        assert_eq!(problem, if is_symtab { "none" } else { "debug information is damaged" });
        assert!(named > 100, "{named}");
    }
}

/// A million units of 12 bytes each.
#[test]
fn a_million_units_are_listed_in_little_memory() {
    let Some(victim) = plain_victim() else { return };
    let shop = Workshop::new();
    let unit = [8, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 0];
    let mut bytes = victim.bytes.clone();
    replace_section(&mut bytes, b".debug_info", &unit.repeat(1_000_000), None);
    let (memory, named, _) = measure(&written(&shop, &bytes), &victim.addresses);
    assert!(memory < 96 * MB, "{memory}");
    assert!(named > 100, "{named}");
}

/// An entry of one byte takes a hundred in addr2line's tables.
#[test]
fn a_unit_of_many_entries_is_refused_before_it_takes_memory() {
    let Some(victim) = plain_victim() else { return };
    let shop = Workshop::new();
    let (bytes, text) = made_dwarf(victim, &vec![6; 4 << 20], &[0; 16]);
    let (memory, named, problem) = measure(&written(&shop, &bytes), &[text]);
    assert!(memory < 64 * MB, "{memory}");
    assert_eq!((named, problem.starts_with("debug information is too big: needs ")), (1, true), "{problem}");
    // Fewer entries are read, within the budget.
    let (bytes, text) = made_dwarf(victim, &vec![6; 1 << 20], &[0; 16]);
    let (memory, _, problem) = measure(&written(&shop, &bytes), &[text]);
    assert!(memory < 256 * MB && problem == "none", "{memory} {problem}");
}

/// A row of one byte takes 24 in memory, and as much again while its list grows.
#[test]
fn a_line_table_of_many_rows_is_refused_before_it_takes_memory() {
    let Some(victim) = plain_victim() else { return };
    let shop = Workshop::new();
    let image = ElfFile::parse(Source::Bytes(Arc::new(victim.bytes.clone())), &NamingLimits::default().elf);
    let image = image.unwrap();
    let section = image.section(b".debug_line").unwrap().clone();
    let old = &victim.bytes[section.file_offset as usize..(section.file_offset + section.size) as usize];
    let length = u32::from_le_bytes(old[..4].try_into().unwrap());
    let mut table = old[..4 + length as usize].to_vec();
    table.extend_from_slice(&vec![0xff; 16 << 20]);
    let length = length + (16 << 20);
    table[..4].copy_from_slice(&length.to_le_bytes());
    let mut bytes = victim.bytes.clone();
    replace_section(&mut bytes, b".debug_line", &table, None);
    let (memory, named, problem) = measure(&written(&shop, &bytes), &victim.addresses);
    assert!(memory < 64 * MB, "{memory}");
    assert!(named > 100 && problem.starts_with("debug information is too big: needs "), "{named} {problem}");
}

/// Lookups in a large program need only a small part of it.
#[test]
fn memory_follows_what_is_asked() {
    let shop = Workshop::new();
    // This test program itself: it has debug information of some tens of megabytes.
    let program = std::env::current_exe().unwrap();
    let Some(functions) = nm(&shop, &program, &[]) else { return };
    let mut addresses: Vec<u64> = functions.iter().filter(|f| f.1 > 0).map(|f| f.0 + f.1 / 2).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let few: Vec<u64> = addresses.iter().copied().step_by(addresses.len() / 10).collect();
    let (memory, named, problem) = measure(&program, &few);
    assert_eq!((named, problem.as_str()), (few.len(), "none"));
    assert!(memory < 48 * MB, "{memory}");
}

/// Without memory for DWARF there are names from symbols, and the reason.
#[test]
fn names_of_symbols_are_there_when_memory_is_short() {
    let Some(victim) = plain_victim() else { return };
    let bytes = Arc::new(victim.bytes.clone());
    let memory = Arc::new(MemoryBudget::new(200 << 10));
    let end = Deadline::default();
    let mut names = ModuleNames::of_bytes(&bytes, &NamingLimits::default(), &end, &memory).unwrap();
    let held =
        memory.try_reserve(memory.limit_bytes() - memory.used_bytes()).unwrap_or_else(|_| unreachable!());
    let locations = names.resolve(&victim.addresses, &end);
    assert!(matches!(names.problem(), Some(DebugProblem::NoMemory(_))), "{:?}", names.problem());
    assert!(locations.iter().flatten().any(|location| location.raw_name == "work"));
    // Once there is memory, the same names have lines: the refusal is not remembered.
    drop((held, names));
    let memory = Arc::<MemoryBudget>::default();
    let mut names = ModuleNames::of_bytes(&bytes, &NamingLimits::default(), &end, &memory).unwrap();
    let held = memory.try_reserve(memory.limit_bytes() - memory.used_bytes()).unwrap();
    names.resolve(&victim.addresses, &end);
    drop(held);
    let locations = names.resolve(&victim.addresses, &end);
    assert_eq!((names.problem(), names.source()), (None, NameSource::Dwarf));
    assert!(locations.iter().flatten().any(|location| location.line > 0));
    assert!(names.memory_bytes() > 0 && memory.used_bytes() >= names.memory_bytes());
}

/// Once the flag is set nothing more is read, whatever the file holds.
/// Detail 12 of the promises: names take seconds, and can be cut short.
#[test]
fn a_stop_flag_ends_every_step() {
    let Some(victim) = plain_victim() else { return };
    let stop = Arc::<AtomicBool>::default();
    let deadline = Deadline::after(Duration::from_secs(3600), &stop);
    let bytes = Arc::new(victim.bytes.clone());
    let memory = Arc::<MemoryBudget>::default();
    let mut names = ModuleNames::of_bytes(&bytes, &NamingLimits::default(), &deadline, &memory).unwrap();
    let before = names.memory_bytes();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let locations = names.resolve(&victim.addresses, &deadline);
    assert_eq!((names.problem(), names.memory_bytes()), (Some(DebugProblem::TimeLimit), before));
    assert!(locations.iter().all(Vec::is_empty) && locations.len() == victim.addresses.len());
    let opened = ModuleNames::of_bytes(&bytes, &NamingLimits::default(), &deadline, &memory);
    assert!(matches!(opened, Err(SymbolError::Stopped)), "{opened:?}");
    // Naming works again with another deadline.
    let locations = names.resolve(&victim.addresses, &Deadline::default());
    assert_eq!(names.problem(), None);
    assert!(locations.iter().flatten().any(|location| location.line > 0));

    let map = "1000 10 f\n".repeat(10_000);
    assert!(PerfMap::parse(map.as_bytes(), &NamingLimits::default(), &deadline).is_cut());
}

/// The checksum of a debug file is not computed for a file full of holes, one too large, or once the flag is set.
#[test]
fn checksums_of_debug_files_are_bounded() {
    let shop = Workshop::new();
    shop.write("prog.c", super::program::C_SOURCE);
    let flags = "-O2 -g -Wl,--build-id=none";
    let Some(_) = shop.build("gcc", "prog.c", "whole", flags) else { return };
    shop.run("objcopy", ["--only-keep-debug", "whole", "prog.debug"]).unwrap();
    // A hole at its end, which is part of the checksum.
    let debug = File::options().write(true).open(shop.path().join("prog.debug")).unwrap();
    for (size, is_found) in [(0, true), (1 << 19, true), (64 << 20, false), (4 << 30, false)] {
        let len = std::fs::metadata(shop.path().join("whole")).unwrap().len();
        debug.set_len(len.max(debug.metadata().unwrap().len().min(len)) + size).unwrap();
        if size < 1 << 30 {
            shop.run("objcopy", ["--strip-all", "--add-gnu-debuglink=prog.debug", "whole", "prog"]).unwrap();
        }
        let module = Arc::new(File::open(shop.path().join("prog")).unwrap());
        let stop = Arc::<AtomicBool>::default();
        let deadline = Deadline::after(Duration::from_secs(600), &stop);
        let find = || find_debug_file(shop.path(), Path::new("/prog"), &module, &deadline).is_some();
        assert_eq!(find(), is_found, "{size}");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(!find());
    }
}
