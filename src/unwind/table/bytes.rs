//! A table as bytes, for keeping it in a file.
//!
//! Nothing that is read is trusted: bytes that are not what [`to_bytes`] writes give no table, so that a search in one
//! stays within it.

use super::rows::{MAX_PAGE_ROWS, Page, Row, Table};
use crate::elf::fields::Fields;
use crate::unwind::limits::Limits;
use crate::unwind::rule::{RaKind, RbpKind, Rule, RuleKind};

/// First page (8 bytes), then the numbers of pages, rows and rules.
const HEADER_BYTES: usize = 8 + 3 * 4;
const PAGE_BYTES: usize = size_of::<Page>();
const ROW_BYTES: usize = size_of::<Row>();
const RULE_BYTES: usize = size_of::<Rule>();

/// The bytes of a table.
pub(crate) fn to_bytes(table: &Table) -> Vec<u8> {
    let size = HEADER_BYTES
        + table.pages.len() * PAGE_BYTES
        + table.rows.len() * ROW_BYTES
        + table.rules.len() * RULE_BYTES;
    let mut bytes = Vec::with_capacity(size);
    bytes.extend(table.first_page.to_le_bytes());
    // `Limits` keep all three far below 2^32.
    for count in [table.pages.len(), table.rows.len(), table.rules.len()] {
        bytes.extend((count as u32).to_le_bytes());
    }
    for page in &table.pages {
        bytes.extend(page.first.to_le_bytes());
        bytes.extend(page.count.to_le_bytes());
    }
    for row in &table.rows {
        bytes.extend(row.pc_low.to_le_bytes());
        bytes.extend(row.rule.to_le_bytes());
    }
    for rule in &table.rules {
        bytes.extend(rule_to_bytes(*rule));
    }
    bytes
}

/// The table that [`to_bytes`] has written. `None` if it has not.
pub(crate) fn from_bytes(bytes: &[u8], limits: &Limits) -> Option<Table> {
    let header = Fields(bytes);
    let first_page = header.u64(0)?;
    let count = |at| Some(header.u32(at)? as usize);
    let (pages, rows, rules) = (count(8)?, count(12)?, count(16)?);
    // Each page may repeat a row.
    let max_rows = limits.max_rows.saturating_add(limits.max_pages);
    if pages > limits.max_pages || rows > max_rows || rules > limits.max_rules.max(2) {
        return None;
    }
    let body = bytes.get(HEADER_BYTES..)?;
    let (pages, body) = body.split_at_checked(pages * PAGE_BYTES)?;
    let (rows, body) = body.split_at_checked(rows * ROW_BYTES)?;
    let (rules, rest) = body.split_at_checked(rules * RULE_BYTES)?;
    if !rest.is_empty() {
        return None;
    }
    let page = |bytes: &[u8]| Some(Page { first: Fields(bytes).u32(0)?, count: Fields(bytes).u32(4)? });
    let row = |bytes: &[u8]| Some(Row { pc_low: Fields(bytes).u16(0)?, rule: Fields(bytes).u16(2)? });
    let table = Table {
        first_page,
        pages: pages.chunks_exact(PAGE_BYTES).map(page).collect::<Option<_>>()?,
        rows: rows.chunks_exact(ROW_BYTES).map(row).collect::<Option<_>>()?,
        rules: rules.chunks_exact(RULE_BYTES).map(rule_from_bytes).collect::<Option<_>>()?,
    };
    is_sound(&table).then_some(table)
}

/// Whether a search finds its way in a table, as in those that were compiled.
fn is_sound(table: &Table) -> bool {
    let mut next = 0;
    let are_pages_sound = table.pages.iter().all(|page| {
        let (first, count) = (page.first as usize, page.count as usize);
        let rows = table.rows.get(first..).and_then(|rows| rows.get(..count));
        let is_next = first == next && count <= MAX_PAGE_ROWS;
        next = first + count;
        is_next
            && rows.is_some_and(|rows| {
                rows.first().is_none_or(|row| row.pc_low == 0)
                    && rows.is_sorted_by(|row, after| row.pc_low < after.pc_low)
            })
    });
    let are_rules_there = table.rows.iter().all(|row| usize::from(row.rule) < table.rules.len());
    are_pages_sound && are_rules_there && next == table.rows.len() && table.rules.first() == Some(&Rule::NONE)
}

fn rule_to_bytes(rule: Rule) -> [u8; RULE_BYTES] {
    let mut bytes = rule.to_bytes();
    // The kernel's layout has the processor's order of bytes.
    bytes[6..8].copy_from_slice(&rule.aux.to_le_bytes());
    bytes[8..12].copy_from_slice(&rule.cfa_off.to_le_bytes());
    bytes[12..16].copy_from_slice(&rule.rbp_off.to_le_bytes());
    bytes
}

fn rule_from_bytes(bytes: &[u8]) -> Option<Rule> {
    /// More registers than a processor has that is known here.
    const MAX_REGISTER: u8 = 64;
    let fields = Fields(bytes);
    let &[kind, rbp_kind, ra_kind, cfa_reg, aux_reg, is_base_kept, ..] = bytes else { return None };
    let kind = *RuleKind::ALL.get(usize::from(kind))?;
    // For the goroutine's rules they are numbers of words.
    let are_registers = kind != RuleKind::Goroutine;
    if is_base_kept > 1 || (are_registers && cfa_reg.max(aux_reg) > MAX_REGISTER) {
        return None;
    }
    Some(Rule {
        kind,
        rbp_kind: *RbpKind::ALL.get(usize::from(rbp_kind))?,
        ra_kind: *RaKind::ALL.get(usize::from(ra_kind))?,
        cfa_reg,
        aux_reg,
        is_base_kept: is_base_kept == 1,
        aux: fields.u16(6)?.cast_signed(),
        cfa_off: fields.u32(8)?.cast_signed(),
        rbp_off: fields.u32(12)?.cast_signed(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Three pages, the second of them without code.
    fn table() -> Table {
        let rules = vec![
            Rule::NONE,
            Rule::USER,
            Rule::reg(7, 540_128).with_rbp_at_cfa(-16),
            Rule::deref(10, -8, -16).with_rbp_lost().with_base_kept(),
            Rule::NEW_THREAD,
        ];
        let row = |pc_low, rule| Row { pc_low, rule };
        Table {
            first_page: 0x40,
            pages: vec![
                Page { first: 0, count: 3 },
                Page { first: 3, count: 0 },
                Page { first: 3, count: 2 },
            ],
            rows: vec![row(0, 0), row(0x10, 2), row(0xffff, 3), row(0, 4), row(1, 1)],
            rules,
        }
    }

    #[test]
    fn a_table_comes_back() {
        let table = table();
        assert_eq!(from_bytes(&to_bytes(&table), &Limits::default()).as_ref(), Some(&table));
        assert_eq!(rule_from_bytes(&rule_to_bytes(table.rules[3])), Some(table.rules[3]));
    }

    #[test]
    fn what_would_lead_a_search_astray_is_no_table() {
        let good = table();
        let wrong: [fn(&mut Table); 8] = [
            |table| table.rows[1].rule = 5,
            |table| table.rows[1].pc_low = 0,
            |table| table.rows[3].pc_low = 1,
            |table| table.pages[2].first = 2,
            |table| table.pages[2].count = 3,
            |table| table.pages[0].first = u32::MAX,
            |table| table.rules[0] = Rule::STOP,
            |table| table.rows.push(Row { pc_low: 2, rule: 0 }),
        ];
        for (number, damage) in wrong.into_iter().enumerate() {
            let mut table = good.clone();
            damage(&mut table);
            assert_eq!(from_bytes(&to_bytes(&table), &Limits::default()), None, "{number}");
        }
        let bytes = to_bytes(&good);
        for len in 0..bytes.len() {
            assert_eq!(from_bytes(&bytes[..len], &Limits::default()), None, "cut at {len}");
        }
        assert_eq!(from_bytes(&[&bytes[..], &[0]].concat(), &Limits::default()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_table_that_is_not_sound(at in 0usize..200, value: u8) {
            let mut bytes = to_bytes(&table());
            let at = at % bytes.len();
            bytes[at] = value;
            if let Some(table) = from_bytes(&bytes, &Limits::default()) {
                prop_assert!(is_sound(&table));
                prop_assert_eq!(table.kernel_pages(0).count(), table.pages.len());
                for address in (0x3f_0000u64..0x44_0000).step_by(509) {
                    let _ = table.lookup(address);
                }
            }
        }
    }
}
