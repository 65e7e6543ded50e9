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

use prof::internals::fuzzing::unwind_elf;
use prof::internals::unwind::{ElfImage, ElfLimits, Limits};
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
    let Some(most_frames) = unwind_elf(bytes, &limits, seed, 1500) else { return Ok(0) };
    prop_assert!(most_frames <= 300);
    Ok(if most_frames > 1 { 2 } else { 1 })
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
