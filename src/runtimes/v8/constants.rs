//! Constants that V8 describes itself with: the `v8dbg_*` symbols, by name or by the part of the name that stays.

use rustc_hash::FxHashMap;

use crate::runtimes::TargetMemory;

/// Prefix of the symbols that describe V8.
const PREFIX: &str = "v8dbg_";

/// Number of symbols looked at, at most; builds have some 500.
const MOST: usize = 4096;

/// Symbol of the program that contains V8.
pub(crate) struct V8Symbol<'a> {
    pub(crate) name: &'a str,
    /// Address in the process.
    pub(crate) address: u64,
    /// Size in bytes, 0 if unknown.
    pub(crate) size: u64,
}

/// Values of the `v8dbg_*` symbols by name without that prefix.
pub(super) struct V8Constants(FxHashMap<String, i32>);

impl V8Constants {
    /// Reads the values of all symbols that describe V8.
    pub(super) fn read<'a>(memory: &impl TargetMemory, symbols: impl Iterator<Item = V8Symbol<'a>>) -> Self {
        let described =
            symbols.filter_map(|symbol| Some((symbol.name.strip_prefix(PREFIX)?, symbol.address)));
        let values = described.take(MOST).filter_map(|(name, address)| {
            let value = i32::from_ne_bytes(memory.bytes(address)?);
            Some((name.to_owned(), value))
        });
        Self(values.collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Value of the symbol of this very name.
    pub(super) fn exact(&self, name: &str) -> Option<i32> {
        self.0.get(name).copied()
    }

    /// Value of the symbols that begin with `prefix`, whose rest differs between versions; `None` unless all agree.
    pub(super) fn prefixed(&self, prefix: &str) -> Option<i32> {
        let mut values = self.0.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, &value)| value);
        let first = values.next()?;
        values.all(|value| value == first).then_some(first)
    }

    /// Offset of a field in objects of a class.
    pub(super) fn field(&self, class: &str, field: &str) -> Option<u16> {
        let value = self.prefixed(&format!("class_{class}__{field}__"))?;
        u16::try_from(value).ok().filter(|&offset| offset < 1024)
    }

    /// Instance type of a class.
    pub(super) fn class_type(&self, class: &str) -> Option<u16> {
        u16::try_from(self.prefixed(&format!("type_{class}__"))?).ok()
    }

    /// Lowest and highest instance type of the classes whose name begins with `class`.
    pub(super) fn class_types(&self, class: &str) -> Option<(u16, u16)> {
        let prefix = format!("type_{class}");
        let types = || {
            let named = self.0.iter().filter(|(name, _)| name.starts_with(&prefix));
            named.filter_map(|(_, &value)| u16::try_from(value).ok())
        };
        Some((types().min()?, types().max()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::v8::fake::FakeHeap;

    #[test]
    fn drifting_names_are_found_by_their_stable_part() {
        let mut heap = FakeHeap::new();
        let shared = heap.constant("class_JSFunction__shared__Tagged_SharedFunctionInfo_", 32);
        let symbols = [shared];
        let constants = V8Constants::read(&heap, symbols.iter().map(FakeHeap::symbol));
        assert_eq!(constants.field("JSFunction", "shared"), Some(32));
        assert_eq!(constants.field("JSFunction", "share"), None);
    }

    #[test]
    fn names_that_disagree_are_no_answer() {
        let mut heap = FakeHeap::new();
        let symbols = [heap.constant("class_A__b__C", 8), heap.constant("class_A__b__D", 16)];
        let constants = V8Constants::read(&heap, symbols.iter().map(FakeHeap::symbol));
        assert_eq!(constants.field("A", "b"), None);
    }

    #[test]
    fn unreadable_and_wild_values_are_left_out() {
        let mut heap = FakeHeap::new();
        let wild = heap.constant("class_A__b__C", -8);
        let symbols = [("v8dbg_class_A__c__D".to_owned(), 8), wild];
        let constants = V8Constants::read(&heap, symbols.iter().map(FakeHeap::symbol));
        assert_eq!(constants.field("A", "b"), None);
        assert_eq!(constants.field("A", "c"), None);
    }
}
