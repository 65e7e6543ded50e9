//! Address ranges of the interpreter loop, `_PyEval_EvalFrameDefault`: the function and what the compiler split off it.
//!
//! Native frames in these ranges are the ones that run Python frames.

use std::collections::hash_map::Entry;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use rustc_hash::{FxHashMap, FxHashSet};

/// Most bytes of one part that are read.
const MOST_BYTES: u64 = 1 << 20;
/// Most parts, and most jumps of one part, that are looked at.
const MOST_PARTS: usize = 1024;
/// Most bytes of code read in all.
const MOST_CODE: u64 = 8 << 20;
/// Most comparisons of jumps with parts in all.
const MOST_COMPARISONS: usize = 1 << 24;
/// Number of entries of the table by which the functions of single instructions follow each other, one per opcode.
const TABLE_ENTRIES: u64 = 256;

/// What one function jumps to.
#[derive(Default)]
struct LoopJumps {
    /// Targets of direct jumps outside the function.
    targets: Vec<u64>,
    /// Addresses of tables of code addresses that indirect jumps go through.
    tables: FxHashSet<u64>,
}

/// Ranges of module addresses that belong to the interpreter loop, in order of address.
///
/// `function` is the range of `_PyEval_EvalFrameDefault`; `read_code` gives bytes at a module address; `function_at`
/// gives the range of the unwind entry at an address.
///
/// A range that direct jumps (not calls) of the loop lead to is a part of it if they lead to its middle, or if it
/// jumps back to the middle of a part: a function proper is entered at its start only. In builds where every
/// instruction is a function that jumps to the next one through a table of functions, the table's functions are parts.
pub(crate) fn eval_ranges(
    function: Range<u64>,
    read_code: &dyn Fn(u64, u64) -> Option<Vec<u8>>,
    function_at: &dyn Fn(u64) -> Option<Range<u64>>,
) -> Vec<Range<u64>> {
    let mut search = LoopSearch {
        read_code,
        function_at,
        parts: Vec::new(),
        tables: FxHashSet::default(),
        code_left: MOST_CODE,
        comparisons_left: MOST_COMPARISONS,
    };
    search.add(function);
    search.follow();
    let mut ranges: Vec<_> = search.parts.into_iter().map(|(range, _)| range).collect();
    ranges.sort_by_key(|range| (range.start, range.end));
    ranges
}

struct LoopSearch<'a> {
    read_code: &'a dyn Fn(u64, u64) -> Option<Vec<u8>>,
    function_at: &'a dyn Fn(u64) -> Option<Range<u64>>,
    parts: Vec<(Range<u64>, LoopJumps)>,
    /// Tables of functions that single instructions are.
    tables: FxHashSet<u64>,
    /// Bytes of code that may still be read.
    code_left: u64,
    /// Comparisons that may still be made.
    comparisons_left: usize,
}

impl LoopSearch<'_> {
    fn add(&mut self, range: Range<u64>) {
        let jumps = self.jumps(&range);
        self.parts.push((range, jumps));
    }

    /// Adds parts until there are no more.
    fn follow(&mut self) {
        let mut refused = FxHashMap::<u64, (Range<u64>, LoopJumps)>::default();
        let mut next = 0;
        while let Some((_, jumps)) = self.parts.get(next) {
            let (targets, tables) = (jumps.targets.clone(), jumps.tables.clone());
            next += 1;
            for target in targets {
                self.follow_jump(target, &mut refused);
            }
            for table in tables {
                self.follow_table(table);
            }
            // A new part may be what an earlier candidate jumps back to.
            let parts: Vec<u64> = refused
                .iter()
                .filter(|(_, (_, jumps))| self.leads_back(jumps))
                .map(|(&start, _)| start)
                .collect();
            for start in parts {
                self.parts.extend(refused.remove(&start));
            }
        }
    }

    fn follow_jump(&mut self, target: u64, refused: &mut FxHashMap<u64, (Range<u64>, LoopJumps)>) {
        let Some(range) = (self.function_at)(target).filter(|range| range.contains(&target)) else { return };
        let is_known = self.parts.iter().any(|(part, _)| part.contains(&target));
        if is_known || self.parts.len() >= MOST_PARTS || refused.len() >= MOST_PARTS {
            return;
        }
        if range.start != target {
            refused.remove(&range.start);
            self.add(range);
        } else if let Entry::Vacant(place) = refused.entry(target) {
            let jumps = self.jumps(&range);
            if self.leads_back(&jumps) {
                self.parts.push((range, jumps));
            } else {
                place.insert((range, jumps));
            }
        }
    }

    /// True if jumps lead to the middle of a part, or through a table of single instructions' functions.
    fn leads_back(&mut self, jumps: &LoopJumps) -> bool {
        let cost = jumps.targets.len() * self.parts.len();
        if cost > self.comparisons_left {
            return false;
        }
        self.comparisons_left -= cost;
        let is_middle =
            |target: &u64| self.parts.iter().any(|(part, _)| part.contains(target) && part.start != *target);
        jumps.targets.iter().any(is_middle) || !jumps.tables.is_disjoint(&self.tables)
    }

    /// Adds the functions of a table, if all of its entries are functions.
    fn follow_table(&mut self, table: u64) {
        if !self.tables.insert(table) {
            return;
        }
        let Some(bytes) = (self.read_code)(table, 8 * TABLE_ENTRIES) else { return };
        let entries: FxHashSet<u64> =
            bytes.as_chunks::<8>().0.iter().map(|entry| u64::from_le_bytes(*entry)).collect();
        let ranges: Option<Vec<_>> = entries
            .into_iter()
            .map(|entry| (self.function_at)(entry).filter(|range| range.start == entry))
            .collect();
        let Some(ranges) = ranges else {
            self.tables.remove(&table);
            return;
        };
        for range in ranges {
            if self.parts.len() < MOST_PARTS && self.parts.iter().all(|(part, _)| *part != range) {
                self.add(range);
            }
        }
    }

    /// What the code of a range jumps to.
    fn jumps(&mut self, range: &Range<u64>) -> LoopJumps {
        let mut jumps = LoopJumps::default();
        let size = range.end.saturating_sub(range.start).min(MOST_BYTES).min(self.code_left);
        self.code_left -= size;
        let Some(bytes) = (self.read_code)(range.start, size) else { return jumps };
        let mut addresses = FxHashMap::default();
        for instruction in &mut Decoder::with_ip(64, &bytes, range.start, DecoderOptions::NONE) {
            match instruction.flow_control() {
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    let target = instruction.near_branch_target();
                    if !range.contains(&target) && jumps.targets.len() < MOST_PARTS {
                        jumps.targets.push(target);
                    }
                }
                FlowControl::IndirectBranch => jumps.tables.extend(table_of(&instruction, &addresses)),
                _ => note_address(&instruction, &mut addresses),
            }
        }
        jumps.targets.sort_unstable();
        jumps.targets.dedup();
        jumps
    }
}

/// Keeps in `addresses` the constant addresses, and the tables that words were loaded from, in registers.
fn note_address(instruction: &Instruction, addresses: &mut FxHashMap<Register, (u64, bool)>) {
    let is_register = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register;
    if !is_register {
        return;
    }
    let register = instruction.op0_register().full_register();
    let address = match instruction.mnemonic() {
        Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => {
            Some((instruction.ip_rel_memory_address(), false))
        }
        Mnemonic::Mov if instruction.op1_kind() == OpKind::Memory => {
            table_operand(instruction, addresses).map(|table| (table, true))
        }
        Mnemonic::Cmp | Mnemonic::Test => return,
        _ => None,
    };
    match address {
        Some(address) => addresses.insert(register, address),
        None => addresses.remove(&register),
    };
}

/// Table that an indirect jump goes through.
fn table_of(instruction: &Instruction, addresses: &FxHashMap<Register, (u64, bool)>) -> Option<u64> {
    match instruction.op0_kind() {
        OpKind::Register => addresses
            .get(&instruction.op0_register().full_register())
            .filter(|(_, is_entry)| *is_entry)
            .map(|&(table, _)| table),
        OpKind::Memory => table_operand(instruction, addresses),
        _ => None,
    }
}

/// Start of the table of words that an indexed memory operand reads.
fn table_operand(instruction: &Instruction, addresses: &FxHashMap<Register, (u64, bool)>) -> Option<u64> {
    if instruction.memory_index() == Register::None || instruction.memory_index_scale() != 8 {
        return None;
    }
    match instruction.memory_base() {
        Register::None => Some(instruction.memory_displacement64()),
        base => {
            let &(start, is_entry) = addresses.get(&base.full_register())?;
            (!is_entry && instruction.memory_displacement64() == 0).then_some(start)
        }
    }
}
