//! The children that processes have when a recording begins.

use crate::base::units;
use crate::record::process::proc_fs;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// All processes with their parents.
#[derive(Debug, Default)]
pub(crate) struct Family {
    children: FxHashMap<u32, Vec<u32>>,
    /// Recorder and the processes that it comes from: who records his own shell does not want these.
    own: FxHashSet<u32>,
}

impl Family {
    /// Reads the family from /proc, as it is now.
    pub(crate) fn now() -> Self {
        let parents = proc_fs::processes().unwrap_or_default();
        Family::of(
            parents.into_iter().filter_map(|pid| Some((pid, proc_fs::parent(pid)?))),
            std::process::id(),
        )
    }

    fn of(parents: impl Iterator<Item = (u32, u32)>, own: u32) -> Self {
        let mut family = Family::default();
        let mut parent_of: FxHashMap<u32, u32> = FxHashMap::default();
        for (pid, parent) in parents {
            family.children.entry(parent).or_default().push(pid);
            parent_of.insert(pid, parent);
        }
        let mut at = Some(own);
        while let Some(pid) = at.filter(|pid| family.own.insert(*pid)) {
            at = parent_of.get(&pid).copied();
        }
        family
    }

    /// Returns the number of `found` that are children of one of `pids`.
    pub(crate) fn count_children(&self, pids: &[u32], found: &[u32]) -> usize {
        let children = pids.iter().filter_map(|pid| self.children.get(pid)).flatten();
        children.filter(|child| found.contains(child)).count()
    }

    /// The children of `pids`, and theirs, that are none of them and have not ended; in ascending order.
    pub(crate) fn descendants(&self, pids: &[u32]) -> Vec<u32> {
        let known: FxHashSet<u32> = pids.iter().copied().collect();
        let mut found: BTreeSet<u32> = BTreeSet::new();
        let mut queue: Vec<u32> = pids.to_vec();
        while let Some(pid) = queue.pop() {
            for &child in self.children.get(&pid).into_iter().flatten() {
                if !known.contains(&child) && !self.own.contains(&child) && found.insert(child) {
                    queue.push(child);
                }
            }
        }
        found.into_iter().filter(|pid| proc_fs::live_thread(*pid).is_some()).collect()
    }
}

/// Notice that `count` processes which come from `name`, a process or the first of several, are not recorded; `children`
/// of them are its own children.
pub(crate) fn unrecorded(name: &str, is_one: bool, count: usize, children: usize) -> Option<String> {
    let (verb, are) =
        (if is_one { "has" } else { "and the others have" }, if count == 1 { "is" } else { "are" });
    let children = match count {
        0 => return None,
        1 if children == 1 => "1 child".to_owned(),
        count if children == count => format!("{} children", units::count(count as u64)),
        count => units::counted(count as u64, "descendant"),
    };
    Some(format!("{name} {verb} {children} that {are} not recorded: --children includes them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_without_the_recorder_and_where_it_comes_from() {
        let own = std::process::id();
        let parent = proc_fs::parent(own).expect("own parent");
        // 1 has this process's parent, and another child with two of its own. Of those only one exists.
        let synthetic = u32::MAX - 1;
        let family = Family::of([(parent, 1), (own, parent), (synthetic, 1)].into_iter(), own);
        assert_eq!(family.descendants(&[1]), [0; 0], "a process that has ended is no child, nor is this one");
        let family = Family::of([(parent, 1), (own, parent)].into_iter(), synthetic);
        let mut both = [parent, own];
        both.sort_unstable();
        assert_eq!(family.descendants(&[1]), both);
        assert_eq!(family.descendants(&[1, parent]), [own], "whom the user has named is no child");
        // A circle, which /proc may show for a moment, ends.
        let family = Family::of([(parent, own), (own, parent)].into_iter(), synthetic);
        assert_eq!(family.descendants(&[own]), [parent]);
    }

    #[test]
    fn the_sentence_fits_the_number() {
        assert_eq!(unrecorded("nginx", true, 0, 0), None);
        let said = |count| unrecorded("nginx", true, count, count).expect("there are some");
        assert_eq!(said(1), "nginx has 1 child that is not recorded: --children includes them");
        assert_eq!(said(2), "nginx has 2 children that are not recorded: --children includes them");
        let deep = unrecorded("sh", true, 3, 1);
        assert_eq!(
            deep.as_deref(),
            Some("sh has 3 descendants that are not recorded: --children includes them")
        );
        assert!(
            unrecorded("nginx", false, 2, 2)
                .is_some_and(|said| said.starts_with("nginx and the others have 2"))
        );
    }
}
