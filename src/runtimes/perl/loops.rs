//! The functions by which C code runs ops, in the file of an interpreter. A pure function of its code.

use super::instructions::accesses_of;
use super::ops::OpTables;
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use std::collections::BTreeMap;
use std::ops::Range;

/// Functions that run ops until there are no more: each call is one native frame.
const RUNNERS: [&str; 2] = ["Perl_runops_standard", "Perl_runops_debug"];
/// Ops of blocks that catch errors. Each may enter such a function again, in the middle of the frames of another one: by a
/// function that has no name of its own, and that all of them call.
const CATCHERS: [&str; 4] = ["entertry", "entereval", "require", "entertrycatch"];
/// Largest such function.
const MOST_BYTES: u64 = 1 << 15;

/// Ranges of functions whose native frames, where they are next to each other, are one call of the interpreter. Addresses
/// are the module's own: `exported` gives the functions that it exports, `tables` those of ops, `function_at` the function at
/// an address, `read_code` bytes of code.
pub(crate) fn loop_ranges(
    exported: &dyn Fn(&str) -> Option<Range<u64>>,
    tables: &OpTables<'_>,
    function_at: &dyn Fn(u64) -> Option<Range<u64>>,
    read_code: &dyn Fn(u64, u64) -> Option<Vec<u8>>,
) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = RUNNERS.into_iter().filter_map(exported).collect();
    let catchers: Vec<Range<u64>> =
        tables.functions(CATCHERS).into_iter().flatten().filter_map(function_at).collect();
    let mut calls = BTreeMap::<u64, usize>::new();
    for catcher in &catchers {
        let size = catcher.end.saturating_sub(catcher.start);
        let Some(code) = read_code(catcher.start, size).filter(|_| size <= MOST_BYTES) else { continue };
        let mut targets = accesses_of(&code, catcher.start).targets;
        targets.sort_unstable();
        targets.dedup();
        for target in targets {
            *calls.entry(target).or_default() += 1;
        }
    }
    let starts = |address: u64| function_at(address).filter(|function| function.start == address);
    // The first catcher does little else than to call it.
    let first = catchers.first().and_then(|first| {
        let code = read_code(first.start, first.end.saturating_sub(first.start).min(MOST_BYTES))?;
        Some(accesses_of(&code, first.start).targets)
    });
    let shared = first.unwrap_or_default().into_iter().filter(|target| calls.get(target) >= Some(&2));
    ranges.extend(shared.filter_map(starts).filter(|function| calls_by_pointer(function, read_code)));
    ranges.extend(catchers);
    ranges.sort_by_key(|range| range.start);
    ranges.dedup();
    ranges
}

/// Whether a function calls another one by a pointer, as the one that enters it again does.
fn calls_by_pointer(function: &Range<u64>, read_code: &dyn Fn(u64, u64) -> Option<Vec<u8>>) -> bool {
    let size = function.end.saturating_sub(function.start);
    let Some(code) = read_code(function.start, size).filter(|_| size <= MOST_BYTES) else { return false };
    Decoder::with_ip(64, &code, function.start, DecoderOptions::NONE)
        .into_iter()
        .any(|instruction| instruction.flow_control() == FlowControl::IndirectCall)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions of 16 bytes from 0x100 on: two ops that jump to the one at 0x140, which calls by a pointer, and one of them
    /// calls the one at 0x150, which does not.
    fn code() -> Vec<u8> {
        let jump = |from: u64, to: u64| {
            let offset = (to.wrapping_sub(from + 5)) as u32;
            [&[0xe9][..], &offset.to_le_bytes(), &[0xcc; 11]].concat()
        };
        // call 0x150; jmp 0x140
        let mut second = vec![0xe8, 0x2b, 0, 0, 0, 0xe9, 0x16, 0, 0, 0];
        second.resize(16, 0xcc);
        // call [rbx + 8]; ret
        let mut again = vec![0xff, 0x53, 0x08, 0xc3];
        again.resize(16, 0xcc);
        [vec![0xc3; 16], jump(0x110, 0x140), second, vec![0xc3; 16], again, vec![0xc3; 16]].concat()
    }

    #[test]
    fn what_runs_ops_and_what_enters_that_again_is_found() {
        let code = code();
        let read = |address: u64, size: u64| {
            let start = usize::try_from(address.checked_sub(0x100)?).ok()?;
            Some(code.get(start..start.checked_add(usize::try_from(size).ok()?)?)?.to_vec())
        };
        let function_at =
            |address: u64| (0x100..0x160).contains(&address).then(|| address & !15..(address & !15) + 16);
        let exported = |name: &str| (name == "Perl_runops_standard").then_some(0x100..0x110);
        let texts: [&[u8; 16]; 3] = [b"entertry\0.......", b"entereval\0......", b"null\0..........."];
        let word = |address: u64| match address {
            0x1000..0x1018 => Some(0x3000 + 16 * ((address - 0x1000) / 8)),
            0x2000..0x2018 => Some(0x110 + 2 * (address - 0x2000)),
            _ => None,
        };
        let bytes =
            |address: u64| texts.get(usize::try_from((address - 0x3000) / 16).ok()?).map(|text| **text);
        let tables = OpTables { names: 0x1000, functions: 0x2000, word: &word, bytes: &bytes };
        let ranges = loop_ranges(&exported, &tables, &function_at, &read);
        assert_eq!(ranges, [0x100..0x110, 0x110..0x120, 0x120..0x130, 0x140..0x150]);
    }
}
