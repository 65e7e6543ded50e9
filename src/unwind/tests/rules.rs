//! Rules of hand-written call frame information, assembled by the system's assembler; load biases of
//! binaries that different linkers laid out; damaged unwind sections.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::run_well;
use crate::unwind::rule::{RBP, RSP};
use crate::unwind::{
    CfiSections, ElfError, ElfImage, ElfLimits, Limits, Rule, Table, TableError, compile, compile_sections,
};
use object::{Object, ObjectSymbol};
use proptest::prelude::*;

const ASSEMBLY: &str = r#"
    .text
    .macro function name
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
    .endm
    .macro done name
    .cfi_endproc
    .size \name, . - \name
    .endm

function plain
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    nop
plain_pushed: .globl plain_pushed
    nop
    pop %rbp
    .cfi_def_cfa_offset 8
plain_popped: .globl plain_popped
    ret
done plain

function root
    .cfi_undefined %rip
    nop
    hlt
done root

# As glibc's vfork: the return address is popped into a register.
function return_in_register
    pop %rdi
    .cfi_adjust_cfa_offset -8
    .cfi_register %rip, %rdi
popped: .globl popped
    nop
    jmp *%rdi
done return_in_register

# As GCC's realigned frames: CFA = *(rbp - 8), rbp saved at *rbp.
function realigned
    .cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06
    .cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00
    nop
    ret
done realigned

# CFA = *(rsp + 8 * r9 + 8) + 8, as in libcrypto.
function indexed
    .cfi_escape 0x0f, 0x0a, 0x77, 0x08, 0x79, 0x00, 0x38, 0x1e, 0x22, 0x06, 0x23, 0x08
    nop
    ret
done indexed

# rsp + 8 + ((rip & 15) >= 10) << 3
function linkage
    .cfi_escape 0x0f, 0x0b, 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22
    nop
    ret
done linkage

# CFA = rsp & -16, which no rule says.
function masked
    .cfi_escape 0x0f, 0x05, 0x77, 0x00, 0x09, 0xf0, 0x1a
    nop
    ret
done masked

function return_elsewhere
    .cfi_def_cfa_offset 32
    .cfi_offset %rip, -24
    nop
    ret
done return_elsewhere

function other_base
    .cfi_def_cfa %r11, 48
    nop
    ret
done other_base

    .globl restorer
    .type restorer, @function
    nop
    .cfi_startproc
    .cfi_signal_frame
    .cfi_escape 0x0f, 0x04, 0x77, 0xa0, 0x01, 0x06
    .cfi_escape 0x10, 0x06, 0x03, 0x77, 0xf8, 0x00
    .cfi_escape 0x10, 0x10, 0x03, 0x77, 0xa8, 0x01
before_restorer: .globl before_restorer
    nop
restorer:
    mov $15, %rax
    syscall
    .cfi_endproc
    .size restorer, . - restorer

    .globl bare
    .type bare, @function
    .p2align 6
bare:
    .skip 64, 0x90
    ret
    .globl lost
    .type lost, @function
lost:
    neg %rsp
    .skip 64, 0x90
    ret
    .section .note.GNU-stack,"",@progbits
"#;

/// Assembles the functions above, or says why not.
fn assembled() -> Option<(Table, BTreeMap<String, u64>)> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("rules.s");
    std::fs::write(&source, ASSEMBLY).unwrap();
    let path = link(folder.path(), &source, "rules.so", &["cc", "-shared", "-nostdlib"])?;
    let bytes = std::fs::read(&path).unwrap();
    let object = object::File::parse(&bytes[..]).unwrap();
    let symbols =
        object.symbols().map(|symbol| (symbol.name().unwrap().to_owned(), symbol.address())).collect();
    let limits = Limits::default();
    let image = ElfImage::open(&File::open(&path).unwrap(), &limits.elf).unwrap();
    Some((compile(&image, &limits).unwrap(), symbols))
}

fn link(folder: &Path, source: &Path, name: &str, command: &[&str]) -> Option<PathBuf> {
    let path = folder.join(name);
    run_well(Command::new(command[0]).args(&command[1..]).arg("-o").arg(&path).arg(source))?;
    Some(path)
}

#[test]
fn every_form_becomes_its_rule() {
    let Some((table, symbols)) = assembled() else { return };
    let at = |name: &str| table.lookup(symbols[name]);
    assert_eq!(at("plain"), Rule::reg(RSP, 8));
    assert_eq!(at("plain_pushed"), Rule::reg(RSP, 16).with_rbp_at_cfa(-16));
    assert_eq!(at("plain_popped"), Rule::reg(RSP, 8), "a slot below rsp is not a saved rbp");
    assert_eq!(at("root"), Rule::STOP);
    assert_eq!(Some(at("popped")), Rule::reg(RSP, 0).with_ra_in_register(5));
    assert_eq!(at("realigned"), Rule::deref(RBP, -8, 0).with_rbp_at_rbp(0));
    assert_eq!(at("indexed"), Rule::deref_index(RSP, 9, 8, 8));
    assert_eq!(at("linkage"), Rule::plt(8, 10));
    assert_eq!(at("masked"), Rule::USER);
    assert_eq!(Some(at("return_elsewhere")), Rule::reg(RSP, 32).with_ra_at(-24));
    assert_eq!(at("other_base"), Rule::reg(11, 48));
    assert_eq!(at("restorer"), Rule::SIGNAL);
    assert_eq!(at("before_restorer"), Rule::SIGNAL, "handlers' return addresses are looked up here");
    assert_eq!(table.lookup(symbols["bare"] + 32), Rule::reg(RSP, 8), "its instructions say it");
    assert_eq!(table.lookup(symbols["lost"] + 32), Rule::FRAME_POINTER);
}

/// Prints where `main` and the far function are, then its mappings.
const REPORTER: &str = r#"
#include <stdio.h>
__attribute__((section(".far"), noinline)) void far_away(void) { puts("\n"); }
int main(void) {
    char line[512];
    printf("%lx %lx\n", (long)&main, (long)&far_away);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) fputs(line, stdout);
    return 0;
}
"#;

fn check_bias(name: &str, command: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("reporter.c");
    std::fs::write(&source, REPORTER).unwrap();
    let Some(path) = link(folder.path(), &source, name, command) else { return };
    let bytes = std::fs::read(&path).unwrap();
    let object = object::File::parse(&bytes[..]).unwrap();
    let symbol = |name: &str| object.symbol_by_name(name).unwrap().address();
    let output = Command::new(&path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let hex = |word: &str| u64::from_str_radix(word, 16).unwrap();
    let addresses: Vec<u64> = lines.next().unwrap().split(' ').map(hex).collect();
    let truth = BTreeMap::from([(addresses[0], symbol("main")), (addresses[1], symbol("far_away"))]);
    let image = ElfImage::open(&File::open(&path).unwrap(), &Limits::default().elf).unwrap();
    let mut seen = 0;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.get(5).is_none_or(|mapped| Path::new(mapped) != path) || !words[1].contains('x') {
            continue;
        }
        let (start, end) = words[0].split_once('-').unwrap();
        let (start, end) = (hex(start), hex(end));
        let bias = image.bias_of_mapping(start, end, hex(words[2])).unwrap();
        for (address, own) in truth.range(start..end) {
            assert_eq!(address.wrapping_sub(bias), *own, "{name}: mapping {line}");
            seen += 1;
        }
    }
    assert_eq!(seen, 2, "{name}: both functions lie in executable mappings");
}

#[test]
fn the_bias_is_right_however_the_file_is_laid_out() {
    check_bias("pie", &["cc", "-O1"]);
    check_bias("fixed", &["cc", "-O1", "-no-pie"]);
    check_bias("joined", &["cc", "-O1", "-Wl,-z,noseparate-code"]);
    check_bias("gold", &["cc", "-O1", "-fuse-ld=gold"]);
    check_bias("lld", &["cc", "-O1", "-fuse-ld=lld"]);
    check_bias("mold", &["cc", "-O1", "-fuse-ld=mold"]);
    check_bias("static_pie", &["cc", "-O1", "-static-pie", "-fPIE"]);
    // Two executable segments, as after BOLT.
    check_bias("two", &["cc", "-O1", "-no-pie", "-Wl,--section-start=.far=0x8000000"]);
}

/// Stripped programs whose entries are in a separate debug file only, whole or packed as tools do and did.
#[test]
fn entries_in_a_separate_debug_file_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("many.c");
    let mut text = String::from(
        "__attribute__((noipa)) int g(int *);\nint main(void) { return 0; }\nint g(int *p) { return *p; }\n",
    );
    for number in 0..500 {
        text += &format!(
            "int f{number}(int a) {{ int b[{}] = {{a}}; g(b); return b[0] + {number}; }}\n",
            number + 1
        );
    }
    std::fs::write(&source, text).unwrap();
    for packing in ["-gz=none", "-gz=zlib", "-gz=zlib-gnu"] {
        let flags = [
            "cc",
            "-O2",
            "-g",
            packing,
            "-fno-asynchronous-unwind-tables",
            "-fno-unwind-tables",
            "-fno-inline",
        ];
        let Some(path) = link(folder.path(), &source, "many", &flags) else { return };
        let (debug, stripped) = (folder.path().join("many.debug"), folder.path().join("many.stripped"));
        for (option, output) in [("--only-keep-debug", &debug), ("--strip-all", &stripped)] {
            let status = Command::new("objcopy").arg(option).arg(&path).arg(output).status().unwrap();
            assert!(status.success(), "{packing}");
        }
        let limits = Limits::default();
        let open = |path: &Path| ElfImage::open(&File::open(path).unwrap(), &limits.elf).unwrap();
        let image = open(&stripped);
        let mut sections = CfiSections::load(&image).unwrap();
        assert!(sections.lacks_entries(&image), "{packing}");
        sections.add_debug_frame(&open(&debug)).unwrap();
        assert!(!sections.lacks_entries(&image), "{packing}");
        let table = compile_sections(&image, &sections, &limits).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let object = object::File::parse(&bytes[..]).unwrap();
        let start = object.symbol_by_name("f400").unwrap().address();
        assert_eq!(table.lookup(start), Rule::reg(7, 8), "{packing}");
        let deepest = (start..start + 48).map(|address| table.lookup(address).cfa_off).max().unwrap();
        assert!(deepest > 1600, "{packing}: {deepest}");
    }
}

/// An ELF file of program headers only: (offset, address, size, executable).
fn made_image(segments: &[(u64, u64, u64, bool)]) -> Vec<u8> {
    let mut bytes = vec![0u8; 64];
    bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
    bytes[16..18].copy_from_slice(&3u16.to_le_bytes());
    bytes[18..20].copy_from_slice(&62u16.to_le_bytes());
    bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
    bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
    bytes[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
    for &(offset, address, size, is_executable) in segments {
        bytes.extend(1u32.to_le_bytes());
        bytes.extend((4 + u32::from(is_executable)).to_le_bytes());
        for word in [offset, address, address, size, size, 0x1000] {
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes
}

#[test]
fn segments_that_share_a_page_of_the_file_are_told_apart() {
    // As lld lays files out: the read-only part ends, and code starts, in the file's page 0x5000.
    let bytes =
        made_image(&[(0, 0, 0x5a10, false), (0x5a10, 0x6a10, 0x3000, true), (0x8a10, 0xaa10, 0x100, false)]);
    let image = ElfImage::parse(bytes, &Limits::default().elf).unwrap();
    assert_eq!(image.bias_of_mapping(0x7f00_0000_6000, 0x7f00_0000_a000, 0x5000), Some(0x7f00_0000_0000));
    // A later part of the same segment, split off by mprotect.
    assert_eq!(image.bias_of_mapping(0x7f00_0000_8000, 0x7f00_0000_a000, 0x7000), Some(0x7f00_0000_0000));
    // A mapping without code of the file.
    assert_eq!(image.bias_of_mapping(0x7f00_0000_0000, 0x7f00_0000_1000, 0), None);
    assert_eq!(image.bias_of_mapping(0x2000, 0x1000, 0), None);
    assert_eq!(image.bias_of_mapping(0, u64::MAX, u64::MAX), None);
}

#[test]
fn executable_segments_that_share_a_page_of_the_file_are_told_apart() {
    // As lld lays out a program with a section of code far away: both mappings show the same page of the file.
    let segments = [(0x1000, 0x800_0000, 0xe, true), (0x1520, 0x800_2520, 0x370, true)];
    let mut bytes = made_image(&segments);
    bytes[16] = 2; // ET_EXEC
    let image = ElfImage::parse(bytes, &Limits::default().elf).unwrap();
    assert_eq!(image.bias_of_mapping(0x800_0000, 0x800_1000, 0x1000), Some(0));
    assert_eq!(image.bias_of_mapping(0x800_2000, 0x800_3000, 0x1000), Some(0));
    // A library: the pages that each takes tell them apart.
    let segments = [(0x1000, 0x1000, 0x1100, true), (0x2200, 0x4200, 0x3000, true)];
    let mut bytes = made_image(&segments);
    bytes[16] = 3; // ET_DYN
    let image = ElfImage::parse(bytes, &Limits::default().elf).unwrap();
    let base = 0x7f00_0000_0000;
    assert_eq!(image.bias_of_mapping(base + 0x1000, base + 0x3000, 0x1000), Some(base));
    assert_eq!(image.bias_of_mapping(base + 0x4000, base + 0x8000, 0x2000), Some(base));
}

#[test]
fn two_executable_segments_have_biases_of_their_own() {
    let bytes = made_image(&[(0x1000, 0x40_1000, 0x2000, true), (0x3000, 0x80_0000, 0x2000, true)]);
    let image = ElfImage::parse(bytes, &Limits::default().elf).unwrap();
    assert_eq!(image.bias_of_mapping(0x40_1000, 0x40_3000, 0x1000), Some(0));
    assert_eq!(image.bias_of_mapping(0x80_0000, 0x80_2000, 0x3000), Some(0));
}

#[test]
fn foreign_files_are_refused_with_their_kind() {
    let limits = Limits::default();
    let refusal = |bytes: Vec<u8>| ElfImage::parse(bytes, &limits.elf).unwrap_err();
    assert!(matches!(refusal(Vec::new()), ElfError::NotElf));
    assert!(matches!(refusal(vec![b'#'; 100]), ElfError::NotElf));
    let mut bytes = made_image(&[]);
    bytes[4] = 1;
    assert!(matches!(refusal(bytes), ElfError::Class32));
    let mut bytes = made_image(&[]);
    bytes[18] = 243;
    assert!(matches!(refusal(bytes), ElfError::ForeignMachine(243)));
    assert!(matches!(refusal(made_image(&[(0, u64::MAX, 2, true)])), ElfError::Malformed(_)));
    let many = ElfImage::parse(made_image(&[(0, 0x1000, 16, true); 2000]), &limits.elf).unwrap_err();
    assert!(matches!(many, ElfError::TooLarge { size: 2000, .. }));
}

#[test]
fn code_that_spans_the_address_space_is_refused() {
    let bytes = made_image(&[(0, 0x1000, 16, true), (0, 1 << 62, 16, true)]);
    let image = ElfImage::parse(bytes, &Limits::default().elf).unwrap();
    let refusal = compile(&image, &Limits::default()).unwrap_err();
    assert!(matches!(refusal, TableError::TooLarge { what: "pages of code", .. }));
    let image = ElfImage::parse(made_image(&[(0, 0, 16, false)]), &Limits::default().elf).unwrap();
    assert!(matches!(compile(&image, &Limits::default()), Err(TableError::NoCode)));
}

/// A CIE and an FDE for each (start, size): CFA = rsp + 8, and after `advance` bytes rsp + 16.
fn made_eh_frame(functions: &[(u32, u32)], section_address: u32, initial_nops: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut entry = |body: &[u8]| {
        let padded = body.len().next_multiple_of(8) + 4;
        let start = bytes.len() as u32;
        bytes.extend((padded as u32).to_le_bytes());
        bytes.extend(body);
        bytes.resize(start as usize + 4 + padded, 0);
    };
    // Version 1, "zR", alignments 1 and -8, return address 16, pointers of 4 bytes relative to themselves.
    let mut cie = vec![0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1];
    cie.resize(cie.len() + initial_nops, 0);
    entry(&cie);
    let cie_size = (cie.len().next_multiple_of(8) + 8) as u32;
    for (index, &(start, size)) in functions.iter().enumerate() {
        let at = cie_size + index as u32 * 32;
        let mut fde = (at + 4).to_le_bytes().to_vec();
        fde.extend(start.wrapping_sub(section_address + at + 8).to_le_bytes());
        fde.extend(size.to_le_bytes());
        // No augmentation data; advance 4; CFA offset 16.
        fde.extend([0, 0x44, 0x0e, 16]);
        fde.resize(20, 0);
        entry(&fde);
    }
    bytes
}

const EH_FRAME: u32 = 0x2_0000;

fn compile_made(eh_frame: Vec<u8>, limits: &Limits) -> Result<Table, TableError> {
    let image = ElfImage::parse(made_image(&[(0, 0x1000, 0x1_8000, true)]), &limits.elf).unwrap();
    compile_sections(&image, &CfiSections::from_bytes(eh_frame, EH_FRAME.into(), Vec::new()), limits)
}

#[test]
fn gaps_and_overlaps_have_the_rule_of_who_owns_them() {
    let functions = [(0x2000, 0x100), (0x2080, 0x20), (0x2108, 0x10), (0x3000, 0x10), (0, 0x1_0000)];
    let table = compile_made(made_eh_frame(&functions, EH_FRAME, 0), &Limits::default()).unwrap();
    let (short, long) = (Rule::reg(RSP, 8), Rule::reg(RSP, 16));
    assert_eq!(table.lookup(0x0fff), Rule::NONE, "before the code");
    assert_eq!(table.lookup(0x1000), Rule::FRAME_POINTER, "code without an entry");
    assert_eq!(table.lookup(0x2000), short);
    assert_eq!(table.lookup(0x2004), long);
    assert_eq!(table.lookup(0x2080), short, "of two entries the later start counts");
    assert_eq!(table.lookup(0x20a0), Rule::FRAME_POINTER, "the earlier one does not resume");
    assert_eq!(table.lookup(0x2108), short);
    assert_eq!(table.lookup(0x2118), Rule::FRAME_POINTER);
    assert_eq!(table.lookup(0x3004), long);
    assert_eq!(table.lookup(0x1_8fff), Rule::FRAME_POINTER);
    assert_eq!(table.lookup(0x1_9000), Rule::NONE, "after the code");
}

#[test]
fn padding_between_functions_adds_no_rows() {
    let functions = [(0x1000, 0x11), (0x1020, 0x11), (0x1040, 0x7fff_ffff)];
    let table = compile_made(made_eh_frame(&functions, EH_FRAME, 0), &Limits::default()).unwrap();
    assert_eq!(table.lookup(0x1018), Rule::reg(RSP, 16));
    assert_eq!(table.lookup(0x1_8000), Rule::reg(RSP, 16), "cut at the end of the code");
}

#[test]
fn a_file_that_asks_for_endless_work_is_refused() {
    // 2,000 functions share a CIE with a million instructions.
    let functions: Vec<(u32, u32)> = (0..2000).map(|i| (0x1000 + i * 16, 16)).collect();
    let bytes = made_eh_frame(&functions, EH_FRAME, 1_000_000);
    let refusal = compile_made(bytes, &Limits::default()).unwrap_err();
    assert!(matches!(refusal, TableError::TooLarge { what: "call frame instructions", .. }), "{refusal}");
    let bytes = made_eh_frame(&functions, EH_FRAME, 0);
    let limits = Limits { max_rows: 100, ..Limits::default() };
    let refusal = compile_made(bytes.clone(), &limits).unwrap_err();
    assert!(matches!(refusal, TableError::TooLarge { what: "unwind rows", .. }), "{refusal}");
    let limits = Limits { max_fdes: 100, ..Limits::default() };
    assert!(matches!(compile_made(bytes, &limits), Err(TableError::TooLarge { what: "unwind entries", .. })));
}

fn is_sound(table: &Table) -> bool {
    table.pages.iter().all(|page| {
        let rows = &table.rows[page.first as usize..][..page.count as usize];
        rows.first().is_none_or(|row| row.pc_low == 0)
            && rows.is_sorted_by(|a, b| a.pc_low < b.pc_low)
            && rows.iter().all(|row| usize::from(row.rule) < table.rules.len())
    })
}

proptest! {
    #[test]
    fn damaged_unwind_sections_give_sound_tables(
        functions in prop::collection::vec((0u32..0x3_0000, 0u32..0x400), 0..40),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..30),
    ) {
        let mut bytes = made_eh_frame(&functions, EH_FRAME, 0);
        for (index, value) in damage {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(table) = compile_made(bytes, &Limits::default()) {
            prop_assert!(is_sound(&table));
        }
    }

    #[test]
    fn damaged_files_are_refused_or_give_sound_tables(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        header_damage in prop::collection::vec((0usize..64 + 5 * 56, any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        is_cut in prop::bool::weighted(0.2),
    ) {
        let limits = Limits { max_pages: 1024, elf: ElfLimits { max_section_bytes: 8 << 20, ..Limits::default().elf }, ..Limits::default() };
        // A small program with all the sections; of a large one the first part has to do.
        let mut bytes = std::fs::read("/bin/true").unwrap();
        bytes.truncate(256 << 10);
        for (index, value) in damage {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        for (at, value) in header_damage {
            bytes[at.max(20)] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(image) = ElfImage::parse(bytes, &limits.elf)
            && let Ok(table) = compile(&image, &limits)
        {
            prop_assert!(is_sound(&table));
        }
    }
}
