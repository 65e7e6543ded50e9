//! Address ranges of the interpreter loop, `execute_ex`: the function and what the compiler split off it.
//!
//! Native frames in these ranges are the ones that run functions of a program.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// Most bytes of one part that are read.
const MOST_BYTES: u64 = 1 << 20;
/// Most parts, and most jumps out of one part, that are looked at.
const MOST_PARTS: usize = 64;

/// Ranges of module addresses that belong to the interpreter loop, in order of address.
///
/// `function` is the range of `execute_ex`; `read_code` gives bytes at a module address; `function_at` gives the range of
/// the unwind entry at an address. A range that direct jumps (not calls) of the loop lead to is a part of it if they lead
/// to its middle, or if it jumps back to the middle of a part: a function proper is entered at its start only.
pub(crate) fn loop_ranges(
    function: Range<u64>,
    read_code: &dyn Fn(u64, u64) -> Option<Vec<u8>>,
    function_at: &dyn Fn(u64) -> Option<Range<u64>>,
) -> Vec<Range<u64>> {
    let mut parts = vec![function];
    let mut next = 0;
    while let Some(part) = parts.get(next).cloned() {
        next += 1;
        for target in targets(&part, read_code) {
            let Some(range) = function_at(target).filter(|range| range.contains(&target)) else { continue };
            let is_known = parts.iter().any(|part| part.contains(&target));
            if is_known || parts.len() >= MOST_PARTS {
                continue;
            }
            let is_middle =
                |target: &u64| parts.iter().any(|part| part.contains(target) && part.start != *target);
            if range.start != target || targets(&range, read_code).iter().any(is_middle) {
                parts.push(range);
            }
        }
    }
    parts.sort_by_key(|part| (part.start, part.end));
    parts
}

/// Where the direct jumps of a range lead to outside it.
fn targets(range: &Range<u64>, read_code: &dyn Fn(u64, u64) -> Option<Vec<u8>>) -> Vec<u64> {
    let size = range.end.saturating_sub(range.start).min(MOST_BYTES);
    let Some(bytes) = read_code(range.start, size) else { return Vec::new() };
    let mut targets = Vec::new();
    for instruction in &mut Decoder::with_ip(64, &bytes, range.start, DecoderOptions::NONE) {
        let is_jump = matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        let target = instruction.near_branch_target();
        if is_jump && !range.contains(&target) && targets.len() < MOST_PARTS && !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
}
