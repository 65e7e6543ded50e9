//! Real files with damage where it hurts, through everything that unwinding reads: the file's structure, its
//! tables, its instructions, its raw rules. Whatever they say, they are refused or give a sound table, and a walk
//! over them ends.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it skips"
)]

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use prof::internals::unwind::{
    CfiSections, ElfImage, ElfLimits, FrameState, Limits, MappedModule, Memory, MemoryError, ModuleCode,
    ModuleMap, Registers, Table, compile, walk,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use support::run_well;

/// A file, and the parts of it that are worth damaging more than others.
struct Target {
    bytes: Vec<u8>,
    /// Where parts begin and end.
    parts: Vec<(usize, usize)>,
}

impl Target {
    fn new(bytes: Vec<u8>) -> Self {
        const SECTIONS: [&[u8]; 11] = [
            b".eh_frame",
            b".eh_frame_hdr",
            b".debug_frame",
            b".dynamic",
            b".dynsym",
            b".symtab",
            b".plt",
            b".note.gnu.build-id",
            b".gopclntab",
            b".rela.dyn",
            b".init_array",
        ];
        let image = ElfImage::parse(bytes.clone(), &Limits::default().elf).unwrap();
        // The headers: in front, and of the sections at the end.
        let mut parts = vec![(4, 64 + 56 * 12), (bytes.len().saturating_sub(64 * 30), bytes.len())];
        for section in SECTIONS.iter().filter_map(|name| image.section(name)) {
            parts.push((section.file_offset as usize, (section.file_offset + section.size) as usize));
        }
        if let Some(table) = image.section(b".gopclntab") {
            parts.push((table.file_offset as usize, table.file_offset as usize + 72));
        }
        for segment in image.segments().iter().filter(|segment| segment.is_executable) {
            parts.push((segment.file_offset as usize, (segment.file_offset + segment.file_size) as usize));
        }
        parts.retain(|(start, end)| start < end && *end <= bytes.len());
        Self { bytes, parts }
    }

    fn damaged(&self, damage: &[(Index, Index, Vec<u8>)], cut: Option<Index>) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for (part, at, value) in damage {
            let &(start, end) = part.get(&self.parts);
            let at = start + at.index(end - start);
            let room = &mut bytes[at..];
            let size = room.len().min(value.len());
            room[..size].copy_from_slice(&value[..size]);
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes
    }
}

/// Values that lengths, offsets and counts break at, and any others.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(any::<u8>(), 1..9),
        1 => (1usize..9).prop_map(|size| vec![0; size]),
        1 => (1usize..9).prop_map(|size| vec![0xff; size]),
        1 => Just(i64::MAX.to_le_bytes().to_vec()),
        1 => Just(0xffff_fff0u32.to_le_bytes().to_vec()),
        1 => any::<u16>().prop_map(|size| u32::from(size).to_le_bytes().to_vec()),
    ]
}

/// The one module of a process, everywhere, and a stack of whatever words.
struct Hostile {
    table: Table,
    cfi: CfiSections,
    bias: u64,
    seed: u64,
}

/// The stack: 64 KiB from here on.
const STACK: u64 = 0x7ffc_0000_0000;
const STACK_BYTES: u64 = 0x1_0000;

impl ModuleMap for Hostile {
    fn find(&self, address: u64) -> Option<MappedModule<'_>> {
        (address < 1 << 40).then_some(MappedModule { bias: self.bias, code: ModuleCode::Table(&self.table) })
    }

    fn cfi(&self, _address: u64) -> Option<&CfiSections> {
        Some(&self.cfi)
    }
}

impl Memory for Hostile {
    fn read(&self, address: u64) -> Result<u64, MemoryError> {
        if address.wrapping_sub(STACK) >= STACK_BYTES {
            return Err(MemoryError::Unreadable);
        }
        let random = (address ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
        Ok(match random % 8 {
            0..3 => STACK + (((random >> 3) % STACK_BYTES) & !7),
            3 if random & 8 == 0 => random,
            _ => self.bias + self.code(random >> 3),
        })
    }
}

impl Hostile {
    /// Some address of the module's own that its table is about: at a row or a little behind.
    fn code(&self, random: u64) -> u64 {
        let rows = self.table.rows.len().max(1) as u64;
        let index = random % rows;
        let page = self.table.pages.partition_point(|page| u64::from(page.first) <= index).saturating_sub(1);
        let low = self.table.rows.get(index as usize).map_or(0, |row| u64::from(row.pc_low));
        ((self.table.first_page + page as u64) << 16) + low + (random >> 40) % 4
    }
}

fn check_soundness(table: &Table) -> Result<(), TestCaseError> {
    for page in &table.pages {
        let rows = table.rows.get(page.first as usize..).and_then(|rows| rows.get(..page.count as usize));
        let Some(rows) = rows else { return Err(TestCaseError::fail(format!("{page:?} has no rows"))) };
        prop_assert!(rows.first().is_none_or(|row| row.pc_low == 0));
        prop_assert!(rows.is_sorted_by(|a, b| a.pc_low < b.pc_low));
        prop_assert!(rows.iter().all(|row| usize::from(row.rule) < table.rules.len()));
    }
    Ok(())
}

/// Reads, compiles and walks a file. Says how far it came: 0 refused, 1 compiled, 2 walked beyond the leaf.
fn digest(bytes: Vec<u8>, seed: u64) -> Result<usize, TestCaseError> {
    let limits = Limits {
        max_pages: 1024,
        elf: ElfLimits { max_section_bytes: 8 << 20, ..Limits::default().elf },
        max_cfi_bytes: 8 << 20,
        max_scanned_code_bytes: 1 << 20,
        max_symbols: 1 << 16,
        ..Limits::default()
    };
    let Ok(image) = ElfImage::parse(bytes, &limits.elf) else { return Ok(0) };
    for (start, end, offset) in [(0x5500_0000_0000, 0x5500_0000_4000, 0x1000), (0, u64::MAX, u64::MAX)] {
        image.bias_of_mapping(start, end, offset);
    }
    let (Ok(table), Ok(cfi)) = (compile(&image, &limits), CfiSections::load(&image)) else {
        return Ok(0);
    };
    check_soundness(&table)?;
    let mut process = Hostile { table, cfi, bias: 0, seed };
    // Fixed, or anywhere that keeps the code below the end of `find`.
    if process.table.first_page < 1 << 10 {
        process.bias = (seed & 0xff) << 12;
    }
    let mut reached = 1;
    for leaf in 0..8 {
        let mut general = [0; 16];
        for (number, register) in (0..).zip(&mut general) {
            *register = STACK + (((seed.rotate_left(number * 4) ^ leaf) % STACK_BYTES) & !7);
        }
        let rip = process.bias + process.code(seed.rotate_right(7) ^ (leaf << 30));
        let stack = walk(&FrameState::interrupted(&Registers { general, rip }), &process, &process, 1500);
        prop_assert!(stack.frames.len() <= 300);
        if stack.frames.len() > 1 {
            reached = 2;
        }
    }
    Ok(reached)
}

/// `PROF_FUZZ_FACTOR`: how many times as many cases.
fn check(target: &Target, count: u32) {
    let factor: u32 = std::env::var("PROF_FUZZ_FACTOR").map_or(1, |factor| factor.parse().unwrap());
    let count = count * factor;
    let strategy = (
        vec((any::<Index>(), any::<Index>(), value()), 0..8),
        proptest::option::weighted(0.05, any::<Index>()),
        any::<u64>(),
    );
    let reached = std::cell::Cell::new([0u32; 3]);
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&strategy, |(damage, cut, seed)| {
        let stage = digest(target.damaged(&damage, cut), seed)?;
        let mut stages = reached.get();
        stages[stage] += 1;
        reached.set(stages);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let [refused, compiled, walked] = reached.get();
    println!("{refused} refused, {compiled} compiled, {walked} walked");
    // Else the damage has hidden everything behind it.
    assert!(walked > count / 10, "{refused} refused, {compiled} compiled, {walked} walked");
}

/// Compiles a small program, or says why not.
fn build(command: &[&str]) -> Option<Vec<u8>> {
    const SOURCE: &str = "#include <stdlib.h>
#include <stdio.h>
int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(int count, char **words) {
    int *values = __builtin_alloca(count * 4);
    for (int i = 0; i < count; i++) values[i] = atoi(words[i]);
    qsort(values, count, 4, compare);
    printf(\"%d\\n\", values[0]);
}
";
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("program.c"), folder.path().join("program"));
    std::fs::write(&source, SOURCE).unwrap();
    run_well(Command::new(command[0]).args(&command[1..]).arg("-o").arg(&program).arg(&source))?;
    Some(std::fs::read(program).unwrap())
}

#[test]
fn damage_to_a_program_of_the_system() {
    check(&Target::new(std::fs::read(Path::new("/bin/true")).unwrap()), 2000);
}

/// Its functions are found by following instructions.
#[test]
fn damage_to_a_stripped_program_without_unwind_entries() {
    let Some(bytes) = build(&["musl-gcc", "-O2", "-static", "-s"]) else { return };
    check(&Target::new(bytes), 1500);
}

/// Its frames are in Go's own table.
#[test]
fn damage_to_a_stripped_go_program() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("program.go"), folder.path().join("program"));
    std::fs::write(&source, "package main\n\nfunc main() { println(len(\"text\")) }\n").unwrap();
    let mut command = Command::new("go");
    command.args(["build", "-ldflags=-s -w", "-o"]).arg(&program).arg(&source);
    if run_well(&mut command).is_none() {
        return;
    }
    check(&Target::new(std::fs::read(program).unwrap()), 500);
}

#[test]
fn damage_to_compressed_debug_sections() {
    let flags = ["cc", "-O2", "-g", "-gz", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let Some(bytes) = build(&flags) else { return };
    check(&Target::new(bytes), 1500);
}

#[test]
fn damage_to_the_vdso() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
    let (start, rest) = line.split_once('-').unwrap();
    let hex = |field| u64::from_str_radix(field, 16).unwrap();
    let (start, end) = (hex(start), hex(rest.split_once(' ').unwrap().0));
    let mut bytes = vec![0; (end - start) as usize];
    File::open("/proc/self/mem").unwrap().read_exact_at(&mut bytes, start).unwrap();
    check(&Target::new(bytes), 3000);
}
