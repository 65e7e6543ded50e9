//! From an ELF file to its unwind table.

use super::cfi::CfiSections;
use super::rows::{PAGE_SHIFT, RuleInterner, Table, TableBuilder};
use super::sequence::{Sequence, Sequences};
use super::span::{MAX_PADDING, Span, TableError};
use crate::elf::{ElfImage, Segment};
use crate::unwind::code::bytes::code_ranges;
use crate::unwind::code::known::KnownCode;
use crate::unwind::limits::Limits;
use crate::unwind::rule::{RSP, RbpKind, Rule, RuleKind};

/// More executable segments than any linker makes; every entry is compared with each of them.
const MAX_CODE_SEGMENTS: usize = 64;

/// Compiles the unwind table of a module, on all cores.
///
/// `.eh_frame` counts first; `.debug_frame` fills in where it covers less than half of the code. Code
/// without any entry gets rules for what its instructions prove, else [`Rule::FRAME_POINTER`].
///
/// # Errors
///
/// The file has no code, cannot be read, or asks for more than the limits allow. Damaged entries are not
/// an error: their code counts as code without entries.
pub fn compile(image: &ElfImage, limits: &Limits) -> Result<Table, TableError> {
    let cfi = CfiSections::load(image)?;
    compile_sections(image, &cfi, limits)
}

/// Compiles like [`compile`], from sections that were loaded before (or come from a separate debug file).
///
/// # Errors
///
/// As for [`compile`].
pub(crate) fn compile_sections(
    image: &ElfImage,
    cfi: &CfiSections,
    limits: &Limits,
) -> Result<Table, TableError> {
    compile_up_to(image, cfi, u64::MAX, limits).map(|first| first.table)
}

/// Part of a module's table that can be had in little time.
#[derive(Debug)]
pub(crate) struct FirstTable {
    /// Right as far as it goes. Unless it is whole, code without entries has [`Rule::USER`].
    pub table: Table,
    /// Whether the table is the one that [`compile_sections`] gives.
    pub is_whole: bool,
}

/// Compiles a module's table, but for code without entries if there is so much of it that following its instructions
/// takes longer than all the rest.
///
/// # Errors
///
/// As for [`compile`].
pub(crate) fn compile_first(
    image: &ElfImage,
    cfi: &CfiSections,
    limits: &Limits,
) -> Result<FirstTable, TableError> {
    /// 10 to 20 ms of work.
    const MAX_BYTES: u64 = 256 << 10;
    compile_up_to(image, cfi, MAX_BYTES, limits)
}

/// Compiles a table. More code without entries than `max_unknown_bytes` is left out.
fn compile_up_to(
    image: &ElfImage,
    cfi: &CfiSections,
    max_unknown_bytes: u64,
    limits: &Limits,
) -> Result<FirstTable, TableError> {
    let code = code_segments(image);
    let (Some(first), Some(last)) = (code.first(), code.last()) else { return Err(TableError::NoCode) };
    if code.len() > MAX_CODE_SEGMENTS {
        let (size, limit) = (code.len() as u64, MAX_CODE_SEGMENTS as u64);
        return Err(TableError::TooLarge { what: "executable segments", size, limit });
    }
    let (first_address, end) = (first.address, last.end());
    let pages = ((end - 1) >> PAGE_SHIFT) - (first_address >> PAGE_SHIFT) + 1;
    if pages > limits.max_pages as u64 {
        let limit = limits.max_pages as u64;
        return Err(TableError::TooLarge { what: "pages of code", size: pages, limit });
    }

    let mut sequences = Sequences::new(image.architecture());
    sequences.add(&cfi.eh_frame(), cfi.bases(), &cfi.eh_frame_entries(), limits, |_, rule| rule)?;
    keep_in_code(&mut sequences.list, &code);
    let code_bytes: u64 = code_ranges(image, &code).iter().map(|(start, end)| end - start).sum();
    let covered: u64 = sequences.list.iter().map(|sequence| sequence.end - sequence.start).sum();
    if covered < code_bytes / 2 {
        add_debug_frame(&mut sequences, cfi, image, &code, limits)?;
    }
    let known = KnownCode::find(image, &code, &sequences, max_unknown_bytes, limits)?;

    let mut rules = RuleInterner::new(limits.max_rules);
    let chunk_rules = sequences.intern_rules(&mut rules);
    let builder = TableBuilder::new(first_address, pages as usize, sequences.row_count());
    let mut writer =
        TableWriter { builder, overrides: &known.overrides, is_overriding: false, underlying: 0 };
    let mut gaps = Gaps { code: &code, known: &known, covered: first_address };
    let list = &sequences.list;
    for (index, sequence) in list.iter().enumerate() {
        gaps.fill_up_to(sequence.start, &mut writer, &mut rules);
        // Of overlapping entries the one that starts later holds from its start on, as in the unwinders
        // that search by start address.
        let next = list.get(index + 1).map_or(u64::MAX, |next| next.start);
        let end = sequence.end.min(next);
        let ids = &chunk_rules[Sequences::chunk_of(sequence)];
        for row in sequences.rows(sequence) {
            let address = sequence.start + u64::from(row.distance);
            if address >= end {
                break;
            }
            writer.push(address, ids[usize::from(row.rule)], &mut rules);
        }
        gaps.mark_covered(end, &mut writer, &mut rules);
    }
    gaps.fill_up_to(end, &mut writer, &mut rules);
    // Flushes the last override; an address after the last page adds no row.
    writer.push(end, rules.intern(Rule::NONE), &mut rules);
    Ok(FirstTable { table: writer.builder.finish(&rules), is_whole: known.is_whole })
}

/// Executable segments in ascending order, without overlaps.
fn code_segments(image: &ElfImage) -> Vec<Segment> {
    let is_code = |segment: &&Segment| segment.is_executable && segment.memory_size > 0;
    let mut code: Vec<Segment> = image.segments().iter().filter(is_code).copied().collect();
    code.sort_by_key(|segment| (segment.address, segment.memory_size));
    let mut end = 0;
    code.retain(|segment| {
        let is_free = segment.address >= end;
        if is_free {
            end = segment.end();
        }
        is_free
    });
    code
}

/// Sorts by address, drops sequences outside the code, and cuts those that run past its end. Of several
/// with the same start the longest stays.
fn keep_in_code(list: &mut Vec<Sequence>, code: &[Segment]) {
    list.retain_mut(|sequence| {
        let holder = code.iter().find(|s| s.address <= sequence.start && sequence.start < s.end());
        if let Some(segment) = holder {
            sequence.end = sequence.end.min(segment.end());
        }
        holder.is_some()
    });
    list.sort_by_key(|sequence| (sequence.start, std::cmp::Reverse(sequence.end)));
    list.dedup_by_key(|sequence| sequence.start);
}

fn add_debug_frame(
    sequences: &mut Sequences,
    cfi: &CfiSections,
    image: &ElfImage,
    code: &[Segment],
    limits: &Limits,
) -> Result<(), TableError> {
    let is_go = image.is_go();
    let adjust = |_: u64, rule: Rule| if is_go { with_go_frame_pointer(rule) } else { rule };
    let first = std::mem::take(&mut sequences.list);
    sequences.add(&cfi.debug_frame(), cfi.bases(), &cfi.debug_frame_entries(), limits, adjust)?;
    // `.eh_frame` wins: what overlaps it is dropped whole.
    let overlaps = |sequence: &Sequence| {
        let after = first.partition_point(|other| other.start < sequence.end);
        after.checked_sub(1).is_some_and(|index| first[index].end > sequence.start)
    };
    sequences.list.retain(|sequence| !overlaps(sequence));
    sequences.list.extend(first.iter().copied());
    keep_in_code(&mut sequences.list, code);
    Ok(())
}

/// Go's `.debug_frame` does not mention rbp, but functions with a frame push it first, so that it lies just
/// below the return address.
pub(crate) fn with_go_frame_pointer(rule: Rule) -> Rule {
    let has_frame = rule.kind == RuleKind::Reg && rule.cfa_reg == RSP && rule.cfa_off >= 16;
    if has_frame && rule.rbp_kind == RbpKind::Same { rule.with_rbp_at_cfa(-16) } else { rule }
}

/// Rows on their way into the table, with overrides laid over them.
struct TableWriter<'a> {
    builder: TableBuilder,
    /// Ascending, without overlaps; those already passed are cut off.
    overrides: &'a [Span],
    is_overriding: bool,
    underlying: u16,
}

impl TableWriter<'_> {
    fn push(&mut self, address: u64, rule: u16, rules: &mut RuleInterner) {
        while let [next, rest @ ..] = self.overrides {
            if self.is_overriding {
                if address < next.end {
                    break;
                }
                self.builder.push(next.end, self.underlying);
                self.is_overriding = false;
                self.overrides = rest;
            } else {
                if address < next.start {
                    break;
                }
                self.builder.push(next.start, rules.intern(next.rule));
                self.is_overriding = true;
            }
        }
        self.underlying = rule;
        if !self.is_overriding {
            self.builder.push(address, rule);
        }
    }
}

/// Gives code without entries its rules.
struct Gaps<'a> {
    code: &'a [Segment],
    known: &'a KnownCode,
    /// Everything below this address has its rows.
    covered: u64,
}

impl Gaps<'_> {
    fn fill_up_to(&mut self, end: u64, writer: &mut TableWriter<'_>, rules: &mut RuleInterner) {
        let start = self.covered;
        if end <= start {
            return;
        }
        self.covered = end;
        for segment in self.code {
            let (from, to) = (start.max(segment.address), end.min(segment.end()));
            if from >= to {
                continue;
            }
            if to - from > MAX_PADDING || from == segment.address {
                self.fill(from, to, writer, rules);
            } else if let Some(known) = self.first_fill(from, to) {
                // `.init` and `.fini` are shorter than padding may be.
                self.fill(known, to, writer, rules);
            }
            if to == segment.end() {
                writer.push(to, rules.intern(Rule::NONE), rules);
            }
        }
    }

    /// Returns the first address in a range at which a rule for code without entries holds.
    fn first_fill(&self, start: u64, end: u64) -> Option<u64> {
        let fills = &self.known.fills;
        let next = fills.get(fills.partition_point(|span| span.start < start))?;
        (next.start < end).then_some(next.start)
    }

    fn mark_covered(&mut self, end: u64, writer: &mut TableWriter<'_>, rules: &mut RuleInterner) {
        self.covered = end;
        if self.code.iter().any(|segment| segment.end() == end) {
            writer.push(end, rules.intern(Rule::NONE), rules);
        }
    }

    fn fill(&self, start: u64, end: u64, writer: &mut TableWriter<'_>, rules: &mut RuleInterner) {
        writer.push(start, rules.intern(self.known.default_rule), rules);
        let fills = &self.known.fills;
        let first = fills.partition_point(|span| span.end <= start);
        let in_gap = fills[first..].iter().take_while(|span| span.start < end);
        let mut written = start;
        for span in in_gap {
            if span.start > written {
                writer.push(written, rules.intern(self.known.default_rule), rules);
            }
            writer.push(span.start.max(start), rules.intern(span.rule), rules);
            written = span.end.min(end);
        }
        if written > start && written < end {
            writer.push(written, rules.intern(self.known.default_rule), rules);
        }
    }
}
