//! The rates by which a Go program samples waits. The opener sets them, which alone may write into other processes: words of the
//! processes that the user has named, from 0 to a rate, and back.

use crate::base::opener::{self, Service};
use crate::record::interpreters::process_memory::ProcessMemory;
use crate::record::process::named::NamedProcesses;
use crate::record::process::written::write_memory;
use crate::runtimes::go::{GoRateAddresses, GoWaitRates};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rates of waits that prof sets are multiples of this: by it a later prof knows those of one that was killed.
pub(super) const SIGNATURE: u64 = 1_000_003;
/// The largest rates that are set: some minutes, and one lock in a million.
pub(super) const MOST_WAIT_TICKS: u64 = SIGNATURE << 20;
pub(super) const MOST_RELEASES: u64 = 1 << 20;

/// What is asked for.
#[derive(Debug, Serialize, Deserialize)]
enum RateRequest {
    /// A process is to sample by these rates.
    Set { pid: u32, addresses: [u64; 2], rates: [u64; 2] },
    /// It is not to sample any more.
    End { pid: u32 },
}

/// Has a process sample by these rates from now on.
///
/// # Errors
///
/// Why it does not: it has ended, is not one that may be changed, or has rates of its own.
pub(super) fn set(pid: u32, at: GoRateAddresses, rates: GoWaitRates) -> io::Result<()> {
    let (addresses, rates) = ([at.wait_ticks, at.releases], [rates.wait_ticks, rates.releases]);
    ask(&RateRequest::Set { pid, addresses, rates })
}

/// Has a process be as it was.
///
/// # Errors
///
/// Why it is not.
pub(super) fn end(pid: u32) -> io::Result<()> {
    ask(&RateRequest::End { pid })
}

/// Whether rates are none, or of a prof.
pub(super) fn are_free(rates: GoWaitRates) -> bool {
    rates == GoWaitRates { wait_ticks: 0, releases: 0 } || is_ours(rates.wait_ticks)
}

fn is_ours(wait_ticks: u64) -> bool {
    wait_ticks > 0 && wait_ticks.is_multiple_of(SIGNATURE)
}

fn ask(request: &RateRequest) -> io::Result<()> {
    opener::ask_service(Service::GoRates, serde_json::to_vec(request)?, None).map(drop)
}

/// The opener's side.
#[derive(Debug)]
pub(in crate::record) struct GoRateService {
    /// `None` where they are not recorded at all.
    may_change: Option<NamedProcesses>,
    set: Mutex<BTreeMap<u32, SetRates>>,
}

/// What a process has.
#[derive(Debug, Clone, Copy)]
struct SetRates {
    at: GoRateAddresses,
    rates: GoWaitRates,
}

impl GoRateService {
    pub(in crate::record) fn new(may_change: Option<NamedProcesses>) -> Self {
        GoRateService { may_change, set: Mutex::default() }
    }

    /// Does what a request asks for.
    ///
    /// # Errors
    ///
    /// For what is no request, for other processes, and why a process is left as it is.
    pub(in crate::record) fn serve(&self, body: &[u8]) -> io::Result<()> {
        match serde_json::from_slice(body)? {
            RateRequest::Set { pid, addresses: [wait_ticks, releases], rates } => {
                let at = GoRateAddresses { wait_ticks, releases };
                let rates = GoWaitRates { wait_ticks: rates[0], releases: rates[1] };
                if !self.may_change.as_ref().is_some_and(|named| named.has(pid)) {
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                self.set(pid, SetRates { at, rates })
            }
            RateRequest::End { pid } => {
                let set = self.rates().remove(&pid);
                set.map_or(Ok(()), |set| set.take_back(pid))
            }
        }
    }

    fn set(&self, pid: u32, new: SetRates) -> io::Result<()> {
        let SetRates { at, rates } = new;
        let are_possible = is_ours(rates.wait_ticks)
            && rates.wait_ticks <= MOST_WAIT_TICKS
            && (1..=MOST_RELEASES).contains(&rates.releases)
            && at.wait_ticks % 8 == 0
            && at.releases % 8 == 0
            && at.wait_ticks != at.releases;
        if !are_possible {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !are_free(now_of(pid, at)?) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // Who is killed in between leaves the one by which it is known.
        self.rates().insert(pid, new);
        write_memory(pid, at.wait_ticks, &rates.wait_ticks.to_ne_bytes())?;
        write_memory(pid, at.releases, &rates.releases.to_ne_bytes())
    }

    /// Has every process be as it was: the recorder has ended, perhaps without a word.
    pub(in crate::record) fn end(&self) {
        for (pid, set) in std::mem::take(&mut *self.rates()) {
            // There is no one left to be told.
            let _ = set.take_back(pid);
        }
    }

    fn rates(&self) -> MutexGuard<'_, BTreeMap<u32, SetRates>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SetRates {
    /// Writes zeros, unless the program has set rates meanwhile, or is another by now.
    fn take_back(self, pid: u32) -> io::Result<()> {
        // One that has ended needs none.
        let Ok(now) = now_of(pid, self.at) else { return Ok(()) };
        if now.wait_ticks != self.rates.wait_ticks {
            return Ok(());
        }
        if now.releases == self.rates.releases {
            write_memory(pid, self.at.releases, &[0; 8])?;
        }
        write_memory(pid, self.at.wait_ticks, &[0; 8])
    }
}

/// The rates that a process has now.
fn now_of(pid: u32, at: GoRateAddresses) -> io::Result<GoWaitRates> {
    at.read(&ProcessMemory::open(pid)?).ok_or(io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn body(request: &RateRequest) -> Vec<u8> {
        serde_json::to_vec(request).expect("it can be written")
    }

    #[test]
    fn rates_are_set_and_taken_back_where_the_program_has_none() {
        static WAITS: AtomicU64 = AtomicU64::new(0);
        static RELEASES: AtomicU64 = AtomicU64::new(0);
        let pid = std::process::id();
        let addresses = [WAITS.as_ptr() as u64, RELEASES.as_ptr() as u64];
        let both = || (WAITS.load(Ordering::SeqCst), RELEASES.load(Ordering::SeqCst));
        let service = GoRateService::new(Some(NamedProcesses::new(vec![pid])));
        let set = |wait_ticks, releases| {
            service.serve(&body(&RateRequest::Set { pid, addresses, rates: [wait_ticks, releases] }))
        };
        set(2 * SIGNATURE, 1).expect("it has none");
        assert_eq!(both(), (2 * SIGNATURE, 1));
        set(SIGNATURE, 7).expect("they are a prof's");
        assert_eq!(both(), (SIGNATURE, 7));
        for (wait_ticks, releases) in [(5, 1), (SIGNATURE, 0), (SIGNATURE << 30, 1), (0, 0)] {
            assert!(set(wait_ticks, releases).is_err(), "{wait_ticks} {releases}");
        }
        service.serve(&body(&RateRequest::End { pid })).expect("own memory");
        assert_eq!(both(), (0, 0));
        WAITS.store(10_000, Ordering::SeqCst);
        assert!(set(SIGNATURE, 1).is_err(), "the program's own");
        // A program that sets its own while they are set keeps them.
        WAITS.store(0, Ordering::SeqCst);
        set(SIGNATURE, 1).expect("it has none");
        WAITS.store(10_000, Ordering::SeqCst);
        service.end();
        assert_eq!(both(), (10_000, 1));
        let other = GoRateService::new(Some(NamedProcesses::new(vec![1])));
        let foreign = RateRequest::Set { pid, addresses, rates: [SIGNATURE, 1] };
        assert!(other.serve(&body(&foreign)).is_err(), "it was not named");
        assert!(GoRateService::new(None).serve(&body(&foreign)).is_err(), "nothing is recorded of it");
    }
}
