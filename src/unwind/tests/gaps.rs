//! Functions without unwind entries, among others that have some or alone: their rules are those of the entries that
//! were taken away.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{run_well, skip};
use crate::unwind::rule::RbpKind;
use crate::unwind::{CfiSections, ElfImage, Limits, Rule, RuleKind, Table, compile, compile_sections};
use object::{Object, ObjectSection, ObjectSymbol};

fn image_of(path: &Path) -> ElfImage {
    ElfImage::open(&File::open(path).unwrap(), &Limits::default().elf).unwrap()
}

fn table_of(path: &Path) -> Table {
    compile(&image_of(path), &Limits::default()).unwrap()
}

/// Result of comparing the rules at some addresses.
#[derive(Debug, Default)]
struct Comparison {
    same: usize,
    wrong: Vec<u64>,
    unclaimed: Vec<u64>,
}

impl Comparison {
    fn add(&mut self, address: u64, said: Rule, followed: Rule) {
        if followed.kind != RuleKind::Reg {
            self.unclaimed.push(address);
        } else if is_same_frame(said, followed) {
            self.same += 1;
        } else {
            self.wrong.push(address);
        }
    }
}

/// The same place may be given relative to rsp or rbp, which only the code around can tell. To say that rbp is lost
/// claims less than the entry does.
fn is_same_frame(said: Rule, followed: Rule) -> bool {
    let is_rbp_same = (said.rbp_kind, said.rbp_off) == (followed.rbp_kind, followed.rbp_off);
    let is_claimed = followed.rbp_kind != RbpKind::Lost;
    (is_rbp_same || !is_claimed) && (said.cfa_reg != followed.cfa_reg || said.cfa_off == followed.cfa_off)
}

/// A program as people write them: errors that end it, callbacks, a table of functions, and a `main` that may never
/// return.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static volatile unsigned long sink;
static void usage(const char *name) { fprintf(stderr, "usage: %s\n", name); exit(2); }
static int compare(const void *a, const void *b) { int x = *(const int *)a, y = *(const int *)b; return (x > y) - (x < y); }
static void leaf(int n) { for (int i = 0; i < n; i++) sink += i * 7; }
static void sorts(int n) { int v[100]; for (int i = 0; i < 100; i++) v[i] = rand() % n; qsort(v, 100, sizeof *v, compare); sink += v[3]; }
static void one(int n) { leaf(n); sorts(n); sink++; }
static void two(int n) { if (n == 3) usage("two"); sorts(n); leaf(n); sink += 2; }
static void (*const table[])(int) = { one, two };
static void top(int n) { if (n < 0) abort(); table[n & 1](n); sink++; }
int main(int argc, char **argv) {
	if (argc > 2) usage(argv[0]);
	for (int i = 1; LAST; i++) top(i);
	return 0;
}
"#;

/// Functions of [`PROGRAM`].
const FUNCTIONS: [&str; 8] = ["usage", "compare", "leaf", "sorts", "one", "two", "top", "main"];

/// The copy of a program without symbols and without its unwind entries.
fn without_entries(program: &Path) -> Option<PathBuf> {
    let bare = program.with_extension("bare");
    let remove = ["--strip-all", "-R", ".eh_frame", "-R", ".eh_frame_hdr"];
    run_well(Command::new("objcopy").args(remove).arg(program).arg(&bare))?;
    Some(bare)
}

#[test]
fn a_program_without_entries_and_symbols_has_a_rule_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("program.c");
    std::fs::write(&source, PROGRAM).unwrap();
    for compiler in ["gcc", "clang"] {
        for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
            for position in [&["-fpie", "-pie"][..], &["-fno-pie", "-no-pie"], &["-static"]] {
                for last in ["-DLAST=i<1000", "-DLAST=1"] {
                    let program = folder.path().join("program");
                    let mut build = Command::new(compiler);
                    build.args([
                        level,
                        last,
                        "-fomit-frame-pointer",
                        "-fno-inline",
                        "-fasynchronous-unwind-tables",
                    ]);
                    if run_well(build.args(position).arg("-o").arg(&program).arg(&source)).is_none() {
                        continue;
                    }
                    let Some(bare) = without_entries(&program) else { return };
                    let what = format!("{compiler} {level} {position:?} {last}");
                    check_functions(&program, &bare, &what);
                }
            }
        }
    }
}

/// Every instruction of the functions has the rule that the entries of the whole program give.
fn check_functions(program: &Path, bare: &Path, what: &str) {
    let (full, followed) = (table_of(program), table_of(bare));
    let file = std::fs::read(program).unwrap();
    let object = object::File::parse(&file[..]).unwrap();
    let mut comparison = Comparison::default();
    for symbol in object.symbols() {
        if symbol.name().is_ok_and(|name| FUNCTIONS.contains(&name)) && symbol.size() > 0 {
            let section = object.section_by_index(symbol.section_index().unwrap()).unwrap();
            let code = section.data_range(symbol.address(), symbol.size()).unwrap().unwrap();
            let addresses = instructions(code, symbol.address());
            // Once rbp is saved, and until it is written, it is in both places: clang names the second one then.
            let slots: Vec<i32> = (addresses.iter().map(|&address| full.lookup(address)))
                .filter_map(|rule| (rule.rbp_kind == RbpKind::AtCfa).then_some(rule.rbp_off))
                .collect();
            for address in addresses {
                let (said, mut rule) = (full.lookup(address), followed.lookup(address));
                if said.rbp_kind == RbpKind::Same && slots.contains(&rule.rbp_off) {
                    (rule.rbp_kind, rule.rbp_off) = (said.rbp_kind, said.rbp_off);
                }
                comparison.add(address, said, rule);
            }
        }
    }
    assert!(comparison.same > 50, "{what}: {comparison:x?}");
    assert!(comparison.wrong.is_empty() && comparison.unclaimed.is_empty(), "{what}: {comparison:x?}");
}

/// The addresses of instructions that are not there to pad.
fn instructions(code: &[u8], start: u64) -> Vec<u64> {
    let decoder = iced_x86::Decoder::with_ip(64, code, start, iced_x86::DecoderOptions::NONE);
    let is_padding = |one: &iced_x86::Instruction| one.mnemonic() == iced_x86::Mnemonic::Nop;
    decoder.into_iter().filter(|one| !is_padding(one)).map(|one| one.ip()).collect()
}

/// The C function `main` that rustc makes is the only one without an entry where panics abort.
#[test]
fn main_of_a_rust_program_that_aborts_on_panic_has_rules() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("aborts.rs");
    std::fs::write(&source, "fn main() { println!(\"{}\", std::env::args().count()); }").unwrap();
    for strip in ["-Cstrip=none", "-Cstrip=symbols"] {
        let program = folder.path().join("aborts");
        let mut rustc = Command::new("rustc");
        rustc.args(["-O", "-Cpanic=abort", strip, "-o"]).arg(&program).arg(&source);
        if run_well(&mut rustc).is_none() {
            return;
        }
        let table = table_of(&program);
        let main = main_address(&program);
        // push %rax; …; call; pop %rcx; ret
        assert_eq!(table.lookup(main), Rule::reg(7, 8), "{strip}");
        assert_eq!(table.lookup(main + 1), Rule::reg(7, 16), "{strip}");
    }
}

/// Address that `_start` gives to the C library: `lea main(%rip), %rdi`.
fn main_address(program: &Path) -> u64 {
    let file = std::fs::read(program).unwrap();
    let object = object::File::parse(&file[..]).unwrap();
    let text = object.section_by_name(".text").unwrap();
    let code = text.data_range(object.entry(), 64).unwrap().unwrap();
    let at = code.windows(3).position(|bytes| bytes == [0x48, 0x8d, 0x3d]).unwrap();
    let distance = i32::from_le_bytes(code[at + 3..at + 7].try_into().unwrap());
    (object.entry() + at as u64 + 7).wrapping_add_signed(distance.into())
}

/// Removes every Nth entry from libraries of the system, and follows what has none then.
#[test]
fn a_function_without_an_entry_among_others_has_the_rules_of_its_entry() {
    let names = ["libc.so.6", "libcrypto.so.3", "libstdc++.so.6", "libsqlite3.so.0", "libz.so.1"];
    let named = std::env::var_os("PROF_UNWIND_FILES");
    let files: Vec<PathBuf> = match &named {
        Some(list) => std::env::split_paths(list).collect(),
        None => names.iter().map(|name| Path::new("/usr/lib/x86_64-linux-gnu").join(name)).collect(),
    };
    let mut all = Comparison::default();
    for path in files {
        if !path.exists() {
            skip::<()>(&format!("{} is not there", path.display()));
            continue;
        }
        for left_out in [3, 500] {
            let comparison = compare_without_some(&path, left_out);
            let (wrong, unclaimed) = (comparison.wrong.len(), comparison.unclaimed.len());
            println!(
                "{}, one of {left_out} without: {} agree, {wrong} do not {:x?}, {unclaimed} are not claimed",
                path.display(),
                comparison.same,
                &comparison.wrong[..wrong.min(8)]
            );
            all.same += comparison.same;
            all.wrong.extend(comparison.wrong);
            all.unclaimed.extend(comparison.unclaimed);
        }
    }
    println!("{} agree, {} do not, {} are not claimed", all.same, all.wrong.len(), all.unclaimed.len());
    assert!(all.wrong.len() * 2000 <= all.same, "{} wrong of {}", all.wrong.len(), all.same);
    assert!(named.is_some() || all.same > all.unclaimed.len(), "{} of {}", all.unclaimed.len(), all.same);
}

/// Compares the rows of functions whose entry is taken away with what it said.
fn compare_without_some(path: &Path, every: usize) -> Comparison {
    let (limits, image) = (Limits::default(), image_of(path));
    let section = image.section(b".eh_frame").unwrap().clone();
    let mut bytes = image.section_bytes(&section).unwrap();
    let full = CfiSections::from_bytes(bytes.clone(), section.address, Vec::new());
    let full = compile_sections(&image, &full, &limits).unwrap();
    let mut removed = Vec::new();
    let (mut at, mut number) = (0, 0);
    while let Some(length) = bytes.get(at..at + 4).map(|word| u32::from_le_bytes(word.try_into().unwrap())) {
        if length == 0 {
            break;
        }
        let is_entry = bytes[at + 4..at + 8] != [0; 4];
        if is_entry {
            number += 1;
            // Relative to the field, four bytes: what compilers write.
            let field = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let start = (section.address + at as u64 + 8).wrapping_add_signed(i64::from(field(at + 8)));
            let end = start + field(at + 12) as u64;
            if number % every == 0 {
                // An entry that refers to itself is a common part, which says nothing of any function.
                bytes[at + 4..at + 8].fill(0);
                removed.push((start, end));
            }
        }
        at += 4 + length as usize;
    }
    let followed = CfiSections::from_bytes(bytes, section.address, Vec::new());
    let followed = compile_sections(&image, &followed, &limits).unwrap();
    let mut comparison = Comparison::default();
    for (start, end) in removed {
        let Ok(code) = image.read_address(start, end - start) else { continue };
        for address in instructions(&code, start) {
            let said = full.lookup(address);
            if said.kind == RuleKind::Reg {
                comparison.add(address, said, followed.lookup(address));
            }
        }
    }
    comparison
}
