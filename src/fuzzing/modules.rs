//! ELF files of strangers: unwind tables and walks by them, and names.

use super::input::choice;
use crate::base::deadline::Deadline;
use crate::base::memory_budget::MemoryBudget;
use crate::elf::ElfImage;
use crate::symbols::{ModuleNames, NamingLimits};
use crate::unwind::table::bytes;
use crate::unwind::{
    CfiSections, ElfLimits, FrameState, GoTable, Limits, MappedModule, Memory, MemoryError, ModuleCode,
    ModuleMap, Registers, Table, compile, walk,
};
use std::sync::Arc;

/// The stack: 64 KiB from here on.
const STACK: u64 = 0x7ffc_0000_0000;
const STACK_BYTES: u64 = 0x1_0000;
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
    let Ok(image) = ElfImage::parse(data.to_vec(), &limits.elf) else { return };
    for (start, end, offset) in [(0x5500_0000_0000, 0x5500_0000_4000, 0x1000), (0, u64::MAX, u64::MAX)] {
        image.bias_of_mapping(start, end, offset);
    }
    if let Some(go) = GoTable::load(&image) {
        for function in go.functions().take(MOST_NAMED) {
            go.chain_at(function.start, &image);
            go.chain_at(function.end.wrapping_sub(1), &image);
        }
    }
    let (Ok(table), Ok(cfi)) = (compile(&image, &limits), CfiSections::load(&image)) else { return };
    check(&table);
    assert_eq!(bytes::from_bytes(&bytes::to_bytes(&table), &limits).as_ref(), Some(&table));
    walks(Hostile { table, cfi, seed: seed.into() });
}

/// Reads any bytes as a table that was kept on disk: it is none, or a sound one.
pub(super) fn kept_tables(data: &[u8]) {
    let Some(table) = bytes::from_bytes(data, &limits()) else { return };
    check(&table);
    assert_eq!(bytes::to_bytes(&table), data, "the same bytes again");
}

fn check(table: &Table) {
    for page in &table.pages {
        let rows = table.rows.get(page.first as usize..).and_then(|rows| rows.get(..page.count as usize));
        let rows = rows.expect("a page has rows");
        assert!(rows.first().is_none_or(|row| row.pc_low == 0), "the first row is that of the page's start");
        assert!(rows.is_sorted_by(|a, b| a.pc_low < b.pc_low), "rows are sorted");
        assert!(rows.iter().all(|row| usize::from(row.rule) < table.rules.len()), "rules are there");
    }
}

/// The one module of a process, everywhere, and a stack of whatever words.
struct Hostile {
    table: Table,
    cfi: CfiSections,
    seed: u64,
}

impl ModuleMap for Hostile {
    fn find(&self, address: u64) -> Option<MappedModule<'_>> {
        (address < 1 << 40).then_some(MappedModule { bias: 0, code: ModuleCode::Table(&self.table) })
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
            _ => self.code(random >> 3),
        })
    }
}

impl Hostile {
    /// Some address that the table is about: at a row or a little behind.
    fn code(&self, random: u64) -> u64 {
        let rows = self.table.rows.len().max(1) as u64;
        let index = random % rows;
        let page = self.table.pages.partition_point(|page| u64::from(page.first) <= index).saturating_sub(1);
        let low = self.table.rows.get(index as usize).map_or(0, |row| u64::from(row.pc_low));
        (self.table.first_page.wrapping_add(page as u64) << 16).wrapping_add(low + (random >> 40) % 4)
    }
}

fn walks(process: Hostile) {
    for leaf in 0..4u64 {
        let mut general = [0; 16];
        for (number, register) in (0..).zip(&mut general) {
            let random = process.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(number * 4) ^ leaf;
            *register = STACK + ((random % STACK_BYTES) & !7);
        }
        let rip = process.code(process.seed.rotate_right(7) ^ (leaf << 30));
        let registers = Registers { general, rip };
        let stack = walk(&FrameState::interrupted(&registers), &process, &process, MOST_FRAMES);
        assert!(stack.frames.len() <= MOST_FRAMES, "a walk ends at its limit");
    }
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
