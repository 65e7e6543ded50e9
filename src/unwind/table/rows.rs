//! The unwind table of one module: sorted rows in pages of 64 KiB, and the rules that they name.
//!
//! The layout is what the kernel's walker searches (`struct prof_row`, `prof_page`, `prof_rule` in
//! `src/bpf/c/unwind_table.h`). Addresses are the module's own. Every page that has rows starts with one at its
//! first address, so that a search never leaves the page.

use crate::unwind::rule::Rule;
use rustc_hash::FxHashMap;

/// The low 16 bits of an address, and the rule that holds from there to the next row.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Low 16 bits of the module's own address.
    pub pc_low: u16,
    /// Index into the table's rules.
    pub rule: u16,
}

/// The rows of 64 KiB of a module.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Page {
    /// Index of the page's first row.
    pub first: u32,
    /// Number of rows; 0 where the page has no code.
    pub count: u32,
}

const _: () = assert!(size_of::<Row>() == 4 && size_of::<Page>() == 8);

/// Places of the rows of a page's slices of 1 KiB, as the kernel's walker finds them: the rule at an address of slice i is
/// that of one of the rows `row[i]..=row[i + 1]`. Laid out as `struct prof_page`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelPage {
    /// Indices into the kernel's row array; the first is [`NO_ROWS`] where the page has no code.
    pub row: [u32; PAGE_SLICES + 1],
}

/// `PROF_NO_ROWS` in `unwind_table.h`.
pub(crate) const NO_ROWS: u32 = u32::MAX;
/// Bits of an address inside a slice. `PROF_SLICE_SHIFT` in `unwind_table.h`.
pub(crate) const SLICE_SHIFT: u32 = 10;
/// Slices of a page. `PROF_PAGE_SLICES` in `unwind_table.h`.
pub(crate) const PAGE_SLICES: usize = 1 << (PAGE_SHIFT - SLICE_SHIFT);

const _: () = assert!(size_of::<KernelPage>() == 4 + 4 * PAGE_SLICES);
/// A row at every address of a slice and the one in force before it: what the steps of `unwind_table.h` can tell apart.
const _: () = assert!((1 << SLICE_SHIFT) < 1 << (5 + 6));

/// Bits of an address inside a page. `PROF_PAGE_SHIFT` in `unwind_table.h`.
pub(crate) const PAGE_SHIFT: u32 = 16;
/// No page has more rows than this.
pub(crate) const MAX_PAGE_ROWS: usize = 1 << 14;

/// The unwind table of one module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// The module's own address of page 0, shifted right by [`PAGE_SHIFT`].
    pub first_page: u64,
    /// Consecutive pages.
    pub pages: Vec<Page>,
    /// Rows of all pages, each page's sorted by `pc_low` without duplicates.
    pub rows: Vec<Row>,
    /// Rules that the rows name. Rule 0 is [`Rule::NONE`]; all are different.
    pub rules: Vec<Rule>,
}

impl Table {
    /// The rule that holds at one of the module's own addresses.
    pub fn lookup(&self, address: u64) -> Rule {
        self.find(address).unwrap_or(Rule::NONE)
    }

    fn find(&self, address: u64) -> Option<Rule> {
        let index = (address >> PAGE_SHIFT).checked_sub(self.first_page)?;
        let page = self.pages.get(usize::try_from(index).ok()?)?;
        let rows = self.rows.get(page.first as usize..)?.get(..page.count as usize)?;
        let low = address as u16;
        let after = rows.partition_point(|row| row.pc_low <= low);
        let row = rows.get(after.checked_sub(1)?)?;
        self.rules.get(usize::from(row.rule)).copied()
    }

    /// The pages as the kernel's walker searches them, when the table's rows are put at `first_row` of its array. Panics
    /// if a page's rows are not those of the table.
    pub fn kernel_pages(&self, first_row: u32) -> impl ExactSizeIterator<Item = KernelPage> + '_ {
        self.pages.iter().map(move |page| {
            if page.count == 0 {
                return KernelPage { row: [NO_ROWS; PAGE_SLICES + 1] };
            }
            let rows = &self.rows[page.first as usize..][..page.count as usize];
            let mut index = 0;
            let row = std::array::from_fn(|slice| {
                // The row that is in force where the slice starts. No slice follows the last: all that is left is its.
                let start = slice << SLICE_SHIFT;
                while rows.get(index + 1).is_some_and(|next| usize::from(next.pc_low) <= start) {
                    index += 1;
                }
                first_row + page.first + index as u32
            });
            KernelPage { row }
        })
    }
}

/// Gives equal rules one index.
#[derive(Debug)]
pub(crate) struct RuleInterner {
    rules: Vec<Rule>,
    ids: FxHashMap<Rule, u16>,
    /// The rule last interned with each hash: few rules make up nearly all rows.
    recent: Vec<(Rule, u16)>,
    max: usize,
}

/// Slots of [`RuleInterner`]'s shortcut; a power of two.
const RECENT: usize = 256;

/// A slot of the shortcut. Mixes the fields that differ most between rules.
fn recent_slot(rule: &Rule) -> usize {
    let offsets = u64::from(rule.cfa_off.cast_unsigned()) << 32 | u64::from(rule.rbp_off.cast_unsigned());
    let kinds = (rule.kind as u64) << 8 | (rule.rbp_kind as u64) << 4 | u64::from(rule.cfa_reg);
    let mixed = (offsets ^ kinds << 17).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as usize % RECENT
}

/// Index of [`Rule::NONE`].
const NONE_ID: u16 = 0;
/// Index of [`Rule::USER`].
const USER_ID: u16 = 1;

impl RuleInterner {
    /// Takes up to `max` rules; those that come after get [`Rule::USER`]'s index.
    pub(crate) fn new(max: usize) -> Self {
        let mut interner = Self {
            rules: Vec::new(),
            ids: FxHashMap::default(),
            recent: vec![(Rule::NONE, NONE_ID); RECENT],
            max: max.clamp(2, usize::from(u16::MAX)),
        };
        interner.intern(Rule::NONE);
        interner.intern(Rule::USER);
        interner
    }

    pub(crate) fn intern(&mut self, rule: Rule) -> u16 {
        let slot = recent_slot(&rule);
        if self.recent[slot].0 == rule && !self.rules.is_empty() {
            return self.recent[slot].1;
        }
        let id = if let Some(&id) = self.ids.get(&rule) {
            id
        } else if self.rules.len() < self.max {
            let id = self.rules.len() as u16;
            self.rules.push(rule);
            self.ids.insert(rule, id);
            id
        } else {
            USER_ID
        };
        self.recent[slot] = (rule, id);
        id
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

/// Builds the pages from rows that come in ascending order.
#[derive(Debug)]
pub(crate) struct TableBuilder {
    table: Table,
    /// The rule in force at the current end.
    current: u16,
    /// First row of the page being filled.
    page_first: usize,
    /// Most pages.
    pages: usize,
}

impl TableBuilder {
    /// Starts a table of `pages` pages whose first holds `first_address`; no rule is in force.
    pub(crate) fn new(first_address: u64, pages: usize, row_capacity: usize) -> Self {
        let table = Table {
            first_page: first_address >> PAGE_SHIFT,
            pages: Vec::with_capacity(pages),
            rows: Vec::with_capacity(row_capacity.saturating_add(pages)),
            rules: Vec::new(),
        };
        let mut builder = Self { table, current: NONE_ID, page_first: 0, pages };
        builder.open_page();
        builder
    }

    /// From `address` on, `rule` holds. An address equal to the last one replaces it; a lower one, or one
    /// before the first page, does nothing.
    pub(crate) fn push(&mut self, address: u64, rule: u16) {
        let Some(page) = (address >> PAGE_SHIFT).checked_sub(self.table.first_page) else { return };
        while (self.table.pages.len() as u64) < page {
            self.close_page();
            self.open_page();
        }
        let low = address as u16;
        // `open_page` has pushed a row.
        let Some(last) = self.table.rows.last_mut() else { return };
        if (self.table.pages.len() as u64) > page || low < last.pc_low {
            return;
        }
        if low == last.pc_low {
            last.rule = rule;
            // The replaced row may now say what the one before it says.
            let rows = &mut self.table.rows;
            if let [.., before, last] = &rows[self.page_first..]
                && before.rule == last.rule
            {
                rows.pop();
            }
        } else if rule != self.current {
            self.table.rows.push(Row { pc_low: low, rule });
        }
        self.current = rule;
    }

    fn open_page(&mut self) {
        self.page_first = self.table.rows.len();
        self.table.rows.push(Row { pc_low: 0, rule: self.current });
    }

    fn close_page(&mut self) {
        let first = self.page_first;
        let mut count = self.table.rows.len() - first;
        if count > MAX_PAGE_ROWS {
            self.table.rows.truncate(first);
            self.table.rows.push(Row { pc_low: 0, rule: USER_ID });
            count = 1;
        } else if count == 1 && self.table.rows[first].rule == NONE_ID {
            self.table.rows.truncate(first);
            count = 0;
        }
        // At most 65,536 pages of at most 16,384 rows: both numbers fit.
        self.table.pages.push(Page { first: first as u32, count: count as u32 });
    }

    /// The finished table.
    pub(crate) fn finish(mut self, rules: &RuleInterner) -> Table {
        self.close_page();
        // Where code ends with a page, its end is the start of another one, which has nothing.
        self.table.pages.truncate(self.pages);
        self.table.rules = rules.rules().to_vec();
        self.table.rows.shrink_to_fit();
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Rule = Rule::reg(7, 8);
    const B: Rule = Rule::reg(7, 16);

    fn build(rows: &[(u64, Rule)], first: u64, pages: usize) -> Table {
        let mut rules = RuleInterner::new(100);
        let mut builder = TableBuilder::new(first, pages, rows.len());
        for &(address, rule) in rows {
            builder.push(address, rules.intern(rule));
        }
        builder.finish(&rules)
    }

    #[test]
    fn each_page_starts_with_the_rule_in_force() {
        let table = build(&[(0x1_0010, A), (0x3_0020, B), (0x3_0030, Rule::NONE)], 0x1_0000, 3);
        assert_eq!(table.first_page, 1);
        assert_eq!(table.pages.len(), 3);
        assert_eq!(table.lookup(0x1_000f), Rule::NONE);
        assert_eq!(table.lookup(0x1_0010), A);
        assert_eq!(table.lookup(0x2_8000), A);
        assert_eq!(table.lookup(0x3_001f), A);
        assert_eq!(table.lookup(0x3_0020), B);
        assert_eq!(table.lookup(0x3_0030), Rule::NONE);
        for page in &table.pages {
            assert_eq!(table.rows[page.first as usize].pc_low, 0);
        }
    }

    #[test]
    fn slices_hold_the_row_of_every_address() {
        let rows: Vec<_> = (0..3000u64).map(|i| (i * i % 0x2_8000, if i % 2 == 0 { A } else { B })).collect();
        let mut rows: Vec<(u64, Rule)> =
            rows.into_iter().filter(|(address, _)| *address >> 16 != 1).collect();
        rows.sort_by_key(|(address, _)| *address);
        rows.insert(rows.partition_point(|(address, _)| *address < 0xffff), (0xffff, Rule::NONE));
        let table = build(&rows, 0, 4);
        let pages: Vec<KernelPage> = table.kernel_pages(70).collect();
        assert_eq!(pages[1].row[0], NO_ROWS);
        for address in (0..0x3_0000u64).filter(|address| address >> 16 != 1) {
            let page = &pages[(address >> 16) as usize];
            let slice = (address >> SLICE_SHIFT) as usize % PAGE_SLICES;
            let rows = &table.rows[page.row[slice] as usize - 70..=page.row[slice + 1] as usize - 70];
            let row = rows.iter().rfind(|row| row.pc_low <= address as u16);
            let rule = row.map(|row| table.rules[usize::from(row.rule)]);
            assert_eq!(rule, Some(table.lookup(address)), "{address:#x}");
        }
    }

    #[test]
    fn addresses_outside_have_no_rule() {
        let table = build(&[(0x1_0000, A)], 0x1_0000, 1);
        assert_eq!(table.lookup(0xffff), Rule::NONE);
        assert_eq!(table.lookup(0x2_0000), Rule::NONE);
        assert_eq!(table.lookup(u64::MAX), Rule::NONE);
        assert_eq!(Table::default().lookup(0), Rule::NONE);
    }

    #[test]
    fn code_that_ends_with_a_page_has_none_after_it() {
        let table = build(&[(0x1_0000, A), (0x2_0000, Rule::NONE)], 0x1_0000, 1);
        assert_eq!((table.pages.len(), table.rows.len()), (1, 1));
        assert_eq!((table.lookup(0x1_ffff), table.lookup(0x2_0000)), (A, Rule::NONE));
    }

    #[test]
    fn equal_neighbours_merge_and_replaced_rows_vanish() {
        let table = build(&[(0x10, A), (0x20, A), (0x30, B), (0x30, A), (0x40, B)], 0, 1);
        assert_eq!(table.rows.len(), 3);
        assert_eq!(table.lookup(0x3f), A);
        assert_eq!(table.lookup(0x40), B);
    }

    #[test]
    fn a_page_with_too_many_rows_is_left_to_user_space() {
        let rows: Vec<_> = (0..20_000u64).map(|i| (i * 2, if i % 2 == 0 { A } else { B })).collect();
        let table = build(&rows, 0, 1);
        assert_eq!(table.pages, [Page { first: 0, count: 1 }]);
        assert_eq!(table.lookup(0x100), Rule::USER);
    }

    #[test]
    fn a_page_without_code_has_no_rows() {
        let table = build(&[(0x10, A), (0x20, Rule::NONE), (0x3_0000, A)], 0, 4);
        assert_eq!(table.pages[1].count, 0);
        assert_eq!(table.pages[2].count, 0);
        assert_eq!(table.lookup(0x3_0000), A);
        assert_eq!(table.lookup(0x2_0000), Rule::NONE);
    }

    #[test]
    fn rules_past_the_limit_are_left_to_user_space() {
        let mut rules = RuleInterner::new(3);
        let first = rules.intern(A);
        let second = rules.intern(B);
        assert_eq!(rules.rules()[usize::from(first)], A);
        assert_eq!(rules.rules()[usize::from(second)], Rule::USER);
        assert_eq!(rules.intern(A), first);
    }

    #[test]
    fn limits_agree_with_the_shared_header() {
        let header = include_str!("../../bpf/c/unwind_table.h");
        assert!(header.contains(&format!("#define PROF_PAGE_SHIFT {PAGE_SHIFT}\n")));
        assert!(header.contains(&format!("#define PROF_SLICE_SHIFT {SLICE_SHIFT}\n")));
        assert!(header.contains("#define PROF_FEW_ROWS_STEPS 5\n#define PROF_MANY_ROWS_STEPS 6\n"));
    }
}
