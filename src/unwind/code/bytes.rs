//! Ranges of a module's code, and their bytes.

use crate::elf::{ElfImage, Section, Segment};
use crate::unwind::table::sequence::Sequence;
use crate::unwind::table::span::MAX_PADDING;
use object::elf;

/// Linkage tables have rules of their own.
pub(super) const LINKAGE_TABLES: [&[u8]; 4] = [b".plt", b".plt.sec", b".plt.got", b".iplt"];

/// `endbr64`, which code starts with that is reached by indirect jumps.
pub(super) const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Whether x86-64 code starts with `[endbr64]; [bnd] jmp *x(%rip)`, as the entries of linkage tables do.
pub(crate) fn is_linkage_stub(code: &[u8]) -> bool {
    let code = code.strip_prefix(&ENDBR64).unwrap_or(code);
    code.starts_with(&[0xff, 0x25]) || code.starts_with(&[0xf2, 0xff, 0x25])
}

/// The longest instruction of the processor, in bytes.
const MAX_INSTRUCTION_BYTES: usize = 15;

/// Bytes of code and the address of the first.
#[derive(Debug)]
pub(crate) struct CodeBytes {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

impl CodeBytes {
    pub(crate) fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|distance| distance < self.bytes.len() as u64)
    }

    /// The address after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }

    /// The bytes of one instruction at an address, and perhaps more; empty outside.
    pub(crate) fn from(&self, address: u64) -> &[u8] {
        let rest = address
            .checked_sub(self.start)
            .and_then(|distance| self.bytes.get(usize::try_from(distance).ok()?..))
            .unwrap_or(&[]);
        &rest[..rest.len().min(MAX_INSTRUCTION_BYTES)]
    }
}

/// Ranges of code in ascending order, without overlaps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeSections<'a>(pub(crate) &'a [CodeBytes]);

impl<'a> CodeSections<'a> {
    /// The range that holds an address.
    pub(crate) fn holder(&self, address: u64) -> Option<&'a CodeBytes> {
        let after = self.0.partition_point(|code| code.start <= address);
        self.0.get(after.checked_sub(1)?).filter(|code| code.contains(address))
    }

    /// The bytes from `start` to `end`, where one range holds them all.
    pub(crate) fn bytes(&self, start: u64, end: u64) -> Option<&'a [u8]> {
        let holder = self.holder(start)?;
        let from = usize::try_from(start - holder.start).ok()?;
        holder.bytes.get(from..from.checked_add(usize::try_from(end.checked_sub(start)?).ok()?)?)
    }
}

/// The sections with code but for linkage tables, or the segments with code where there are no sections:
/// ascending, without overlaps.
pub(crate) fn code_ranges(image: &ElfImage, code: &[Segment]) -> Vec<(u64, u64)> {
    let is_code = |section: &&Section| {
        section.flags & elf::SHF_EXECINSTR.0 != 0
            && section.kind == elf::SHT_PROGBITS.0
            && !LINKAGE_TABLES.contains(&&section.name[..])
    };
    let mut ranges: Vec<(u64, u64)> = image
        .sections()
        .iter()
        .filter(is_code)
        .filter_map(|section| {
            let end = section.address.checked_add(section.size)?;
            let is_loaded = code.iter().any(|s| s.address <= section.address && end <= s.end());
            is_loaded.then_some((section.address, end))
        })
        .collect();
    if ranges.is_empty() {
        return code.iter().map(|segment| (segment.address, segment.end())).collect();
    }
    ranges.sort_unstable();
    let mut covered = 0;
    ranges.retain(|&(start, end)| {
        let is_free = start >= covered && start < end;
        if is_free {
            covered = end;
        }
        is_free
    });
    ranges
}

/// Whether bytes can only be there to align what follows: they are those of `nop`s and `int3`, as compilers write them.
pub(super) fn is_padding(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|byte| matches!(byte, 0x90 | 0xcc | 0x66 | 0x2e | 0x0f | 0x1f | 0x84 | 0x80 | 0x44 | 0x40 | 0))
}

/// Finds the gaps between entries in ranges of code that are more than padding: ascending.
pub(crate) fn gaps(code: &[(u64, u64)], covered: &[Sequence]) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut add = |start: u64, end: u64, is_whole: bool| {
        if end > start && (end - start > MAX_PADDING || is_whole) {
            gaps.push((start, end));
        }
    };
    for &(start, end) in code {
        let first = covered.partition_point(|sequence| sequence.end <= start);
        let mut from = start;
        for sequence in covered[first..].iter().take_while(|sequence| sequence.start < end) {
            add(from, sequence.start.min(end), false);
            from = from.max(sequence.end);
        }
        add(from, end, from == start);
    }
    gaps
}
