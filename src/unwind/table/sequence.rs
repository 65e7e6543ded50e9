//! FDEs evaluated to rows, in parallel.

use super::cfi_entry::{Bytes, EntryOffsets};
use super::cfi_row::SmallRows;
use super::cfi_rule::rule_of_row;
use super::rows::RuleInterner;
use super::span::TableError;
use crate::elf::Architecture;
use crate::unwind::limits::Limits;
use crate::unwind::rule::Rule;
use gimli::{BaseAddresses, CommonInformationEntry, UnwindContext, UnwindOffset, UnwindSection};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// FDEs that one task evaluates: enough to share a rule interner, few enough to keep all cores busy.
const CHUNK_FDES: usize = 2048;

/// A row, relative to the start of its FDE. The rule is an index into its chunk's rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SequenceRow {
    pub(crate) distance: u32,
    pub(crate) rule: u16,
}

/// The rows of one FDE: a slice of a chunk's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sequence {
    /// The module's own address of the first instruction.
    pub(crate) start: u64,
    /// The address after the last instruction; above `start`.
    pub(crate) end: u64,
    chunk: u32,
    first: u32,
    count: u32,
}

/// Whether an address lies in one of `sequences`, which ascend.
pub(crate) fn is_covered(sequences: &[Sequence], address: u64) -> bool {
    let after = sequences.partition_point(|sequence| sequence.start <= address);
    after.checked_sub(1).is_some_and(|index| sequences[index].end > address)
}

/// All FDEs of one or two sections.
#[derive(Debug)]
pub(crate) struct Sequences {
    pub(crate) list: Vec<Sequence>,
    /// Functions, from their first address to the one after them, whose entries could not be evaluated to the end.
    pub(crate) damaged: Vec<(u64, u64)>,
    chunks: Vec<Chunk>,
    architecture: Architecture,
}

#[derive(Debug)]
struct Chunk {
    sequences: Vec<Sequence>,
    rows: Vec<SequenceRow>,
    damaged: Vec<(u64, u64)>,
    rules: RuleInterner,
}

impl Chunk {
    fn with_room(entries: usize, limits: &Limits) -> Self {
        Chunk {
            sequences: Vec::with_capacity(entries),
            rows: Vec::with_capacity(entries * 8),
            damaged: Vec::new(),
            rules: RuleInterner::new(limits.max_rules),
        }
    }

    /// Adds a row of the sequence whose first row is `first`, unless it says what the last one says.
    fn push(&mut self, first: usize, distance: u32, rule: Rule) {
        let rule = self.rules.intern(rule);
        if self.rows.len() == first || self.rows.last().is_none_or(|last| last.rule != rule) {
            self.rows.push(SequenceRow { distance, rule });
        }
    }

    /// Makes a sequence of the rows from `first` on, if there are any. `None` when their numbers are too large.
    fn close(&mut self, start: u64, end: u64, first: usize) -> Option<()> {
        let count = self.rows.len() - first;
        if count > 0 {
            let (first, count) = (u32::try_from(first).ok()?, u32::try_from(count).ok()?);
            self.sequences.push(Sequence { start, end, chunk: 0, first, count });
        }
        Some(())
    }
}

impl Sequences {
    /// None yet, of a file for one processor.
    pub(crate) fn new(architecture: Architecture) -> Self {
        Self { list: Vec::new(), damaged: Vec::new(), chunks: Vec::new(), architecture }
    }

    /// The rows of a sequence, which must be one of this list's.
    pub(crate) fn rows(&self, sequence: &Sequence) -> &[SequenceRow] {
        let rows = self.chunks.get(sequence.chunk as usize).map_or(&[][..], |chunk| &chunk.rows);
        let first = sequence.first as usize;
        rows.get(first..first + sequence.count as usize).unwrap_or(&[])
    }

    /// The sequence that holds an address, once all are sorted.
    pub(crate) fn holder(&self, address: u64) -> Option<&Sequence> {
        let after = self.list.partition_point(|sequence| sequence.start <= address);
        self.list.get(after.checked_sub(1)?).filter(|sequence| address < sequence.end)
    }

    /// The rule that an entry gives for an address, once all are sorted.
    pub(crate) fn rule_at(&self, address: u64) -> Option<Rule> {
        let sequence = self.holder(address)?;
        let rows = self.rows(sequence);
        let after = rows.partition_point(|row| sequence.start + u64::from(row.distance) <= address);
        let row = rows.get(after.checked_sub(1)?)?;
        self.chunks.get(Self::chunk_of(sequence))?.rules.rules().get(usize::from(row.rule)).copied()
    }

    /// The sequences that have a row with a rule, each with its rows by address.
    pub(crate) fn with_rule(&self, wanted: Rule) -> impl Iterator<Item = (&Sequence, Vec<(u64, Rule)>)> {
        let number = |chunk: &Chunk| chunk.rules.rules().iter().position(|rule| *rule == wanted);
        let numbers: Vec<Option<usize>> = self.chunks.iter().map(number).collect();
        let is_anywhere = numbers.iter().any(Option::is_some);
        let list = if is_anywhere { &self.list[..] } else { &[] };
        list.iter().filter_map(move |sequence| {
            let number = numbers[sequence.chunk as usize]?;
            let rows = self.rows(sequence);
            rows.iter().any(|row| usize::from(row.rule) == number).then_some(())?;
            let rules = self.chunks[sequence.chunk as usize].rules.rules();
            let row_of =
                |row: &SequenceRow| (sequence.start + u64::from(row.distance), rules[usize::from(row.rule)]);
            Some((sequence, rows.iter().map(row_of).collect()))
        })
    }

    pub(crate) fn row_count(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.rows.len()).sum()
    }

    /// Returns, for each chunk, the numbers of its rules in the table.
    pub(super) fn intern_rules(&self, rules: &mut RuleInterner) -> Vec<Vec<u16>> {
        let of_chunk = |chunk: &Chunk| chunk.rules.rules().iter().map(|&rule| rules.intern(rule)).collect();
        self.chunks.iter().map(of_chunk).collect()
    }

    pub(super) fn chunk_of(sequence: &Sequence) -> usize {
        sequence.chunk as usize
    }

    /// Evaluates the FDEs of a section and adds them. Those that cannot be parsed are left out: the code
    /// they would describe counts as code without entries. `adjust` may change each rule.
    ///
    /// # Errors
    ///
    /// The section asks for more work or rows than the limits allow.
    pub(crate) fn add<'a, S>(
        &mut self,
        section: &S,
        bases: &BaseAddresses,
        entries: &[EntryOffsets],
        limits: &Limits,
        adjust: impl Fn(u64, Rule) -> Rule + Sync,
    ) -> Result<(), TableError>
    where
        S: UnwindSection<Bytes<'a>> + Sync,
        S::Offset: Sync,
    {
        if entries.len() > limits.max_fdes {
            let limit = limits.max_fdes as u64;
            return Err(TableError::TooLarge { what: "unwind entries", size: entries.len() as u64, limit });
        }
        let cies = parse_cies(section, bases, entries, self.architecture, limits)?;
        let row_budget = AtomicUsize::new(limits.max_rows.saturating_sub(self.row_count()));
        let chunks: Vec<Chunk> = entries
            .par_chunks(CHUNK_FDES)
            .map(|entries| evaluate(section, bases, entries, &cies, &row_budget, limits, &adjust))
            .collect::<Option<_>>()
            .ok_or(TableError::TooLarge {
                what: "unwind rows",
                size: limits.max_rows as u64 + 1,
                limit: limits.max_rows as u64,
            })?;
        self.list.reserve_exact(chunks.iter().map(|chunk| chunk.sequences.len()).sum());
        for mut chunk in chunks {
            // Chunk numbers: at most `max_fdes` of them.
            let number = self.chunks.len() as u32;
            // Taken, so that its memory is free again before that of the next is copied.
            let sequences = std::mem::take(&mut chunk.sequences);
            self.list.extend(sequences.into_iter().map(|sequence| Sequence { chunk: number, ..sequence }));
            self.damaged.append(&mut chunk.damaged);
            self.chunks.push(chunk);
        }
        Ok(())
    }
}

/// The usable CIEs of a section by offset, and the processor that they are for.
struct Cies<'a> {
    by_offset: FxHashMap<usize, CommonInformationEntry<Bytes<'a>>>,
    architecture: Architecture,
}

/// Parses each CIE once, and refuses sections whose evaluation would take too long: an FDE executes its
/// CIE's instructions before its own, so the work is bounded by the sum of both lengths over all FDEs.
fn parse_cies<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    entries: &[EntryOffsets],
    architecture: Architecture,
    limits: &Limits,
) -> Result<Cies<'a>, TableError> {
    // `None`: a CIE that cannot be used; its FDEs are left out.
    let mut parsed: FxHashMap<usize, Option<CommonInformationEntry<Bytes<'a>>>> = FxHashMap::default();
    let mut work = section.section().len() as u64;
    for entry in entries {
        let cie = parsed.entry(entry.cie).or_insert_with(|| {
            let cie = section.cie_from_offset(bases, entry.cie.into()).ok()?;
            (cie.return_address_register() == architecture.return_address()).then_some(cie)
        });
        work += cie.as_ref().map_or(0, |cie| cie.entry_len() as u64);
        if work > limits.max_cfi_bytes {
            let limit = limits.max_cfi_bytes;
            return Err(TableError::TooLarge { what: "call frame instructions", size: work, limit });
        }
    }
    let by_offset = parsed.into_iter().filter_map(|(offset, cie)| Some((offset, cie?))).collect();
    Ok(Cies { by_offset, architecture })
}

impl<'a> Cies<'a> {
    fn at(&self, offset: usize) -> gimli::Result<CommonInformationEntry<Bytes<'a>>> {
        self.by_offset.get(&offset).cloned().ok_or(gimli::Error::NotCieId(offset as u64))
    }
}

/// `None` once all tasks together have used up the row budget.
fn evaluate<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    entries: &[EntryOffsets],
    cies: &Cies<'a>,
    row_budget: &AtomicUsize,
    limits: &Limits,
    adjust: &impl Fn(u64, Rule) -> Rule,
) -> Option<Chunk> {
    let mut context: UnwindContext<usize, SmallRows> = UnwindContext::new_in();
    let mut chunk = Chunk::with_room(entries.len(), limits);
    for entry in entries {
        let get_cie = |_: &S, _: &BaseAddresses, offset: S::Offset| cies.at(UnwindOffset::into(offset));
        let Ok(fde) = section.fde_from_offset(bases, entry.fde.into(), get_cie) else { continue };
        let (start, end) = (fde.initial_address(), fde.end_address());
        // Address 0 is what linkers leave where they discarded the function.
        if start == 0 || end <= start || end - start > u64::from(u32::MAX) {
            continue;
        }
        let is_signal_frame = fde.is_signal_trampoline();
        let encoding = fde.cie().encoding();
        let first = chunk.rows.len();
        let Ok(mut rows) = fde.rows(section, bases, &mut context) else { continue };
        loop {
            let (address, rule) = match rows.next_row() {
                Ok(Some(row)) => {
                    let rule = rule_of_row::<Bytes<'a>, S>(
                        row,
                        section,
                        encoding,
                        cies.architecture,
                        is_signal_frame,
                    );
                    (row.start_address(), adjust(start, rule))
                }
                Ok(None) => break,
                // Instructions that cannot be read: how far the rows before them hold is unknown, so
                // the whole function counts as code without entries.
                Err(_) => {
                    chunk.rows.truncate(first);
                    chunk.damaged.push((start, end));
                    break;
                }
            };
            if !(start..end).contains(&address) {
                continue;
            }
            // Below 2^32, see above.
            chunk.push(first, (address - start) as u32, rule);
        }
        let count = chunk.rows.len() - first;
        let spend = |left: usize| left.checked_sub(count);
        row_budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).ok()?;
        chunk.close(start, end, first)?;
    }
    chunk.sequences.shrink_to_fit();
    chunk.rows.shrink_to_fit();
    Some(chunk)
}
