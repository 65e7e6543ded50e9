//! Go's own function table: what the runtime walks its stacks and names its functions by.
//!
//! It is in every Go program, stripped or not, and covers assembly too. For each function it holds the name
//! and, for each instruction, how many bytes lie between rsp and the return address. The format is described
//! in `src/internal/abi/symtab.go`, `src/runtime/symtab.go` and `src/cmd/link/internal/ld/pcln.go` of Go;
//! versions 1.18 and later are read (`0xfffffff0` and `0xfffffff1`).

use crate::elf::fields::{Fields, c_string};
use crate::elf::{ElfImage, Section};
use std::sync::OnceLock;

/// First word of the table, Go 1.18 and 1.20.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// After the first word: two zeros, instructions of one byte, pointers of eight.
const LAYOUT: [u8; 4] = [0, 0, 1, 8];
/// Most headers that are tried: other data hardly ever look like one, but a file full of them would take long.
const MAX_HEADERS: usize = 8;
/// Header: magic and layout, then eight words.
const HEADER_BYTES: usize = 8 + 8 * 8;
/// Offset of the address of the first function in the header; 0 is there before relocation, and since Go 1.26.
const TEXT_START: u64 = 24;
/// Offset of the same in the runtime's description of the module (`moduledata.text`, Go 1.26).
const MODULE_TEXT: u64 = 0xb0;
/// Frames are far smaller: Go's linker refuses larger ones (`StackBig` of the ABI bounds what need not be checked).
const MAX_DEPTH_BYTES: i64 = 1 << 30;
/// `R_X86_64_RELATIVE`, the relocation of a pointer into the module itself (x86-64 psABI).
const RELATIVE: u64 = 8;

/// A function of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoFunction {
    /// The module's own address of the first instruction.
    pub(crate) start: u64,
    /// The address of the next function.
    pub(crate) end: u64,
    /// Offset of its description, bytes from the start of the list of functions.
    facts: usize,
}

/// The table of one module.
#[derive(Debug)]
pub(crate) struct GoTable {
    pub(super) bytes: Vec<u8>,
    /// The module's own address of its first byte.
    pub(super) address: u64,
    text: u64,
    function_count: usize,
    pub(super) names: usize,
    /// Numbers of files by unit, and the names of files.
    pub(super) unit_files: usize,
    pub(super) files: usize,
    pub(super) depths: usize,
    functions: usize,
    /// Functions say what is inlined into them as since Go 1.20.
    pub(super) has_inline_trees: bool,
    /// Address of what descriptions of functions refer to, looked for when it is needed.
    pub(super) func_data: OnceLock<Option<u64>>,
}

impl GoTable {
    /// Finds and reads the table of a Go module; `None` where there is none, or none of a known format.
    pub(crate) fn load(image: &ElfImage) -> Option<Self> {
        let named = image.section(b".gopclntab").or_else(|| image.section(b".data.rel.ro.gopclntab"));
        if let Some(section) = named {
            let bytes = image.section_bytes(section).ok()?;
            let address = section.address;
            return Self::parse(bytes, address, |at| text_start(image, address.checked_add(at)?));
        }
        // The C linker merges it with other data in position-independent programs.
        for name in [&b".data.rel.ro"[..], b".rodata"] {
            let Some(section) = image.section(name) else { continue };
            let Ok(bytes) = image.section_bytes(section) else { continue };
            let headers = (0..bytes.len()).step_by(16).filter(|&at| is_header(&bytes[at..]));
            for at in headers.take(MAX_HEADERS) {
                let start = section.address.checked_add(at as u64)?;
                let table = Self::parse(bytes.get(at..)?.to_vec(), start, |offset| {
                    text_start(image, start.checked_add(offset)?)
                });
                if table.is_some() {
                    return table;
                }
            }
        }
        None
    }

    /// Reads a table from its first byte on, which is at `address` of the module. `text` gives the module's address that the
    /// header word at an offset means, where the word itself is zero.
    fn parse(bytes: Vec<u8>, address: u64, text: impl FnOnce(u64) -> Option<u64>) -> Option<Self> {
        if !is_header(&bytes) {
            return None;
        }
        let fields = Fields(&bytes);
        let word = |index: usize| fields.u64(8 + 8 * index);
        let offset = |index: usize| word(index).and_then(|at| usize::try_from(at).ok());
        let (function_count, names, depths, functions) = (offset(0)?, offset(3)?, offset(6)?, offset(7)?);
        let (unit_files, files) = (offset(4)?, offset(5)?);
        let has_inline_trees = fields.u32(0) == Some(MAGICS[1]);
        let list_bytes = function_count.checked_mul(8)?.checked_add(4)?;
        let is_inside = |at: usize| (HEADER_BYTES..bytes.len()).contains(&at);
        if !is_inside(names) || !is_inside(depths) || !is_inside(functions) {
            return None;
        }
        if functions.checked_add(list_bytes)? > bytes.len() || function_count == 0 {
            return None;
        }
        let text = match word(2)? {
            0 => text(TEXT_START)?,
            text => text,
        };
        let func_data = OnceLock::new();
        Some(GoTable {
            bytes,
            address,
            text,
            function_count,
            names,
            unit_files,
            files,
            depths,
            functions,
            has_inline_trees,
            func_data,
        })
    }

    /// The functions, in ascending order of address; damaged ones are left out.
    pub(crate) fn functions(&self) -> impl Iterator<Item = GoFunction> + '_ {
        (0..self.function_count).filter_map(|index| self.function(index))
    }

    fn function(&self, index: usize) -> Option<GoFunction> {
        let fields = Fields(&self.bytes);
        let at = self.functions + 8 * index;
        let start = self.text.checked_add(u64::from(fields.u32(at)?))?;
        let end = self.text.checked_add(u64::from(fields.u32(at + 8)?))?;
        (start < end).then_some(GoFunction { start, end, facts: fields.u32(at + 4)? as usize })
    }

    /// The function around one of the module's own addresses.
    pub(crate) fn function_around(&self, address: u64) -> Option<GoFunction> {
        let (mut low, mut high) = (0, self.function_count);
        while low < high {
            let middle = low + (high - low) / 2;
            let start = u64::from(Fields(&self.bytes).u32(self.functions + 8 * middle)?);
            if self.text.checked_add(start)? <= address { low = middle + 1 } else { high = middle }
        }
        let function = self.function(low.checked_sub(1)?)?;
        (function.start..function.end).contains(&address).then_some(function)
    }

    /// The name of a function, as Go writes it.
    pub(crate) fn name(&self, function: &GoFunction) -> Option<&[u8]> {
        let offset = self.fact(function, 4)? as usize;
        c_string(&self.bytes, self.names.checked_add(offset)?).filter(|name| !name.is_empty())
    }

    /// A number of the function's description (`_func` in `src/runtime/runtime2.go`), by its offset.
    pub(super) fn fact(&self, function: &GoFunction, offset: usize) -> Option<u32> {
        Fields(&self.bytes).u32(self.functions.checked_add(function.facts)?.checked_add(offset)?)
    }

    /// A byte of the function's description, by its offset.
    pub(super) fn fact_byte(&self, function: &GoFunction, offset: usize) -> Option<u8> {
        self.bytes.get(self.functions.checked_add(function.facts)?.checked_add(offset)?).copied()
    }

    /// Bytes between rsp and the return address, by address where they change; `None` where that is unknown. Nothing
    /// for a damaged function. Appends to `depths`.
    pub(super) fn add_depths(&self, function: &GoFunction, depths: &mut Vec<(u64, Option<i32>)>) {
        const PCSP: usize = 16;
        let Some(start) = self.fact(function, PCSP).filter(|&offset| offset != 0) else { return };
        let Some(at) = self.depths.checked_add(start as usize) else { return };
        let mut rest = self.bytes.get(at..).unwrap_or(&[]);
        let (mut address, mut depth) = (function.start, -1i64);
        while address < function.end {
            let Some(change) = take_number(&mut rest) else { return };
            if change == 0 && address != function.start {
                return;
            }
            depth += i64::from(change >> 1) ^ -i64::from(change & 1);
            let Some(bytes) = take_number(&mut rest).filter(|&bytes| bytes > 0) else { return };
            let known = i32::try_from(depth).ok().filter(|_| (0..MAX_DEPTH_BYTES).contains(&depth));
            depths.push((address, known));
            address = address.saturating_add(u64::from(bytes));
        }
    }
}

fn is_header(bytes: &[u8]) -> bool {
    let fields = Fields(bytes);
    fields.u32(0).is_some_and(|magic| MAGICS.contains(&magic)) && bytes.get(4..8) == Some(&LAYOUT[..])
}

/// A number in groups of seven bits, the lowest first.
pub(super) fn take_number(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0u32;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The address of the first function, where the header at `word` does not hold it.
fn text_start(image: &ElfImage, word: u64) -> Option<u64> {
    if let Some(text) = relocated(image, word) {
        return Some(text);
    }
    let module = image.section(b".go.module")?;
    let word = module.address.checked_add(MODULE_TEXT)?;
    let stored = image.read_address(word, 8).ok().and_then(|bytes| Fields(&bytes).u64(0));
    stored.filter(|&text| text != 0).or_else(|| relocated(image, word))
}

/// Address that the dynamic linker will write at `address`: a pointer into the module.
pub(super) fn relocated(image: &ElfImage, address: u64) -> Option<u64> {
    const ENTRY_BYTES: usize = 24;
    let section: &Section = image.section(b".rela.dyn").or_else(|| image.section(b".rela"))?;
    let bytes = image.section_bytes(section).ok()?;
    let found = bytes.chunks_exact(ENTRY_BYTES).map(Fields).find(|entry| entry.u64(0) == Some(address))?;
    found.u64(16).filter(|_| found.u64(8) == Some(RELATIVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two functions at 0x1000 and 0x1010, the first with a frame of 8 and then 24 bytes.
    fn table() -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(MAGICS[1].to_le_bytes());
        bytes.extend(LAYOUT);
        for word in [2u64, 0, 0x1000, 72, 0, 0, 72 + 16, 72 + 32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(b"main.a\0main.b\0\0\0");
        // Depth 0 for 1 byte, 8 for 4 bytes, 24 to the end; then the other function's, which is damaged.
        bytes.extend([0, 2, 1, 16, 4, 32, 11, 0, 2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0]);
        for word in [0u32, 20, 0x10, 40, 0x20] {
            bytes.extend(word.to_le_bytes());
        }
        for fact in [0u32, 0, 0, 0, 1, 0x10, 7, 0, 0, 8] {
            bytes.extend(fact.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn functions_have_names_and_depths() {
        let table = GoTable::parse(table(), 0, |_| None).expect("a table");
        let at = |address| {
            let function = table.function_around(address)?;
            Some((function.start, table.name(&function)?))
        };
        assert_eq!(at(0x1000), Some((0x1000, &b"main.a"[..])));
        assert_eq!(at(0x100f), Some((0x1000, &b"main.a"[..])));
        assert_eq!(at(0x1010), Some((0x1010, &b"main.b"[..])));
        assert_eq!(at(0xfff), None);
        assert_eq!(at(0x1020), None);
        let mut depths = Vec::new();
        let functions: Vec<GoFunction> = table.functions().collect();
        table.add_depths(&functions[0], &mut depths);
        assert_eq!(depths, [(0x1000, Some(0)), (0x1001, Some(8)), (0x1005, Some(24))]);
        depths.clear();
        table.add_depths(&functions[1], &mut depths);
        assert_eq!(depths, [], "a number that does not end");
    }

    #[test]
    fn a_cut_table_is_refused_or_left_out_not_followed() {
        let whole = table();
        for length in 0..whole.len() {
            let Some(table) = GoTable::parse(whole[..length].to_vec(), 0, |_| None) else { continue };
            for function in table.functions() {
                table.name(&function);
                table.add_depths(&function, &mut Vec::new());
            }
            table.function_around(0x1008);
        }
    }
}
