//! Labels of samples: what a runtime or a program says of the work in which a sample was taken.

use super::rows::LabelSetId;
use super::table::Tables;

/// Key of the label that is the number of the goroutine that a thread worked for.
pub(crate) const GOROUTINE_LABEL: &str = "goroutine";

/// Key of the label that is the state of goroutines, or what they wait for.
pub(crate) const STATE_LABEL: &str = "state";

impl Tables {
    /// The id of the set of these labels, given as (key, value) in any order; added when new.
    pub(crate) fn intern_labels(&mut self, labels: &[(&str, &str)]) -> LabelSetId {
        let mut labels = labels.to_vec();
        labels.sort_unstable();
        labels.dedup();
        let ids = labels.into_iter().map(|(key, value)| (self.intern_string(key), self.intern_string(value)));
        let set = ids.collect();
        self.intern_label_set(set)
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
