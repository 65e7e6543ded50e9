//! Lists of places that a Go program keeps for `runtime/pprof`: stacks, each with what was counted there.

use super::instructions::{GoCode, GoFunctions, follows_call};
use super::strings::word;
use crate::runtimes::TargetMemory;
use std::ops::Range;

/// Functions that use the lists.
pub(super) const PLACE_FUNCTIONS: [&str; 3] =
    ["runtime.stkbucket", "runtime.memProfileInternal", "runtime.MemProfile"];

/// Frames of all places that are read, for each of the most places.
const FRAMES_FOR_EACH: usize = 64;
/// Most frames of a stack: Go 1.23 and later have a setting for it, whose largest value that is accepted is 1,024.
const MOST_FRAMES: u64 = 1024;

/// `struct bucket` of runtime/mprof.go: next, allnext, typ, hash, size, nstk; then the stack, and the record. All are words.
const HEADER_BYTES: usize = 48;
const NEXT_OF_ALL: usize = 8;
const KIND: usize = 16;
const SIZE: usize = 32;
const FRAMES: usize = 40;

/// Why places of a program could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoTableLack {
    /// Its memory is gone: it has ended.
    Gone,
    /// One of them is not what it should be, or changed meanwhile.
    Unreadable,
    /// There are more than were asked for.
    TooMany,
}

/// What is counted at the places of a list: numbers that the runtime gives (`bucketType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoPlaceKind {
    /// Blocks of memory.
    Memory = 1,
    /// Waits of goroutines, where they wait.
    Wait = 2,
    /// The same, of those that wait for locks, where they are let go.
    Release = 3,
}

/// A list of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GoPlaces {
    kind: GoPlaceKind,
    /// Address of the variable with the first place.
    first: u64,
    /// Size of what is counted at each, bytes.
    record_bytes: usize,
}

/// A place of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GoPlace {
    /// Its address, which it keeps.
    pub(super) address: u64,
    pub(super) size: u64,
    /// Return addresses, leaf first; of calls that the compiler has put into their callers, too.
    pub(super) stack: Vec<u64>,
    pub(super) record: Vec<u8>,
}

impl GoPlaces {
    /// Finds a list in the memory of a process. `None` as long as there is no place in it, or if the runtime is not known.
    pub(super) fn find<M: TargetMemory>(
        memory: &M,
        functions: GoFunctions<'_>,
        (kind, record_bytes): (GoPlaceKind, usize),
    ) -> Option<Self> {
        let code = PLACE_FUNCTIONS.iter().filter_map(|name| GoCode::read(memory, &functions(name)?));
        let is_list = |at: &u64| {
            let first = memory.u64(*at).filter(|first| *first != 0);
            first.is_some_and(|first| Header::read(memory, first, kind).is_some())
        };
        let first = code.flat_map(|code| code.references()).find(is_list)?;
        Some(GoPlaces { kind, first, record_bytes })
    }

    /// All places.
    ///
    /// # Errors
    ///
    /// Why they cannot be read, such as that they are more than `most`.
    pub(super) fn read<M: TargetMemory>(&self, memory: &M, most: usize) -> Result<Vec<GoPlace>, GoTableLack> {
        let mut found = Vec::new();
        let mut at = memory.u64(self.first).ok_or(GoTableLack::Gone)?;
        let mut room = FRAMES_FOR_EACH.saturating_mul(most);
        while at != 0 {
            let header = Header::read(memory, at, self.kind).ok_or(GoTableLack::Unreadable)?;
            let left = room.checked_sub(header.frames as usize).filter(|_| found.len() < most);
            room = left.ok_or(GoTableLack::TooMany)?;
            found.push(header.read_place(memory, at, self.record_bytes).ok_or(GoTableLack::Unreadable)?);
            at = header.next;
        }
        Ok(found)
    }
}

/// What a place begins with.
struct Header {
    next: u64,
    size: u64,
    frames: u64,
}

impl Header {
    /// Reads the header of a place of this kind; `None` for all else.
    fn read<M: TargetMemory>(memory: &M, at: u64, kind: GoPlaceKind) -> Option<Header> {
        let bytes = memory.range(at, HEADER_BYTES as u64, HEADER_BYTES)?;
        let header = Header {
            next: word(&bytes, NEXT_OF_ALL)?,
            size: word(&bytes, SIZE)?,
            frames: word(&bytes, FRAMES)?,
        };
        let is_place = word(&bytes, KIND)? == kind as u64;
        (is_place && header.frames <= MOST_FRAMES && header.next != at).then_some(header)
    }

    /// The place at `at`.
    fn read_place<M: TargetMemory>(&self, memory: &M, at: u64, record_bytes: usize) -> Option<GoPlace> {
        let stack_bytes = self.frames as usize * 8;
        let length = stack_bytes + record_bytes;
        let bytes = memory.range(at.checked_add(HEADER_BYTES as u64)?, length as u64, length)?;
        let (stack, record) = bytes.split_at_checked(stack_bytes)?;
        let stack = (0..self.frames as usize).map(|index| word(stack, index * 8)).collect::<Option<_>>()?;
        Some(GoPlace { address: at, size: self.size, stack, record: record.to_vec() })
    }
}

/// The return addresses among those of a stack: the runtime lists calls that were put into their callers as well, by an address
/// in the caller. `around` gives the function at an address.
pub(crate) fn real_calls<M: TargetMemory>(
    stack: &[u64],
    memory: &M,
    around: impl Fn(u64) -> Option<Range<u64>>,
) -> Vec<u64> {
    let mut real: Vec<u64> = Vec::with_capacity(stack.len());
    for &address in stack {
        let is_same = |last: &u64| {
            around(last.wrapping_sub(1)).is_some_and(|function| function.contains(&address.wrapping_sub(1)))
        };
        let may_be_put_in = real.last().is_some_and(is_same);
        if !may_be_put_in || is_after_call(memory, address, &around) {
            real.push(address);
        }
    }
    real
}

/// Whether the instruction before an address is a call: by decoding the function, where it can be read.
fn is_after_call<M: TargetMemory>(
    memory: &M,
    address: u64,
    around: impl Fn(u64) -> Option<Range<u64>>,
) -> bool {
    // Bytes in the middle of instructions may look like calls.
    let code = || around(address.wrapping_sub(1)).and_then(|function| GoCode::read(memory, &function));
    follows_call(memory, address) && code().is_none_or(|code| code.has_call_before(address))
}
