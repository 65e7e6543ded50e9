//! Code objects of a V8 process by their instructions: found once, and looked at again every now and then.

use crate::runtimes::TargetMemory;
use crate::runtimes::v8::{V8Code, V8Codes, V8Layout};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Code objects that are remembered, and addresses that are in none.
const MOST_CODES: usize = 50_000;
/// Code is looked at again when it was last looked at this long ago, ns.
const LOOK_INTERVAL_NS: u64 = 500_000_000;

/// A code object as it was when it was found.
#[derive(Debug, Clone)]
struct KnownV8Code {
    code: V8Code,
    generation: u32,
    looked_ns: u64,
}

/// Code objects of one process.
#[derive(Debug, Default)]
pub(super) struct V8CodeCache {
    codes: V8Codes,
    /// By start.
    known: BTreeMap<u64, KnownV8Code>,
    /// Addresses in no code object, and when they were last looked at, ns.
    missing: FxHashMap<u64, u64>,
    /// Code objects found so far.
    generation: u32,
}

impl V8CodeCache {
    /// The code object of the instruction or return address `pc`, with a number that tells it from others that may be
    /// there later.
    pub(super) fn at(
        &mut self,
        memory: &impl TargetMemory,
        layout: &V8Layout,
        pc: u64,
        time_ns: u64,
    ) -> Option<(V8Code, u32)> {
        let is_old = |looked_ns: u64| time_ns.saturating_sub(looked_ns) >= LOOK_INTERVAL_NS;
        if let Some((&start, known)) = self.known.range_mut(..=pc).next_back()
            && pc - start <= known.code.size
        {
            if !is_old(known.looked_ns) || known.code.is_unchanged(memory, layout) {
                known.looked_ns = if is_old(known.looked_ns) { time_ns } else { known.looked_ns };
                return Some((known.code.clone(), known.generation));
            }
            self.known.remove(&start);
        }
        if self.missing.get(&pc).is_some_and(|&looked_ns| !is_old(looked_ns)) {
            return None;
        }
        let Some(code) = self.codes.at(memory, layout, pc) else {
            if self.missing.len() >= MOST_CODES {
                self.missing.clear();
            }
            self.missing.insert(pc, time_ns);
            return None;
        };
        if self.known.len() >= MOST_CODES {
            self.known.clear();
        }
        self.generation = self.generation.wrapping_add(1);
        let known = KnownV8Code { code: code.clone(), generation: self.generation, looked_ns: time_ns };
        self.known.insert(code.start, known);
        Some((code, self.generation))
    }
}
