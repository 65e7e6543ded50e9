//! Finds the parts that a path goes through: which of the paths above it, and itself, are large enough to be compared.

use rustc_hash::FxHashMap;

/// Marks a path that is in no part: it is too small to be tested, or not compared.
pub(crate) const NO_PART: u32 = u32::MAX;

/// Numbers of paths: by that of the path without its last step, counted from 1, or 0 for a root, and by the key of that step.
pub(crate) type KnownPaths = FxHashMap<(u32, u32), u32>;

/// Finds the parts of paths; most paths share their first steps with the one before.
pub(crate) struct PathFinder<'k> {
    known: &'k KnownPaths,
    part_of: &'k [u32],
    /// Keys and paths of the steps that were found last.
    last: Vec<(u32, u32)>,
}

impl<'k> PathFinder<'k> {
    /// A finder of the parts in `part_of`, by the numbers of `known` paths. What is below a path without a part has none.
    pub(crate) fn new(known: &'k KnownPaths, part_of: &'k [u32]) -> Self {
        PathFinder { known, part_of, last: Vec::new() }
    }

    /// Calls `visit` with the parts from a root down along `keys`, each once.
    pub(crate) fn find(&mut self, keys: impl Iterator<Item = u32>, mut visit: impl FnMut(u32)) {
        let mut depth = 0;
        let mut latest = None;
        for key in keys {
            if self.last.get(depth).is_none_or(|(last, _)| *last != key) {
                self.last.truncate(depth);
                let parent = self.last.last().map_or(0, |(_, path)| path + 1);
                let is_part = |path: &&u32| self.part_of[**path as usize] != NO_PART;
                let Some(path) = self.known.get(&(parent, key)).filter(is_part) else { break };
                self.last.push((key, *path));
            }
            let part = self.part_of[self.last[depth].1 as usize];
            if latest.replace(part) != Some(part) {
                visit(part);
            }
            depth += 1;
        }
        self.last.truncate(depth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_along_paths_until_they_are_too_small() {
        // 0 > 1 > 2, where 1 is one part with 0; and 0 > 3, which is small.
        let known: KnownPaths = [((0, 7), 0), ((1, 8), 1), ((2, 9), 2), ((1, 5), 3)].into_iter().collect();
        let part_of = [0, 0, 2, NO_PART];
        let mut finder = PathFinder::new(&known, &part_of);
        let mut find = |keys: &[u32]| {
            let mut found = Vec::new();
            finder.find(keys.iter().copied(), |part| found.push(part));
            found
        };
        assert_eq!(find(&[7, 8, 9]), [0, 2]);
        assert_eq!(find(&[7, 5, 9]), [0]);
        assert_eq!(find(&[7, 8, 4]), [0]);
        assert_eq!(find(&[7, 8, 9, 3]), [0, 2]);
        assert_eq!(find(&[6]), [0; 0]);
        assert_eq!(find(&[7]), [0]);
    }
}
