//! The functions by which C code enters the interpreter, found in builds without symbols.
//!
//! One function of the interpreter, by far the one with the most indirect jumps, runs the instructions: each instruction's
//! code ends with a jump to that of the next. The functions that call it are those by which the interpreter is entered: one
//! native frame for each entry, which stays while an exception looks for its handler. Where the compiler has put the two
//! into one, that is the one.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use std::ops::Range;

/// Functions that are smaller do not run instructions.
const LEAST_BYTES: u64 = 6 << 10;
/// Most bytes of a function that are read.
const MOST_BYTES: u64 = 1 << 20;
/// Indirect jumps that the function has at least: one for each of most instructions.
const LEAST_JUMPS: usize = 90;
/// Functions that call it, at most: else it is itself the one that is called from everywhere.
const MOST_ENTRIES: usize = 3;
/// Most bytes of code in all.
const MOST_CODE: u64 = 64 << 20;
/// Direct jumps out of a function that are looked at.
const MOST_TARGETS: usize = 1024;
/// Size of a direct call, whose first byte is `CALL`.
const CALL_BYTES: usize = 5;
const CALL: u8 = 0xe8;

/// Code of the interpreter, by the module's own addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RubyLoop {
    /// Functions by which the interpreter is entered, with the parts that the compiler has split off.
    pub(crate) entries: Vec<Range<u64>>,
    /// The function that runs instructions, which an entry calls, with its parts; empty where it is an entry itself.
    pub(crate) inner: Vec<Range<u64>>,
}

/// Bytes of the module at an address.
type RubyReadCode<'a> = &'a dyn Fn(u64, u64) -> Option<Vec<u8>>;

/// The interpreter in a module whose functions are `functions`, by start; empty if there is none.
pub(crate) fn loop_ranges(functions: &[(u64, u64)], read_code: RubyReadCode<'_>) -> RubyLoop {
    let Some(inner) = running_function(functions, read_code) else { return RubyLoop::default() };
    let callers = callers(functions, read_code, inner.start);
    let with_parts = |range: &Range<u64>| parts(functions, read_code, range);
    if callers.is_empty() || callers.len() > MOST_ENTRIES {
        return RubyLoop { entries: with_parts(&inner), inner: Vec::new() };
    }
    // Of two that call each other, the outer one is the entry: the inner one handles what was caught.
    let is_called = |range: &Range<u64>| {
        let calls = |other: &Range<u64>| other != range && calls(read_code, other, range.start);
        callers.iter().any(calls)
    };
    let (called, entries): (Vec<_>, Vec<_>) = callers.iter().partition(|range| is_called(range));
    let mut ranges = with_parts(&inner);
    ranges.extend(called.into_iter().flat_map(with_parts));
    RubyLoop { entries: entries.into_iter().flat_map(with_parts).collect(), inner: ranges }
}

/// The function that runs instructions.
fn running_function(functions: &[(u64, u64)], read_code: RubyReadCode<'_>) -> Option<Range<u64>> {
    let large = functions
        .iter()
        .filter(|(start, end)| (LEAST_BYTES..=MOST_BYTES).contains(&end.saturating_sub(*start)));
    let counted = large.map(|&(start, end)| (indirect_jumps(read_code, &(start..end)), start..end));
    let (count, range) = counted.max_by_key(|(count, range)| (*count, range.start))?;
    (count >= LEAST_JUMPS).then_some(range)
}

/// Number of jumps in a function to an address that is in a register or at one.
fn indirect_jumps(read_code: RubyReadCode<'_>, range: &Range<u64>) -> usize {
    let Some(bytes) = read_code(range.start, range.end - range.start) else { return 0 };
    let decoder = Decoder::with_ip(64, &bytes, range.start, DecoderOptions::NONE);
    // Others are through a table, as of imported functions, or of a switch.
    let is_at_register =
        |jump: &Instruction| jump.memory_index() == Register::None && jump.memory_base().is_gpr64();
    let is_jump = |jump: &Instruction| {
        jump.flow_control() == FlowControl::IndirectBranch
            && (jump.op0_kind() == OpKind::Register || is_at_register(jump))
    };
    decoder.into_iter().filter(is_jump).count()
}

/// Functions that call the one at `start` directly.
fn callers(functions: &[(u64, u64)], read_code: RubyReadCode<'_>, start: u64) -> Vec<Range<u64>> {
    let mut code_left = MOST_CODE;
    let mut found = Vec::new();
    for &(first, end) in functions {
        let range = first..end;
        let size = end.saturating_sub(first);
        if size > MOST_BYTES || size > code_left {
            continue;
        }
        code_left -= size;
        if first != start && calls(read_code, &range, start) {
            found.push(range);
        }
    }
    found
}

/// True if the function in `range` calls the one at `target` directly.
fn calls(read_code: RubyReadCode<'_>, range: &Range<u64>, target: u64) -> bool {
    let size = range.end.saturating_sub(range.start).min(MOST_BYTES);
    let bytes = read_code(range.start, size).unwrap_or_default();
    let mut calls = bytes.windows(CALL_BYTES).enumerate().filter_map(|(offset, call)| {
        let [CALL, distance @ ..] = call else { return None };
        let distance = i64::from(i32::from_le_bytes(distance.try_into().ok()?));
        let after = range.start.wrapping_add((offset + CALL_BYTES) as u64);
        Some(after.wrapping_add_signed(distance))
    });
    calls.any(|called| called == target)
}

/// A function and what the compiler has split off it: code that it jumps to, and that jumps back to its middle.
fn parts(functions: &[(u64, u64)], read_code: RubyReadCode<'_>, own: &Range<u64>) -> Vec<Range<u64>> {
    let mut parts = vec![own.clone()];
    for target in jump_targets(read_code, own) {
        let Some(part) = function_at(functions, target) else { continue };
        let jumps_back = || {
            let mut targets = jump_targets(read_code, &part).into_iter();
            targets.any(|target| target != own.start && own.contains(&target))
        };
        if !parts.contains(&part) && (part.start != target || jumps_back()) {
            parts.push(part);
        }
    }
    parts
}

/// The function at an address.
fn function_at(functions: &[(u64, u64)], address: u64) -> Option<Range<u64>> {
    let after = functions.partition_point(|(start, _)| *start <= address);
    let &(start, end) = functions.get(after.checked_sub(1)?)?;
    (address < end).then_some(start..end)
}

/// Where direct jumps lead out of a function.
fn jump_targets(read_code: RubyReadCode<'_>, range: &Range<u64>) -> Vec<u64> {
    let size = range.end.saturating_sub(range.start).min(MOST_BYTES);
    let bytes = read_code(range.start, size).unwrap_or_default();
    let decoder = Decoder::with_ip(64, &bytes, range.start, DecoderOptions::NONE);
    let is_jump = |kind| matches!(kind, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch);
    let jumps = decoder.into_iter().filter(|instruction| is_jump(instruction.flow_control()));
    let mut targets: Vec<u64> = jumps.map(|jump| jump.near_branch_target()).collect();
    targets.retain(|target| !range.contains(target));
    targets.sort_unstable();
    targets.dedup();
    targets.truncate(MOST_TARGETS);
    targets
}
