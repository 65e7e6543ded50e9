//! Names that a recording in windows has looked up already: each window has frames of its own, most of which are code of before.

use crate::record::modules::FileId;
use crate::symbols::ResolvedLocation;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Names that are kept of each generation, and their bytes.
const MOST_NAMES: usize = 30_000;
const MOST_BYTES: usize = 3 << 20;
/// What the place of a name takes, bytes.
const PLACE_BYTES: usize = 64;

/// What an address of a file is called: nothing, if the file does not say.
type NamesAt = Arc<[ResolvedLocation]>;

/// Names by file and address. What was not asked for during the time in which as many others were is forgotten.
#[derive(Debug, Default)]
pub(super) struct KnownNames {
    young: FxHashMap<(FileId, u64), NamesAt>,
    young_bytes: usize,
    old: FxHashMap<(FileId, u64), NamesAt>,
}

impl KnownNames {
    /// What an address of a file is called, if it was looked up before.
    pub(super) fn get(&mut self, file: FileId, address: u64) -> Option<NamesAt> {
        let key = (file, address);
        if let Some(known) = self.young.get(&key) {
            return Some(Arc::clone(known));
        }
        let known = self.old.remove(&key)?;
        self.insert(file, address, Arc::clone(&known));
        Some(known)
    }

    /// An address of a file has these names.
    pub(super) fn insert(&mut self, file: FileId, address: u64, names: NamesAt) {
        let bytes = |location: &ResolvedLocation| {
            size_of::<ResolvedLocation>()
                + location.name.len()
                + location.raw_name.len()
                + location.file.as_ref().map_or(0, |file| file.len())
        };
        self.young_bytes += PLACE_BYTES + names.iter().map(bytes).sum::<usize>();
        self.young.insert((file, address), names);
        if self.young.len() >= MOST_NAMES || self.young_bytes >= MOST_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> NamesAt {
        let location = ResolvedLocation {
            name: name.to_owned(),
            raw_name: String::new(),
            file: None,
            line: 0,
            is_inlined: false,
        };
        Arc::from([location])
    }

    #[test]
    fn names_that_are_used_stay_and_others_go() {
        let mut known = KnownNames::default();
        known.insert(FileId(1), 7, named("main"));
        for address in 0..3 * MOST_NAMES as u64 {
            known.insert(FileId(2), address, Arc::from([]));
            if address.is_multiple_of(1000) {
                assert_eq!(known.get(FileId(1), 7).expect("it is used")[0].name, "main");
            }
        }
        assert!(known.young.len() + known.old.len() <= 2 * MOST_NAMES);
        assert!(known.get(FileId(2), 0).is_none());
        assert!(known.get(FileId(2), 3 * MOST_NAMES as u64 - 1).is_some_and(|names| names.is_empty()));
        let long = "x".repeat(1 << 20);
        for address in 0..40 {
            known.insert(FileId(3), address, named(&long));
        }
        let bytes: usize = known
            .young
            .values()
            .chain(known.old.values())
            .flat_map(|names| names.iter())
            .map(|one| one.name.len())
            .sum();
        assert!(bytes <= 2 * MOST_BYTES + (1 << 20), "{bytes} bytes");
    }
}
