//! Rules for code whose instructions are known, where the file's own entries are missing or silent.
//!
//! - Go's `.debug_frame` does not say where stacks end or change: the runtime's functions for that are
//!   known by name, and their frame pointers lead over the change (`runtime/asm_amd64.s`).
//! - musl has no entries at all: its entry code, thread start and signal return are known by their bytes,
//!   the rest by following its instructions.
//! - Linkers other than GNU ld write no entries for the procedure linkage table.
//!
//! A root is claimed only where name or bytes prove it.

use super::architecture::Architecture;
use super::compile::{Span, TableError};
use super::elf::{ElfImage, Fields, Section, Segment, c_string};
use super::known_code_aarch64;
use super::limits::Limits;
use super::rule::{RSP, Rule};
use super::sequence::Sequence;
use super::stack_depth::{CodeBytes, follow};

/// `mov $15, %rax; syscall`: rt_sigreturn, which ends every signal handler.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// `xor %ebp, %ebp; pop %rdi; call *%r9`: where a thread made by musl's `__clone` begins.
const THREAD_START: [u8; 6] = [0x31, 0xed, 0x5f, 0x41, 0xff, 0xd1];
/// `and $-16, %rsp`, which only a function that no one called does before its first call.
const ALIGN_STACK: [u8; 4] = [0x48, 0x83, 0xe4, 0xf0];
/// `mov %rsp, %rdi; call …`: glibc's dynamic linker starts with it (RTLD_START, sysdeps/x86_64/dl-machine.h).
const LOADER_START: [u8; 4] = [0x48, 0x89, 0xe7, 0xe8];
/// `mov %rax, %r12` behind that call: the program's entry point is kept.
const LOADER_KEEPS_ENTRY: [u8; 3] = [0x49, 0x89, 0xc4];
/// `jmp *%r12`: there the program begins.
const LOADER_JUMP: [u8; 3] = [0x41, 0xff, 0xe4];
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// What is known about a module's code.
#[derive(Debug)]
pub(super) struct KnownCode {
    /// Rules that count more than the file's entries: ascending, without overlaps.
    pub(super) overrides: Vec<Span>,
    /// Rules that count where the file has no entries: ascending, without overlaps.
    pub(super) fills: Vec<Span>,
    /// The rule of all other code without entries.
    pub(super) default_rule: Rule,
}

impl KnownCode {
    /// Looks at the module's code. `covered` are the file's own entries, ascending.
    ///
    /// # Errors
    ///
    /// The symbol table is larger than the limits allow. Symbols or code that cannot be read are simply
    /// not known.
    pub(super) fn find(
        image: &ElfImage,
        code: &[Segment],
        covered: &[Sequence],
        limits: &Limits,
    ) -> Result<Self, TableError> {
        if image.architecture() == Architecture::Aarch64 {
            return Ok(known_code_aarch64::find(image, code, covered, limits));
        }
        let is_covered = |address: u64| {
            let after = covered.partition_point(|sequence| sequence.start <= address);
            after.checked_sub(1).is_some_and(|index| covered[index].end > address)
        };
        let mut known = Self { overrides: Vec::new(), fills: Vec::new(), default_rule: Rule::FRAME_POINTER };
        if image.is_go() {
            known.default_rule = Rule::FRAME_POINTER_ROOT;
            known.add_go(image, code, limits);
        } else if image.entry() != 0 && !is_covered(image.entry()) {
            known.add_entry_code(image, limits);
            known.follow_instructions(image, code, covered, limits);
        }
        for name in [&b".plt"[..], b".plt.sec", b".plt.got", b".iplt"] {
            for section in image.sections().iter().filter(|section| section.name == name) {
                if !is_covered(section.address) {
                    known.add_linkage_table(image, section, limits);
                }
            }
        }
        make_disjoint(&mut known.overrides);
        make_disjoint(&mut known.fills);
        Ok(known)
    }

    fn add_go(&mut self, image: &ElfImage, code: &[Segment], limits: &Limits) {
        let mut has_signal_return = false;
        for_each_function(image, limits, |name, start, size| {
            let name = name.strip_suffix(b".abi0").unwrap_or(name);
            let name = name.strip_suffix(b".abiinternal").unwrap_or(name);
            let rule = match name {
                b"runtime.goexit" | b"runtime.mstart" | b"runtime.rt0_go" | b"_rt0_amd64_linux"
                | b"_rt0_amd64" => Rule::STOP,
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
            let is_signal = rule == Rule::SIGNAL;
            has_signal_return |= is_signal;
            // Handlers return to the first byte, and return addresses are looked up one byte before.
            let start = if is_signal { start.saturating_sub(1) } else { start };
            self.overrides.push(Span { start, end, rule });
        });
        if !has_signal_return {
            for segment in code {
                add_signal_returns(&mut self.overrides, image, segment.address, segment.end(), limits);
            }
        }
    }

    /// The entry point, if it clears rbp, aligns the stack and calls, or is that of glibc's dynamic linker:
    /// nothing called it.
    fn add_entry_code(&mut self, image: &ElfImage, limits: &Limits) {
        let entry = image.entry();
        let Ok(bytes) = image.read_address(entry, 96, limits) else { return };
        let body = bytes.strip_prefix(&ENDBR64[..]).unwrap_or(&bytes);
        if let Some(length) = loader_entry_bytes(body) {
            let end = entry + (bytes.len() - body.len() + length) as u64;
            self.fills.push(Span { start: entry, end, rule: Rule::STOP });
            return;
        }
        if !body.starts_with(&[0x31, 0xed]) && !body.starts_with(&[0x48, 0x31, 0xed]) {
            return;
        }
        let Some(aligned) = find(&bytes, &ALIGN_STACK) else { return };
        let after = aligned + ALIGN_STACK.len();
        let length = match bytes.get(after..) {
            Some([0xe8, ..]) => 5,
            Some([0xff, 0x15, ..]) => 6,
            _ => return,
        };
        self.fills.push(Span { start: entry, end: entry + (after + length) as u64, rule: Rule::STOP });
    }

    /// A module whose very entry point has no unwind entry: most likely musl, or a program linked with it.
    fn follow_instructions(
        &mut self,
        image: &ElfImage,
        code: &[Segment],
        covered: &[Sequence],
        limits: &Limits,
    ) {
        let mut budget = limits.max_scanned_code_bytes;
        let mut read = |start: u64, end: u64| {
            let size = (end - start).min(budget);
            if size == 0 {
                return None;
            }
            budget -= size;
            Some(CodeBytes { start, bytes: image.read_address(start, size, limits).ok()? })
        };
        let without: Vec<CodeBytes> =
            gaps(code, covered).into_iter().filter_map(|(start, end)| read(start, end)).collect();
        let with: Vec<CodeBytes> =
            covered.iter().filter_map(|sequence| read(sequence.start, sequence.end)).collect();

        for code in &without {
            add_pattern(&mut self.overrides, code, &SIGNAL_RETURN, |at| {
                // From one byte before, because handlers' return addresses are looked up there.
                (at.saturating_sub(1), at + SIGNAL_RETURN.len() as u64, Rule::SIGNAL)
            });
            add_pattern(&mut self.overrides, code, &THREAD_START, |at| {
                (at, at + THREAD_START.len() as u64, Rule::STOP)
            });
        }
        self.overrides.append(&mut self.fills);
        let mut functions = vec![(image.entry(), 0)];
        for_each_function(image, limits, |_, start, size| functions.push((start, size)));
        self.fills = follow(&without, &functions, &with);
    }

    /// Entries of a linkage table, recognised by the bytes of its first full entry.
    fn add_linkage_table(&mut self, image: &ElfImage, section: &Section, limits: &Limits) {
        let (start, end) = (section.address, section.address.saturating_add(section.size));
        let Ok(bytes) = image.read_address(start, section.size.min(32), limits) else { return };
        let is_jump = |at: usize| {
            let entry = bytes.get(at..).unwrap_or(&[]);
            let entry = entry.strip_prefix(&ENDBR64[..]).unwrap_or(entry);
            entry.starts_with(&[0xff, 0x25]) || entry.starts_with(&[0xf2, 0xff, 0x25])
        };
        if is_jump(0) {
            // No entry pushes anything unless its first one does so at the usual place.
            if bytes.get(6) != Some(&0x68) {
                self.fills.push(Span { start, end, rule: Rule::reg(RSP, 8) });
            }
            return;
        }
        // `push GOT[1](%rip); jmp *GOT[2](%rip)`: two words are on the stack, then three.
        let has_header = bytes.starts_with(&[0xff, 0x35]) && start % 16 == 0;
        let second = bytes.get(16..).unwrap_or(&[]);
        let pushed_at = match second {
            // `jmp *GOT; push n; jmp header`
            [0xff, 0x25, _, _, _, _, 0x68, ..] => 11,
            // `endbr64; push n; jmp header`
            [0xf3, 0x0f, 0x1e, 0xfa, 0x68, ..] => 9,
            _ => return,
        };
        if has_header && section.size > 16 {
            self.fills.push(Span { start, end: start + 6, rule: Rule::reg(RSP, 16) });
            self.fills.push(Span { start: start + 6, end: start + 16, rule: Rule::reg(RSP, 24) });
            self.fills.push(Span { start: start + 16, end, rule: Rule::plt(8, pushed_at) });
        }
    }
}

/// Length of the entry code of glibc's dynamic linker, if `body` is that.
fn loader_entry_bytes(body: &[u8]) -> Option<usize> {
    let call_bytes = LOADER_START.len() + 4;
    let is_loader =
        body.starts_with(&LOADER_START) && body.get(call_bytes..)?.starts_with(&LOADER_KEEPS_ENTRY);
    is_loader.then(|| find(body, &LOADER_JUMP).map(|at| at + LOADER_JUMP.len())).flatten()
}

/// Sorts, and drops what overlaps an earlier span or is empty.
pub(super) fn make_disjoint(spans: &mut Vec<Span>) {
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let mut end = 0;
    spans.retain(|span| {
        let is_free = span.start >= end && span.end > span.start;
        if is_free {
            end = span.end;
        }
        is_free
    });
}

/// Where some bytes (at least two) first occur. The second byte is looked for first: in the patterns of
/// this file it is the rarer one.
fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let last = bytes.len().checked_sub(pattern.len()).filter(|&last| from <= last)?;
        let at = from + bytes[from + 1..last + 2].iter().position(|&byte| byte == pattern[1])?;
        if bytes[at..].starts_with(pattern) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Code without entries, ascending.
pub(super) fn gaps(code: &[Segment], covered: &[Sequence]) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    for segment in code {
        let mut from = segment.address;
        for sequence in covered.iter().filter(|s| s.start >= segment.address && s.start < segment.end()) {
            if sequence.start > from {
                gaps.push((from, sequence.start));
            }
            from = from.max(sequence.end);
        }
        if segment.end() > from {
            gaps.push((from, segment.end()));
        }
    }
    gaps
}

/// Adds a span for every occurrence of some bytes.
pub(super) fn add_pattern(
    spans: &mut Vec<Span>,
    code: &CodeBytes,
    pattern: &[u8],
    span_at: impl Fn(u64) -> (u64, u64, Rule),
) {
    let mut from = 0;
    while let Some(found) = code.bytes.get(from..).and_then(|rest| find(rest, pattern)) {
        let (start, end, rule) = span_at(code.start + (from + found) as u64);
        spans.push(Span { start, end, rule });
        from += found + pattern.len();
    }
}

/// Finds `rt_sigreturn` calls by their bytes in a range that may be large.
fn add_signal_returns(spans: &mut Vec<Span>, image: &ElfImage, start: u64, end: u64, limits: &Limits) {
    const BLOCK: u64 = 1 << 20;
    let end = end.min(start.saturating_add(limits.max_scanned_code_bytes));
    let mut at = start;
    while at < end {
        let overlap = SIGNAL_RETURN.len() as u64 - 1;
        let size = (end - at).min(BLOCK + overlap);
        let Ok(bytes) = image.read_address(at, size, limits) else { return };
        add_pattern(spans, &CodeBytes { start: at, bytes }, &SIGNAL_RETURN, |at| {
            (at.saturating_sub(1), at + SIGNAL_RETURN.len() as u64, Rule::SIGNAL)
        });
        at = at.saturating_add(BLOCK);
    }
}

/// Calls `visit(name, address, size)` for every defined function of `.symtab`, else `.dynsym`. Labels
/// without a type count, as assembly often has no other.
pub(super) fn for_each_function(
    image: &ElfImage,
    limits: &Limits,
    mut visit: impl FnMut(&[u8], u64, u64),
) -> Option<()> {
    const SYMBOL_BYTES: u64 = 24;
    let section = image.section(b".symtab").or_else(|| image.section(b".dynsym"))?;
    let section = Section {
        size: section.size.min((limits.max_symbols as u64).saturating_mul(SYMBOL_BYTES)),
        ..section.clone()
    };
    let names = image.sections().get(section.link as usize)?;
    let symbols = image.section_bytes(&section, limits).ok()?;
    let names = image.section_bytes(names, limits).ok()?;
    for symbol in symbols.chunks_exact(SYMBOL_BYTES as usize).map(Fields) {
        let kind = symbol.0[4] & 15;
        let is_defined = symbol.u16(6) != Some(0);
        const NOTYPE: u8 = 0;
        const FUNC: u8 = 2;
        if !is_defined || (kind != NOTYPE && kind != FUNC) {
            continue;
        }
        let (Some(name), Some(address), Some(size)) = (symbol.u32(0), symbol.u64(8), symbol.u64(16)) else {
            continue;
        };
        if let Some(name) = c_string(&names, name as usize) {
            visit(name, address, size);
        }
    }
    Some(())
}
