//! Labels of samples: what a runtime or a program says of the work in which a sample was taken.

use super::rows::LabelSetId;
use super::table::Tables;

/// Key of the label that is the number of the goroutine that a thread worked for.
pub(crate) const GOROUTINE_LABEL: &str = "goroutine";

/// Key of the label that is the state of goroutines, or what they wait for.
pub(crate) const STATE_LABEL: &str = "state";

/// Label, as key and value, of a sample whose thread held the lock of its interpreter. A sample without it is of a thread that
/// did not hold the lock, or of which that is not known.
pub(crate) const LOCK_HELD: (&str, &str) = ("gil", "held");

/// Key of the label that is the memory of a page fault, or of a futex.
pub(crate) const MEMORY_LABEL: &str = "memory";

/// Key of the label that is the name of a system call.
pub(crate) const SYSTEM_CALL_LABEL: &str = "syscall";

/// Key of the label that is the address of the futex that a thread slept on: a lock, or what else is made of one.
pub(crate) const LOCK_LABEL: &str = "lock";

/// Key of the label that is the operation by which it did, as in futex(2).
pub(crate) const FUTEX_LABEL: &str = "futex";
/// Its value for locks of goroutines, which are in no futex.
pub(crate) const GOROUTINE_LOCK: &str = "goroutine";

/// Key of the label that says in which module a futex is, and where: `/usr/bin/app+0x4060`, an ELF virtual address. The name
/// of the variable there is that of the frame with this module and address.
pub(crate) const LOCK_OBJECT_LABEL: &str = "lock-object";
/// Of a lock in a block of memory whose allocation was sampled: the places that allocated the block, each as the path of its module and
/// the address in it, innermost first, with line ends between them.
pub(crate) const LOCK_ALLOCATION_LABEL: &str = "lock-allocation";

/// Value of [`MEMORY_LABEL`] for a futex in the data of a module.
pub(crate) const GLOBAL_MEMORY: &str = "global";
/// Value of [`MEMORY_LABEL`] for a futex in memory that several processes share.
pub(crate) const SHARED_MEMORY: &str = "shared";

/// Label, as key and value, of a block of memory that was allocated before the recording: what is known of it begins with that.
pub(crate) const ALLOCATED_BEFORE: (&str, &str) = ("allocated", "before the recording");

impl Tables {
    /// The sets that have this label, given as (key, value).
    pub(crate) fn sets_with(&self, label: (&str, &str)) -> Vec<LabelSetId> {
        let all = (0..self.label_sets().len() as u32).map(LabelSetId);
        all.filter(|set| self.labels(*set).any(|other| other == label)).collect()
    }

    /// The id of the set of these labels, given as (key, value) in any order; added when new.
    pub(crate) fn intern_labels(&mut self, labels: &[(&str, &str)]) -> LabelSetId {
        let mut labels = labels.to_vec();
        labels.sort_unstable();
        labels.dedup();
        let ids = labels.into_iter().map(|(key, value)| (self.intern_string(key), self.intern_string(value)));
        let set = ids.collect();
        self.intern_label_set(set)
    }

    /// The id of the set with the labels of `set`, if any, and this one, given as (key, value); added when new.
    pub(crate) fn add_label(&mut self, set: Option<LabelSetId>, (key, value): (&str, &str)) -> LabelSetId {
        let labels = set.into_iter().flat_map(|set| self.labels(set));
        let mut labels: Vec<(String, String)> =
            labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        labels.push((key.to_owned(), value.to_owned()));
        self.intern_labels(&labels.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>())
    }

    /// The id of the set with the labels of both sets; added when new.
    pub(crate) fn join_labels(
        &mut self,
        first: Option<LabelSetId>,
        second: Option<LabelSetId>,
    ) -> Option<LabelSetId> {
        let (Some(one), Some(other)) = (first, second) else { return first.or(second) };
        let labels: Vec<(String, String)> = (self.labels(one).chain(self.labels(other)))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Some(self.intern_labels(&labels.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>()))
    }

    /// Interns all sets of labels of `other`, in their order. Returns their ids here.
    pub(crate) fn intern_label_sets_of(&mut self, other: &Tables) -> Vec<LabelSetId> {
        let text = |tables: &mut Self, id| tables.intern_string(other.string(id));
        let sets = other.label_sets().iter().map(|set| {
            let set = set.iter().map(|&(key, value)| (text(self, key), text(self, value))).collect();
            self.intern_label_set(set)
        });
        sets.collect()
    }

    /// Labels of a set as (key, value). Foreign text.
    pub(crate) fn labels(&self, id: LabelSetId) -> impl Iterator<Item = (&str, &str)> {
        self.label_sets()[id.index()].iter().map(|&(key, value)| (self.string(key), self.string(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Meta, Profile};

    #[test]
    fn a_label_is_added_to_a_set_or_to_none() {
        let mut tables = Tables::default();
        let alone = tables.add_label(None, ("memory", "heap"));
        assert_eq!(tables.intern_labels(&[("memory", "heap")]), alone);
        let set = tables.intern_labels(&[("tenant", "alpha")]);
        let both = tables.add_label(Some(set), ("memory", "heap"));
        assert!(tables.labels(both).eq([("memory", "heap"), ("tenant", "alpha")]));
        assert!(tables.labels(set).eq([("tenant", "alpha")]), "it is as it was");
    }

    #[test]
    fn labels_in_any_order_are_one_set() {
        let mut tables = Tables::default();
        let set = tables.intern_labels(&[("tenant", "alpha"), ("goroutine", "17")]);
        let same = [("goroutine", "17"), ("tenant", "alpha"), ("goroutine", "17")];
        assert_eq!(tables.intern_labels(&same), set);
        assert_ne!(tables.intern_labels(&[("goroutine", "17")]), set);
        let labels: Vec<(&str, &str)> = tables.labels(set).collect();
        assert_eq!(labels, [("goroutine", "17"), ("tenant", "alpha")]);
    }

    #[test]
    fn sets_keep_their_ids_when_a_profile_begins_again_with_its_rows() {
        let mut profile = Profile::new(Meta::default());
        profile.tables.intern_string("a name that nothing needs any more");
        let sets = ["held", "wanted"].map(|value| profile.tables.intern_labels(&[("gil", value)]));
        let old = profile.reset();
        assert_eq!(profile.tables.label_sets().len(), 2);
        for set in sets {
            assert!(profile.tables.labels(set).eq(old.labels(set)));
        }
        assert_eq!(profile.tables.intern_labels(&[("gil", "wanted")]), sets[1]);
    }
}
