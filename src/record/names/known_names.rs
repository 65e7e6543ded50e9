//! Names that a recording in windows has looked up already: each window has frames of its own, most of which are code of before.

use super::symbolize::LocationText;
use crate::profile::{StringId, Tables};
use crate::record::modules::FileId;
use rustc_hash::FxHashMap;

/// Bytes that are kept of each generation.
const MOST_BYTES: usize = 3 << 20;
/// What an address takes in addition to its functions, and a text in addition to its characters, bytes.
const ADDRESS_BYTES: usize = 64;
const TEXT_BYTES: usize = 64;

/// A function at an address, its texts by their numbers.
#[derive(Debug, Clone, Copy)]
struct KnownLocation {
    /// Name, raw name and file.
    texts: [StringId; 3],
    line: u32,
    is_inlined: bool,
}

/// Names that were used at about the same time. Most functions have many addresses: each text is there once.
#[derive(Debug, Default)]
struct Generation {
    addresses: FxHashMap<(FileId, u64), Box<[KnownLocation]>>,
    texts: Tables,
    bytes: usize,
}

impl Generation {
    fn get(&self, key: (FileId, u64)) -> Option<impl Iterator<Item = LocationText<'_>>> {
        let known = self.addresses.get(&key)?;
        Some(known.iter().map(|location| {
            let [name, raw_name, file] = location.texts.map(|text| self.texts.string(text));
            LocationText { name, raw_name, file, line: location.line, is_inlined: location.is_inlined }
        }))
    }

    fn insert<'a>(&mut self, key: (FileId, u64), names: impl Iterator<Item = LocationText<'a>>) {
        let mut intern = |text: &str| {
            let before = self.texts.strings().len();
            let id = self.texts.intern_string(text);
            let is_new = self.texts.strings().len() > before;
            self.bytes += if is_new { TEXT_BYTES + text.len() } else { 0 };
            id
        };
        let known: Box<[KnownLocation]> = names
            .map(|LocationText { name, raw_name, file, line, is_inlined }| KnownLocation {
                texts: [name, raw_name, file].map(&mut intern),
                line,
                is_inlined,
            })
            .collect();
        self.bytes += ADDRESS_BYTES + size_of_val(&*known);
        // Asked for again before the first answer came.
        if let Some(before) = self.addresses.insert(key, known) {
            self.bytes -= ADDRESS_BYTES + size_of_val(&*before);
        }
    }

    fn is_full(&self) -> bool {
        self.bytes >= MOST_BYTES
    }
}

/// Names by file and address. What was not asked for during the time in which as many others were is forgotten.
#[derive(Debug, Default)]
pub(super) struct KnownNames {
    young: Generation,
    old: Generation,
}

impl KnownNames {
    /// What an address of a file is called, if it was looked up before: nothing, if the file does not say.
    pub(super) fn get(
        &mut self,
        file: FileId,
        address: u64,
    ) -> Option<impl Iterator<Item = LocationText<'_>>> {
        self.age();
        let key = (file, address);
        if !self.young.addresses.contains_key(&key) {
            // It moves, with the texts that the young ones do not have.
            self.young.insert(key, self.old.get(key)?);
            self.old.addresses.remove(&key);
        }
        self.young.get(key)
    }

    /// An address of a file has these names.
    pub(super) fn insert<'a>(
        &mut self,
        file: FileId,
        address: u64,
        names: impl Iterator<Item = LocationText<'a>>,
    ) {
        self.age();
        self.young.insert((file, address), names);
    }

    /// Begins with new young ones if there are enough.
    fn age(&mut self) {
        if self.young.is_full() {
            self.old = std::mem::take(&mut self.young);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses without a name that a generation has room for, and some.
    const MOST_EMPTY: u64 = (MOST_BYTES / ADDRESS_BYTES) as u64;

    fn named(name: &str) -> LocationText<'_> {
        LocationText { name, raw_name: "", file: "main.c", line: 7, is_inlined: false }
    }

    fn bytes(known: &KnownNames) -> usize {
        let of_texts = |generation: &Generation| generation.texts.strings().map(str::len).sum::<usize>();
        let of_addresses = |generation: &Generation| {
            generation.addresses.values().map(|known| ADDRESS_BYTES + size_of_val(&**known)).sum::<usize>()
        };
        [&known.young, &known.old].map(|one| of_texts(one) + of_addresses(one)).iter().sum()
    }

    #[test]
    fn names_that_are_used_stay_and_others_go() {
        let mut known = KnownNames::default();
        known.insert(FileId(1), 7, [named("main")].into_iter());
        for address in 0..3 * MOST_EMPTY {
            known.insert(FileId(2), address, std::iter::empty());
            if address.is_multiple_of(1000) {
                let of_main: Vec<_> = known.get(FileId(1), 7).expect("it is used").collect();
                assert_eq!(of_main, [named("main")]);
            }
        }
        assert!(bytes(&known) <= 2 * MOST_BYTES + 1000, "{} bytes", bytes(&known));
        assert!(known.get(FileId(2), 0).is_none());
        let last = known.get(FileId(2), 3 * MOST_EMPTY - 1);
        assert!(last.is_some_and(|mut names| names.next().is_none()));
        for address in 0..40 {
            let long = format!("{address}{}", "x".repeat(1 << 20));
            known.insert(FileId(3), address, [named(&long)].into_iter());
        }
        assert!(bytes(&known) <= 2 * (MOST_BYTES + (2 << 20)), "{} bytes", bytes(&known));
    }

    #[test]
    fn addresses_of_a_function_share_its_texts() {
        let mut known = KnownNames::default();
        let long = "x".repeat(1000);
        let inlined = LocationText { is_inlined: true, ..named("inlined") };
        for address in 0..20_000 {
            known.insert(FileId(1), address, [inlined, named(&long)].into_iter());
        }
        assert!(known.old.addresses.is_empty(), "all are in the first generation");
        // They move with their texts.
        known.old = std::mem::take(&mut known.young);
        for address in 0..20_000 {
            let names: Vec<_> = known.get(FileId(1), address).expect("it is known").collect();
            assert_eq!(names, [inlined, named(&long)]);
        }
        assert!(known.old.addresses.is_empty() && known.young.texts.strings().len() <= 5);
    }
}
