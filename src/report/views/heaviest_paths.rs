//! The call paths at the end of which most samples were taken.
//!
//! A function that calls itself counts once in a path: paths that differ only in the depth of recursion are one. Paths are told
//! apart by a hash of their labels under a key that is made up for each report. A tree of all paths would take a hundred times
//! the memory of a recording whose stacks never repeat.

use crate::report::model::amount::Amount;
use crate::report::model::group::Group;
use crate::report::model::label::{LabelId, Step};
use crate::report::query::selection::Selection;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};

/// The labels of a path, root first, and the weight of the samples that end there.
pub(crate) type HeavyPath = (Vec<LabelId>, u64);

/// Index of a group with a path, and the weight of all samples with that path.
type FoundPath = (usize, u64);

/// The heaviest paths, at most `most` of them, heaviest first.
pub(crate) fn heaviest_paths(selection: &Selection<'_>, most: usize) -> Vec<HeavyPath> {
    let mut found = all_paths(selection);
    found.sort_unstable_by_key(|(_, weight)| Reverse(*weight));
    if let Some((_, least)) = found.get(most.wrapping_sub(1)).copied() {
        let from = found.partition_point(|(_, weight)| *weight > least);
        let to = found.partition_point(|(_, weight)| *weight >= least);
        // Of equal ones the same whatever the order of the samples was.
        if to > most {
            let mut names = LabelHashes::new(selection);
            found[from..to].sort_by_cached_key(|(group, _)| names.of_path(&labels_of(selection, *group)));
        }
    }
    found.truncate(most);
    let paths = found.into_iter().map(|(group, weight)| (labels_of(selection, group), weight));
    let mut paths: Vec<HeavyPath> = paths.collect();
    let name = |label: &LabelId| selection.labels.get(*label).order_key();
    paths.sort_by(|(a, a_weight), (b, b_weight)| {
        b_weight.cmp(a_weight).then_with(|| a.iter().map(name).cmp(b.iter().map(name)))
    });
    paths
}

/// All paths, in no order.
fn all_paths(selection: &Selection<'_>) -> Vec<FoundPath> {
    let keys = [RandomState::new(), RandomState::new()];
    let has_threads = selection.threads_in_front().is_some();
    let mut numbers: FxHashMap<[u64; 2], usize> = FxHashMap::default();
    let mut found: Vec<FoundPath> = Vec::new();
    let mut labels = Vec::new();
    selection.for_each_path(|path, groups| {
        let mut next = groups.start;
        for same in groups.list.chunk_by(|a, b| !has_threads || a.task == b.task) {
            let first = next;
            next += same.len();
            let weight = if has_threads { Amount::of(same) } else { groups.amount }.weight;
            if weight == 0 || !fill_labels(selection, &same[0], path, &mut labels) {
                continue;
            }
            let key = [keys[0].hash_one(&labels), keys[1].hash_one(&labels)];
            let number = *numbers.entry(key).or_insert(found.len());
            match found.get_mut(number) {
                Some((_, sum)) => *sum = sum.saturating_add(weight),
                None => found.push((first, weight)),
            }
        }
    });
    found
}

fn labels_of(selection: &Selection<'_>, group: usize) -> Vec<LabelId> {
    let mut labels = Vec::new();
    fill_labels(selection, &selection.groups()[group], &selection.path_of(group), &mut labels);
    labels
}

/// Puts the labels of the path of `group` into `labels`, with its thread in front if threads are; false where there is
/// no such thread, and for a path without steps.
fn fill_labels(selection: &Selection<'_>, group: &Group, path: &[Step], labels: &mut Vec<LabelId>) -> bool {
    labels.clear();
    if let Some(threads) = selection.threads_in_front() {
        let Some(thread) = threads.get(group.task.index()) else { return false };
        labels.push(thread.label);
    }
    labels.extend(path.iter().map(|step| step.label));
    labels.dedup();
    !labels.is_empty()
}

/// Hashes of the names of paths, the same in each report.
struct LabelHashes<'s, 'p> {
    selection: &'s Selection<'p>,
    known: Vec<Option<u64>>,
}

impl<'s, 'p> LabelHashes<'s, 'p> {
    fn new(selection: &'s Selection<'p>) -> Self {
        LabelHashes { selection, known: vec![None; selection.labels.len()] }
    }

    fn of_path(&mut self, labels: &[LabelId]) -> u64 {
        let mut hasher = DefaultHasher::new();
        for label in labels {
            let of_label = || {
                let mut hasher = DefaultHasher::new();
                let (name, module, line, at) = self.selection.labels.get(*label).order_key();
                (name, module, line).hash(&mut hasher);
                at.map(|at| format!("{at:?}")).hash(&mut hasher);
                hasher.finish()
            };
            self.known[label.index()].get_or_insert_with(of_label).hash(&mut hasher);
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::CommonOptions;
    use crate::report::tests::fixture::Build;

    #[test]
    fn the_heaviest_paths_are_those_where_most_samples_end() {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        // No single sort path is heavy, but the sum over all depths is.
        for depth in 1..=10 {
            let mut path = vec!["/x:main", "/x:run"];
            path.extend(std::iter::repeat_n("/x:sort", depth));
            path.push("/x:compare");
            build.add(task, 3, &path);
        }
        build.add(task, 20, &["/x:main", "/x:run", "/x:generate"]);
        build.add(task, 25, &["/x:main", "/x:run", "/x:index", "/x:hash"]);
        build.add(task, 10, &["/x:main", "/x:run", "/x:index"]);
        let recording = build.finish();
        let selection = recording.select(&CommonOptions::default()).unwrap();
        let found = |most| -> Vec<(String, u64)> {
            let name = |path: &[LabelId]| selection.labels.get(*path.last().unwrap()).name.clone();
            let paths = heaviest_paths(&selection, most).into_iter();
            paths.map(|(path, weight)| (name(&path), weight / 1_000_000)).collect()
        };
        let all = [("compare", 30), ("hash", 25), ("generate", 20), ("index", 10)];
        let all = all.map(|(name, weight)| (name.to_owned(), weight));
        assert_eq!(found(1000), all);
        assert_eq!(found(2), all[..2]);
        assert_eq!(found(0), []);
    }

    #[test]
    fn of_equal_paths_the_same_are_found_in_any_order_of_samples() {
        let leaves: Vec<String> = (0..50).map(|leaf| format!("/x:leaf{leaf}")).collect();
        let found = |leaves: &mut dyn Iterator<Item = &String>| -> Vec<String> {
            let mut build = Build::new();
            let task = build.task(1, 1, "t", "t");
            leaves.for_each(|leaf| build.add(task, 2, &["/x:main", leaf]));
            let recording = build.finish();
            let selection = recording.select(&CommonOptions::default()).unwrap();
            let paths = heaviest_paths(&selection, 7).into_iter();
            paths.map(|(path, _)| selection.labels.get(path[1]).name.clone()).collect()
        };
        let first = found(&mut leaves.iter());
        assert_eq!(first.len(), 7);
        assert_eq!(first, found(&mut leaves.iter().rev()));
        assert!(first.is_sorted(), "{first:?}");
    }
}
