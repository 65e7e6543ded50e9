//! Go's own samples of its heap: `runtime.mbuckets`, a list of places (stack and size of a block) with the numbers of sampled
//! blocks that each has allocated and freed since the program began. The runtime keeps it for `runtime/pprof`, with or without
//! anyone who asks.

use super::instructions::{GoCode, GoFunctions};
use super::places::{GoPlace, GoPlaceKind, GoPlaces, GoTableLack};
use super::strings::word;
use crate::runtimes::TargetMemory;

/// Functions that use `runtime.MemProfileRate`, and hardly any other variable.
const USERS_OF_RATE: [&str; 2] = ["runtime.nextSample", "runtime.profilealloc"];
/// All of them: for `is_needed`.
pub(super) const HEAP_FUNCTIONS: [&str; 2] = USERS_OF_RATE;
/// The largest rate that is believed: the other variables of these functions are pointers, and larger.
const MOST_RATE: u64 = 1 << 36;

/// `struct memRecord`: what is published, and three cycles of the garbage collector to come, each with the numbers of blocks
/// allocated and freed, and of their bytes.
const CYCLES: usize = 4;
const CYCLE_BYTES: usize = 32;

/// Where a program has its samples of the heap, process addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoHeapLayout {
    /// `runtime.mbuckets`.
    places: GoPlaces,
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

impl GoHeapLayout {
    /// Finds the samples in the memory of a process. `None` as long as there are none, or if the runtime is not known.
    pub(crate) fn find<M: TargetMemory>(memory: &M, functions: GoFunctions<'_>) -> Option<Self> {
        let (rate, _) = rate_of(memory, functions)?;
        let list = (GoPlaceKind::Memory, CYCLES * CYCLE_BYTES);
        let places = GoPlaces::find(memory, functions, list)?;
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
    ) -> Result<Vec<GoHeapPlace>, GoTableLack> {
        let found = self.places.read(memory, most)?.into_iter().map(GoHeapPlace::of);
        let found: Vec<_> = found.collect::<Option<_>>().ok_or(GoTableLack::Unreadable)?;
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

impl GoHeapPlace {
    /// The place of a bucket, and what it has allocated and freed that is not published.
    fn of(bucket: GoPlace) -> Option<(Self, (u64, u64))> {
        let GoPlace { address, size, stack, record } = bucket;
        let cycle = |number: usize| {
            Some((word(&record, number * CYCLE_BYTES)?, word(&record, number * CYCLE_BYTES + 8)?))
        };
        let (allocated, freed) = cycle(0)?;
        let mut to_come = (0u64, 0u64);
        for number in 1..CYCLES {
            let (allocated, freed) = cycle(number)?;
            to_come = (to_come.0.saturating_add(allocated), to_come.1.saturating_add(freed));
        }
        Some((GoHeapPlace { address, size, stack, allocated, freed }, to_come))
    }
}
