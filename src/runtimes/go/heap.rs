//! Go's own samples of its heap: `runtime.mbuckets`, a list of places (stack and size of a block) with the numbers of sampled
//! blocks that each has allocated and freed since the program began. The runtime keeps it for `runtime/pprof`, with or without
//! anyone who asks.

use super::instructions::{GoCode, GoFunctions, follows_call};
use super::strings::word;
use crate::runtimes::TargetMemory;
use std::ops::Range;

/// Functions that use the list.
const USERS: [&str; 3] = ["runtime.stkbucket", "runtime.memProfileInternal", "runtime.MemProfile"];
/// Functions that use `runtime.MemProfileRate`, and hardly any other variable.
const USERS_OF_RATE: [&str; 2] = ["runtime.nextSample", "runtime.profilealloc"];
/// All of them: for `is_needed`.
pub(super) const HEAP_FUNCTIONS: [&str; 5] =
    [USERS[0], USERS[1], USERS[2], USERS_OF_RATE[0], USERS_OF_RATE[1]];
/// The largest rate that is believed: the other variables of these functions are pointers, and larger.
const MOST_RATE: u64 = 1 << 36;

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
/// `memProfile`: the kind of a place that allocates.
const MEMORY: u64 = 1;
/// `struct memRecord`: what is published, and three cycles of the garbage collector to come, each with the numbers of blocks
/// allocated and freed, and of their bytes.
const CYCLES: usize = 4;
const CYCLE_BYTES: usize = 32;

/// Where a program has its samples of the heap, process addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoHeapLayout {
    /// `runtime.mbuckets`.
    places: u64,
    /// `runtime.MemProfileRate`.
    rate: u64,
}

/// A place that allocates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoHeapPlace {
    /// Its address, which it keeps.
    pub(crate) address: u64,
    /// Size of a block, bytes.
    pub(crate) size: u64,
    /// Return addresses, leaf first; of calls that the compiler has put into their callers, too.
    pub(crate) stack: Vec<u64>,
    /// Sampled blocks, since the program began.
    pub(crate) allocated: u64,
    /// Those of them that were freed.
    pub(crate) freed: u64,
}

/// Why the places of a program could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoHeapLack {
    /// Its memory is gone: it has ended.
    Gone,
    /// One of them is not what it should be, or changed meanwhile.
    Unreadable,
    /// There are more than were asked for.
    TooMany,
}

impl GoHeapLayout {
    /// Finds the samples in the memory of a process. `None` as long as there are none, or if the runtime is not known.
    pub(crate) fn find<M: TargetMemory>(memory: &M, functions: GoFunctions<'_>) -> Option<Self> {
        let (rate, _) = rate_of(memory, functions)?;
        let code = USERS.iter().filter_map(|name| GoCode::read(memory, &functions(name)?));
        let is_list = |at: &u64| {
            let first = memory.u64(*at).filter(|first| *first != 0);
            first.is_some_and(|first| Header::read(memory, first).is_some())
        };
        let places = code.flat_map(|code| code.references()).find(is_list)?;
        Some(GoHeapLayout { places, rate })
    }

    /// Mean number of bytes between sampled ones of a program that may not have begun. `None` if its runtime is not known.
    pub(crate) fn rate_of<M: TargetMemory>(memory: &M, functions: GoFunctions<'_>) -> Option<u64> {
        rate_of(memory, functions).map(|(_, rate)| rate)
    }

    /// Mean number of bytes between sampled ones; 0: none are.
    pub(crate) fn rate<M: TargetMemory>(&self, memory: &M) -> Option<u64> {
        memory.u64(self.rate)
    }

    /// All places, in the state that the last cycle of the garbage collector has published, or, where there was none so far, with
    /// all that was allocated.
    ///
    /// # Errors
    ///
    /// Why they cannot be read, such as that they are more than `most`.
    pub(crate) fn read<M: TargetMemory>(
        &self,
        memory: &M,
        most: usize,
    ) -> Result<Vec<GoHeapPlace>, GoHeapLack> {
        let mut found = Vec::new();
        let mut at = memory.u64(self.places).ok_or(GoHeapLack::Gone)?;
        let mut room = FRAMES_FOR_EACH.saturating_mul(most);
        while at != 0 {
            let header = Header::read(memory, at).ok_or(GoHeapLack::Unreadable)?;
            let left = room.checked_sub(header.frames as usize).filter(|_| found.len() < most);
            room = left.ok_or(GoHeapLack::TooMany)?;
            found.push(header.read_place(memory, at).ok_or(GoHeapLack::Unreadable)?);
            at = header.next;
        }
        // Before the first cycle nothing is published.
        let is_published = found.iter().any(|(place, _)| place.allocated > 0);
        let counted = |(place, to_come): (GoHeapPlace, (u64, u64))| {
            let (allocated, freed) = if is_published { (0, 0) } else { to_come };
            GoHeapPlace {
                allocated: place.allocated.saturating_add(allocated),
                freed: place.freed.saturating_add(freed),
                ..place
            }
        };
        Ok(found.into_iter().map(counted).collect())
    }
}

/// The variable with the rate, and the rate; 0 where nothing is sampled.
fn rate_of<M: TargetMemory>(memory: &M, functions: GoFunctions<'_>) -> Option<(u64, u64)> {
    let code = USERS_OF_RATE.iter().filter_map(|name| GoCode::read(memory, &functions(name)?));
    let variables: Vec<u64> = code.flat_map(|code| code.variables()).collect();
    let rate =
        |at: &u64| memory.u64(*at).filter(|rate| (1..=MOST_RATE).contains(rate)).map(|rate| (*at, rate));
    variables.iter().find_map(rate).or_else(|| Some((*variables.first()?, 0)))
}

/// What a place begins with.
struct Header {
    next: u64,
    size: u64,
    frames: u64,
}

impl Header {
    /// Reads the header of a place that allocates; `None` for all else.
    fn read<M: TargetMemory>(memory: &M, at: u64) -> Option<Header> {
        let bytes = memory.range(at, HEADER_BYTES as u64, HEADER_BYTES)?;
        let header = Header {
            next: word(&bytes, NEXT_OF_ALL)?,
            size: word(&bytes, SIZE)?,
            frames: word(&bytes, FRAMES)?,
        };
        let is_place = word(&bytes, KIND)? == MEMORY && header.frames <= MOST_FRAMES && header.next != at;
        is_place.then_some(header)
    }

    /// The place at `at`, and what it has allocated and freed that is not published.
    fn read_place<M: TargetMemory>(&self, memory: &M, at: u64) -> Option<(GoHeapPlace, (u64, u64))> {
        let length = self.frames * 8 + (CYCLES * CYCLE_BYTES) as u64;
        let bytes = memory.range(at.checked_add(HEADER_BYTES as u64)?, length, length as usize)?;
        self.place(at, &bytes)
    }

    /// The place whose stack and record are in `bytes`, and what it has allocated and freed that is not published.
    fn place(&self, address: u64, bytes: &[u8]) -> Option<(GoHeapPlace, (u64, u64))> {
        let (stack, record) = bytes.split_at_checked(self.frames as usize * 8)?;
        let stack = (0..self.frames as usize).map(|index| word(stack, index * 8)).collect::<Option<_>>()?;
        let cycle = |number: usize| {
            Some((word(record, number * CYCLE_BYTES)?, word(record, number * CYCLE_BYTES + 8)?))
        };
        let (allocated, freed) = cycle(0)?;
        let mut to_come = (0u64, 0u64);
        for number in 1..CYCLES {
            let (allocated, freed) = cycle(number)?;
            to_come = (to_come.0.saturating_add(allocated), to_come.1.saturating_add(freed));
        }
        Some((GoHeapPlace { address, size: self.size, stack, allocated, freed }, to_come))
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
        if !may_be_put_in || follows_call(memory, address) {
            real.push(address);
        }
    }
    real
}
