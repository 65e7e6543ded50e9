//! Where functions start in code without unwind entries.

use super::bytes::{CodeBytes, CodeSections};
use crate::elf::fields::{Fields, c_string};
use crate::elf::{ElfImage, Section};
use crate::unwind::limits::Limits;
use crate::unwind::rule::{RSP, Rule};
use crate::unwind::table::sequence::Sequences;
use iced_x86::{Code as Operation, Decoder, DecoderOptions, Instruction, Register};
use object::elf;
use rayon::prelude::*;

/// A function's code that is decoded to see whether bytes that look like a call are one.
const MAX_FUNCTION_BYTES: usize = 4 << 20;

/// Start of one function, and what is known about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionStart {
    pub(crate) address: u64,
    /// The address after the function, where a symbol says it.
    pub(crate) end: Option<u64>,
    /// Whether the function is called, or a symbol says that it is one. Otherwise some code takes its address.
    pub(crate) is_certain: bool,
}

/// Reference in a covered function to code in a gap.
#[derive(Debug, Clone, Copy)]
struct Reference {
    /// The instruction's displacement field.
    field: u64,
    target: u64,
}

/// Starts in `gaps` (ascending) that code with entries of its own calls, jumps to, or takes the address of: as a plain
/// number, too, where addresses are fixed. `code` are the bytes around the entries.
pub(super) fn from_covered_code(
    gaps: &[CodeBytes],
    code: &[CodeBytes],
    entries: &Sequences,
    has_fixed_addresses: bool,
) -> Vec<FunctionStart> {
    let search = StartSearch { gaps, entries, has_fixed_addresses };
    let found: Vec<Vec<FunctionStart>> = entries
        .list
        .par_chunks(256)
        .map(|functions| {
            let mut starts = Vec::new();
            let mut references = Vec::new();
            for function in functions {
                let Some(bytes) = CodeSections(code).bytes(function.start, function.end) else { continue };
                references.clear();
                search.find_references(bytes, function.start, &mut references);
                if !references.is_empty() && bytes.len() <= MAX_FUNCTION_BYTES {
                    search.add_confirmed(bytes, function.start, &references, &mut starts);
                }
            }
            starts
        })
        .collect();
    found.concat()
}

/// Search for function starts in the code of functions with entries.
#[derive(Clone, Copy)]
struct StartSearch<'a> {
    gaps: &'a [CodeBytes],
    entries: &'a Sequences,
    has_fixed_addresses: bool,
}

impl StartSearch<'_> {
    /// Every place where four bytes, taken for a displacement after a plausible opcode, lead into a gap.
    fn find_references(&self, bytes: &[u8], start: u64, references: &mut Vec<Reference>) {
        let (Some(first), Some(last)) = (self.gaps.first(), self.gaps.last()) else { return };
        let (low, size) = (first.start, last.end() - first.start);
        for (at, window) in bytes.windows(5).enumerate() {
            let [opcode, displacement @ ..] = window else { continue };
            let number = displacement.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
            let field = start + at as u64 + 1;
            let target = field.wrapping_add(4).wrapping_add_signed(i64::from(number));
            if target.wrapping_sub(low) < size {
                // The last byte of the opcode of `call rel32` and `jmp rel32`, or the ModRM byte of a rip-relative `lea`.
                let is_lea = || opcode & 0xc7 == 0x05 && at > 0 && bytes[at - 1] == 0x8d;
                if (matches!(opcode, 0xe8 | 0xe9) || is_lea()) && is_in(self.gaps, target) {
                    references.push(Reference { field, target });
                }
            }
            let number = u64::from(number.cast_unsigned());
            if self.has_fixed_addresses && number.wrapping_sub(low) < size && is_in(self.gaps, number) {
                references.push(Reference { field, target: number });
            }
        }
    }

    /// Adds those references that are instructions, decoded from the function's start.
    fn add_confirmed(
        &self,
        bytes: &[u8],
        start: u64,
        references: &[Reference],
        starts: &mut Vec<FunctionStart>,
    ) {
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut rest = references;
        while let [reference, others @ ..] = rest {
            if !decoder.can_decode() {
                break;
            }
            decoder.decode_out(&mut instruction);
            if instruction.next_ip() <= reference.field {
                continue;
            }
            rest = others;
            let (target, is_certain) = match instruction.code() {
                Operation::Call_rel32_64 => (instruction.near_branch_target(), true),
                // Else it leads to a part of the same function, whose frame is already up.
                Operation::Jmp_rel32_64 if self.is_tail(instruction.ip()) => {
                    (instruction.near_branch_target(), true)
                }
                Operation::Lea_r64_m if instruction.is_ip_rel_memory_operand() => {
                    (instruction.ip_rel_memory_address(), false)
                }
                _ => match fixed_address(&instruction).filter(|_| self.has_fixed_addresses) {
                    Some(address) => (address, false),
                    None => continue,
                },
            };
            if target == reference.target {
                starts.push(FunctionStart { address: target, end: None, is_certain });
            }
        }
    }

    /// Whether nothing is on the stack but the return address.
    fn is_tail(&self, address: u64) -> bool {
        let rule = self.entries.rule_at(address);
        rule.is_some_and(|rule| {
            (rule.kind, rule.cfa_reg, rule.cfa_off) == (TAIL.kind, TAIL.cfa_reg, TAIL.cfa_off)
        })
    }
}

/// Rule of a function that has taken down its frame.
const TAIL: Rule = Rule::reg(RSP, 8);

fn is_in(gaps: &[CodeBytes], address: u64) -> bool {
    let after = gaps.partition_point(|gap| gap.start <= address);
    after.checked_sub(1).is_some_and(|index| gaps[index].contains(address))
}

/// Code addresses in tables of pointers: what relocations put there, and what is in `.init_array` and `.fini_array`. They are only taken, not certain. Of each table
/// of relocations the first `max_entries` are read: linkers sort them by the address that they change, and
/// `.init_array` and `.fini_array` are the first sections that have any.
pub(super) fn from_relocations(
    image: &ElfImage,
    gaps: &[CodeBytes],
    max_entries: usize,
) -> Vec<FunctionStart> {
    const ENTRY_BYTES: usize = 24;
    const RELATIVE: u32 = 8;
    let mut starts = Vec::new();
    if gaps.is_empty() {
        return starts;
    }
    let tables = image.sections().iter().filter(|s| s.kind == elf::SHT_RELA.0 && s.name == b".rela.dyn");
    for section in tables {
        let most = max_entries.saturating_mul(ENTRY_BYTES) as u64;
        let section = Section { size: section.size.min(most), ..section.clone() };
        let Ok(bytes) = image.section_bytes(&section) else { continue };
        for entry in bytes.chunks_exact(ENTRY_BYTES).map(Fields) {
            if entry.u32(8) == Some(RELATIVE)
                && let Some(address) = entry.u64(16)
                && is_in(gaps, address)
            {
                starts.push(FunctionStart { address, end: None, is_certain: false });
            }
        }
    }
    // In programs with fixed addresses they are just there.
    let arrays = image.sections().iter().filter(|s| matches!(&s.name[..], b".init_array" | b".fini_array"));
    for section in arrays {
        let Ok(bytes) = image.section_bytes(section) else { continue };
        let words = bytes.chunks_exact(8).filter_map(|word| Fields(word).u64(0)).take(max_entries);
        starts.extend(words.filter(|address| is_in(gaps, *address)).map(|address| FunctionStart {
            address,
            end: None,
            is_certain: false,
        }));
    }
    let packed = image.sections().iter().filter(|section| section.kind == elf::SHT_RELR.0);
    for section in packed {
        let Ok(bytes) = image.section_bytes(section) else { continue };
        add_packed(image, &bytes, max_entries, |address| {
            if is_in(gaps, address) {
                starts.push(FunctionStart { address, end: None, is_certain: false });
            }
        });
    }
    starts
}

/// Code addresses in the data of a module with fixed addresses, which needs no relocations for them.
pub(super) fn from_fixed_data(image: &ElfImage, gaps: &[CodeBytes], limits: &Limits) -> Vec<FunctionStart> {
    const WORD_BYTES: u64 = 8;
    let mut starts = Vec::new();
    let mut budget = limits.max_scanned_code_bytes;
    let is_data = |section: &&Section| {
        section.kind == elf::SHT_PROGBITS.0
            && section.flags & elf::SHF_ALLOC.0 != 0
            && section.flags & elf::SHF_EXECINSTR.0 == 0
            && section.address.is_multiple_of(WORD_BYTES)
    };
    for section in image.sections().iter().filter(is_data) {
        budget = budget.saturating_sub(section.size);
        if budget == 0 {
            break;
        }
        let Ok(bytes) = image.section_bytes(section) else { continue };
        let words = bytes.chunks_exact(WORD_BYTES as usize).filter_map(|word| Fields(word).u64(0));
        let starts_in_gaps = words.filter(|address| is_in(gaps, *address));
        starts.extend(starts_in_gaps.map(|address| FunctionStart { address, end: None, is_certain: false }));
    }
    starts
}

/// Visits what packed relative relocations put into the first `max_entries` words: it is there already, without the
/// bias. An even entry is the address of a word; an odd one has a bit for each of the 63 words that follow it (System V
/// gABI, "Relative Relocation Table").
fn add_packed(image: &ElfImage, entries: &[u8], max_entries: usize, mut visit: impl FnMut(u64)) {
    const WORD_BYTES: u64 = 8;
    const WORDS_PER_BITMAP: u64 = 63;
    let (mut next, mut left) = (0u64, max_entries);
    // The words of one entry: read together.
    for entry in entries.chunks_exact(WORD_BYTES as usize).filter_map(|entry| Fields(entry).u64(0)) {
        let (first, mask) = if entry & 1 == 0 { (entry, 1) } else { (next, entry >> 1) };
        next = first.wrapping_add(WORD_BYTES * if entry & 1 == 0 { 1 } else { WORDS_PER_BITMAP });
        let words = u64::from(64 - mask.leading_zeros());
        let Ok(bytes) = image.read_address(first, words * WORD_BYTES) else { continue };
        for (index, word) in bytes.chunks_exact(WORD_BYTES as usize).enumerate() {
            if mask >> index & 1 == 0 {
                continue;
            }
            let Some(rest) = left.checked_sub(1) else { return };
            left = rest;
            if let Some(address) = Fields(word).u64(0) {
                visit(address);
            }
        }
    }
}

/// The first addresses of `.init` and `.fini`, which the dynamic linker calls.
pub(super) fn from_init_sections(image: &ElfImage) -> impl Iterator<Item = FunctionStart> {
    let is_called = |section: &&Section| matches!(&section.name[..], b".init" | b".fini");
    image.sections().iter().filter(is_called).map(|section| FunctionStart {
        address: section.address,
        end: section.address.checked_add(section.size),
        is_certain: true,
    })
}

/// The function symbols of `.symtab`, else `.dynsym`. Labels without a type, which assembly has, are not certain.
pub(super) fn from_symbols(image: &ElfImage, limits: &Limits) -> Vec<FunctionStart> {
    let mut starts = Vec::new();
    for_each_function(image, limits, |symbol| {
        // A part of a function that compilers put elsewhere: it is jumped to with the frame up.
        if memchr::memmem::find(symbol.name, b".cold").is_some() {
            return;
        }
        let end = symbol.address.checked_add(symbol.size).filter(|_| symbol.size > 0);
        starts.push(FunctionStart { address: symbol.address, end, is_certain: symbol.has_type });
    });
    starts
}

/// A symbol that may be a function's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Symbol<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) address: u64,
    /// In bytes; 0 if unknown.
    pub(crate) size: u64,
    /// The symbol is marked as a function's.
    pub(super) has_type: bool,
}

/// Calls `visit` for every defined function of `.symtab`, else `.dynsym`. Labels without a type count, as assembly
/// often has no other.
pub(crate) fn for_each_function(
    image: &ElfImage,
    limits: &Limits,
    mut visit: impl FnMut(Symbol<'_>),
) -> Option<()> {
    const SYMBOL_BYTES: u64 = 24;
    const NOTYPE: u8 = 0;
    const FUNC: u8 = 2;
    let section = image.section(b".symtab").or_else(|| image.section(b".dynsym"))?;
    let section = Section {
        size: section.size.min((limits.max_symbols as u64).saturating_mul(SYMBOL_BYTES)),
        ..section.clone()
    };
    let names = image.sections().get(section.link as usize)?;
    let symbols = image.section_bytes(&section).ok()?;
    let names = image.section_bytes(names).ok()?;
    for symbol in symbols.chunks_exact(SYMBOL_BYTES as usize).map(Fields) {
        let kind = symbol.0[4] & 15;
        let is_defined = symbol.u16(6) != Some(0);
        if !is_defined || (kind != NOTYPE && kind != FUNC) {
            continue;
        }
        let (Some(name), Some(address), Some(size)) = (symbol.u32(0), symbol.u64(8), symbol.u64(16)) else {
            continue;
        };
        if let Some(name) = c_string(&names, name as usize) {
            visit(Symbol { name, address, size, has_type: kind == FUNC });
        }
    }
    Some(())
}

/// The number in an instruction that may be an address of code, as compilers write it into those of programs with fixed
/// addresses.
pub(super) fn fixed_address(instruction: &Instruction) -> Option<u64> {
    match instruction.code() {
        Operation::Mov_r32_imm32
        | Operation::Mov_rm64_imm32
        | Operation::Mov_rm32_imm32
        | Operation::Mov_r64_imm64 => Some(instruction.immediate(1)),
        Operation::Pushq_imm32 => Some(instruction.immediate(0)),
        Operation::Lea_r64_m if is_absolute(instruction) => Some(instruction.memory_displacement64()),
        _ => None,
    }
}

fn is_absolute(instruction: &Instruction) -> bool {
    instruction.memory_base() == Register::None && instruction.memory_index() == Register::None
}
