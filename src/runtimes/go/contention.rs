//! Waits of goroutines for each other, and who has ended those for locks: `runtime.bbuckets` and `runtime.xbuckets`, which the
//! runtime fills where two rates are not 0. It keeps both for `runtime/pprof`, with or without anyone who asks.

use super::instructions::{GoCode, GoFunctions};
use super::places::{GoPlace, GoPlaceKind, GoPlaces, GoTableLack};
use super::strings::word;
use crate::runtimes::TargetMemory;

/// Functions whose first variable is a rate: that of waits, and that of locks that are let go.
const USERS_OF_WAIT_RATE: [&str; 1] = ["runtime.blockevent"];
const USERS_OF_RELEASE_RATE: [&str; 2] = ["sync.event", "runtime.mutexevent"];
/// All of them: for `is_needed`.
pub(super) const CONTENTION_FUNCTIONS: [&str; 3] =
    [USERS_OF_WAIT_RATE[0], USERS_OF_RELEASE_RATE[0], USERS_OF_RELEASE_RATE[1]];
/// Larger rates are not believed: 100 days of a processor's ticks.
const MOST_RATE: u64 = 1 << 55;
/// `struct blockRecord`: a number of waits, which may be a fraction, and their time in ticks.
const RECORD_BYTES: usize = 16;

/// By which rates a program samples waits; 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoWaitRates {
    /// Ticks of the processor: waits of so many are sampled, shorter ones with that chance.
    pub(crate) wait_ticks: u64,
    /// One of so many locks that are let go while others wait is sampled.
    pub(crate) releases: u64,
}

/// Where a program has these rates, process addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoRateAddresses {
    pub(crate) wait_ticks: u64,
    pub(crate) releases: u64,
}

impl GoRateAddresses {
    /// What is there now; `None` once the program is gone.
    pub(crate) fn read<M: TargetMemory>(self, memory: &M) -> Option<GoWaitRates> {
        Some(GoWaitRates { wait_ticks: memory.u64(self.wait_ticks)?, releases: memory.u64(self.releases)? })
    }
}

/// Where a program has its samples of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoWaitLayout {
    pub(crate) rates: GoRateAddresses,
    waits: Option<GoPlaces>,
    releases: Option<GoPlaces>,
}

/// Where goroutines have waited, or locks were let go.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GoWaitPlace {
    /// Its address, which it keeps.
    pub(crate) address: u64,
    /// Return addresses, leaf first; of calls that the compiler has put into their callers, too.
    pub(crate) stack: Vec<u64>,
    /// Number and time of all waits, by estimate, since the program began.
    pub(crate) count: f64,
    pub(crate) ticks: u64,
}

impl GoWaitLayout {
    /// Finds the rates in the code of a process. `None` if its runtime is not known.
    pub(crate) fn find<M: TargetMemory>(memory: &M, functions: GoFunctions<'_>) -> Option<Self> {
        let rate = |users: &[&str]| {
            let code = users.iter().find_map(|name| GoCode::read(memory, &functions(name)?))?;
            let at = *code.variables().first()?;
            memory.u64(at).filter(|rate| *rate < MOST_RATE && at % 8 == 0).map(|_| at)
        };
        let rates = GoRateAddresses {
            wait_ticks: rate(&USERS_OF_WAIT_RATE)?,
            releases: rate(&USERS_OF_RELEASE_RATE)?,
        };
        (rates.wait_ticks != rates.releases).then_some(GoWaitLayout { rates, waits: None, releases: None })
    }

    /// The rates by which it samples now; `None` once it is gone.
    pub(crate) fn rates<M: TargetMemory>(&self, memory: &M) -> Option<GoWaitRates> {
        self.rates.read(memory)
    }

    /// Where goroutines have waited so far.
    ///
    /// # Errors
    ///
    /// Why that cannot be read, such as that there are more than `most` places.
    pub(crate) fn waits<M: TargetMemory>(
        &mut self,
        memory: &M,
        functions: GoFunctions<'_>,
        most: usize,
    ) -> Result<Vec<GoWaitPlace>, GoTableLack> {
        read(&mut self.waits, GoPlaceKind::Wait, memory, functions, most)
    }

    /// Where locks were let go so far for which goroutines have waited.
    ///
    /// # Errors
    ///
    /// As of [`GoWaitLayout::waits`].
    pub(crate) fn releases<M: TargetMemory>(
        &mut self,
        memory: &M,
        functions: GoFunctions<'_>,
        most: usize,
    ) -> Result<Vec<GoWaitPlace>, GoTableLack> {
        read(&mut self.releases, GoPlaceKind::Release, memory, functions, most)
    }
}

/// The places of a list, which is looked for as long as it is not known.
fn read<M: TargetMemory>(
    list: &mut Option<GoPlaces>,
    kind: GoPlaceKind,
    memory: &M,
    functions: GoFunctions<'_>,
    most: usize,
) -> Result<Vec<GoWaitPlace>, GoTableLack> {
    if list.is_none() {
        *list = GoPlaces::find(memory, functions, (kind, RECORD_BYTES));
    }
    // Nothing is in it so far.
    let Some(list) = list else { return Ok(Vec::new()) };
    let place = |place: GoPlace| {
        let count = f64::from_bits(word(&place.record, 0)?);
        let ticks = word(&place.record, 8)?.cast_signed();
        Some(GoWaitPlace {
            address: place.address,
            stack: place.stack,
            count: if count.is_finite() { count.max(0.0) } else { 0.0 },
            ticks: u64::try_from(ticks).unwrap_or(0),
        })
    };
    let places = list.read(memory, most)?.into_iter().map(place).collect::<Option<_>>();
    places.ok_or(GoTableLack::Unreadable)
}
