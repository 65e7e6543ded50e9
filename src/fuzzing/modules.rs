//! ELF files of strangers: unwind tables and walks by them, and names.

use super::hostile::{check_table, unwind_elf};
use super::input::choice;
use crate::base::deadline::Deadline;
use crate::base::memory_budget::MemoryBudget;
use crate::elf::ElfImage;
use crate::record::{check_patched_code, probe_offsets};
use crate::symbols::{ModuleNames, NamingLimits};
use crate::unwind::table::bytes;
use crate::unwind::{ElfLimits, GoTable, Limits};
use std::sync::Arc;

/// Addresses of a file that are asked for their names.
const MOST_NAMED: usize = 16;
/// Frames of a walk, at most.
const MOST_FRAMES: usize = 256;

/// Memory for names, bytes: little, as in a recorder that names several modules at a time.
const BUDGET_BYTES: u64 = 64 << 20;

fn limits() -> Limits {
    Limits {
        max_pages: 1024,
        elf: ElfLimits { max_section_bytes: 1 << 20, ..ElfLimits::default() },
        max_cfi_bytes: 1 << 20,
        max_scanned_code_bytes: 1 << 16,
        max_symbols: 1 << 12,
        ..Limits::default()
    }
}

/// Compiles any bytes, as an ELF file, to unwind rows. The rows are sound, the bytes in which they are kept give the same
/// rows, and walks by them over a stack of whatever words end.
pub(super) fn elf_rows(data: &[u8]) {
    let (seed, data) = choice(data);
    let limits = limits();
    if let Ok(image) = ElfImage::parse(data.to_vec(), &limits.elf)
        && let Some(go) = GoTable::load(&image)
    {
        for function in go.functions().take(MOST_NAMED) {
            go.chain_at(function.start, &image);
            go.chain_at(function.end.wrapping_sub(1), &image);
        }
    }
    unwind_elf(data.to_vec(), &limits, seed.into(), MOST_FRAMES);
}

/// Looks for probes in any bytes, as an ELF file: what is found is in the file.
pub(super) fn probes(data: &[u8]) {
    let offsets = probe_offsets(data.to_vec(), &limits().elf, "main", MOST_NAMED);
    assert!(offsets.iter().all(|offset| *offset < data.len() as u64), "{offsets:?} of {}", data.len());
}

/// Examines any bytes as what a process that is to be patched has: code, and filters of system calls.
pub(super) fn patched_code(data: &[u8]) {
    check_patched_code(data);
}

/// Reads any bytes as a table that was kept on disk: it is none, or a sound one.
pub(super) fn kept_tables(data: &[u8]) {
    let Some(table) = bytes::from_bytes(data, &limits()) else { return };
    check_table(&table);
    assert_eq!(bytes::to_bytes(&table), data, "the same bytes again");
}

/// Looks up addresses of any bytes, as an ELF file with symbols and DWARF. All memory is given back.
pub(super) fn symbols(data: &[u8]) {
    let limits = NamingLimits {
        elf: ElfLimits { max_section_bytes: 8 << 20, ..ElfLimits::default() },
        max_symbols: 1 << 12,
        ..NamingLimits::default()
    };
    let deadline = Deadline::default();
    let budget = Arc::new(MemoryBudget::new(BUDGET_BYTES));
    let code = ElfImage::parse(data.to_vec(), &limits.elf).map_or(Vec::new(), |image| code_of(&image));
    let opened = ModuleNames::of_bytes(&Arc::new(data.to_vec()), &limits, &deadline, &budget);
    if let Ok(mut names) = opened {
        let found = names.resolve(&code, &deadline);
        assert_eq!(found.len(), code.len(), "an answer for each address");
        for locations in found {
            assert!(locations.len() <= limits.max_inline_depth);
            assert!(locations.iter().all(|location| location.raw_name.len() <= limits.max_name_bytes));
        }
        for address in code {
            let range = names.function_range(address);
            assert!(range.is_none_or(|range| range.contains(&address)), "a function around its address");
        }
    }
    assert_eq!(budget.used_bytes(), 0, "memory is given back");
}

/// Some addresses of code, the same for the same file.
fn code_of(image: &ElfImage) -> Vec<u64> {
    let segments = image.segments().iter().filter(|segment| segment.is_executable).take(2);
    let in_each = segments.flat_map(|segment| {
        let step = (segment.memory_size / (MOST_NAMED as u64 / 2)).max(1);
        (0..MOST_NAMED as u64 / 2).map(move |place| segment.address.wrapping_add(place * step))
    });
    in_each.chain([image.entry(), 0, u64::MAX]).collect()
}
