//! Code that CPython generates for `-X perf`: one trampoline for each function of a script, all of the same bytes, in
//! memory of its own that is filled once (Python/perf_trampoline.c, Python/asm_trampoline.S). It keeps no frame pointer
//! and has no entries, so that its bytes have to say where return addresses are.

use super::bytes::ENDBR64;
use crate::unwind::rule::{RSP, Rule};
use crate::unwind::table::rows::{PAGE_SHIFT, Page, Row, RuleInterner, Table, TableBuilder};

/// `sub $8, %rsp; call *%rcx; add $8, %rsp; ret`.
const TRAMPOLINE: [u8; 11] = [0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3];
/// Length of its first instruction, and all up to its last, bytes.
const PUSHED: usize = 4;
const POPPED: usize = 10;
/// Largest number of bytes between two of them that only align the next one: 3.12 has none, 3.13 aligns to 16.
const MAX_PADDING: usize = 15;

/// Bytes of code that [`is_trampoline`] looks at.
pub(crate) const HEAD_BYTES: usize = ENDBR64.len() + TRAMPOLINE.len();

/// Whether code begins with a trampoline.
pub(crate) fn is_trampoline(code: &[u8]) -> bool {
    code.strip_prefix(&ENDBR64).unwrap_or(code).starts_with(&TRAMPOLINE)
}

/// The table of memory that begins with a trampoline, whose first byte has the address 0. Code between them is followed by
/// frame pointers.
pub(crate) fn table(code: &[u8]) -> Option<Table> {
    if !is_trampoline(code) {
        return None;
    }
    let page_bytes = 1 << PAGE_SHIFT;
    let pages: Vec<&[u8]> = code.chunks(page_bytes).collect();
    // More would be no trampolines of a program.
    let count = u32::try_from(pages.len()).ok()?;
    let mut rules = RuleInterner::new(usize::from(u16::MAX));
    let mut all = Table::default();
    let mut by_content: Vec<(&[u8], Page)> = Vec::new();
    for code in pages.into_iter().take(count as usize) {
        // Memory that was filled in the same way has the same rows.
        let known = by_content.iter().find(|(other, _)| *other == code).map(|(_, page)| *page);
        let page = known.unwrap_or_else(|| {
            let first = all.rows.len() as u32;
            all.rows.extend(rows(code, &mut rules));
            let page = Page { first, count: all.rows.len() as u32 - first };
            by_content.push((code, page));
            page
        });
        all.pages.push(page);
    }
    all.rules = rules.rules().to_vec();
    Some(all)
}

/// The rows of one page.
fn rows(code: &[u8], rules: &mut RuleInterner) -> Vec<Row> {
    let mut builder = TableBuilder::new(0, 1, code.len() / 4);
    let mut push = |at: usize, rule| builder.push(at as u64, rules.intern(rule));
    let mut end = 0;
    for found in memchr::memmem::find_iter(code, &TRAMPOLINE) {
        let has_mark = code[..found].ends_with(&ENDBR64);
        let start = if has_mark { found - ENDBR64.len() } else { found };
        if start.saturating_sub(end) > MAX_PADDING {
            push(end, Rule::FRAME_POINTER);
        }
        push(start, Rule::reg(RSP, 8));
        push(found + PUSHED, Rule::reg(RSP, 16));
        push(found + POPPED, Rule::reg(RSP, 8));
        end = found + TRAMPOLINE.len();
    }
    if code.len().saturating_sub(end) > MAX_PADDING {
        push(end, Rule::FRAME_POINTER);
    }
    builder.finish(rules).rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory full of trampolines that lie this many bytes apart.
    fn memory(bytes: usize, distance: usize, trampoline: &[u8]) -> Vec<u8> {
        let mut memory = vec![0; bytes];
        for start in (0..bytes - trampoline.len()).step_by(distance) {
            memory[start..start + trampoline.len()].copy_from_slice(trampoline);
        }
        memory
    }

    #[test]
    fn every_instruction_of_a_trampoline_has_its_rule() {
        let with_branch_tracking = [&ENDBR64[..], &TRAMPOLINE].concat();
        for trampoline in [&TRAMPOLINE[..], &with_branch_tracking] {
            let skipped = (trampoline.len() - TRAMPOLINE.len()) as u64;
            for distance in [trampoline.len(), 16, 272] {
                let table = table(&memory(1 << 16, distance, trampoline)).unwrap();
                for start in (0..(1 << 16) - distance as u64).step_by(distance) {
                    let at = |offset: u64| table.lookup(start + offset);
                    assert_eq!([at(0), at(skipped + 3)], [Rule::reg(7, 8); 2], "{start:#x}");
                    assert_eq!([at(skipped + 4), at(skipped + 6), at(skipped + 9)], [Rule::reg(7, 16); 3]);
                    assert_eq!(at(skipped + 10), Rule::reg(7, 8));
                }
                // Else there is another one.
                let is_far = distance == 272;
                assert_eq!(table.lookup(200) == Rule::FRAME_POINTER, is_far, "{distance}");
            }
        }
    }

    #[test]
    fn memory_that_is_filled_alike_shares_its_rows() {
        let one = table(&memory(1 << 16, 16, &TRAMPOLINE)).unwrap();
        let sixteen = table(&memory(16 << 16, 16, &TRAMPOLINE)).unwrap();
        assert!(one.rows.len() <= (2 << 12) + 2, "{}", one.rows.len());
        assert_eq!((sixteen.rows.len(), sixteen.pages.len()), (one.rows.len(), 16));
        assert_eq!(sixteen.lookup(0xf_0004), Rule::reg(7, 16));
        assert_eq!(sixteen.lookup(0x10_0000), Rule::NONE);
    }

    #[test]
    fn other_code_has_no_table() {
        assert_eq!(table(&[]), None);
        assert_eq!(table(&TRAMPOLINE[..10]), None);
        assert_eq!(table(&memory(4096, 16, &[0x55, 0x48, 0x89, 0xe5])), None);
    }
}
