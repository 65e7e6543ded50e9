//! Time or samples by stack, summed up over all that a stack begins with.

use crate::profile::{Profile, StackId};

/// Most entries of all tallies together: 512 MB. 10,000 threads with 1,000 frames each have a third of that.
const MOST_ENTRIES: usize = 1 << 25;

/// Time or samples by where they were spent.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Amount at each user stack itself, until all is summed up.
    at: Vec<(StackId, u64)>,
    /// Amount under each user stack, in the order of their ids, once it is summed up.
    under: Vec<(StackId, u64)>,
    pub(super) total: u64,
}

impl Tally {
    /// Adds time or samples at a stack.
    pub(super) fn add(&mut self, stack: StackId, much: u64) {
        self.total = self.total.saturating_add(much);
        self.at.push((stack, much));
    }

    pub(super) fn under(&self, stack: StackId) -> u64 {
        let found = self.under.binary_search_by_key(&stack, |(id, _)| *id);
        found.map_or(0, |index| self.under[index].1)
    }
}

/// Sums tallies up: what is at a stack is under all that it begins with.
pub(super) struct TallySums<'p> {
    profile: &'p Profile,
    /// Amount under each stack, by its id, of the tally in hand; 0 of the others.
    under: Vec<u64>,
    is_seen: Vec<bool>,
    /// Entries that there is room for in all tallies.
    room: usize,
}

impl<'p> TallySums<'p> {
    pub(super) fn new(profile: &'p Profile) -> Self {
        let stacks = profile.tables.stacks().len();
        TallySums { profile, under: vec![0; stacks], is_seen: vec![false; stacks], room: MOST_ENTRIES }
    }

    /// Sums one up. Where there is no room left its inner stacks are nowhere, and which waits are idle is a guess.
    pub(super) fn sum_up(&mut self, tally: &mut Tally) {
        let tables = &self.profile.tables;
        let mut seen: Vec<StackId> = Vec::with_capacity(tally.at.len());
        for (stack, much) in std::mem::take(&mut tally.at) {
            let own = &mut self.under[stack.index()];
            *own = own.saturating_add(much);
            let mut at = Some(stack);
            while let Some(id) = at.filter(|id| !std::mem::replace(&mut self.is_seen[id.index()], true)) {
                seen.push(id);
                at = tables.stack(id).parent;
            }
        }
        self.sort(&mut seen);
        // A stack has a higher id than the one that it continues.
        for id in seen.iter().rev() {
            if let Some(parent) = tables.stack(*id).parent {
                let much = self.under[id.index()];
                let sum = &mut self.under[parent.index()];
                *sum = sum.saturating_add(much);
            }
        }
        tally.under = seen.iter().take(self.room).map(|id| (*id, self.under[id.index()])).collect();
        self.room -= tally.under.len();
        for id in seen {
            self.under[id.index()] = 0;
            self.is_seen[id.index()] = false;
        }
    }

    /// Sorts the stacks that were seen, which are many of those between the first and the last where one thread has most.
    fn sort(&self, seen: &mut Vec<StackId>) {
        let (Some(first), Some(last)) = (seen.iter().min(), seen.iter().max()) else { return };
        let range = first.0..=last.0;
        if (last.0 - first.0) as usize / 8 > seen.len() {
            seen.sort_unstable();
            return;
        }
        seen.clear();
        seen.extend(range.map(StackId).filter(|id| self.is_seen[id.index()]));
    }
}
