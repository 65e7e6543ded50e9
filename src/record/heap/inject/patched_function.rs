//! Functions of a process that jump to hooks of a sampler: which can, and what becomes of their first instructions.

use super::examiner::{Examination, ExaminedFunction, PatchableCode, STUB_BYTES};
use super::image::SamplerImage;
use super::prologue::{JUMP_BYTES, MOST_READ_BYTES, MovedPrologue, jump};
use crate::record::heap::functions::AllocatorFunction;
use crate::record::interpreters::process_memory::ProcessMemory;
use std::collections::{BTreeMap, BTreeSet};

/// Most calls and jumps of functions that are followed in search of other functions.
const MOST_TARGETS: usize = 1024;

/// A function that jumps to its hook.
#[derive(Debug, Clone)]
pub(super) struct PatchedFunction {
    pub(super) address: u64,
    pub(super) number: usize,
    /// The bytes in whose place the jump is.
    pub(super) original: [u8; JUMP_BYTES],
    pub(super) moved: MovedPrologue,
    /// The code by which this was decided.
    pub(super) code: Vec<u8>,
}

/// What it takes to patch a process.
pub(super) struct Kit<'a> {
    pub(super) image: &'a SamplerImage,
    pub(super) examination: Examination<'a>,
}

/// What becomes of the functions with a sampler at `at`; with those that cannot jump, and why.
pub(super) fn moved_to(
    memory: &ProcessMemory,
    kit: &Kit<'_>,
    wanted: &[(&AllocatorFunction, usize)],
    at: u64,
) -> Result<(Vec<PatchedFunction>, Vec<String>), String> {
    let (mut patched, mut skipped) = (Vec::<PatchedFunction>::new(), Vec::new());
    let mut codes = Vec::new();
    // Those that others need come first.
    let (needed, others): (Vec<_>, Vec<_>) =
        wanted.iter().copied().partition(|(function, _)| function.kind.stand_in().is_none());
    let mut readable = Vec::new();
    for (function, number) in needed.into_iter().chain(others) {
        match code_of(memory, function) {
            Ok(code) => {
                let to = at + kit.image.displaced(number);
                codes.push(PatchableCode { address: function.address, code, to });
                readable.push((function, number));
            }
            Err(why) => skipped.push(format!("{}: {why}", function.name)),
        }
    }
    let examined = kit.examination.functions(&codes)?;
    let calls_others = callers(memory, kit, &readable, &examined)?;
    let found = readable.iter().zip(codes).zip(examined.into_iter().zip(calls_others));
    for ((&(function, number), PatchableCode { code, .. }), (examined, calls_another)) in found {
        // What it allocates is sampled there.
        if calls_another {
            continue;
        }
        let stand_in = function.kind.stand_in().map(|kind| (kind.hooks().start, function.stand_in));
        let is_there = |(number, address): &(usize, u64)| {
            patched.iter().any(|function| (function.number, function.address) == (*number, *address))
        };
        let is_near = jump(function.address, at + kit.image.hook(number)).is_some();
        let why = match (examined.moved, code.first_chunk().copied()) {
            (Err(why), _) => why,
            (Ok(_), None) => "it is too short".to_owned(),
            (Ok(_), Some(_)) if !is_near => "the sampler is too far away".to_owned(),
            (Ok(_), Some(_)) if !stand_in.as_ref().is_none_or(is_there) => {
                "its form that does not throw cannot be patched".to_owned()
            }
            (Ok(moved), Some(original)) => {
                let address = function.address;
                patched.push(PatchedFunction { address, number, original, moved, code });
                continue;
            }
        };
        skipped.push(format!("{}: {why}", function.name));
    }
    Ok((patched, skipped))
}

/// For each function that has a stand-in whether it calls another one of these, or jumps to it: directly, or by a linkage table.
fn callers(
    memory: &ProcessMemory,
    kit: &Kit<'_>,
    functions: &[(&AllocatorFunction, usize)],
    examined: &[ExaminedFunction],
) -> Result<Vec<bool>, String> {
    let has_stand_in = |function: &AllocatorFunction| function.kind.stand_in().is_some();
    let with_stand_in = functions.iter().zip(examined).filter(|((function, _), _)| has_stand_in(function));
    let targets: BTreeSet<u64> =
        with_stand_in.flat_map(|(_, examined)| &examined.targets).copied().take(MOST_TARGETS).collect();
    let stub = |target: u64| {
        let mut bytes = [0; STUB_BYTES];
        memory.read_all(target, &mut bytes).is_ok().then_some((target, bytes))
    };
    let stubs: Vec<(u64, [u8; STUB_BYTES])> = targets.into_iter().filter_map(stub).collect();
    let mut through_stub = BTreeMap::new();
    if !stubs.is_empty() {
        let addresses: Vec<u64> = stubs.iter().map(|(at, _)| *at).collect();
        for (at, pointer) in addresses.into_iter().zip(kit.examination.stubs(stubs)?) {
            let mut place = [0; 8];
            if pointer.is_some_and(|pointer| memory.read_all(pointer, &mut place).is_ok()) {
                through_stub.insert(at, u64::from_ne_bytes(place));
            }
        }
    }
    let calls_another = |(&(function, _), examined): (&(&AllocatorFunction, usize), &ExaminedFunction)| {
        let is_one =
            |at: u64| at != function.address && functions.iter().any(|(other, _)| other.address == at);
        has_stand_in(function)
            && examined.targets.iter().any(|target| {
                is_one(*target) || through_stub.get(target).is_some_and(|through| is_one(*through))
            })
    };
    Ok(functions.iter().zip(examined).map(calls_another).collect())
}

/// The instructions of a function; of one whose size is not known, the beginning.
fn code_of(memory: &ProcessMemory, function: &AllocatorFunction) -> Result<Vec<u8>, String> {
    let size = if function.size == 0 { 64 } else { function.size };
    let mut code = vec![0; (size as usize).min(MOST_READ_BYTES)];
    memory.read_all(function.address, &mut code).map_err(|_| "it cannot be read")?;
    Ok(code)
}
