//! Labels of samples in a recording: which keys and values there are.

use crate::base::units::counted;
use crate::profile::Tables;
use std::collections::{BTreeMap, BTreeSet};

/// Values of a key that are listed.
const MOST_VALUES: usize = 3;

/// Keys that are listed.
const MOST_KEYS: usize = 5;

/// All labels of a recording: the values of each key. Foreign text.
#[derive(Debug, Default)]
pub(crate) struct SampleLabels<'t>(BTreeMap<&'t str, BTreeSet<&'t str>>);

impl<'t> SampleLabels<'t> {
    pub(crate) fn of(tables: &'t Tables) -> Self {
        let mut labels = SampleLabels::default();
        for set in tables.label_sets() {
            for (key, value) in set {
                labels.0.entry(tables.string(*key)).or_default().insert(tables.string(*value));
            }
        }
        labels
    }

    /// Number of values of each key.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        self.0.iter().map(|(key, values)| ((*key).to_owned(), values.len() as u64)).collect()
    }

    /// The keys with their numbers of values: `gil (1 value), tenant (12 values)`; empty where there are none.
    pub(crate) fn count_words(&self) -> String {
        let keys =
            self.0.iter().map(|(key, values)| format!("{key} ({})", counted(values.len() as u64, "value")));
        Vec::from_iter(keys).join(", ")
    }

    /// Hint for when no label matches: some of those that there are.
    pub(crate) fn hint(&self) -> String {
        if self.0.is_empty() {
            return "the recording has no labels of samples".to_owned();
        }
        let mut keys: Vec<String> = (self.0.iter().take(MOST_KEYS))
            .map(|(key, values)| {
                let mut words: Vec<&str> = values.iter().take(MOST_VALUES).copied().collect();
                words.extend((values.len() > MOST_VALUES).then_some("..."));
                format!("{key} ({})", words.join(", "))
            })
            .collect();
        keys.extend((self.0.len() > MOST_KEYS).then(|| "...".to_owned()));
        format!("the labels of samples:  {}", keys.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_named_with_some_of_their_values() {
        let mut tables = Tables::default();
        assert_eq!(SampleLabels::of(&tables).hint(), "the recording has no labels of samples");
        assert_eq!(SampleLabels::of(&tables).count_words(), "");
        tables.intern_labels(&[("gil", "held"), ("tenant", "alpha")]);
        for tenant in ["delta", "beta", "gamma"] {
            tables.intern_labels(&[("tenant", tenant)]);
        }
        let labels = SampleLabels::of(&tables);
        assert_eq!(labels.hint(), "the labels of samples:  gil (held), tenant (alpha, beta, delta, ...)");
        assert_eq!(labels.count_words(), "gil (1 value), tenant (4 values)");
        for key in ["a", "b", "c", "d"] {
            tables.intern_labels(&[(key, "")]);
        }
        let hint = SampleLabels::of(&tables).hint();
        assert!(hint.ends_with("d (), gil (held), ..."), "{hint}");
    }
}
