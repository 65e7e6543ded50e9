//! An append-only set with dense ids.

use rustc_hash::FxBuildHasher;
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::ops::Index;

/// Values in order of insertion; equal values share one id. The hash only finds the bucket.
///
/// `buckets` covers the first `indexed` values. A reader appends rows without looking for equal
/// ones: that is faster, and a file made to collide in the hash cannot slow it down. The first search
/// catches up.
#[derive(Debug)]
pub(in crate::profile) struct InternSet<T> {
    values: Vec<T>,
    buckets: hashbrown::HashTable<u32>,
    indexed: usize,
}

/// A copy for readers, which do not search: the index is made again when one does.
impl<T: Clone> Clone for InternSet<T> {
    fn clone(&self) -> Self {
        InternSet { values: self.values.clone(), ..InternSet::default() }
    }
}

impl<T> Default for InternSet<T> {
    fn default() -> Self {
        InternSet { values: Vec::new(), buckets: hashbrown::HashTable::new(), indexed: 0 }
    }
}

impl<T: PartialEq> PartialEq for InternSet<T> {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl<T: Hash + Eq> InternSet<T> {
    pub(in crate::profile) fn get_id<Q: Hash + Eq + ?Sized>(&mut self, value: &Q) -> Option<u32>
    where
        T: Borrow<Q>,
    {
        self.catch_up();
        let hash = FxBuildHasher.hash_one(value);
        (self.buckets).find(hash, |&id| self.values[id as usize].borrow() == value).copied()
    }

    pub(in crate::profile) fn intern(&mut self, value: T) -> u32 {
        self.catch_up();
        let hash = FxBuildHasher.hash_one(&value);
        let values = &self.values;
        let entry = self.buckets.entry(
            hash,
            |&id| values[id as usize] == value,
            |&id| FxBuildHasher.hash_one(&values[id as usize]),
        );
        match entry {
            hashbrown::hash_table::Entry::Occupied(found) => *found.get(),
            hashbrown::hash_table::Entry::Vacant(free) => {
                let id = values.len() as u32;
                free.insert(id);
                self.values.push(value);
                self.indexed += 1;
                id
            }
        }
    }

    /// Indexes the values that were appended by [`InternSet::push`]. Of equal ones the first is found.
    fn catch_up(&mut self) {
        while self.indexed < self.values.len() {
            let values = &self.values;
            let value = &values[self.indexed];
            let hasher = |&id: &u32| FxBuildHasher.hash_one(&values[id as usize]);
            (self.buckets)
                .entry(FxBuildHasher.hash_one(value), |&id| values[id as usize] == *value, hasher)
                .or_insert(self.indexed as u32);
            self.indexed += 1;
        }
    }
}

impl<T> InternSet<T> {
    /// Appends `value` as the next id, whether or not an equal one is there.
    pub(in crate::profile) fn push(&mut self, value: T) {
        self.values.push(value);
    }

    /// Puts `value` in the place of another. The index is made again by the next search.
    pub(in crate::profile) fn replace(&mut self, index: usize, value: T) {
        self.values[index] = value;
        self.buckets.clear();
        self.indexed = 0;
    }

    pub(in crate::profile) fn len(&self) -> usize {
        self.values.len()
    }

    pub(in crate::profile) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.values.iter()
    }

    pub(in crate::profile) fn as_slice(&self) -> &[T] {
        &self.values
    }
}

impl<T> Index<usize> for InternSet<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.values[index]
    }
}
