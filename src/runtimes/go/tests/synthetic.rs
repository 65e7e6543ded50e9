//! Memory of a process that does not exist, for tests.

use crate::runtimes::TargetMemory;

/// Segments of bytes by address; everything else cannot be read.
#[derive(Debug, Default)]
pub(crate) struct SyntheticMemory {
    segments: Vec<(u64, Vec<u8>)>,
}

impl SyntheticMemory {
    pub(crate) fn add(&mut self, address: u64, bytes: Vec<u8>) {
        self.segments.push((address, bytes));
    }

    pub(crate) fn add_words(&mut self, address: u64, words: &[u64]) {
        self.add(address, words.iter().flat_map(|word| word.to_ne_bytes()).collect());
    }

    /// Replaces a word of a segment.
    pub(crate) fn set_word(&mut self, address: u64, word: u64) {
        let holds = |(start, bytes): &&mut (u64, Vec<u8>)| {
            *start <= address && address + 8 <= *start + bytes.len() as u64
        };
        let (start, bytes) = self.segments.iter_mut().find(holds).unwrap();
        let at = (address - *start) as usize;
        bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    }
}

impl TargetMemory for SyntheticMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let found = self.segments.iter().find_map(|(start, segment)| {
            let at = usize::try_from(address.checked_sub(*start)?).ok()?;
            segment.get(at..at.checked_add(bytes.len())?)
        });
        found.is_some_and(|found| {
            bytes.copy_from_slice(found);
            true
        })
    }
}

/// Writer of descriptions of types, one after another.
pub(crate) struct TypeWriter {
    start: u64,
    bytes: Vec<u8>,
}

impl TypeWriter {
    pub(crate) fn new(start: u64) -> Self {
        TypeWriter { start, bytes: Vec::new() }
    }

    /// A number of `size` bytes.
    pub(crate) fn plain(&mut self, size: u64) -> u64 {
        self.header(size, 11, &[])
    }

    pub(crate) fn string(&mut self) -> u64 {
        self.header(16, 24, &[])
    }

    pub(crate) fn pointer(&mut self, to: u64) -> u64 {
        self.header(8, 22, &[to])
    }

    pub(crate) fn slice(&mut self, of: u64) -> u64 {
        self.header(24, 23, &[of])
    }

    /// A map in buckets of eight strings and eight strings.
    pub(crate) fn map(&mut self, key: u64, value: u64) -> u64 {
        let sizes = u64::from_ne_bytes([16, 16, 0x10, 1, 0, 0, 0, 0]);
        self.header(8, 21, &[key, value, 0, 0, sizes])
    }

    pub(crate) fn structure(&mut self, size: u64, fields: &[(&str, u64, u64)]) -> u64 {
        let mut list = Vec::new();
        for &(name, offset, of_type) in fields {
            let at = self.end();
            self.bytes.extend([0, name.len() as u8]);
            self.bytes.extend(name.as_bytes());
            list.extend([at, of_type, offset]);
        }
        let at = self.align();
        self.bytes.extend(list.iter().flat_map(|word| word.to_ne_bytes()));
        self.header(size, 25, &[0, at, fields.len() as u64, fields.len() as u64])
    }

    pub(crate) fn set_word(&mut self, address: u64, word: u64) {
        let at = (address - self.start) as usize;
        self.bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    }

    pub(crate) fn write(mut self, memory: &mut SyntheticMemory) {
        self.bytes.extend([0; 128]);
        memory.add(self.start, self.bytes);
    }

    fn header(&mut self, size: u64, kind: u8, rest: &[u64]) -> u64 {
        let at = self.align();
        self.bytes.extend(size.to_ne_bytes());
        self.bytes.extend([0; 15]);
        self.bytes.push(kind);
        self.bytes.extend([0; 24]);
        self.bytes.extend(rest.iter().flat_map(|word| word.to_ne_bytes()));
        at
    }

    fn align(&mut self) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.end()
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}
