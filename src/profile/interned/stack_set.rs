//! The stacks of a profile, as a tree of frames.

use crate::profile::rows::{Stack, StackId};
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;
use std::ops::Index;

/// Rows of stacks in order of insertion; equal ones share one id.
///
/// Where stacks hardly ever repeat, most rows have one child, which was added next. Such a row is found by where
/// it is, right after its parent, and is in no bucket: adding a stack of new frames writes rows, one after the
/// other, and the buckets hold only where stacks part.
///
/// `buckets` covers the first `indexed` rows. A reader appends rows without looking for equal ones: that is faster,
/// and a file made to collide in the hash cannot slow it down. The first search catches up.
#[derive(Debug, Default)]
pub(in crate::profile) struct StackSet {
    rows: Vec<Stack>,
    buckets: hashbrown::HashTable<u32>,
    indexed: usize,
}

/// A copy for readers, which do not search: the index is made again when one does.
impl Clone for StackSet {
    fn clone(&self) -> Self {
        StackSet { rows: self.rows.clone(), ..StackSet::default() }
    }
}

impl PartialEq for StackSet {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows
    }
}

impl StackSet {
    /// The id of the row equal to `stack`, added when new.
    pub(in crate::profile) fn intern(&mut self, stack: Stack) -> StackId {
        self.catch_up();
        let next = stack.parent.map_or(0, |parent| parent.index() + 1);
        match self.rows.get(next) {
            Some(row) if *row == stack => return StackId(next as u32),
            None => {
                let id = self.append(stack);
                self.indexed += 1;
                return id;
            }
            Some(_) => {}
        }
        let rows = &self.rows;
        let hasher = |&id: &u32| FxBuildHasher.hash_one(rows[id as usize]);
        match self.buckets.entry(FxBuildHasher.hash_one(stack), |&id| rows[id as usize] == stack, hasher) {
            hashbrown::hash_table::Entry::Occupied(found) => StackId(*found.get()),
            hashbrown::hash_table::Entry::Vacant(free) => {
                free.insert(rows.len() as u32);
                self.indexed += 1;
                self.append(stack)
            }
        }
    }

    /// Appends `stack` as the next id, whether or not an equal one is there.
    pub(in crate::profile) fn push(&mut self, stack: Stack) {
        self.append(stack);
    }

    fn append(&mut self, stack: Stack) -> StackId {
        self.rows.push(stack);
        StackId(self.rows.len() as u32 - 1)
    }

    /// Indexes the rows that were appended by [`StackSet::push`]. Of equal ones the first is found.
    fn catch_up(&mut self) {
        let rows = &self.rows;
        let hasher = |&id: &u32| FxBuildHasher.hash_one(rows[id as usize]);
        for id in self.indexed..rows.len() {
            let stack = rows[id];
            if !is_found_by_its_place(rows, id) {
                (self.buckets)
                    .entry(FxBuildHasher.hash_one(stack), |&id| rows[id as usize] == stack, hasher)
                    .or_insert(id as u32);
            }
        }
        self.indexed = rows.len();
    }

    pub(in crate::profile) fn as_slice(&self) -> &[Stack] {
        &self.rows
    }
}

/// Whether the row stands right after its parent, or is the first of all.
fn is_found_by_its_place(rows: &[Stack], id: usize) -> bool {
    rows[id].parent.map_or(0, |parent| parent.index() + 1) == id
}

impl Index<StackId> for StackSet {
    type Output = Stack;

    fn index(&self, id: StackId) -> &Stack {
        &self.rows[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::rows::FrameId;
    use std::collections::HashMap;

    /// A stack of a small random tree; `None` is a root.
    fn next_row(random: &mut u64, ids: u32) -> Stack {
        let mut below = |limit: u32| {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*random >> 33) as u32 % limit
        };
        let parent = if ids == 0 || below(8) == 0 { None } else { Some(StackId(below(ids))) };
        // Often the last row, as where a stack is added frame by frame.
        let parent = if ids > 0 && below(3) > 0 { Some(StackId(ids - 1)) } else { parent };
        Stack { parent, frame: FrameId(below(4)) }
    }

    #[test]
    fn rows_have_the_ids_that_a_map_would_give_them() {
        let (mut set, mut map, mut random) = (StackSet::default(), HashMap::new(), 1);
        for _ in 0..20_000 {
            let row = next_row(&mut random, set.as_slice().len() as u32);
            let expected = *map.entry(row).or_insert(StackId(set.as_slice().len() as u32));
            assert_eq!(set.intern(row), expected);
        }
        assert_eq!(map.len(), set.as_slice().len());
        assert!(set.as_slice().iter().enumerate().all(|(id, row)| map[row].index() == id));
    }

    #[test]
    fn of_equal_rows_that_were_appended_the_first_is_found() {
        let (mut set, mut map, mut random) = (StackSet::default(), HashMap::new(), 2);
        for id in 0..5_000 {
            let row = next_row(&mut random, id);
            set.push(row);
            map.entry(row).or_insert(StackId(id));
            if id % 1_000 == 999 {
                let new = Stack { parent: None, frame: FrameId(id) };
                assert_eq!(set.clone().intern(new), StackId(id + 1));
                assert!(map.iter().all(|(row, &first)| set.intern(*row) == first));
            }
        }
        assert!(map.len() < set.as_slice().len(), "no two rows were equal");
    }

    #[test]
    fn rows_behind_their_parents_need_no_bucket() {
        let mut set = StackSet::default();
        for tail in 1..100 {
            let root = set.intern(Stack { parent: None, frame: FrameId(0) });
            let parent = set.intern(Stack { parent: Some(root), frame: FrameId(tail) });
            (0..20).fold(parent, |parent, frame| {
                set.intern(Stack { parent: Some(parent), frame: FrameId(frame) })
            });
        }
        assert_eq!(set.as_slice().len(), 1 + 99 * 21);
        assert_eq!(set.buckets.len(), 98, "one for each that parts from the first");
    }
}
