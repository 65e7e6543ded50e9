//! What the kernel's part of a stack says of a wait, or of who ended it.

use super::reason;
use crate::profile::{Reason, WakerKind, call_address};
use crate::symbols::KernelSymbols;
use rustc_hash::FxHashMap;

/// Kernel functions that every wait begins with, the innermost ones left out before: the scheduler's own.
const SCHEDULER: [&str; 1] = ["__schedule"];
/// Kernel functions that every waking begins with.
const WAKING: [&str; 2] = ["try_to_wake_up", "ttwu_do_activate"];
/// Stacks that are known by heart, at most: 1 MB.
const MOST_KNOWN: usize = 4_096;

/// Facts that the functions of a kernel stack tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KernelFacts {
    /// Innermost frames that are the sampler's and the scheduler's, if the thread waits.
    pub(super) waiting_own: usize,
    /// Innermost frames that are the sampler's and the scheduler's, if the thread wakes another.
    pub(super) waking_own: usize,
    /// Reason of a thread that waits there, if one of the functions tells it.
    pub(super) reason: Option<Reason>,
    /// Who wakes another there is an interrupt, not the thread.
    pub(super) interrupt: Option<WakerKind>,
    /// Who wakes another there is a timer; `None` where no names are known.
    pub(super) is_timer: Option<bool>,
}

impl KernelFacts {
    /// Returns the facts of the functions of a stack, leaf first; "" without a name.
    fn of<'a>(functions: impl Iterator<Item = &'a str> + Clone) -> Self {
        KernelFacts {
            waiting_own: reason::own_frames(functions.clone(), &SCHEDULER),
            waking_own: reason::own_frames(functions.clone(), &WAKING),
            reason: reason::of_kernel(functions.clone()),
            interrupt: reason::interrupt(functions.clone()),
            is_timer: reason::is_timer(functions),
        }
    }
}

/// Threads wait in a few places of the kernel, whatever their own code does: each kernel stack is looked up once.
#[derive(Debug, Default)]
pub(crate) struct KnownKernelStacks {
    facts: FxHashMap<Box<[u64]>, KernelFacts>,
}

impl KnownKernelStacks {
    /// Returns the facts that the stack of these return addresses tells, leaf first, by the names of `symbols`, which are
    /// always the same.
    pub(super) fn facts(&mut self, addresses: &[u64], symbols: Option<&KernelSymbols>) -> KernelFacts {
        if let Some(facts) = self.facts.get(addresses) {
            return *facts;
        }
        let name = |address: &u64| {
            let symbol = symbols?.lookup(call_address(*address))?;
            Some(symbol.name)
        };
        let names: Vec<&str> = addresses.iter().map(|address| name(address).unwrap_or("")).collect();
        let facts = KernelFacts::of(names.into_iter());
        if self.facts.len() == MOST_KNOWN {
            self.facts = FxHashMap::default();
        }
        self.facts.insert(addresses.into(), facts);
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_tells_all_there_is() {
        let functions = ["bpf_prog", "__schedule", "schedule", "futex_wait_queue", "do_futex"];
        let expected = KernelFacts {
            waiting_own: 2,
            waking_own: 0,
            reason: Some(Reason::Lock),
            interrupt: None,
            is_timer: Some(false),
        };
        assert_eq!(KernelFacts::of(functions.into_iter()), expected);
        let timer = ["try_to_wake_up", "hrtimer_wakeup", "__sysvec_apic_timer_interrupt"];
        let facts = KernelFacts::of(timer.into_iter());
        assert_eq!((facts.waking_own, facts.interrupt), (1, Some(WakerKind::Interrupt)));
        assert_eq!(facts.is_timer, Some(true));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut known = KnownKernelStacks::default();
        for address in 0..3 * MOST_KNOWN as u64 {
            let facts = known.facts(&[address, 7], None);
            assert_eq!((facts.reason, facts.is_timer, facts.waiting_own), (None, None, 0));
            assert!(known.facts.len() <= MOST_KNOWN);
        }
        assert!(known.facts.contains_key(&[3 * MOST_KNOWN as u64 - 1, 7][..]), "what came last is known");
    }
}
