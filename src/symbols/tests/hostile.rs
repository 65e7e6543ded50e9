//! Malicious files: each must give names, nothing, or an error, quickly and in little memory.

use super::program::{C_SOURCE, ElfNames, Workshop, nm, symbolize_bytes, symbolize_elf};
use crate::base::deadline::Deadline;
use crate::elf::source::Source;
use crate::elf::{ElfError, ElfFile};
use crate::symbols::*;
use proptest::prelude::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Enough time for one file on a busy machine, and far less than a hang.
const SOON: Duration = Duration::from_secs(20);

/// A small valid program and addresses of its code.
pub(crate) struct Victim {
    pub(crate) bytes: Vec<u8>,
    pub(crate) addresses: Vec<u64>,
}

fn victim(flags: &str) -> Option<Victim> {
    let shop = Workshop::new();
    shop.write("prog.c", C_SOURCE);
    let program = shop.build("gcc", "prog.c", "prog", flags)?;
    let mut addresses: Vec<u64> =
        nm(&shop, &program, &[])?.iter().flat_map(|&(start, size, ..)| start..start + size.min(64)).collect();
    addresses.extend([0, 1, u64::MAX - 1, u64::MAX]);
    addresses.sort_unstable();
    addresses.dedup();
    Some(Victim { bytes: std::fs::read(program).unwrap(), addresses })
}

pub(super) fn plain_victim() -> Option<&'static Victim> {
    static VICTIM: OnceLock<Option<Victim>> = OnceLock::new();
    VICTIM.get_or_init(|| victim("-O2 -g -gdwarf-5")).as_ref()
}

fn packed_victim() -> Option<&'static Victim> {
    static VICTIM: OnceLock<Option<Victim>> = OnceLock::new();
    VICTIM.get_or_init(|| victim("-O2 -g -gz=zlib")).as_ref()
}

/// Names the addresses, and checks what must hold for any answer.
fn check(bytes: &[u8], addresses: &[u64]) -> Result<ElfNames, SymbolError> {
    check_within(bytes, addresses, &NamingLimits::default())
}

/// Processor time of this thread: on a busy machine wall-clock time runs much faster.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn check_within(bytes: &[u8], addresses: &[u64], limits: &NamingLimits) -> Result<ElfNames, SymbolError> {
    let start = processor_time();
    let names = symbolize_bytes(bytes, addresses, limits);
    assert!(processor_time().saturating_sub(start) < SOON);
    if let Ok(names) = &names {
        assert_eq!(names.locations.len(), addresses.len());
        for locations in &names.locations {
            let inlined = locations.iter().rev().map(|location| location.is_inlined);
            assert!(inlined.enumerate().all(|(index, is_inlined)| is_inlined == (index > 0)));
        }
    }
    names
}

/// Offset in the file of a section's header.
pub(super) fn header_of(bytes: &[u8], name: &[u8]) -> usize {
    let image =
        ElfFile::parse(Source::Bytes(Arc::new(bytes.to_vec())), &NamingLimits::default().elf).unwrap();
    let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    table + 64 * image.sections().iter().position(|section| *section.name == *name).unwrap()
}

pub(super) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn files_cut_anywhere_are_survived() {
    let Some(victim) = plain_victim() else { return };
    let step = victim.bytes.len() / 200;
    for len in (0..victim.bytes.len()).step_by(step).chain(0..70) {
        let _ = check(&victim.bytes[..len], &victim.addresses);
    }
    assert!(matches!(check(b"", &[1]), Err(SymbolError::Elf(ElfError::NotElf))));
    assert!(matches!(check(b"#!/bin/sh\n", &[1]), Err(SymbolError::Elf(ElfError::NotElf))));
    assert!(check(b"\x7fELF", &[1]).is_err());
}

#[test]
fn sections_outside_of_the_file_cost_their_names_only() {
    let Some(victim) = plain_victim() else { return };
    for name in
        [&b".symtab"[..], b".strtab", b".debug_info", b".debug_abbrev", b".debug_str", b".dynsym", b".plt"]
    {
        for (field, value) in [(24, u64::MAX), (24, 1 << 40), (32, u64::MAX), (32, 1 << 62), (32, 0), (56, 0)]
        {
            let mut bytes = victim.bytes.clone();
            let header = header_of(&bytes, name);
            put_u64(&mut bytes, header + field, value);
            let names = check(&bytes, &victim.addresses).unwrap();
            let named = names.locations.iter().filter(|locations| !locations.is_empty()).count();
            assert!(named > 100, "{} {field} {value:x}: {named}", String::from_utf8_lossy(name));
        }
    }
}

#[test]
fn lies_about_unpacked_sizes_are_refused() {
    let Some(victim) = packed_victim() else { return };
    for size in [1 << 62, u64::MAX, 1 << 40, 200 << 30, 1 << 31, 0, 1] {
        let mut bytes = victim.bytes.clone();
        for name in [&b".debug_info"[..], b".debug_str", b".debug_line"] {
            let header = header_of(&bytes, name);
            let offset = get_u64(&bytes, header + 24) as usize;
            put_u64(&mut bytes, offset + 8, size);
        }
        let names = check(&bytes, &victim.addresses).unwrap();
        // Too small a size cuts the section, which then gives fewer names.
        assert!(names.problem.is_some() || size < 2, "{size:x}");
        assert!(names.locations.iter().any(|locations| !locations.is_empty()));
    }
}

/// Appends `contents` to the file and makes it the section `name`, with `flags` if given.
pub(super) fn replace_section(bytes: &mut Vec<u8>, name: &[u8], contents: &[u8], flags: Option<u64>) {
    let header = header_of(bytes, name);
    let offset = bytes.len() as u64;
    bytes.extend_from_slice(contents);
    put_u64(bytes, header + 24, offset);
    put_u64(bytes, header + 32, contents.len() as u64);
    if let Some(flags) = flags {
        put_u64(bytes, header + 8, flags);
    }
}

#[test]
fn a_bomb_of_zstd_is_not_unpacked() {
    let Some(victim) = plain_victim() else { return };
    let zeros = vec![0_u8; 200 << 20];
    let packed = zstd::bulk::compress(&zeros, 3).unwrap();
    let mut section = Vec::new();
    for field in [2_u64, zeros.len() as u64, 1] {
        section.extend_from_slice(&field.to_le_bytes());
    }
    section.extend_from_slice(&packed);
    let mut bytes = victim.bytes.clone();
    replace_section(&mut bytes, b".debug_info", &section, Some(0x800));
    assert_eq!(check(&bytes, &victim.addresses).unwrap().problem, Some(DebugProblem::TooBig));
}

#[test]
fn a_sparse_file_of_a_tebibyte_is_quick() {
    let Some(victim) = plain_victim() else { return };
    let file = tempfile::tempfile().unwrap();
    let mut bytes = victim.bytes.clone();
    for name in [&b".debug_info"[..], b".debug_line", b".symtab", b".dynstr"] {
        let header = header_of(&bytes, name);
        put_u64(&mut bytes, header + 32, 1 << 39);
    }
    file.write_all_at(&bytes, 0).unwrap();
    if file.set_len(1 << 40).is_err() {
        return; // The file system does not support large files.
    }
    let start = processor_time();
    let names = symbolize_elf(&file, None, &victim.addresses, &NamingLimits::default()).unwrap();
    assert!(processor_time().saturating_sub(start) < Duration::from_secs(5));
    assert_eq!(names.problem, Some(DebugProblem::TooBig));
    let (root, path) = (std::path::Path::new("/"), std::path::Path::new("/x"));
    let named = find_debug_file(root, path, &Arc::new(file), &Deadline::default());
    assert!(named.is_none());
}

#[test]
fn a_folder_or_a_device_is_no_module() {
    for path in ["/", "/dev/null", "/dev/zero"] {
        let file = File::open(path).unwrap();
        assert!(symbolize_elf(&file, None, &[1], &NamingLimits::default()).is_err(), "{path}");
    }
}

/// DWARF 4 with one function whose entry holds `body`, at the addresses 0x1000..0x2000 of a generated ELF file.
///
/// Abbreviations: 1 compile unit, 2 subprogram, 3 inlined subroutine without attributes (with children), 4 inlined
/// subroutine with a range list. All have children where it matters.
pub(super) fn made_dwarf(victim: &Victim, body: &[u8], ranges: &[u8]) -> (Vec<u8>, u64) {
    let abbrev: &[u8] = &[
        1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0, // unit: low_pc addr, high_pc data8
        2, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0, // function: name string, low_pc, high_pc
        3, 0x1d, 1, 0, 0, // inlined, with children
        4, 0x1d, 0, 0x55, 0x17, 0, 0, // inlined: ranges sec_offset
        5, 0x2e, 0, 0x55, 0x17, 0, 0, // function: ranges sec_offset
        6, 0x1d, 0, 0, 0, // inlined, without anything
        0,
    ];
    let image =
        ElfFile::parse(Source::Bytes(Arc::new(victim.bytes.clone())), &NamingLimits::default().elf).unwrap();
    let text = image.section(b".text").unwrap().address;
    let mut unit = vec![4, 0, 0, 0, 0, 0, 8]; // version 4, abbreviations at 0, addresses of 8 bytes
    unit.push(1);
    unit.extend_from_slice(&text.to_le_bytes());
    unit.extend_from_slice(&0x1000_u64.to_le_bytes());
    unit.push(2);
    unit.extend_from_slice(b"fn\0");
    unit.extend_from_slice(&text.to_le_bytes());
    unit.extend_from_slice(&0x1000_u64.to_le_bytes());
    unit.extend_from_slice(body);
    unit.extend_from_slice(&[0; 3]);
    let mut info = (unit.len() as u32).to_le_bytes().to_vec();
    info.extend_from_slice(&unit);
    let mut bytes = victim.bytes.clone();
    replace_section(&mut bytes, b".debug_info", &info, None);
    replace_section(&mut bytes, b".debug_abbrev", abbrev, None);
    replace_section(&mut bytes, b".debug_aranges", ranges, None);
    // The list of ranges goes into a section of DWARF 4: rename one that is not needed.
    let header = header_of(&bytes, b".debug_aranges");
    let names = get_u64(&bytes, header_of(&bytes, b".shstrtab") + 24) as usize;
    let name = names + u32::from_le_bytes(bytes[header..header + 4].try_into().unwrap()) as usize;
    bytes[name..name + 15].copy_from_slice(b".debug_ranges\0\0");
    (bytes, text)
}

#[test]
fn honest_made_dwarf_is_understood() {
    let Some(victim) = plain_victim() else { return };
    let (bytes, text) = made_dwarf(victim, &[], &[0; 16]);
    let names = check(&bytes, &[text]).unwrap();
    assert_eq!((names.locations[0][0].raw_name.as_str(), names.problem), ("fn", None));
}

/// addr2line recurses once for each level of inlining, and an attacker pays one byte for a level.
#[test]
fn inlining_of_a_million_levels_does_not_overflow_the_stack() {
    let Some(victim) = plain_victim() else { return };
    let (bytes, text) = made_dwarf(victim, &vec![3; 1 << 20], &[0; 16]);
    let names = check(&bytes, &[text]).unwrap();
    assert_eq!(names.problem, Some(DebugProblem::TooBig));
}

/// A thousand levels, as a real program may have, are not refused.
#[test]
fn inlining_of_a_thousand_levels_is_walked() {
    let Some(victim) = plain_victim() else { return };
    let mut body = vec![3; 1000];
    body.extend_from_slice(&[0; 1000]);
    let (bytes, text) = made_dwarf(victim, &body, &[0; 16]);
    let names = check(&bytes, &[text]).unwrap();
    assert_eq!((names.locations[0][0].raw_name.as_str(), names.problem), ("fn", None));
}

/// Many entries that all point to one long list: the product would be 10^11 ranges.
#[test]
fn entries_that_share_a_long_list_are_cut_off() {
    let Some(victim) = plain_victim() else { return };
    let mut ranges = Vec::new();
    for n in 0..200_000_u64 {
        ranges.extend_from_slice(&(n * 2).to_le_bytes());
        ranges.extend_from_slice(&(n * 2 + 1).to_le_bytes());
    }
    ranges.extend_from_slice(&[0; 16]);
    // On a busy machine the usual time limit may pass before the end of the list.
    let limits = NamingLimits { max_time: Duration::from_secs(600), ..NamingLimits::default() };
    for tag in [4, 5] {
        let (bytes, text) = made_dwarf(victim, &[tag, 0, 0, 0, 0].repeat(500_000), &ranges);
        let names = check_within(&bytes, &[text], &limits).unwrap();
        assert_eq!(names.problem, Some(DebugProblem::TooBig), "{tag}");
    }
}

/// Detail 12 of the promises: names take seconds, and can be cut short.
#[test]
fn time_limit_leaves_symbol_table_names() {
    let Some(victim) = plain_victim() else { return };
    let limits = NamingLimits { max_time: Duration::ZERO, ..NamingLimits::default() };
    let names = symbolize_bytes(&victim.bytes, &victim.addresses, &limits).unwrap();
    assert_eq!(names.problem, Some(DebugProblem::TimeLimit));
    assert!(names.locations.iter().flatten().any(|location| location.name == "work"));
    assert!(names.locations.iter().flatten().all(|location| location.line == 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_bytes_never_panic_or_hang(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        packed in any::<bool>(),
    ) {
        let Some(victim) = (if packed { packed_victim() } else { plain_victim() }) else { return Ok(()) };
        let mut bytes = victim.bytes.clone();
        for (index, value) in changes {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        let _ = check(&bytes, &victim.addresses);
    }

    /// The same, but only at debug sections, symbols and section headers.
    #[test]
    fn changed_tables_never_panic_or_hang(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let Some(victim) = plain_victim() else { return Ok(()) };
        let image = ElfFile::parse(Source::Bytes(Arc::new(victim.bytes.clone())), &NamingLimits::default().elf).unwrap();
        let mut targets: Vec<_> = (image.sections().iter())
            .filter(|section| section.has_bytes() && (section.flags & 2 == 0 || section.kind == 11))
            .map(|section| section.file_offset as usize..(section.file_offset + section.size) as usize)
            .collect();
        targets.push(get_u64(&victim.bytes, 40) as usize..victim.bytes.len());
        let mut bytes = victim.bytes.clone();
        for (target, index, value) in changes {
            let target = targets[target.index(targets.len())].clone();
            bytes[target.start + index.index(target.len())] = value;
        }
        let _ = check(&bytes, &victim.addresses);
    }
}
