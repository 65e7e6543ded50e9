//! Methods: class, name, signature, source file, and the line of a bytecode.

use super::numbers::{JavaNumberCoding, JavaNumbers};
use super::tables::{JavaField, JavaTables};
use crate::runtimes::RuntimeProblem;
use crate::runtimes::memory::TargetMemory;
use std::ops::Range;

/// Bytes of a symbol at most.
const LONGEST_SYMBOL: usize = 4096;
/// Bytes of one method's bytecodes at most, by the class file format.
const LONGEST_CODE: u64 = 65_535;
/// Bytes read of a method's line table at a time.
const LINES_STEP: u64 = 4096;
/// Bytes of a method's line table at most.
const MOST_LINES: u64 = 1 << 20;
/// Tag of a name in a constant pool.
const UTF8: u8 = 1;

/// Method as its JVM describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JavaMethod {
    /// Class with its package, as in `java.util.TimSort`.
    pub(crate) class: String,
    pub(crate) name: String,
    /// Parameters and result, as in `(ILjava/lang/String;)V`.
    pub(crate) signature: String,
    /// Name of the source file without its folder.
    pub(crate) file: Option<String>,
    /// First bytecode index and line of every run of bytecodes, in the order of the table.
    pub(crate) lines: Vec<(u32, u32)>,
    /// ConstMethod* that all of this was read from: if Method* has another one now, this is outdated.
    pub(crate) const_method: u64,
    /// Addresses of its bytecodes; empty for a native method.
    pub(crate) bytecodes: Range<u64>,
}

impl JavaMethod {
    /// Line that the method begins in, as far as is known.
    pub(crate) fn first_line(&self) -> Option<u32> {
        self.lines.iter().map(|(_, line)| *line).min()
    }

    /// Index of the bytecode at an address; `None` if it is not one of this method.
    pub(crate) fn bci(&self, bytecode: u64) -> Option<u16> {
        let is_own = self.bytecodes.contains(&bytecode);
        is_own.then(|| u16::try_from(bytecode - self.bytecodes.start).ok()).flatten()
    }

    /// Line of the bytecode at `bci`; that of the first bytecode if the method has not begun with one yet.
    pub(crate) fn line(&self, bci: Option<u16>) -> Option<u32> {
        let bci = u32::from(bci.unwrap_or(0));
        let run = self.lines.iter().filter(|(start, _)| *start <= bci).max_by_key(|(start, _)| *start)?;
        Some(run.1)
    }
}

/// Method whose parts were found to belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JavaMethodParts {
    pub(crate) const_method: u64,
    pool: u64,
    class: u64,
    /// Address of the first bytecode.
    pub(crate) code: u64,
    /// Bytes of bytecode; 0 for a native method.
    pub(crate) code_size: u64,
    name_index: u64,
    signature_index: u64,
    has_lines: bool,
}

impl JavaMethodParts {
    /// Index of the bytecode at address `bcp`, if it is one of this method's.
    pub(crate) fn bci(&self, bcp: u64) -> Option<u16> {
        let bci = bcp.checked_sub(self.code).filter(|&bci| bci < self.code_size)?;
        u16::try_from(bci).ok()
    }
}

/// Offsets of methods, constant pools and symbols of one JVM.
#[derive(Clone, Debug)]
pub(crate) struct JavaMethodLayout {
    pub(crate) const_method: JavaField,
    pool: JavaField,
    flags: JavaField,
    line_flag: u64,
    code_size: JavaField,
    name_index: JavaField,
    signature_index: JavaField,
    /// Bytes of a ConstMethod before its bytecodes.
    pub(crate) const_method_size: u64,
    pool_tags: JavaField,
    pool_holder: JavaField,
    pool_length: JavaField,
    pool_size: u64,
    tags_data: u64,
    pool_file: Option<JavaField>,
    class_file: Option<JavaField>,
    class_name: JavaField,
    class_pool: JavaField,
    symbol_length: SymbolLength,
    symbol_body: JavaField,
    pub(crate) coding: JavaNumberCoding,
}

/// Where a symbol keeps its length.
#[derive(Clone, Copy, Debug)]
enum SymbolLength {
    Field(JavaField),
    /// Upper half of a word of 32 bits.
    UpperHalf(JavaField),
}

impl JavaMethodLayout {
    /// Offsets as `tables` give them; a sentence if one is missing.
    pub(crate) fn of(memory: &impl TargetMemory, tables: &JavaTables) -> Result<Self, RuntimeProblem> {
        let constant = |name: &str| {
            let old = tables.constant(&format!("ConstMethod::_{name}"));
            old.or_else(|| tables.constant(&format!("ConstMethodFlags::_misc_{name}")))
        };
        let symbol_length = match tables.field("Symbol", "_length") {
            Some(field) => SymbolLength::Field(JavaField { width: 2, ..field }),
            None => SymbolLength::UpperHalf(tables.need(&[("Symbol", "_length_and_refcount")])?),
        };
        let narrow = |field: JavaField| JavaField { width: 2, ..field };
        Ok(Self {
            const_method: tables.need(&[("Method", "_constMethod")])?,
            pool: tables.need(&[("ConstMethod", "_constants")])?,
            flags: narrow(tables.need(&[("ConstMethod", "_flags"), ("ConstMethod", "_flags._flags")])?),
            line_flag: constant("has_linenumber_table").unwrap_or(1),
            code_size: narrow(tables.need(&[("ConstMethod", "_code_size")])?),
            name_index: narrow(tables.need(&[("ConstMethod", "_name_index")])?),
            signature_index: narrow(tables.need(&[("ConstMethod", "_signature_index")])?),
            const_method_size: tables.size("ConstMethod")?,
            pool_tags: tables.need(&[("ConstantPool", "_tags")])?,
            pool_holder: tables.need(&[("ConstantPool", "_pool_holder")])?,
            pool_length: tables.need(&[("ConstantPool", "_length")])?,
            pool_size: tables.size("ConstantPool")?,
            tags_data: tables.field("Array<u1>", "_data").map_or(4, |field| u64::from(field.offset)),
            pool_file: tables.field("ConstantPool", "_source_file_name_index").map(narrow),
            class_file: tables.field("InstanceKlass", "_source_file_name_index").map(narrow),
            class_name: tables.need(&[("Klass", "_name")])?,
            class_pool: tables.need(&[("InstanceKlass", "_constants")])?,
            symbol_length,
            symbol_body: tables.need(&[("Symbol", "_body"), ("Symbol", "_body[0]")])?,
            coding: JavaNumberCoding::of(memory, tables),
        })
    }

    /// Parts of the method at `method` that belong together; `None` if that is no method.
    /// The constant pool must name a class whose own pool names it too, and the method's name must be a name there.
    pub(crate) fn check(&self, memory: &impl TargetMemory, method: u64) -> Option<JavaMethodParts> {
        if method == 0 || !method.is_multiple_of(8) {
            return None;
        }
        let const_method = word(memory, method, self.const_method)?;
        let fixed = memory.range(const_method, self.const_method_size, 256)?;
        let pool = self.pool.of(&fixed)?;
        let header = memory.range(pool, self.pool_size, 256)?;
        let class = self.pool_holder.of(&header)?;
        let length = self.pool_length.of(&header)?;
        let tags = self.pool_tags.of(&header)?;
        let (name_index, signature_index) = (self.name_index.of(&fixed)?, self.signature_index.of(&fixed)?);
        // Linkers of method handles have a pool of their own, so the class is asked for its pool, not for this one.
        if word(memory, word(memory, class, self.class_pool)?, self.pool_holder)? != class {
            return None;
        }
        for index in [name_index, signature_index] {
            let tag = tags.checked_add(self.tags_data)?.checked_add(index)?;
            if index == 0 || index >= length || memory.u8(tag)? != UTF8 {
                return None;
            }
        }
        Some(JavaMethodParts {
            const_method,
            pool,
            class,
            code: const_method.checked_add(self.const_method_size)?,
            code_size: self.code_size.of(&fixed)?,
            name_index,
            signature_index,
            has_lines: self.flags.of(&fixed)? & self.line_flag != 0,
        })
    }

    /// ConstMethod* of the method at `method` now, to see whether what was read before still holds.
    pub(crate) fn current(&self, memory: &impl TargetMemory, method: u64) -> Option<u64> {
        word(memory, method, self.const_method)
    }

    /// Names and lines of the method at `method`; `None` if a check fails.
    pub(crate) fn method(&self, memory: &impl TargetMemory, method: u64) -> Option<JavaMethod> {
        let parts = self.check(memory, method)?;
        let class = self.symbol(memory, word(memory, parts.class, self.class_name)?)?;
        let file = match (self.pool_file, self.class_file) {
            (Some(field), _) => half(memory, parts.pool, field),
            (None, Some(field)) => half(memory, parts.class, field),
            (None, None) => None,
        };
        let file = file.filter(|&index| index != 0).and_then(|index| self.pool_symbol(memory, &parts, index));
        Some(JavaMethod {
            class: dotted(&class),
            name: self.pool_symbol(memory, &parts, parts.name_index)?,
            signature: self.pool_symbol(memory, &parts, parts.signature_index)?,
            file,
            lines: if parts.has_lines { self.lines(memory, &parts) } else { Vec::new() },
            const_method: parts.const_method,
            bytecodes: parts.code..parts.code.saturating_add(parts.code_size),
        })
    }

    fn pool_symbol(&self, memory: &impl TargetMemory, parts: &JavaMethodParts, index: u64) -> Option<String> {
        let slot = parts.pool.checked_add(self.pool_size)?.checked_add(8 * index)?;
        self.symbol(memory, memory.u64(slot)?)
    }

    /// Text of the symbol at `address`; `None` unless it is printable UTF-8 of at most 4 KiB.
    fn symbol(&self, memory: &impl TargetMemory, address: u64) -> Option<String> {
        let length = match self.symbol_length {
            SymbolLength::Field(field) => half(memory, address, field)?,
            SymbolLength::UpperHalf(field) => {
                half(memory, address, JavaField { offset: field.offset.checked_add(2)?, width: 2 })?
            }
        };
        let body = address.checked_add(u64::from(self.symbol_body.offset))?;
        let text = String::from_utf8(memory.range(body, length, LONGEST_SYMBOL)?).ok()?;
        (!text.is_empty() && !text.chars().any(char::is_control)).then_some(text)
    }

    /// Line table, which follows the bytecodes: a byte with both differences, or 0xff and two signed numbers.
    fn lines(&self, memory: &impl TargetMemory, parts: &JavaMethodParts) -> Vec<(u32, u32)> {
        let Some(start) = parts.code.checked_add(parts.code_size) else { return Vec::new() };
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < MOST_LINES {
            let Some(at) = start.checked_add(bytes.len() as u64) else { break };
            let step = LINES_STEP - at % LINES_STEP;
            let Some(more) = memory.range(at, step, LINES_STEP as usize) else { break };
            bytes.extend(more);
            if let Some(lines) = line_table(&bytes, self.coding) {
                return lines;
            }
        }
        Vec::new()
    }
}

/// Line table in `bytes`; `None` if its end is not among them.
fn line_table(bytes: &[u8], coding: JavaNumberCoding) -> Option<Vec<(u32, u32)>> {
    let mut numbers = JavaNumbers::new(bytes, coding);
    let (mut bci, mut line) = (0_u32, 0_u32);
    let mut lines = Vec::new();
    loop {
        match numbers.byte()? {
            0 => return Some(lines),
            0xff => {
                bci = bci.wrapping_add_signed(numbers.signed()?);
                line = line.wrapping_add_signed(numbers.signed()?);
            }
            byte => {
                bci = bci.wrapping_add(u32::from(byte >> 3));
                line = line.wrapping_add(u32::from(byte & 7));
            }
        }
        if bci > LONGEST_CODE as u32 || line > LONGEST_CODE as u32 {
            return Some(Vec::new());
        }
        lines.push((bci, line));
    }
}

/// Class name with dots for the slashes between packages; the number of a hidden class keeps its slash.
fn dotted(name: &str) -> String {
    let mut rest = name.chars().peekable();
    let mut dotted = String::with_capacity(name.len());
    while let Some(letter) = rest.next() {
        let divides = letter == '/' && !rest.peek().is_some_and(char::is_ascii_digit);
        dotted.push(if divides { '.' } else { letter });
    }
    dotted
}

fn word(memory: &impl TargetMemory, object: u64, field: JavaField) -> Option<u64> {
    memory.u64(object.checked_add(u64::from(field.offset))?)
}

fn half(memory: &impl TargetMemory, object: u64, field: JavaField) -> Option<u64> {
    memory.u16(object.checked_add(u64::from(field.offset))?).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_tables_have_short_and_long_steps() {
        let bytes = [0x0a, 0xff, 40, 200, 1, 0x19, 0];
        let lines = line_table(&bytes, JavaNumberCoding::WithZero);
        assert_eq!(lines, Some(vec![(1, 2), (21, 134), (24, 135)]));
        assert_eq!(line_table(&bytes[..5], JavaNumberCoding::WithZero), None);
    }

    #[test]
    fn hidden_classes_keep_their_number() {
        assert_eq!(dotted("java/util/TimSort"), "java.util.TimSort");
        assert_eq!(dotted("Work$$Lambda$1/0x00f"), "Work$$Lambda$1/0x00f");
    }
}
