//! Code bytes of the most sampled functions of one file, with the line of each instruction, as far as they are worth
//! the space.

use super::found::FoundCode;
use super::weights::CodeShare;
use crate::base::deadline::Deadline;
use crate::record::modules::ModuleFile;
use crate::record::names::file_names::FileNames;
use crate::unwind::{Architecture, Limits};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::ops::Range;

/// Share of all samples at which a function is kept however much space it takes.
const HOT_SHARE: f64 = 0.05;
/// Worth below which a function is left out.
const LEAST_WORTH: f64 = 0.003;
/// Share of the samples taken in a function itself below which it is kept only if it has lines.
const LEAST_OWN_SHARE: f64 = 0.001;
/// Most bytes of code kept of one function; of a longer one, the part with the most samples is kept.
pub(in crate::record::names) const MOST_FUNCTION_BYTES: u64 = 64 << 10;
/// Most functions of one file.
const MOST_FUNCTIONS: usize = 1 << 10;
/// Most called functions that are named per function.
const MOST_TARGETS: usize = 512;

/// The code found in one file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct FoundCodes {
    /// Functions in order of their worth.
    pub(crate) functions: Vec<FoundCode>,
    /// Number of functions that were sampled, but whose code is left out.
    pub(crate) left_out: u64,
}

/// A function with samples.
#[derive(Debug)]
struct SampledFunction {
    range: Range<u64>,
    share: CodeShare,
    /// Addresses in the function, each with its share of the samples.
    addresses: Vec<(u64, f64)>,
}

/// Finds the code of the functions around the addresses `sampled`, which must ascend; keeps about `room` bytes in
/// total.
pub(crate) fn find(
    names: &mut FileNames,
    file: &ModuleFile,
    sampled: &[(u64, CodeShare)],
    room: u64,
    deadline: &Deadline,
) -> FoundCodes {
    let mut found = FoundCodes::default();
    let mut spent = 0u64;
    for function in functions(names, file, sampled, deadline) {
        let is_hot = function.share.own >= HOT_SHARE;
        let is_wanted = is_hot || (function.share.worth >= LEAST_WORTH && spent < room);
        let has_room = found.functions.len() < MOST_FUNCTIONS && !deadline.has_passed();
        let code = if is_wanted && has_room { code_of(names, file, &function, deadline) } else { None };
        // A function that only calls others shows nothing without lines.
        let calls_by_line = |code: &FoundCode| code.has_lines() && !is_start(code.name());
        let code = code.filter(|code| function.share.own >= LEAST_OWN_SHARE || calls_by_line(code));
        match code {
            Some(code) => {
                spent = spent.saturating_add(code.bytes());
                found.functions.push(code);
            }
            None => found.left_out += u64::from(function.share.own > 0.0),
        }
    }
    if !file.is_unchanged(&Limits::default()) {
        return FoundCodes {
            left_out: found.left_out + found.functions.len() as u64,
            ..FoundCodes::default()
        };
    }
    found
}

/// Whether a function only starts programs and threads: it is on every stack, and its lines interest no one.
fn is_start(name: &str) -> bool {
    name.starts_with("__libc_start")
        || matches!(name, "_start" | "start_thread" | "clone" | "clone3" | "__clone3")
}

/// The functions around the addresses, by worth in descending order.
fn functions(
    names: &mut FileNames,
    file: &ModuleFile,
    sampled: &[(u64, CodeShare)],
    deadline: &Deadline,
) -> Vec<SampledFunction> {
    let mut functions: Vec<SampledFunction> = Vec::new();
    for &(address, share) in sampled {
        if !functions.last().is_some_and(|last| last.range.contains(&address)) {
            let Some(range) = names.function_around(file, address, deadline) else { continue };
            functions.push(SampledFunction { range, share: CodeShare::default(), addresses: Vec::new() });
        }
        if let Some(last) = functions.last_mut() {
            last.share.own += share.own;
            last.share.worth += share.worth;
            last.addresses.push((address, share.own));
        }
    }
    let order = |a: f64, b: f64| b.partial_cmp(&a).unwrap_or(Ordering::Equal);
    functions.sort_by(|a, b| order(a.share.worth, b.share.worth).then(a.range.start.cmp(&b.range.start)));
    functions
}

/// The part of a function to keep.
fn part_of(function: &SampledFunction) -> Option<Range<u64>> {
    let Range { start, end } = function.range;
    if end - start <= MOST_FUNCTION_BYTES {
        return Some(start..end);
    }
    // The part must begin at the start of an instruction: at the function's start, or where a sample was taken.
    let begins =
        (function.addresses.iter()).filter(|(_, own)| *own > 0.0).map(|(address, _)| *address).chain([start]);
    let share = |from: u64| -> f64 {
        let part = from..from.saturating_add(MOST_FUNCTION_BYTES);
        function.addresses.iter().filter(|(at, _)| part.contains(at)).map(|(_, own)| own).sum()
    };
    let best = begins.take(MOST_FUNCTIONS).map(|from| (from, share(from)));
    let (from, _) =
        best.max_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal).then(b.0.cmp(&a.0)))?;
    Some(from..end.min(from.saturating_add(MOST_FUNCTION_BYTES)))
}

fn code_of(
    names: &mut FileNames,
    file: &ModuleFile,
    function: &SampledFunction,
    deadline: &Deadline,
) -> Option<FoundCode> {
    let elf = file.elf.as_ref()?;
    // A symbol may claim more bytes than there are.
    let segment = elf.segments().iter().find(|segment| {
        segment.is_executable && (segment.address..segment.end()).contains(&function.range.start)
    })?;
    let end = function.range.end.min(segment.address.saturating_add(segment.file_size));
    let function = SampledFunction {
        range: function.range.start..end,
        share: function.share,
        addresses: function.addresses.clone(),
    };
    let part = part_of(&function).filter(|part| part.start < part.end)?;
    let bytes = elf.read_address(part.start, part.end - part.start).ok()?;
    let decoded = decode(&bytes, part.start, &function.range, elf.architecture());
    let heaviest =
        (function.addresses.iter()).max_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal))?;
    let owner = names.locations(file, &[heaviest.0], deadline).pop()?.pop()?;
    let Range { start, end } = function.range;
    let mut code = FoundCode::new(start, end - start, part.start, bytes, owner);
    let chains = names.locations(file, &decoded.starts, deadline);
    for (address, chain) in decoded.starts.iter().zip(&chains) {
        // The part is at most 64 KiB.
        code.add_instruction((address - part.start) as u32, chain);
    }
    add_targets(names, file, decoded.targets, &mut code, deadline);
    Some(code)
}

/// Names the targets of calls that are the start of a function.
fn add_targets(
    names: &mut FileNames,
    file: &ModuleFile,
    mut targets: Vec<u64>,
    code: &mut FoundCode,
    deadline: &Deadline,
) {
    targets.sort_unstable();
    targets.dedup();
    targets.truncate(MOST_TARGETS);
    let named = names.locations(file, &targets, deadline);
    for (address, mut chain) in targets.into_iter().zip(named) {
        let is_start = |range: Range<u64>| range.start == address;
        if let Some(function) = chain.pop()
            && names.function_around(file, address, deadline).is_none_or(is_start)
        {
            code.add_target(address, function);
        }
    }
}

/// The starts of the instructions of generated code, which is code of this machine's architecture.
pub(super) fn instruction_starts(bytes: &[u8], address: u64) -> Vec<u64> {
    decode(bytes, address, &(0..u64::MAX), Architecture::HOST).starts
}

/// The starts of instructions, and the targets of calls and jumps out of the function.
#[derive(Debug, Default, PartialEq, Eq)]
struct DecodedCode {
    starts: Vec<u64>,
    targets: Vec<u64>,
}

fn decode(bytes: &[u8], address: u64, function: &Range<u64>, architecture: Architecture) -> DecodedCode {
    if architecture != Architecture::X86_64 {
        let starts = (address..address + bytes.len() as u64).step_by(4).collect();
        return DecodedCode { starts, ..DecodedCode::default() };
    }
    let mut decoded = DecodedCode::default();
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        decoded.starts.push(instruction.ip());
        let is_direct = matches!(
            instruction.flow_control(),
            FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
        );
        let target = instruction.near_branch_target();
        if is_direct && target != 0 && !function.contains(&target) {
            decoded.targets.push(target);
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(range: Range<u64>, addresses: &[(u64, f64)]) -> SampledFunction {
        SampledFunction { range, share: CodeShare::default(), addresses: addresses.to_vec() }
    }

    #[test]
    fn of_a_long_function_the_part_with_most_samples_is_kept() {
        let whole = sampled(0x1000..0x1100, &[(0x1010, 0.1)]);
        assert_eq!(part_of(&whole), Some(0x1000..0x1100));
        // A symbol that claims 4 GiB, as in a malicious file.
        let huge = sampled(
            0x1000..0x1_0000_1000,
            &[(0x1010, 0.1), (0x50_0000, 0.3), (0x50_ffff, 0.2), (0x51_0000, 0.2)],
        );
        assert_eq!(part_of(&huge), Some(0x50_0000..0x51_0000));
        let called = sampled(0x1000..0x1_0000_1000, &[(0x2000_0000, 0.0)]);
        assert_eq!(part_of(&called), Some(0x1000..0x1_1000));
        let last = sampled(0..u64::MAX, &[(u64::MAX - 8, 0.5)]);
        assert_eq!(part_of(&last), Some(u64::MAX - 8..u64::MAX));
    }

    #[test]
    fn instructions_and_what_they_call_are_found() {
        // push rbp; call +0x100; jne back to the start; ret
        let bytes = [0x55, 0xe8, 0x00, 0x01, 0x00, 0x00, 0x75, 0xf8, 0xc3];
        let decoded = decode(&bytes, 0x1000, &(0x1000..0x1009), Architecture::X86_64);
        assert_eq!(
            decoded,
            DecodedCode { starts: vec![0x1000, 0x1001, 0x1006, 0x1008], targets: vec![0x1106] }
        );
        let fixed = decode(&bytes, 0x1000, &(0x1000..0x1009), Architecture::Aarch64);
        assert_eq!(fixed.starts, [0x1000, 0x1004, 0x1008]);
    }
}
