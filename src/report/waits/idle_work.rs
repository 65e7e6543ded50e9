//! The work that a thread's idle waits are distinguished from: where it was spent, and where a wait's stack leaves it.

use super::blocking::CallSite;
use super::tally::Tally;
use crate::base::units::percent;
use crate::profile::{Profile, StackId};
use crate::report::model::amount::Amount;

/// A function under which this share of the work is done, in percent, can be a thread's loop.
const LOOP_PERCENT: f64 = 80.0;
/// A call under which less than this share of the work is done, in percent, is no work.
const REST_PERCENT: f64 = 20.0;
/// With fewer samples than this of its work, a thread is not judged by them.
const FEWEST_SAMPLES: u64 = 10;

/// Work of a thread: its time by user stack, and its samples.
#[derive(Debug, Default)]
pub(super) struct IdleWork {
    pub(super) time: Tally,
    pub(super) samples: u64,
}

impl IdleWork {
    pub(super) fn add(&mut self, stack: StackId, amount: Amount) {
        self.time.add(stack, amount.weight);
        self.samples += amount.samples;
    }
}

/// The work of several threads, taken together.
#[derive(Debug, Default)]
pub(super) struct SharedWork<'w> {
    parts: Vec<&'w IdleWork>,
    pub(super) total: u64,
    samples: u64,
}

impl<'w> SharedWork<'w> {
    pub(super) fn of(parts: impl Iterator<Item = &'w IdleWork>) -> Self {
        let mut shared = SharedWork::default();
        for work in parts {
            shared.total = shared.total.saturating_add(work.time.total);
            shared.samples += work.samples;
            shared.parts.push(work);
        }
        shared
    }

    pub(super) fn is_enough(&self) -> bool {
        self.samples >= FEWEST_SAMPLES && self.total > 0
    }

    /// Frames above the step at which `stack` turns away from the work in a single step; `None` when there is work
    /// all along, or when it leaves little by little.
    pub(super) fn divergence_depth(&self, profile: &Profile, site: CallSite) -> Option<usize> {
        let mut at = Some(site.stack);
        while let Some(id) = at {
            let under = self.parts.iter().map(|work| work.time.under(id)).fold(0, u64::saturating_add);
            let share = percent(under, self.total);
            if share >= REST_PERCENT {
                // The first frame from the leaf under which there is work: it must be that of nearly all.
                // A program that an interpreter runs is in a function that is not in the stack.
                let is_loop = share >= LOOP_PERCENT && (id != site.stack || site.builtin.is_some());
                return is_loop.then(|| profile.tables.stack_frames(id).count());
            }
            at = profile.tables.stack(id).parent;
        }
        // No frame is shared with the work: the thread's root calls both.
        Some(0)
    }
}
