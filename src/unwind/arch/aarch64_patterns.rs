//! Rules for arm64 code whose instructions are known, where the file's own entries are missing or silent.
//!
//! - Entry code that clears x29 and x30: nothing called it.
//! - The return from a signal handler, in the vdso and in musl: `mov x8, #139; svc #0`.
//! - Where a thread made by musl's `__clone` begins.
//! - glibc's resolver of lazily bound functions, whose entries forget that the linkage table has pushed
//!   sixteen bytes.
//! - Functions without entries: their instructions are followed.
//! - Procedure linkage tables, for which no linker writes entries on arm64.
//!
//! A root is claimed only where bytes prove it.

use super::aarch64_prologue::analyze;
use crate::elf::Architecture;
use crate::elf::{ElfImage, Section, Segment};
use crate::unwind::code::bytes::{CodeBytes, code_ranges, gaps};
use crate::unwind::code::function_starts::for_each_function;
use crate::unwind::code::known::{KnownCode, add_pattern, make_disjoint, program_start};
use crate::unwind::limits::Limits;
use crate::unwind::rule::Rule;
use crate::unwind::table::sequence::{Sequence, is_covered};
use crate::unwind::table::span::Span;

/// `mov x29, #0`
const CLEAR_FRAME_POINTER: u32 = 0xd280_001d;
/// `mov x30, #0`
const CLEAR_LINK: u32 = 0xd280_001e;
/// `nop`, and `bti` with its targets: what may come before an entry's first instruction.
const NOP: u32 = 0xd503_201f;
const BTI: [u32; 4] = [0xd503_241f, 0xd503_245f, 0xd503_249f, 0xd503_24df];
/// `mov x8, #139; svc #0`: rt_sigreturn, which ends every signal handler.
const SIGNAL_RETURN: [u8; 8] = [0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4];
/// `ldp x1, x0, [sp], #16; blr x1`: where a thread made by musl's `__clone` begins.
const THREAD_START: [u8; 8] = [0xe1, 0x03, 0xc1, 0xa8, 0x20, 0, 0x3f, 0xd6];
/// `stp x16, x30, [sp, #-16]!`: how a linkage table's first entry starts.
const SAVE_LINK: u32 = 0xa9bf_7bf0;
/// glibc's `_dl_runtime_resolve` (`sysdeps/aarch64/dl-trampoline.S`): after a `nop` or `bti` it pushes with
/// `stp x8, x9, [sp, #-208]!`, pops with `ldp x8, x9, [sp], #208`, pops what the linkage table pushed with
/// `ldp x17, x30, [sp], #16`, and jumps with `br x16` or `br x17`.
const RESOLVER_PUSHES: u32 = 0xa9b3_27e8;
const RESOLVER_POPS: u32 = 0xa8cd_27e8;
const RESOLVER_POPS_LINK: u32 = 0xa8c1_7bf1;
const RESOLVER_FRAME_BYTES: i32 = 208;
/// Entries of functions that may be the resolver, in bytes.
const RESOLVER_BYTES: std::ops::RangeInclusive<u64> = 96..=160;
/// A larger function is not followed, in bytes.
const MAX_FUNCTION_BYTES: u64 = 1 << 18;
/// Code that is followed in one module, in bytes.
const MAX_FOLLOWED_BYTES: u64 = 16 << 20;
/// Entry code is shorter than this, in bytes.
const MAX_ENTRY_BYTES: u64 = 128;

const SP: u8 = Architecture::Aarch64.stack_pointer();
/// Nothing is pushed, and the return address is where the call left it.
const UNPUSHED: Rule = Rule::unpushed(SP, 30);

/// Looks at a module's code. `covered` are the file's own entries, ascending. Symbols or code that cannot
/// be read are simply not known.
pub(crate) fn find(image: &ElfImage, code: &[Segment], covered: &[Sequence], limits: &Limits) -> KnownCode {
    let is_covered = |address: u64| is_covered(covered, address);
    let mut known = KnownCode {
        overrides: Vec::new(),
        fills: Vec::new(),
        default_rule: Rule::FRAME_POINTER,
        is_whole: true,
    };
    if image.is_go() {
        known.default_rule = Rule::FRAME_POINTER_ROOT;
        add_go(&mut known, image, limits);
    } else {
        if image.entry() != 0 && !is_covered(image.entry()) {
            known.fills.extend(entry_code(image));
        }
        known.overrides.extend(program_start(image, covered));
        follow_functions(&mut known.fills, image, &is_covered, limits);
    }
    for name in [&b".plt"[..], b".iplt"] {
        for section in image.sections().iter().filter(|section| section.name == name) {
            if !is_covered(section.address) {
                add_linkage_table(&mut known.fills, image, section);
            }
        }
    }
    for sequence in covered.iter().filter(|s| RESOLVER_BYTES.contains(&(s.end - s.start))) {
        let Ok(bytes) = image.read_address(sequence.start, sequence.end - sequence.start) else {
            continue;
        };
        known.overrides.extend(resolver(sequence.start, &words(&bytes)).into_iter().flatten());
    }
    let mut budget = limits.max_scanned_code_bytes;
    for (start, end) in gaps(&code_ranges(image, code), covered) {
        let size = (end - start).min(budget).min(bytes_in_file(image, start));
        budget -= size;
        let Ok(bytes) = image.read_address(start, size) else { continue };
        let code = CodeBytes { start, bytes };
        add_pattern(&mut known.overrides, &code, &SIGNAL_RETURN, |at| {
            // From one byte before, because handlers' return addresses are looked up there.
            (at.saturating_sub(1), at + SIGNAL_RETURN.len() as u64, Rule::SIGNAL)
        });
        add_pattern(&mut known.overrides, &code, &THREAD_START, |at| {
            (at, at + THREAD_START.len() as u64, Rule::STOP)
        });
    }
    make_disjoint(&mut known.overrides);
    make_disjoint(&mut known.fills);
    known
}

/// The functions of Go's runtime where stacks end or change (`runtime/asm_arm64.s`).
fn add_go(known: &mut KnownCode, image: &ElfImage, limits: &Limits) {
    for_each_function(image, limits, |symbol| {
        let (start, size) = (symbol.address, symbol.size);
        let name = symbol.name.strip_suffix(b".abi0").unwrap_or(symbol.name);
        let rule = match name {
            b"runtime.goexit" | b"runtime.mstart" | b"runtime.rt0_go" | b"_rt0_arm64_linux" => Rule::STOP,
            b"runtime.systemstack"
            | b"runtime.mcall"
            | b"runtime.asmcgocall"
            | b"runtime.morestack"
            | b"runtime.cgocallback"
            | b"runtime.switchToCrashStack0" => Rule::FRAME_POINTER_ROOT,
            b"runtime.sigreturn__sigaction" | b"runtime.sigreturn" => Rule::SIGNAL,
            _ => return,
        };
        let Some(end) = start.checked_add(size.max(1)) else { return };
        let start = if rule == Rule::SIGNAL { start.saturating_sub(1) } else { start };
        known.overrides.push(Span { start, end, rule });
    });
}

/// Follows the instructions of every function that has a symbol with a size, and no entry.
fn follow_functions(
    spans: &mut Vec<Span>,
    image: &ElfImage,
    is_covered: &impl Fn(u64) -> bool,
    limits: &Limits,
) {
    let mut functions = Vec::new();
    for_each_function(image, limits, |symbol| {
        let (start, size) = (symbol.address, symbol.size);
        if start % 4 == 0 && (4..=MAX_FUNCTION_BYTES).contains(&size) && !is_covered(start) {
            functions.push((start, size));
        }
    });
    functions.sort_unstable();
    functions.dedup_by_key(|function| function.0);
    let mut budget = MAX_FOLLOWED_BYTES;
    for (start, size) in functions {
        let size = size.min(bytes_in_file(image, start));
        if size > budget {
            return;
        }
        budget -= size;
        let Ok(bytes) = image.read_address(start, size) else { continue };
        spans.extend(analyze(start, &words(&bytes)).into_iter().flatten());
    }
}

/// The entry point, if it clears the frame pointer and the return address first: nothing called it. Holds up
/// to where it jumps away, or to the second of two calls in a row: that is `abort`.
fn entry_code(image: &ElfImage) -> Option<Span> {
    let start = image.entry();
    let size = MAX_ENTRY_BYTES.min(bytes_in_file(image, start));
    let words = words(&image.read_address(start, size).ok()?);
    let first = words.iter().position(|word| *word != NOP && !BTI.contains(word))?;
    match words.get(first..first + 2)? {
        [CLEAR_FRAME_POINTER, CLEAR_LINK] | [CLEAR_LINK, CLEAR_FRAME_POINTER] => {}
        _ => return None,
    }
    let is_call = |word: &u32| word >> 26 == 0b10_0101;
    let is_jump = |word: &u32| word >> 26 == 0b00_0101 || word & 0xffff_fc1f == 0xd61f_0000;
    let mut was_call = false;
    let last = words.iter().position(|word| {
        let ends = is_jump(word) || (was_call && is_call(word));
        was_call = is_call(word);
        ends
    })?;
    Some(Span { start, end: start + 4 * (last as u64 + 1), rule: Rule::STOP })
}

/// The rules of glibc's resolver, if the function is that.
fn resolver(start: u64, words: &[u32]) -> Option<[Span; 4]> {
    let address = |index: usize| start + 4 * index as u64;
    let first = words.first()?;
    if words.get(1) != Some(&RESOLVER_PUSHES) || (*first != NOP && !BTI.contains(first)) {
        return None;
    }
    let popped = words.iter().position(|word| *word == RESOLVER_POPS)? + 1;
    let [RESOLVER_POPS_LINK, 0xd61f_0200 | 0xd61f_0220] = words.get(popped..popped + 2)? else { return None };
    let (pushed, linked) = (Rule::reg(SP, 16 + RESOLVER_FRAME_BYTES), Rule::reg(SP, 16));
    Some([
        Span { start, end: address(2), rule: linked },
        Span { start: address(2), end: address(popped), rule: pushed },
        Span { start: address(popped), end: address(popped + 1), rule: linked },
        Span { start: address(popped + 1), end: address(popped + 2), rule: UNPUSHED },
    ])
}

/// Entries of a linkage table jump on with nothing pushed; the first, which calls the dynamic linker, pushes
/// x16 and the return address.
fn add_linkage_table(spans: &mut Vec<Span>, image: &ElfImage, section: &Section) {
    let (start, end) = (section.address, section.address.saturating_add(section.size));
    let Ok(bytes) = image.read_address(start, section.size.min(16)) else { return };
    let words = words(&bytes);
    let Some(first) = words.iter().position(|word| *word != NOP && !BTI.contains(word)) else { return };
    let is_page_address = |word: u32| word & 0x9f00_001f == 0x9000_0010; // adrp x16, …
    if is_page_address(words[first]) {
        spans.push(Span { start, end, rule: UNPUSHED });
        return;
    }
    const HEADER_BYTES: u64 = 32;
    let is_header = words[first] == SAVE_LINK && words.get(first + 1).copied().is_some_and(is_page_address);
    if is_header && section.size >= HEADER_BYTES {
        let pushed = start + 4 * (first as u64 + 1);
        spans.push(Span { start, end: pushed, rule: UNPUSHED });
        spans.push(Span { start: pushed, end: start + HEADER_BYTES, rule: Rule::reg(SP, 16) });
        spans.push(Span { start: start + HEADER_BYTES, end, rule: UNPUSHED });
    }
}

/// Returns the number of bytes from an address on that come from the file.
fn bytes_in_file(image: &ElfImage, address: u64) -> u64 {
    let holder = image.segments().iter().find(|s| s.address <= address && address - s.address < s.file_size);
    holder.map_or(0, |segment| segment.file_size - (address - segment.address))
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}
