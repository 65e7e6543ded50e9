//! Rules for code whose instructions are known, where the file's own entries are missing or silent.
//!
//! - Go's is in `known_go_code`.
//! - musl has no entries at all: its entry code, thread start and signal return are known by their bytes,
//!   the rest by following its instructions.
//! - Linkers other than GNU ld write no entries for the procedure linkage table.
//!
//! A root is claimed only where name or bytes prove it.

use super::bytes::{CodeBytes, ENDBR64, LINKAGE_TABLES, code_ranges, gaps, is_linkage_stub, is_padding};
use super::function_starts::{
    FunctionStart, from_covered_code, from_fixed_data, from_init_sections, from_relocations, from_symbols,
};
use super::known::{KnownCode, add_pattern, find, make_disjoint, program_start};
use super::prologue::analyze::analyze;
use super::prologue::facts::ModuleFacts;
use super::prologue::never_return::NeverReturn;
use super::{fcontext, libgcc, main_function, vfork};
use crate::elf::Architecture;
use crate::elf::{ElfImage, ElfType, Section, Segment};
use crate::unwind::arch::aarch64_patterns;
use crate::unwind::go::pclntab::GoTable;
use crate::unwind::limits::Limits;
use crate::unwind::rule::{RSP, Rule};
use crate::unwind::table::sequence::{Sequences, is_covered};
use crate::unwind::table::span::{Span, TableError};

/// `mov $15, %rax; syscall`: rt_sigreturn, which ends every signal handler.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// `xor %ebp, %ebp; pop %rdi; call *%r9`: where a thread made by musl's `__clone` begins.
const THREAD_START: [u8; 6] = [0x31, 0xed, 0x5f, 0x41, 0xff, 0xd1];
/// `mov %eax, %edi; xor %eax, %eax; mov $60, %al; syscall`: where it ends.
const THREAD_END: [u8; 8] = [0x89, 0xc7, 0x31, 0xc0, 0xb0, 0x3c, 0x0f, 0x05];
/// `syscall; test %rax, %rax`: what glibc's functions that start threads do in both.
const NEW_THREAD: [u8; 5] = [0x0f, 0x05, 0x48, 0x85, 0xc0];
/// Size of [`NEW_THREAD`] with what comes next, at most, bytes.
const MAX_NEW_THREAD_BYTES: u64 = 14;
/// `syscall; test %eax, %eax; jne …`, and [`THREAD_START`]: musl does the same.
const MUSL_NEW_THREAD: [u8; 5] = [0x0f, 0x05, 0x85, 0xc0, 0x75];
/// `and $-16, %rsp`, which only a function that no one called does before its first call.
const ALIGN_STACK: [u8; 4] = [0x48, 0x83, 0xe4, 0xf0];
/// `mov %rsp, %rdi; call …`: glibc's dynamic linker starts with it (RTLD_START, sysdeps/x86_64/dl-machine.h).
const LOADER_START: [u8; 4] = [0x48, 0x89, 0xe7, 0xe8];
/// `mov %rax, %r12` after that call: the program's entry point is kept.
const LOADER_KEEPS_ENTRY: [u8; 3] = [0x49, 0x89, 0xc4];
/// `jmp *%r12`: there the program begins.
const LOADER_JUMP: [u8; 3] = [0x41, 0xff, 0xe4];
/// glibc's `__start_context`, to which functions return that makecontext started, up to its first call: `mov %rbx, %rsp;
/// mov (%rsp), %rdi; test %rdi, %rdi; je; call setcontext` (sysdeps/unix/sysv/linux/x86_64/__start_context.S).
const CONTEXT_START: [u8; 11] = [0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff, 0x74];
/// Second half of `__start_context`, without the distance of the call: `mov %rax, %rdi; call exit; hlt`.
const CONTEXT_EXIT: [u8; 4] = [0x48, 0x89, 0xc7, 0xe8];
/// Size of `__start_context`, bytes; before it there may be an `endbr64`.
const CONTEXT_START_BYTES: usize = 26;
/// A module with more functions than this is not searched for it: the C library, and programs that hold it, have less.
const MAX_CONTEXT_CANDIDATES: usize = 65_536;
/// Every program and library has some code without entries that the compiler's start-up files bring along, found by
/// the relocations of `.init_array`. The code with entries is searched for calls only where there is more, in bytes, or
/// other code.
const MAX_STARTUP_BYTES: usize = 512;
/// Of this many relocations those of `.init_array` are searched for where there is no more: large libraries have a
/// million of them.
const MAX_STARTUP_RELOCATIONS: usize = 4096;
/// Largest size of code without entries whose instructions are analysed, bytes: of more, only where frame
/// pointers are set up and taken down is looked for. The analysis takes about 0.1 s for each MiB.
const MAX_FOLLOWED_BYTES: u64 = 16 << 20;
/// `push %rbp; mov %rsp, %rbp`, which starts functions that keep a frame pointer.
const PROLOGUE: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];
/// `pop %rbp; ret`, which ends them.
const EPILOGUE: [u8; 2] = [0x5d, 0xc3];

impl KnownCode {
    /// Looks at the module's code. `entries` are the file's own, ascending. Where more bytes than `max_unknown_bytes`
    /// have none, they are left to user space.
    ///
    /// # Errors
    ///
    /// The symbol table is larger than the limits allow. Symbols or code that cannot be read are simply
    /// not known.
    pub(crate) fn find(
        image: &ElfImage,
        code: &[Segment],
        entries: &Sequences,
        max_unknown_bytes: u64,
        limits: &Limits,
    ) -> Result<Self, TableError> {
        let covered = &entries.list[..];
        if image.architecture() == Architecture::Aarch64 {
            return Ok(aarch64_patterns::find(image, code, covered, limits));
        }
        let is_covered = |address: u64| is_covered(covered, address);
        let mut known = Self {
            overrides: Vec::new(),
            fills: Vec::new(),
            default_rule: Rule::FRAME_POINTER,
            is_whole: true,
        };
        if image.is_go() {
            known.default_rule = Rule::FRAME_POINTER_ROOT;
            let covered_bytes: u64 = covered.iter().map(|sequence| sequence.end - sequence.start).sum();
            let code_bytes: u64 = code.iter().map(|segment| segment.memory_size).sum();
            let table = if covered_bytes < code_bytes / 2 { GoTable::load(image) } else { None };
            known.add_go(image, code, table.as_ref(), limits);
            if let Some(table) = &table {
                known.add_go_depths(table, limits);
            }
        } else {
            if image.entry() != 0 && !is_covered(image.entry()) {
                known.add_entry_code(image);
            }
            known.analyze_instructions(image, code, entries, max_unknown_bytes, limits);
            known.add_context_start(image, entries);
            known.overrides.extend(program_start(image, covered));
            known.add_exception_returns(image, entries);
        }
        known.add_new_threads(image, entries);
        for name in LINKAGE_TABLES {
            for section in image.sections().iter().filter(|section| section.name == name) {
                if !is_covered(section.address) {
                    known.add_linkage_table(image, section);
                }
            }
        }
        make_disjoint(&mut known.overrides);
        make_disjoint(&mut known.fills);
        Ok(known)
    }

    /// The entry point, if it clears rbp, aligns the stack and calls, or is that of glibc's dynamic linker:
    /// nothing called it.
    fn add_entry_code(&mut self, image: &ElfImage) {
        let entry = image.entry();
        let Ok(bytes) = image.read_address(entry, 96) else { return };
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

    /// `__start_context`: no call precedes it, so to return to its first byte proves that a stack begins there. Its
    /// entry says nothing of that, and the byte before it, by which a return address is looked up, belongs to no one.
    fn add_context_start(&mut self, image: &ElfImage, entries: &Sequences) {
        let list = &entries.list;
        if list.len() > MAX_CONTEXT_CANDIDATES {
            return;
        }
        let found = list.iter().enumerate().find_map(|(index, sequence)| {
            let size = sequence.end - sequence.start;
            let is_alone = index.checked_sub(1).is_none_or(|before| list[before].end < sequence.start);
            let could_be = (size == CONTEXT_START_BYTES as u64
                || size == (ENDBR64.len() + CONTEXT_START_BYTES) as u64)
                && is_alone
                && entries.rows(sequence).len() == 1;
            let bytes = could_be.then(|| image.read_address(sequence.start, size).ok()).flatten()?;
            let body = bytes.strip_prefix(&ENDBR64[..]).unwrap_or(&bytes);
            let is_it = body.len() == CONTEXT_START_BYTES
                && body.starts_with(&CONTEXT_START)
                && body[17..].starts_with(&CONTEXT_EXIT)
                && body.ends_with(&[0xf4]);
            is_it.then_some(*sequence)
        });
        if let Some(start) = found {
            self.overrides.push(Span { start: start.start - 1, end: start.end, rule: Rule::STOP });
        }
    }

    /// Code without entries: hand-written assembly, or all of a libc (musl) and programs linked with it.
    fn analyze_instructions(
        &mut self,
        image: &ElfImage,
        code: &[Segment],
        entries: &Sequences,
        max_unknown_bytes: u64,
        limits: &Limits,
    ) {
        let covered = &entries.list[..];
        let code = code_ranges(image, code);
        let ranges = gaps(&code, covered);
        let bytes: u64 = ranges.iter().map(|(start, end)| end - start).sum();
        if bytes > max_unknown_bytes {
            (self.default_rule, self.is_whole) = (Rule::USER, false);
            return;
        }
        if bytes > MAX_FOLLOWED_BYTES {
            ranges.into_iter().for_each(|(start, end)| add_prologues(&mut self.fills, image, start, end));
            return;
        }
        let mut budget = limits.max_scanned_code_bytes;
        let mut read = |&(start, end): &(u64, u64)| {
            let size = (end - start).min(budget);
            if size == 0 {
                return None;
            }
            budget -= size;
            Some(CodeBytes { start, bytes: image.read_address(start, size).ok()? })
        };
        let mut without: Vec<CodeBytes> = ranges.iter().filter_map(&mut read).collect();
        without.retain(|code| !is_padding(&code.bytes));
        let unknown: usize = without.iter().map(|code| code.bytes.len()).sum();
        self.mark_patterns(&without);

        let mut starts: Vec<FunctionStart> = from_init_sections(image).collect();
        let certain = |address| FunctionStart { address, end: None, is_certain: true };
        starts.extend(main_function::find(image).map(certain));
        starts.extend(
            entries.damaged.iter().map(|&(start, end)| FunctionStart { end: Some(end), ..certain(start) }),
        );
        if unknown <= MAX_STARTUP_BYTES && self.analyze_startup(image, entries, &without, starts.clone()) {
            return;
        }
        let has_fixed_addresses = image.elf_type() == ElfType::Executable;
        let with: Vec<CodeBytes> = code.iter().filter_map(&mut read).collect();
        starts.push(certain(image.entry()));
        starts.extend(from_symbols(image, limits));
        starts.extend(from_relocations(image, &without, usize::MAX));
        if has_fixed_addresses {
            starts.extend(from_fixed_data(image, &without, limits));
        }
        starts.extend(from_covered_code(&without, &with, entries, has_fixed_addresses));
        let never_return = NeverReturn::find(image, limits);
        let facts = ModuleFacts { entries: Some(entries), never_return, has_fixed_addresses };
        self.fills = analyze(&without, starts, &facts);
    }

    /// Code that is known by its bytes: where signals and threads begin and end.
    fn mark_patterns(&mut self, without: &[CodeBytes]) {
        for code in without {
            add_pattern(&mut self.overrides, code, &SIGNAL_RETURN, |at| {
                // From one byte before, because handlers' return addresses are looked up there.
                (at.saturating_sub(1), at + SIGNAL_RETURN.len() as u64, Rule::SIGNAL)
            });
            add_pattern(&mut self.overrides, code, &THREAD_START, |at| {
                let end = at + THREAD_START.len() as u64;
                let is_ending = code.from(end).starts_with(&THREAD_END);
                let end = if is_ending { end + THREAD_END.len() as u64 } else { end };
                (at, end, Rule::STOP)
            });
            add_pattern(&mut self.overrides, code, &MUSL_NEW_THREAD, |at| {
                let end = at + MUSL_NEW_THREAD.len() as u64 + 1;
                let length = if code.from(end).starts_with(&THREAD_START) { end - at } else { 0 };
                (at, at + length, Rule::NEW_THREAD)
            });
            vfork::add_musl(&mut self.overrides, code);
            fcontext::add(&mut self.overrides, code);
        }
        self.overrides.append(&mut self.fills);
    }

    /// Follows the code by which a program starts. Whether that is all there is.
    fn analyze_startup(
        &mut self,
        image: &ElfImage,
        entries: &Sequences,
        without: &[CodeBytes],
        mut starts: Vec<FunctionStart>,
    ) -> bool {
        starts.extend(from_relocations(image, without, MAX_STARTUP_RELOCATIONS));
        let facts = ModuleFacts { entries: Some(entries), ..ModuleFacts::default() };
        self.fills = analyze(without, starts, &facts);
        self.knows_all(without)
    }

    /// Whether all bytes without entries have rules by now, but for what pads functions.
    fn knows_all(&self, without: &[CodeBytes]) -> bool {
        let is_known = |address: u64| {
            [&self.fills, &self.overrides].into_iter().any(|spans| {
                let after = spans.partition_point(|span| span.start <= address);
                after.checked_sub(1).is_some_and(|index| address < spans[index].end)
            })
        };
        without.iter().all(|code| {
            let unknown: Vec<u8> = (code.start..)
                .zip(&code.bytes)
                .filter(|(at, _)| !is_known(*at))
                .map(|(_, byte)| *byte)
                .collect();
            is_padding(&unknown)
        })
    }

    /// glibc's `__clone` and `__clone3` have no entry around their system call, as it would be wrong in the new thread,
    /// whose stack is empty. What comes next has one that ends stacks, and names the place.
    fn add_new_threads(&mut self, image: &ElfImage, entries: &Sequences) {
        for (root, rows) in entries.with_rule(Rule::STOP) {
            let is_all =
                rows.first().is_some_and(|&(address, rule)| address == root.start && rule == Rule::STOP);
            let start = root.start.saturating_sub(MAX_NEW_THREAD_BYTES);
            let Ok(bytes) = image.read_address(start, root.start - start) else { continue };
            if let Some(length) = new_thread_bytes(&bytes).filter(|_| is_all) {
                self.overrides.push(Span {
                    start: root.start - length as u64,
                    end: root.start,
                    rule: Rule::NEW_THREAD,
                });
            }
        }
    }

    /// The functions that go on in the frame which catches an exception.
    fn add_exception_returns(&mut self, image: &ElfImage, entries: &Sequences) {
        for (function, rows) in entries.with_rule(libgcc::LAST_ROW) {
            let (start, size) = (function.start, function.end - function.start);
            if size > libgcc::MAX_FUNCTION_BYTES {
                continue;
            }
            let Ok(bytes) = image.read_address(start, size) else { continue };
            self.overrides.extend(libgcc::rules(&CodeBytes { start, bytes }, &rows));
        }
    }

    /// Entries of a linkage table, recognised by the bytes of its first full entry.
    fn add_linkage_table(&mut self, image: &ElfImage, section: &Section) {
        let (start, end) = (section.address, section.address.saturating_add(section.size));
        let Ok(bytes) = image.read_address(start, section.size.min(32)) else { return };
        let is_jump = |at: usize| bytes.get(at..).is_some_and(is_linkage_stub);
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

/// Returns how many of the last bytes of `code` are `syscall; test %rax, %rax; jl …; je after; ret`, as glibc starts threads.
fn new_thread_bytes(code: &[u8]) -> Option<usize> {
    let failed = code.strip_suffix(&[0x74, 0x01, 0xc3])?;
    let tested = match failed {
        [tested @ .., 0x7c, _] if tested.ends_with(&NEW_THREAD) => tested,
        // In static programs the code for errors is further away.
        [tested @ .., 0x0f, 0x8c, _, _, _, _] => tested,
        _ => return None,
    };
    tested.ends_with(&NEW_THREAD).then(|| code.len() - tested.len() + NEW_THREAD.len())
}

/// Length of the entry code of glibc's dynamic linker, if `body` is that.
fn loader_entry_bytes(body: &[u8]) -> Option<usize> {
    let call_bytes = LOADER_START.len() + 4;
    let is_loader =
        body.starts_with(&LOADER_START) && body.get(call_bytes..)?.starts_with(&LOADER_KEEPS_ENTRY);
    is_loader.then(|| find(body, &LOADER_JUMP).map(|at| at + LOADER_JUMP.len())).flatten()
}

/// Finds `rt_sigreturn` calls by their bytes in a range that may be large.
pub(crate) fn add_signal_returns(
    spans: &mut Vec<Span>,
    image: &ElfImage,
    start: u64,
    end: u64,
    limits: &Limits,
) {
    let end = end.min(start.saturating_add(limits.max_scanned_code_bytes));
    for_each_block(image, start, end, |block| {
        add_pattern(spans, block, &SIGNAL_RETURN, |at| {
            (at.saturating_sub(1), at + SIGNAL_RETURN.len() as u64, Rule::SIGNAL)
        });
    });
}

/// Finds the instructions of functions with frame pointers at which rbp is not (yet, or any more) the function's own.
fn add_prologues(spans: &mut Vec<Span>, image: &ElfImage, start: u64, end: u64) {
    for_each_block(image, start, end, |block| {
        let entered = Rule::reg(RSP, 8);
        add_pattern(spans, block, &PROLOGUE, |at| (at, at + 1, entered));
        let pushed = Rule::reg(RSP, 16).with_rbp_at_cfa(-16);
        add_pattern(spans, block, &PROLOGUE, |at| (at + 1, at + PROLOGUE.len() as u64, pushed));
        add_pattern(spans, block, &EPILOGUE, |at| (at + 1, at + EPILOGUE.len() as u64, entered));
    });
}

/// Reads a range of code that may be large, block by block. Blocks overlap by less than any pattern is long, so what
/// lies on an edge is seen once or twice.
fn for_each_block(image: &ElfImage, start: u64, end: u64, mut visit: impl FnMut(&CodeBytes)) {
    const BLOCK: u64 = 1 << 20;
    const OVERLAP: u64 = SIGNAL_RETURN.len() as u64 - 1;
    let mut at = start;
    while at < end {
        let size = (end - at).min(BLOCK + OVERLAP);
        let Ok(bytes) = image.read_address(at, size) else { return };
        visit(&CodeBytes { start: at, bytes });
        at = at.saturating_add(BLOCK);
    }
}
