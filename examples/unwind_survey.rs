//! How much of ELF files' code has unwind rules: `cargo run --example unwind_survey -- FILE…`
//!
//! One line per file, tab-separated: bytes of code; rows; addresses that only user space can step from (bytes, and
//! number of ranges); bytes that are left to the frame pointer (no entry, and their instructions prove nothing);
//! time to compile, in milliseconds; path. `-v` before the files also prints the ranges left to user space and the
//! largest ranges left to the frame pointer. docs/unwinding.md has a table of results.

#![allow(clippy::print_stdout, reason = "a tool that prints")]

use prof::internals::unwind::{ElfImage, Limits, RuleKind, Table, compile};
use std::fs::File;
use std::time::Instant;

struct Range {
    start: u64,
    end: u64,
    kind: RuleKind,
}

/// The table as ranges of one kind of rule.
fn ranges(table: &Table) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for (index, page) in table.pages.iter().enumerate() {
        let base = (table.first_page + index as u64) << 16;
        let rows = &table.rows[page.first as usize..][..page.count as usize];
        for (row, next) in rows.iter().zip(rows.iter().skip(1).map(Some).chain([None])) {
            let start = base + u64::from(row.pc_low);
            let end = next.map_or(base + 0x1_0000, |next| base + u64::from(next.pc_low));
            let kind = table.rules[usize::from(row.rule)].kind;
            match ranges.last_mut() {
                Some(last) if last.end == start && last.kind == kind => last.end = end,
                _ => ranges.push(Range { start, end, kind }),
            }
        }
    }
    ranges
}

/// The sections with code; the segments with code where there are no sections.
fn code_ranges(image: &ElfImage) -> Vec<(u64, u64)> {
    const EXECUTABLE: u64 = 4;
    let is_code = |section: &&prof::internals::elf::Section| section.flags & EXECUTABLE != 0;
    let sections: Vec<(u64, u64)> =
        image.sections().iter().filter(is_code).map(|s| (s.address, s.address + s.size)).collect();
    if !sections.is_empty() {
        return sections;
    }
    image.segments().iter().filter(|s| s.is_executable).map(|s| (s.address, s.end())).collect()
}

/// Cuts ranges to what lies in code, and drops those that only pad functions.
fn inside(ranges: Vec<Range>, code: &[(u64, u64)]) -> Vec<Range> {
    let mut cut = Vec::new();
    for range in ranges {
        for &(start, end) in code {
            let (start, end) = (range.start.max(start), range.end.min(end));
            if start < end && (end - start > 63 || range.kind != RuleKind::FramePointer) {
                cut.push(Range { start, end, kind: range.kind });
            }
        }
    }
    cut
}

fn main() {
    let is_verbose = std::env::args().nth(1).is_some_and(|first| first == "-v");
    println!("code\trows\tuser_bytes\tuser_ranges\tfp_bytes\tms\tpath");
    for path in std::env::args().skip(1 + usize::from(is_verbose)) {
        let limits = Limits::default();
        let Ok(file) = File::open(&path) else { continue };
        let Ok(image) = ElfImage::open(&file, &limits.elf) else { continue };
        let code_ranges = code_ranges(&image);
        let code: u64 = code_ranges.iter().map(|&(start, end)| end - start).sum();
        let began = Instant::now();
        let table = match compile(&image, &limits) {
            Ok(table) => table,
            Err(error) => {
                println!("{code}\t-\t-\t-\t-\t-\t{path}: {error}");
                continue;
            }
        };
        let milliseconds = began.elapsed().as_secs_f64() * 1e3;
        let mut ranges = inside(ranges(&table), &code_ranges);
        let bytes = |kinds: &[RuleKind]| -> (u64, usize) {
            let matching = ranges.iter().filter(|range| kinds.contains(&range.kind));
            (matching.clone().map(|range| range.end - range.start).sum(), matching.count())
        };
        let (user, user_ranges) = bytes(&[RuleKind::User]);
        let (unknown, _) = bytes(&[RuleKind::FramePointer]);
        println!("{code}\t{}\t{user}\t{user_ranges}\t{unknown}\t{milliseconds:.1}\t{path}", table.rows.len());
        if is_verbose {
            ranges.sort_by_key(|range| (range.kind != RuleKind::User, range.start.wrapping_sub(range.end)));
            let is_shown = |range: &&Range| matches!(range.kind, RuleKind::User | RuleKind::FramePointer);
            for Range { start, end, kind } in ranges.iter().filter(is_shown).take(40) {
                println!("    {start:#x}..{end:#x} {kind:?} {} bytes", end - start);
            }
        }
    }
}
