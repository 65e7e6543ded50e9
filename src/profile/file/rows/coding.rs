//! How columns are coded so that they pack well. Each coder holds what writer and reader both know
//! from the rows before, and has the two directions side by side.

use crate::profile::rows::{ModuleId, StringId};
use crate::profile::symbols::{FunctionId, Location};

/// A column as it is stored: empty when all values are `default`, one value when all are that value.
pub(in crate::profile::file) fn squeeze<T: Copy + PartialEq>(values: Vec<T>, default: T) -> Vec<T> {
    match values.first().copied() {
        Some(first) if values.iter().all(|&value| value == first) => {
            if first == default {
                Vec::new()
            } else {
                vec![first]
            }
        }
        _ => values,
    }
}

/// A stored column, with a value for each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::profile::file) enum CodedColumn<'a, T> {
    All(T),
    Each(&'a [T]),
}

impl<'a, T: Copy> CodedColumn<'a, T> {
    /// The column of `rows` rows that was stored as `values`; `None` when the lengths disagree.
    pub(in crate::profile::file) fn new(values: &'a [T], rows: usize, default: T) -> Option<Self> {
        match values {
            [] => Some(CodedColumn::All(default)),
            [all] => Some(CodedColumn::All(*all)),
            each if each.len() == rows => Some(CodedColumn::Each(each)),
            _ => None,
        }
    }

    /// The value of a row below the number of rows.
    pub(in crate::profile::file) fn get(&self, row: usize) -> T {
        match self {
            CodedColumn::All(all) => *all,
            CodedColumn::Each(each) => each[row],
        }
    }

    /// The values of all rows.
    pub(in crate::profile::file) fn iter(self, rows: usize) -> impl Iterator<Item = T> {
        (0..rows).map(move |row| self.get(row))
    }
}

/// Numbers of which many are new and just above the highest so far, and the others are repeated.
///
/// A number above the highest so far is stored as twice the distance (0 for the next one), any other as
/// twice itself plus one: the same number has the same code each time, so that repeated sequences
/// are found by zstd. Numbers are below 2³¹.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::profile::file) struct NoveltyCoder {
    next: u32,
}

impl NoveltyCoder {
    pub(in crate::profile::file) fn encode(&mut self, number: u32) -> u32 {
        if number < self.next {
            return number << 1 | 1;
        }
        let code = (number - self.next) << 1;
        self.next = number.saturating_add(1);
        code
    }

    pub(in crate::profile::file) fn decode(&mut self, code: u32) -> u32 {
        if code & 1 == 1 {
            return code >> 1;
        }
        let number = self.next.saturating_add(code >> 1);
        self.next = number.saturating_add(1);
        number
    }
}

/// Addresses of frames, as the distance from the frame before in the same module.
#[derive(Debug, Clone, Default)]
pub(in crate::profile::file) struct AddressCoder {
    last: Vec<u64>,
}

impl AddressCoder {
    pub(in crate::profile::file) fn encode(&mut self, module: ModuleId, address: u64) -> i64 {
        let last = self.last_of(module);
        let delta = address.wrapping_sub(*last) as i64;
        *last = address;
        delta
    }

    pub(in crate::profile::file) fn decode(&mut self, module: ModuleId, delta: i64) -> u64 {
        let last = self.last_of(module);
        *last = last.wrapping_add(delta as u64);
        *last
    }

    /// `module` must be an id of a row that exists, which bounds the memory.
    fn last_of(&mut self, module: ModuleId) -> &mut u64 {
        if self.last.len() <= module.index() {
            self.last.resize(module.index() + 1, 0);
        }
        &mut self.last[module.index()]
    }
}

/// File and line of locations, relative to the location before in the same function.
#[derive(Debug, Clone, Default)]
pub(in crate::profile::file) struct PlaceCoder {
    /// The first function of which something is known.
    first: usize,
    last: Vec<(StringId, u32)>,
}

impl PlaceCoder {
    /// The codes of `location`'s file (0 = the same as last time, else id + 1) and line.
    pub(in crate::profile::file) fn encode(&mut self, location: &Location) -> (u32, i32) {
        let (file, line) = self.last_of(location.function);
        let file_code = if *file == location.file { 0 } else { location.file.0.saturating_add(1) };
        let line_delta = location.line.wrapping_sub(*line) as i32;
        (*file, *line) = (location.file, location.line);
        (file_code, line_delta)
    }

    /// The file and line of a location in `function`.
    pub(in crate::profile::file) fn decode(
        &mut self,
        function: FunctionId,
        file_code: u32,
        line_delta: i32,
    ) -> (StringId, u32) {
        let (file, line) = self.last_of(function);
        if file_code > 0 {
            *file = StringId(file_code - 1);
        }
        *line = line.wrapping_add(line_delta as u32);
        (*file, *line)
    }

    /// Forgets the functions before `first`: none of them will come again.
    pub(in crate::profile::file) fn forget_before(&mut self, first: FunctionId) {
        *self = PlaceCoder { first: first.index(), last: Vec::new() };
    }

    /// `function` must be an id of a row that exists, which bounds the memory.
    fn last_of(&mut self, function: FunctionId) -> &mut (StringId, u32) {
        let index = function.index().saturating_sub(self.first);
        if self.last.len() <= index {
            self.last.resize(index + 1, Default::default());
        }
        &mut self.last[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_values_are_stored_once_or_not_at_all() {
        assert!(squeeze(vec![0, 0, 0], 0).is_empty());
        assert_eq!(squeeze(vec![5, 5], 0), [5]);
        assert_eq!(squeeze(vec![5, 6], 0), [5, 6]);
        assert!(squeeze(Vec::<u8>::new(), 0).is_empty());
    }

    #[test]
    fn a_column_of_the_wrong_length_is_refused() {
        assert_eq!(CodedColumn::new(&[1, 2], 3, 0), None);
        assert_eq!(CodedColumn::new(&[1, 2, 3, 4], 3, 0), None);
        assert_eq!(CodedColumn::new(&[1, 2, 3], 3, 0), Some(CodedColumn::Each(&[1, 2, 3][..])));
    }

    #[test]
    fn new_numbers_are_small_and_old_ones_keep_their_code() {
        let mut coder = NoveltyCoder::default();
        let codes = [0, 1, 2, 5, 1, 5, 6, 1].map(|number| coder.encode(number));
        assert_eq!(codes, [0, 0, 0, 4, 3, 11, 0, 3]);
    }

    proptest! {
        #[test]
        fn a_squeezed_column_has_the_same_values(values in proptest::collection::vec(0_u32..3, 0..5)) {
            let stored = squeeze(values.clone(), 1);
            let column = CodedColumn::new(&stored, values.len(), 1).unwrap();
            prop_assert_eq!(column.iter(values.len()).collect::<Vec<_>>(), values);
        }

        #[test]
        fn coders_round_trip(
            numbers in proptest::collection::vec(0_u32..1 << 31, 0..20),
            addresses in proptest::collection::vec((0_u32..4, any::<u64>()), 0..20),
            places in proptest::collection::vec((0_u32..4, 0_u32..4, any::<u32>()), 0..20),
        ) {
            let (mut to, mut from) = (NoveltyCoder::default(), NoveltyCoder::default());
            for number in numbers {
                prop_assert_eq!(from.decode(to.encode(number)), number);
            }
            let (mut to, mut from) = (AddressCoder::default(), AddressCoder::default());
            for (module, address) in addresses {
                let delta = to.encode(ModuleId(module), address);
                prop_assert_eq!(from.decode(ModuleId(module), delta), address);
            }
            let (mut to, mut from) = (PlaceCoder::default(), PlaceCoder::default());
            for (function, file, line) in places {
                let (function, file) = (FunctionId(function), StringId(file));
                let (file_code, line_delta) = to.encode(&Location { function, file, line, is_inlined: false });
                prop_assert_eq!(from.decode(function, file_code, line_delta), (file, line));
            }
        }
    }
}
