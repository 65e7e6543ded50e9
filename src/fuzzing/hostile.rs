//! A process of whatever words, with one module everywhere: for walks by the unwind table of any file.

use crate::elf::ElfImage;
use crate::unwind::table::bytes;
use crate::unwind::{
    CfiSections, FrameState, Limits, MappedModule, Memory, MemoryError, ModuleCode, ModuleMap, Registers,
    Table, compile, walk,
};

/// The stack: 64 KiB from here on.
const STACK: u64 = 0x7ffc_0000_0000;
const STACK_BYTES: u64 = 0x1_0000;
/// Places from which is walked.
const LEAVES: u64 = 8;
/// Modules whose code begins before this page may be anywhere.
const FIRST_FIXED_PAGE: u64 = 1 << 10;

/// The one module of a process, everywhere, and a stack of whatever words.
struct Hostile {
    table: Table,
    cfi: CfiSections,
    bias: u64,
    seed: u64,
}

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
            _ => self.code(random >> 3),
        })
    }
}

impl Hostile {
    /// Some address in the process that the table is about: at a row or a little behind.
    fn code(&self, random: u64) -> u64 {
        let rows = self.table.rows.len().max(1) as u64;
        let index = random % rows;
        let page = self.table.pages.partition_point(|page| u64::from(page.first) <= index).saturating_sub(1);
        let low = self.table.rows.get(index as usize).map_or(0, |row| u64::from(row.pc_low));
        let page = self.table.first_page.wrapping_add(page as u64) << 16;
        self.bias.wrapping_add(page).wrapping_add(low + (random >> 40) % 4)
    }
}

/// Compiles an ELF file to unwind rows, and walks by them over a stack of words that `seed` makes. Returns the frames of the
/// longest walk; `None` if the file is refused.
///
/// # Panics
///
/// If the rows are not sound, the bytes in which they are kept do not give the same rows, or a walk does not end at
/// `most_frames`.
pub fn unwind_elf(bytes: Vec<u8>, limits: &Limits, seed: u64, most_frames: usize) -> Option<usize> {
    let image = ElfImage::parse(bytes, &limits.elf).ok()?;
    for (start, end, offset) in [(0x5500_0000_0000, 0x5500_0000_4000, 0x1000), (0, u64::MAX, u64::MAX)] {
        image.bias_of_mapping(start, end, offset);
    }
    let (table, cfi) = (compile(&image, limits).ok()?, CfiSections::load(&image).ok()?);
    check_table(&table);
    assert_eq!(bytes::from_bytes(&bytes::to_bytes(&table), limits).as_ref(), Some(&table));
    Some(longest_walk(table, cfi, seed, most_frames))
}

fn longest_walk(table: Table, cfi: CfiSections, seed: u64, most_frames: usize) -> usize {
    // Fixed, or anywhere that keeps the code below the end of `find`.
    let bias = if table.first_page < FIRST_FIXED_PAGE { (seed & 0xff) << 12 } else { 0 };
    let process = Hostile { table, cfi, bias, seed };
    let walks = (0..LEAVES).map(|leaf| {
        let mut general = [0; 16];
        for (number, register) in (0..).zip(&mut general) {
            let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(number * 4) ^ leaf;
            *register = STACK + ((random % STACK_BYTES) & !7);
        }
        let rip = process.code(seed.rotate_right(7) ^ (leaf << 30));
        let registers = Registers { general, rip };
        let stack = walk(&FrameState::interrupted(&registers), &process, &process, most_frames);
        assert!(stack.frames.len() <= most_frames, "a walk ends at its limit");
        stack.frames.len()
    });
    walks.max().unwrap_or(0)
}

/// Checks that a table can be used as it is.
pub(super) fn check_table(table: &Table) {
    for page in &table.pages {
        let rows = table.rows.get(page.first as usize..).and_then(|rows| rows.get(..page.count as usize));
        let rows = rows.expect("a page has rows");
        assert!(rows.first().is_none_or(|row| row.pc_low == 0), "the first row is that of the page's start");
        assert!(rows.is_sorted_by(|a, b| a.pc_low < b.pc_low), "rows are sorted");
        assert!(rows.iter().all(|row| usize::from(row.rule) < table.rules.len()), "rules are there");
    }
}
