//! What is known about the code of a module, and how it is found by bytes.

use super::bytes::CodeBytes;
use crate::elf::ElfImage;
use crate::unwind::rule::Rule;
use crate::unwind::table::sequence::Sequence;
use crate::unwind::table::span::Span;

/// Facts known about a module's code.
#[derive(Debug)]
pub(crate) struct KnownCode {
    /// Rules that count more than the file's entries: ascending, without overlaps.
    pub(crate) overrides: Vec<Span>,
    /// Rules that count where the file has no entries: ascending, without overlaps.
    pub(crate) fills: Vec<Span>,
    /// The rule of all other code without entries.
    pub(crate) default_rule: Rule,
    /// All code without entries was looked at.
    pub(crate) is_whole: bool,
}

/// The function that begins at a program's entry point. Nothing called it, whatever its entry says: where it was not
/// written in assembly, that looks for a return address where the kernel has put the number of arguments.
pub(crate) fn program_start(image: &ElfImage, covered: &[Sequence]) -> Option<Span> {
    let entry = image.entry();
    let index = covered.binary_search_by_key(&entry, |sequence| sequence.start).ok()?;
    let next = covered.get(index + 1).map_or(u64::MAX, |next| next.start);
    let end = covered[index].end.min(next);
    image.is_program().then_some(Span { start: entry, end, rule: Rule::STOP })
}

/// Sorts, and drops what overlaps an earlier span or is empty.
pub(crate) fn make_disjoint(spans: &mut Vec<Span>) {
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

/// Returns the first place of some bytes (at least two). The second byte is looked for first: in most patterns of this
/// file it is the rarer one.
pub(crate) fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
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

/// Adds a span for every occurrence of some bytes.
pub(crate) fn add_pattern(
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
