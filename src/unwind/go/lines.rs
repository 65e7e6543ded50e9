//! Files, lines and inlined functions from Go's own table: what the runtime prints in a traceback, and all that is left in a
//! stripped program. Format: `src/runtime/symtab.go` and `symtabinl.go` of Go; inline trees as since Go 1.20.

use super::pclntab::{GoFunction, GoTable, relocated, take_number};
use crate::elf::fields::{Fields, c_string};
use crate::elf::{ElfImage, Section};

/// Places of numbers in the description of a function (`_func` in `src/runtime/runtime2.go`).
const PC_FILE: usize = 20;
const PC_LINE: usize = 24;
const PC_DATA_COUNT: usize = 28;
const UNIT_FILES: usize = 32;
/// Offsets of its two lists, Go 1.20 and 1.18; the byte before is the length of the second.
const LISTS: [usize; 2] = [44, 40];
/// `PCDATA_InlTreeIndex` and `FUNCDATA_InlTree` (`src/internal/abi/symtab.go`).
const INLINE_INDEX: usize = 2;
const INLINE_TREE: usize = 3;
/// Bytes of an entry of an inline tree (`inlinedCall`), and where the name and the place of the call are in it.
const CALL_BYTES: u64 = 16;
const CALL_NAME: usize = 4;
const CALL_PARENT: usize = 8;
/// Entries of an inline tree that may be; the longest seen has some hundred.
const MAX_CALLS: i64 = 1 << 20;
/// Functions one inside of the other.
const MAX_DEPTH: usize = 256;
/// Where the runtime's description of the module (`moduledata`) holds the addresses of the table, of the names in it, and of
/// what descriptions of functions refer to.
const MODULE_NAMES: u64 = 8;
const MODULE_FUNC_DATA: u64 = 320;
/// Larger sections are not searched for that description, bytes.
const MAX_SEARCHED_BYTES: u64 = 64 << 20;

/// A function at an address, as Go's table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoFrame {
    pub(crate) name: Vec<u8>,
    pub(crate) file: Option<Vec<u8>>,
    /// 0: unknown.
    pub(crate) line: u32,
}

impl GoTable {
    /// The functions at an address of `image`, the innermost first; empty where the table knows none.
    pub(crate) fn chain_at(&self, address: u64, image: &ElfImage) -> Vec<GoFrame> {
        let Some(function) = self.function_around(address) else { return Vec::new() };
        let Some(own_name) = self.name(&function) else { return Vec::new() };
        let mut frames = Vec::new();
        let mut at = address;
        while let Some(call) = self.inlined_at(&function, at, image).filter(|_| frames.len() < MAX_DEPTH) {
            let Some((name, parent)) = self.call(&call) else { break };
            frames.push(self.frame(&function, at, name));
            let Some(next) = function.start.checked_add(parent).filter(|next| *next < function.end) else {
                // The caller is known, the place of the call is not.
                frames.push(GoFrame { name: own_name.to_vec(), file: None, line: 0 });
                return frames;
            };
            at = next;
        }
        frames.push(self.frame(&function, at, own_name));
        frames
    }

    fn frame(&self, function: &GoFunction, at: u64, name: &[u8]) -> GoFrame {
        let line = self.value_at(function, PC_LINE, at).and_then(|line| u32::try_from(line).ok());
        GoFrame { name: name.to_vec(), file: self.file(function, at), line: line.unwrap_or(0) }
    }

    /// The file of the instruction at `at`.
    fn file(&self, function: &GoFunction, at: u64) -> Option<Vec<u8>> {
        let number = u32::try_from(self.value_at(function, PC_FILE, at)?).ok()?;
        let index = self.fact(function, UNIT_FILES)?.checked_add(number)? as usize;
        let offset = Fields(&self.bytes).u32(self.unit_files.checked_add(index.checked_mul(4)?)?)?;
        let path = c_string(&self.bytes, self.files.checked_add(offset as usize)?)?;
        (offset != u32::MAX && !path.is_empty()).then(|| path.to_vec())
    }

    /// The value at an address of the table that the description of a function names in `field`.
    fn value_at(&self, function: &GoFunction, field: usize, at: u64) -> Option<i64> {
        self.value_in(function, self.fact(function, field)?, at)
    }

    /// The value at an address of a function in the table of values at `offset`; 0 means none.
    fn value_in(&self, function: &GoFunction, offset: u32, at: u64) -> Option<i64> {
        let start = self.depths.checked_add(offset as usize).filter(|_| offset != 0)?;
        let mut rest = self.bytes.get(start..)?;
        let (mut address, mut value) = (function.start, -1i64);
        while address < function.end {
            let change = take_number(&mut rest)?;
            if change == 0 && address != function.start {
                return None;
            }
            value += i64::from(change >> 1) ^ -i64::from(change & 1);
            address = address.checked_add(u64::from(take_number(&mut rest).filter(|&bytes| bytes > 0)?))?;
            if at < address {
                return Some(value);
            }
        }
        None
    }

    /// The entry of the inline tree for an address; `None` where nothing is inlined there.
    fn inlined_at(&self, function: &GoFunction, at: u64, image: &ElfImage) -> Option<Vec<u8>> {
        if !self.has_inline_trees {
            return None;
        }
        let lists = LISTS[0];
        let values = self.fact(function, PC_DATA_COUNT)? as usize;
        let trees = self.fact_byte(function, lists - 1)?;
        if values <= INLINE_INDEX || usize::from(trees) <= INLINE_TREE {
            return None;
        }
        let table = self.fact(function, lists + 4 * INLINE_INDEX)?;
        let index = self.value_in(function, table, at).filter(|index| (0..MAX_CALLS).contains(index))?;
        let place = lists.checked_add(values.checked_mul(4)?)? + 4 * INLINE_TREE;
        let offset = self.fact(function, place).filter(|&offset| offset != u32::MAX)?;
        let start = self.func_data(image)?.checked_add(u64::from(offset))?;
        image.read_address(start.checked_add(index as u64 * CALL_BYTES)?, CALL_BYTES).ok()
    }

    /// The name of the function of an entry of an inline tree, and the offset in the outer function of what has the place of
    /// the call.
    fn call(&self, entry: &[u8]) -> Option<(&[u8], u64)> {
        let fields = Fields(entry);
        let name = c_string(&self.bytes, self.names.checked_add(fields.u32(CALL_NAME)? as usize)?)?;
        Some((name, u64::from(fields.u32(CALL_PARENT)?)))
    }

    /// The module's address of what descriptions of functions refer to (`moduledata.gofunc`).
    fn func_data(&self, image: &ElfImage) -> Option<u64> {
        *self.func_data.get_or_init(|| {
            let pointer = self.module_description(image)?.checked_add(MODULE_FUNC_DATA)?;
            pointer_at(image, pointer)
        })
    }

    /// Returns the runtime's description of the module: it begins with the addresses of this table and of its names.
    fn module_description(&self, image: &ElfImage) -> Option<u64> {
        let names = self.address.checked_add(self.names as u64)?;
        let is_it = |at: u64| {
            let second = at.checked_add(MODULE_NAMES).and_then(|at| pointer_at(image, at));
            second == Some(names)
        };
        if let Some(section) = image.section(b".go.module") {
            return Some(section.address);
        }
        for name in [&b".noptrdata"[..], b".data", b".data.rel.ro"] {
            let small = |section: &&Section| section.size <= MAX_SEARCHED_BYTES;
            let Some(section) = image.section(name).filter(small) else { continue };
            let Ok(bytes) = image.section_bytes(section) else { continue };
            let (words, _) = bytes.as_chunks::<8>();
            let places =
                words.iter().enumerate().filter(|(_, word)| u64::from_le_bytes(**word) == self.address);
            let mut places = places.filter_map(|(index, _)| section.address.checked_add(8 * index as u64));
            if let Some(at) = places.find(|at| is_it(*at)) {
                return Some(at);
            }
        }
        // In position-independent programs the dynamic linker writes these addresses.
        let section = image.section(b".rela.dyn").or_else(|| image.section(b".rela"))?;
        let bytes = image.section_bytes(section).ok()?;
        let entries = bytes.as_chunks::<24>().0.iter().map(|entry| Fields(entry));
        let mut places = entries.filter(|entry| entry.u64(16) == Some(self.address)).filter_map(|e| e.u64(0));
        places.find(|at| is_it(*at))
    }
}

/// The address in the module that a pointer in its data holds.
fn pointer_at(image: &ElfImage, at: u64) -> Option<u64> {
    let stored = image.read_address(at, 8).ok().and_then(|bytes| Fields(&bytes).u64(0));
    stored.filter(|&pointer| pointer != 0).or_else(|| relocated(image, at))
}
