//! How often each address of user code was sampled, which decides whose code is kept in the recording.

use crate::profile::{FrameId, FrameSpace, ModuleId, StackId, Tables};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Number of addresses kept of rows that were dropped; when there are twice as many, only the heaviest stay.
const MOST_ADDRESSES: usize = 1 << 15;

/// Numbers of samples and waits that an address was seen in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CodeWeight {
    /// Samples taken at the address.
    pub(crate) own: u64,
    /// Samples with the address on their stack.
    pub(crate) total: u64,
    /// Waits with the address on their stack.
    pub(crate) waits: u64,
}

/// An address's share of all samples and waits.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct CodeShare {
    /// Share of the samples taken at the address.
    pub(crate) own: f64,
    /// Worth of the address: its share of samples taken there, plus a tenth of the shares of samples and of waits that
    /// have it on their stack.
    pub(crate) worth: f64,
}

/// Weights of the addresses of all modules, by address in the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct CodeWeights {
    of: FxHashMap<(ModuleId, u64), CodeWeight>,
    samples: u64,
    waits: u64,
}

impl CodeWeights {
    /// Adds the stacks of `tables`, with the number of samples and waits of each.
    pub(crate) fn add(
        &mut self,
        tables: &Tables,
        sampled: &FxHashMap<StackId, u64>,
        waited: &FxHashMap<StackId, u64>,
    ) {
        let mut frames: FxHashMap<FrameId, CodeWeight> = FxHashMap::default();
        for (counts, is_wait) in [(sampled, false), (waited, true)] {
            let mut totals = vec![0u64; tables.stacks().len()];
            for (stack, &count) in counts {
                if let Some(total) = totals.get_mut(stack.index()) {
                    *total = total.saturating_add(count);
                    let leaf = frames.entry(tables.stack(*stack).frame).or_default();
                    leaf.own = leaf.own.saturating_add(if is_wait { 0 } else { count });
                }
                let all = if is_wait { &mut self.waits } else { &mut self.samples };
                *all = all.saturating_add(count);
            }
            // Go from the last to the first: a parent comes before its children.
            for (at, stack) in tables.stacks().iter().enumerate().rev() {
                let total = totals[at];
                if total == 0 {
                    continue;
                }
                let weight = frames.entry(stack.frame).or_default();
                let sum = if is_wait { &mut weight.waits } else { &mut weight.total };
                *sum = sum.saturating_add(total);
                if let Some(parent) = stack.parent {
                    totals[parent.index()] = totals[parent.index()].saturating_add(total);
                }
            }
        }
        for (frame, weight) in frames {
            let row = tables.frame(frame);
            if row.flags.space != FrameSpace::Kernel {
                let known = self.of.entry((row.module, row.lookup_address())).or_default();
                known.own = known.own.saturating_add(weight.own);
                known.total = known.total.saturating_add(weight.total);
                known.waits = known.waits.saturating_add(weight.waits);
            }
        }
        if self.of.len() > 2 * MOST_ADDRESSES {
            let mut all: Vec<_> = self.of.drain().collect();
            all.sort_unstable_by_key(|(key, weight)| {
                (Reverse((weight.own, weight.total.saturating_add(weight.waits))), *key)
            });
            all.truncate(MOST_ADDRESSES);
            self.of = all.into_iter().collect();
        }
    }

    /// The addresses of each module with their shares, in ascending order.
    pub(crate) fn by_module(&self) -> Vec<(ModuleId, Vec<(u64, CodeShare)>)> {
        let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
        let mut all: Vec<_> = (self.of.iter())
            .map(|(&(module, address), weight)| {
                let own = share(weight.own, self.samples);
                let above =
                    share(weight.total, self.samples).min(1.0) + share(weight.waits, self.waits).min(1.0);
                (module, (address, CodeShare { own, worth: own + above / 10.0 }))
            })
            .collect();
        all.sort_unstable_by_key(|(module, (address, _))| (*module, *address));
        let of_module = |part: &[(ModuleId, (u64, CodeShare))]| {
            (part[0].0, part.iter().map(|(_, addresses)| *addresses).collect())
        };
        all.chunk_by(|a, b| a.0 == b.0).map(of_module).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Frame, FrameFlags, Module};

    #[test]
    fn samples_count_for_their_leaf_and_for_all_above() {
        let mut tables = Tables::default();
        let module = tables.intern_module(Module::default());
        let mut frame = |address, is_return_address, space| {
            let flags = FrameFlags { is_return_address, space, ..FrameFlags::default() };
            tables.intern_frame(Frame { module, address, flags })
        };
        let main = frame(100, true, FrameSpace::User);
        let work = frame(200, false, FrameSpace::User);
        let kernel = frame(7, false, FrameSpace::Kernel);
        let outer = tables.intern_stack(None, main);
        let inner = tables.intern_stack(Some(outer), work);
        let in_kernel = tables.intern_stack(Some(outer), kernel);
        let mut weights = CodeWeights::default();
        let samples = FxHashMap::from_iter([(inner, 3), (in_kernel, 1)]);
        weights.add(&tables, &samples, &FxHashMap::from_iter([(in_kernel, 5)]));
        let [(_, addresses)] = &weights.by_module()[..] else { panic!("one module") };
        let rounded = |share: &CodeShare| ((share.own * 100.0).round(), (share.worth * 1000.0).round());
        let found: Vec<_> = addresses.iter().map(|(address, share)| (*address, rounded(share))).collect();
        assert_eq!(found, [(99, (0.0, 200.0)), (200, (75.0, 825.0))]);
    }
}
