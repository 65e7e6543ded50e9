//! Labels that a program gives its goroutines (`runtime/pprof`): pairs of strings.
//!
//! A goroutine points to its labels without a type. Since Go 1.24 that is a slice of pairs, before that a map. Which one
//! tells the type that the label functions ask for.

use super::instructions::GoCode;
use super::strings::{string, word};
use super::types::{GoKind, GoType};
use crate::runtimes::TargetMemory;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Functions that have the type of labels in their code; which of them there are depends on the program.
pub(super) const LABEL_FUNCTIONS: [&str; 5] = [
    "runtime/pprof.SetGoroutineLabels",
    "runtime/pprof.Do",
    "runtime/pprof.labelValue",
    "runtime/pprof.WithLabels",
    "runtime/pprof.Label",
];
/// Most labels of a goroutine that are read.
const MAX_LABELS: u64 = 1024;
const PAIR_BYTES: u64 = 32;
/// Most buckets of a map that are read, those chained to others included.
const MAX_BUCKETS: u64 = 1024;
/// Bucket of a map: one byte about each of eight entries, eight keys, eight values, the next bucket.
const BUCKET_BYTES: u64 = 8 + 8 * 16 + 8 * 16 + 8;
const KEYS: usize = 8;
const VALUES: usize = KEYS + 8 * 16;
const NEXT: usize = VALUES + 8 * 16;
/// Bytes below this in front of a bucket mark an entry that is empty or has moved.
const FIRST_USED: u8 = 5;
/// Flag of a map that is being rewritten in its size.
const SAME_SIZE: u8 = 8;
/// Where a map type has the sizes of keys, of values and of buckets.
const MAP_SIZES: u64 = 80;
const STRING_MAP_SIZES: [u8; 4] = [16, 16, 0x10, 1];

/// Cost of a string beside its bytes, and of all strings that are read for a snapshot: some 100,000 of them.
const STRING_COST: usize = 256;
const MAX_COST: usize = 32 << 20;

/// What is known of the labels of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoLabelLayout {
    pub(crate) form: GoLabelForm,
    /// Process addresses of the program's own data, which is never freed: most keys are there.
    pub(crate) constants: Range<u64>,
}

/// Form of labels in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoLabelForm {
    /// The program cannot set any, or in an unknown form: none are read.
    None,
    /// A map of strings in buckets of eight (Go older than 1.24).
    Map,
    /// A slice of pairs of strings.
    Pairs,
}

impl GoLabelForm {
    /// Finds the form in the code of the functions that set labels.
    pub(crate) fn find<M: TargetMemory>(memory: &M, functions: &dyn Fn(&str) -> Option<Range<u64>>) -> Self {
        let codes = LABEL_FUNCTIONS.iter().filter_map(|name| GoCode::read(memory, &functions(name)?));
        let mut addresses = codes.flat_map(|code| code.references());
        addresses.find_map(|address| form_of(memory, address)).unwrap_or(GoLabelForm::None)
    }
}

/// Form of labels if there is the description of a pointer to them at `address`.
fn form_of<M: TargetMemory>(memory: &M, address: u64) -> Option<GoLabelForm> {
    let pointer = GoType::read(memory, address).filter(|found| found.kind == GoKind::Pointer)?;
    let mut inner = pointer.element(memory)?;
    if inner.kind == GoKind::Map {
        let value = inner.type_at(memory, 56)?;
        let sizes = memory.bytes::<4>(inner.address.checked_add(MAP_SIZES)?)?;
        let fits = inner.element(memory)?.kind == GoKind::String && value.kind == GoKind::String;
        return (fits && sizes == STRING_MAP_SIZES).then_some(GoLabelForm::Map);
    }
    // A slice, within one struct or two that have nothing else.
    for _ in 0..3 {
        if inner.kind == GoKind::Slice {
            let pair = inner.element(memory)?.field_list(memory)?;
            let is_pair =
                pair.len() == 2 && pair.iter().all(|(_, field)| field.of_type.kind == GoKind::String);
            return is_pair.then_some(GoLabelForm::Pairs);
        }
        let [(_, only)] = <[_; 1]>::try_from(inner.field_list(memory)?).ok()?;
        inner = only.of_type;
    }
    None
}

/// Where the strings of a label are: pointer and length of the key and of the value. The strings never change; so what is
/// at the same places in a snapshot is the same label, even if its list was freed and another one put there.
pub(crate) type GoLabelEntry = [u64; 4];

/// The labels that a goroutine points to, by key; none for a null pointer. Labels whose strings cannot be read, are longer
/// than 4 KiB or are not UTF-8 are left out, as is all after the first 1,024.
#[cfg(test)]
pub(crate) fn labels<M: TargetMemory>(
    memory: &M,
    layout: &GoLabelLayout,
    pointer: u64,
) -> Vec<(String, String)> {
    first_labels(memory, layout, pointer, MAX_LABELS as usize)
}

/// The first `most` labels that a goroutine points to, by key.
pub(crate) fn first_labels<M: TargetMemory>(
    memory: &M,
    layout: &GoLabelLayout,
    pointer: u64,
    most: usize,
) -> Vec<(String, String)> {
    let mut entries = label_entries(memory, layout.form, pointer).unwrap_or_default();
    entries.truncate(most);
    GoLabelReader::new(layout).texts(memory, &entries).unwrap_or_default()
}

/// The labels that a goroutine points to, not read yet; `None` if there are none or they are damaged.
pub(crate) fn label_entries<M: TargetMemory>(
    memory: &M,
    form: GoLabelForm,
    pointer: u64,
) -> Option<Vec<GoLabelEntry>> {
    match form {
        _ if pointer == 0 => None,
        GoLabelForm::None => None,
        GoLabelForm::Pairs => pairs(memory, pointer),
        GoLabelForm::Map => map(memory, pointer),
    }
}

/// Reader of the labels of many goroutines, with limits for all together.
pub(crate) struct GoLabelReader {
    constants: Range<u64>,
    /// Strings of the program's constant data.
    known: FxHashMap<(u64, u64), Option<String>>,
    /// Cost of strings that may yet be read.
    left: usize,
}

impl GoLabelReader {
    pub(crate) fn new(layout: &GoLabelLayout) -> Self {
        GoLabelReader { constants: layout.constants.clone(), known: FxHashMap::default(), left: MAX_COST }
    }

    /// Labels by key, without those that cannot be read; `None` if all together have become too many.
    pub(crate) fn texts<M: TargetMemory>(
        &mut self,
        memory: &M,
        entries: &[GoLabelEntry],
    ) -> Option<Vec<(String, String)>> {
        let mut found = Vec::with_capacity(entries.len());
        for &[key, key_bytes, value, value_bytes] in entries {
            let (key, value) = (self.text(memory, key, key_bytes), self.text(memory, value, value_bytes));
            if self.left == 0 {
                return None;
            }
            found.extend(key.zip(value));
        }
        found.sort_unstable();
        Some(found)
    }

    fn text<M: TargetMemory>(&mut self, memory: &M, pointer: u64, length: u64) -> Option<String> {
        let is_constant = self.constants.contains(&pointer);
        if is_constant && let Some(known) = self.known.get(&(pointer, length)) {
            return known.clone();
        }
        let text = string(memory, pointer, length);
        self.left = self.left.saturating_sub(STRING_COST + text.as_ref().map_or(0, String::len));
        if is_constant {
            self.known.insert((pointer, length), text.clone());
        }
        text
    }
}

fn pairs<M: TargetMemory>(memory: &M, pointer: u64) -> Option<Vec<GoLabelEntry>> {
    let slice = memory.bytes::<24>(pointer)?;
    let (list, count, capacity) = (word(&slice, 0)?, word(&slice, 8)?, word(&slice, 16)?);
    if count > capacity {
        return None;
    }
    let list = memory.range(list, count.min(MAX_LABELS) * PAIR_BYTES, (MAX_LABELS * PAIR_BYTES) as usize)?;
    list.chunks_exact(PAIR_BYTES as usize).map(|pair| entry(pair, 0, 16)).collect()
}

/// The label whose key and value are described at two offsets of `bytes`.
fn entry(bytes: &[u8], key: usize, value: usize) -> Option<GoLabelEntry> {
    let at = |offset| word(bytes, offset);
    Some([at(key)?, at(key + 8)?, at(value)?, at(value + 8)?])
}

fn map<M: TargetMemory>(memory: &M, pointer: u64) -> Option<Vec<GoLabelEntry>> {
    let header = memory.u64(pointer).filter(|&header| header != 0)?;
    let bytes = memory.bytes::<32>(header)?;
    let (count, buckets, old_buckets) = (word(&bytes, 0)?, word(&bytes, 16)?, word(&bytes, 24)?);
    let [.., flags, log_size] = *bytes.get(..10)? else { return None };
    if count > MAX_LABELS || log_size > 10 {
        return None;
    }
    let (mut found, mut left) = (Vec::new(), MAX_BUCKETS);
    take_buckets(memory, buckets, 1 << log_size, &mut left, &mut found);
    if old_buckets != 0 {
        // A map that grew keeps entries in the smaller table until the next ones are added.
        let size = if flags & SAME_SIZE != 0 { 1 << log_size } else { (1 << log_size) / 2 };
        take_buckets(memory, old_buckets, size, &mut left, &mut found);
    }
    found.truncate(MAX_LABELS as usize);
    Some(found)
}

/// Appends the entries of a table of buckets and of those chained to them; `left` is the number of buckets yet allowed.
fn take_buckets<M: TargetMemory>(
    memory: &M,
    table: u64,
    count: u64,
    left: &mut u64,
    found: &mut Vec<GoLabelEntry>,
) {
    for number in 0..count {
        let mut bucket = table.wrapping_add(number * BUCKET_BYTES);
        while bucket != 0 && *left > 0 {
            *left -= 1;
            let Some(bytes) = memory.bytes::<{ BUCKET_BYTES as usize }>(bucket) else { break };
            let slots = bytes.iter().take(8).enumerate().filter(|(_, mark)| **mark >= FIRST_USED);
            found.extend(slots.filter_map(|(slot, _)| entry(&bytes, KEYS + 16 * slot, VALUES + 16 * slot)));
            bucket = word(&bytes, NEXT).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::go::tests::synthetic::{SyntheticMemory, TypeWriter};

    const TEXT: u64 = 0x9000;

    fn with_text() -> SyntheticMemory {
        let mut memory = SyntheticMemory::default();
        memory.add(TEXT, b"joblongtenantalpha".to_vec());
        memory
    }

    const JOB: [u64; 2] = [TEXT, 3];
    const LONG: [u64; 2] = [TEXT + 3, 4];
    const TENANT: [u64; 2] = [TEXT + 7, 6];
    const ALPHA: [u64; 2] = [TEXT + 13, 5];

    fn of(form: GoLabelForm) -> GoLabelLayout {
        GoLabelLayout { form, constants: 0..0 }
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.into(), value.into())
    }

    #[test]
    fn pairs_are_read_and_bad_ones_left_out() {
        let mut memory = with_text();
        memory.add_words(0x1000, &[0x2000, 3, 4]);
        memory.add_words(0x2000, &[TENANT, ALPHA, JOB, [TEXT, 1 << 30], JOB, LONG].concat());
        let found = labels(&memory, &of(GoLabelForm::Pairs), 0x1000);
        assert_eq!(found, [pair("job", "long"), pair("tenant", "alpha")]);
        assert_eq!(labels(&memory, &of(GoLabelForm::None), 0x1000), []);
        assert_eq!(labels(&memory, &of(GoLabelForm::Pairs), 0), []);
        assert_eq!(labels(&memory, &of(GoLabelForm::Pairs), 0x7777_0000), [], "wild pointer");
        memory.add_words(0x1100, &[0x2000, 1 << 40, 1 << 40]);
        assert_eq!(labels(&memory, &of(GoLabelForm::Pairs), 0x1100), [], "longer than memory");
        memory.add_words(0x1200, &[0x2000, 3, 2]);
        assert_eq!(labels(&memory, &of(GoLabelForm::Pairs), 0x1200), [], "longer than its capacity");
    }

    fn bucket(marks: [u8; 8], pairs: &[([u64; 2], [u64; 2])], next: u64) -> Vec<u64> {
        let mut words = vec![u64::from_ne_bytes(marks)];
        let strings = |strings: Vec<[u64; 2]>| {
            let mut words = strings.concat();
            words.resize(16, 0);
            words
        };
        words.extend(strings(pairs.iter().map(|pair| pair.0).collect()));
        words.extend(strings(pairs.iter().map(|pair| pair.1).collect()));
        words.push(next);
        words
    }

    #[test]
    fn maps_are_read_while_they_grow() {
        let mut memory = with_text();
        let sizes = u64::from_ne_bytes([0, 1, 0, 0, 0, 0, 0, 0]);
        memory.add_words(0x1000, &[0x1100]);
        memory.add_words(0x1100, &[2, sizes, 0x2000, 0x3000]);
        let empty = bucket([0; 8], &[], 0);
        let full = bucket([1, 0x80, 0, 0, 0, 0, 0, 0], &[(JOB, JOB), (TENANT, ALPHA)], 0);
        memory.add_words(0x2000, &[empty, full].concat());
        memory.add_words(0x3000, &bucket([2, 0x90, 0, 0, 0, 0, 0, 0], &[(LONG, JOB), (JOB, LONG)], 0));
        let found = labels(&memory, &of(GoLabelForm::Map), 0x1000);
        assert_eq!(found, [pair("job", "long"), pair("tenant", "alpha")]);
    }

    #[test]
    fn hostile_maps_end() {
        let mut memory = with_text();
        memory.add_words(0x1000, &[0x1100, 0x1200, 0x1300, 0]);
        memory.add_words(0x1100, &[2, 0, 0x2000, 0]);
        memory.add_words(0x2000, &bucket([0x80, 0, 0, 0, 0, 0, 0, 0], &[(JOB, LONG)], 0x2000));
        assert!(labels(&memory, &of(GoLabelForm::Map), 0x1000).len() <= MAX_LABELS as usize, "cycle");
        memory.add_words(0x1200, &[2, u64::from_ne_bytes([0, 60, 0, 0, 0, 0, 0, 0]), 0x2000, 0]);
        assert_eq!(labels(&memory, &of(GoLabelForm::Map), 0x1008), [], "2^60 buckets");
        memory.add_words(0x1300, &[2, 0, u64::MAX - 8, u64::MAX]);
        assert_eq!(labels(&memory, &of(GoLabelForm::Map), 0x1010), [], "wild buckets");
        assert_eq!(labels(&memory, &of(GoLabelForm::Map), 0x1018), [], "nil map");
    }

    #[test]
    fn constant_strings_are_read_once_and_all_together_are_limited() {
        let memory = with_text();
        let layout = GoLabelLayout { form: GoLabelForm::Pairs, constants: TEXT..TEXT + 7 };
        let mut reader = GoLabelReader::new(&layout);
        let left = |reader: &GoLabelReader| MAX_COST - reader.left;
        let entry = [TEXT, 3, TEXT + 3, 4];
        assert_eq!(reader.texts(&memory, &[entry; 3]), Some(vec![pair("job", "long"); 3]));
        assert_eq!(left(&reader), 2 * STRING_COST + 7);
        reader.texts(&memory, &[[TEXT, 3, TEXT + 7, 6]; 2]);
        assert_eq!(left(&reader), 4 * STRING_COST + 7 + 12);
        reader.left = 300;
        assert_eq!(reader.texts(&memory, &[[TEXT + 7, 6, TEXT + 13, 5]; 2]), None);
    }

    #[test]
    fn form_is_that_of_the_type() {
        let mut memory = SyntheticMemory::default();
        let mut types = TypeWriter::new(0x10000);
        let string = types.string();
        let number = types.plain(8);
        let pair = types.structure(32, &[("Key", 0, string), ("Value", 16, string)]);
        let list = types.slice(pair);
        let set = types.structure(24, &[("List", 0, list)]);
        let outer = types.structure(24, &[("Set", 0, set)]);
        let numbers = types.slice(number);
        let other = types.structure(24, &[("List", 0, numbers)]);
        let map = types.map(string, string);
        let other_map = types.map(string, number);
        let pointers = [outer, set, map, other, other_map, string].map(|of| types.pointer(of));
        types.write(&mut memory);
        let forms = pointers.map(|pointer| form_of(&memory, pointer));
        let (pairs, map) = (Some(GoLabelForm::Pairs), Some(GoLabelForm::Map));
        assert_eq!(forms, [pairs, pairs, map, None, None, None]);
    }
}
