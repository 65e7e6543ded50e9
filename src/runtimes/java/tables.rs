//! Tables in which libjvm describes itself: offsets of fields, sizes of types, addresses of static fields, constants.

use crate::runtimes::RuntimeProblem;
use crate::runtimes::memory::TargetMemory;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// Bytes of a page, the unit in which tables and their strings are read.
const PAGE: u64 = 4096;
/// TablePages kept at most; further ones are read without being kept.
const MOST_PAGES: usize = 1024;
/// Entries of one table at most; HotSpot has 600 to 2,100.
const MOST_ENTRIES: u64 = 16_384;
/// Bytes of a name at most.
const LONGEST_NAME: u64 = 256;

/// Place of a field in its object, and its width in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JavaField {
    pub(crate) offset: u32,
    pub(crate) width: u8,
}

impl JavaField {
    /// Value of the field in an object whose first bytes are `object`, without sign.
    pub(crate) fn of(self, object: &[u8]) -> Option<u64> {
        let start = usize::try_from(self.offset).ok()?;
        let bytes = object.get(start..start.checked_add(usize::from(self.width))?)?;
        let mut word = [0; 8];
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }

    /// Value of the field in an object whose first bytes are `object`, as a signed number of the field's width.
    pub(crate) fn signed(self, object: &[u8]) -> Option<i64> {
        let unused = 64 - 8 * u32::from(self.width.clamp(1, 8));
        self.of(object).map(|value| value.cast_signed() << unused >> unused)
    }
}

/// What one libjvm says about its own types.
#[derive(Default)]
pub(crate) struct JavaTables {
    fields: FxHashMap<(String, String), JavaField>,
    statics: FxHashMap<(String, String), u64>,
    sizes: FxHashMap<String, u64>,
    constants: FxHashMap<String, u64>,
}

impl JavaTables {
    /// Tables of the libjvm whose exported symbols `symbols` finds; a sentence with the cause otherwise.
    pub(crate) fn read(
        memory: &impl TargetMemory,
        symbols: &impl Fn(&str) -> Option<u64>,
    ) -> Result<Self, RuntimeProblem> {
        let reader = TableReader { memory: TablePages::new(memory), symbols };
        let mut tables = Self::default();
        reader.fields(&mut tables)?;
        reader.sizes(&mut tables)?;
        for kind in ["Int", "Long"] {
            reader.constants(kind, &mut tables)?;
        }
        Ok(tables)
    }

    /// Field `name` of `object`, if this JVM has it.
    pub(crate) fn field(&self, object: &str, name: &str) -> Option<JavaField> {
        self.fields.get(&(object.to_string(), name.to_string())).copied()
    }

    /// First of the fields `names` (type and field) that this JVM has; a sentence that names the first one otherwise.
    pub(crate) fn need(&self, names: &[(&str, &str)]) -> Result<JavaField, RuntimeProblem> {
        let found = names.iter().find_map(|(object, name)| self.field(object, name));
        found.ok_or_else(|| missing(names))
    }

    /// Address of the static field `name` of `object`.
    pub(crate) fn address(&self, object: &str, name: &str) -> Option<u64> {
        self.statics.get(&(object.to_string(), name.to_string())).copied()
    }

    /// Size of the type `name` in bytes; a sentence otherwise.
    pub(crate) fn size(&self, name: &str) -> Result<u64, RuntimeProblem> {
        let size = self.sizes.get(name).copied().filter(|size| (1..=PAGE).contains(size));
        size.ok_or_else(|| missing(&[(name, "sizeof")]))
    }

    /// Value of the constant `name`.
    pub(crate) fn constant(&self, name: &str) -> Option<u64> {
        self.constants.get(name).copied()
    }
}

fn missing(names: &[(&str, &str)]) -> RuntimeProblem {
    let name = names.first().map_or_else(String::new, |(object, field)| format!("{object}::{field}"));
    // A library that is just being loaded describes nothing yet.
    RuntimeProblem::temporary(format!(
        "java: unknown layout: libjvm does not describe `{name}`; \
         frames of generated code stay unnamed, a newer prof may know this JVM"
    ))
}

struct TableReader<'a, M, S> {
    memory: TablePages<'a, M>,
    symbols: &'a S,
}

impl<M: TargetMemory, S: Fn(&str) -> Option<u64>> TableReader<'_, M, S> {
    fn variable(&self, name: &str) -> Result<u64, RuntimeProblem> {
        let Some(address) = (self.symbols)(name) else {
            return Err(RuntimeProblem::lasting(format!(
                "java: no names: libjvm does not export `{name}`; use a JVM built from HotSpot"
            )));
        };
        self.memory.u64(address).ok_or_else(|| {
            RuntimeProblem::temporary(format!(
                "java: no names: `{name}` of libjvm cannot be read; is the process still running?"
            ))
        })
    }

    /// Start, stride and, for each of `columns`, offset in an entry of the table `table`.
    fn table<const N: usize>(
        &self,
        table: &str,
        entry: &str,
        columns: [&str; N],
    ) -> Result<(u64, u64, [u64; N]), RuntimeProblem> {
        let start = self.variable(table)?;
        let stride = self.variable(&format!("{entry}ArrayStride"))?;
        let mut offsets = [0; N];
        for (offset, column) in offsets.iter_mut().zip(columns) {
            *offset = self.variable(&format!("{entry}{column}Offset"))?;
        }
        if start == 0 || !(8..=256).contains(&stride) || offsets.iter().any(|&offset| offset >= stride) {
            return Err(RuntimeProblem::temporary(format!(
                "java: no names: the table `{table}` is not set up yet; attach again once the JVM has started"
            )));
        }
        Ok((start, stride, offsets))
    }

    fn fields(&self, tables: &mut JavaTables) -> Result<(), RuntimeProblem> {
        let columns = ["TypeName", "FieldName", "TypeString", "IsStatic", "Offset", "Address"];
        let (start, stride, [object, field, kind, is_static, offset, address]) =
            self.table("gHotSpotVMStructs", "gHotSpotVMStructEntry", columns)?;
        for entry in self.entries(start, stride, object) {
            let (Some(object), Some(name)) = (self.name(entry + object), self.name(entry + field)) else {
                continue;
            };
            if self.memory.u32(entry + is_static).is_some_and(|flag| flag != 0) {
                if let Some(address) = self.memory.u64(entry + address) {
                    tables.statics.insert((object, name), address);
                }
            } else if let Some(offset) = self.memory.u64(entry + offset).filter(|&offset| offset < PAGE) {
                let width = self.name(entry + kind).map_or(8, |kind| width_of(&kind));
                let offset = u32::try_from(offset).unwrap_or(0);
                tables.fields.insert((object, name), JavaField { offset, width });
            }
        }
        Ok(())
    }

    fn sizes(&self, tables: &mut JavaTables) -> Result<(), RuntimeProblem> {
        let (start, stride, [name, size]) =
            self.table("gHotSpotVMTypes", "gHotSpotVMTypeEntry", ["TypeName", "Size"])?;
        for entry in self.entries(start, stride, name) {
            if let (Some(name), Some(size)) = (self.name(entry + name), self.memory.u64(entry + size)) {
                tables.sizes.insert(name, size);
            }
        }
        Ok(())
    }

    fn constants(&self, kind: &str, tables: &mut JavaTables) -> Result<(), RuntimeProblem> {
        let (start, stride, [name, value]) = self.table(
            &format!("gHotSpotVM{kind}Constants"),
            &format!("gHotSpotVM{kind}ConstantEntry"),
            ["Name", "Value"],
        )?;
        for entry in self.entries(start, stride, name) {
            let number = if kind == "Int" {
                self.memory.u32(entry + value).map(u64::from)
            } else {
                self.memory.u64(entry + value)
            };
            if let (Some(name), Some(number)) = (self.name(entry + name), number) {
                tables.constants.insert(name, number);
            }
        }
        Ok(())
    }

    /// Addresses of the entries of a table, up to the one whose word at `name` is zero.
    fn entries(&self, start: u64, stride: u64, name: u64) -> impl Iterator<Item = u64> {
        (0..MOST_ENTRIES)
            .map_while(move |index| start.checked_add(index * stride).filter(|&at| at < 1 << 62))
            .take_while(move |entry| self.memory.u64(entry + name).is_some_and(|name| name != 0))
    }

    fn name(&self, pointer: u64) -> Option<String> {
        text_at(&self.memory, self.memory.u64(pointer)?, LONGEST_NAME)
    }
}

/// Printable ASCII text that ends with a zero byte, of less than `most` bytes.
pub(crate) fn text_at(memory: &impl TargetMemory, address: u64, most: u64) -> Option<String> {
    let mut text = Vec::new();
    let end = address.checked_add(most)?;
    let mut at = address;
    while at < end {
        let step = (64 - at % 64).min(end - at);
        let bytes = memory.range(at, step, 64)?;
        let stop = bytes.iter().position(|&byte| byte == 0);
        text.extend_from_slice(bytes.get(..stop.unwrap_or(bytes.len()))?);
        if stop.is_some() {
            let plain = !text.is_empty() && text.iter().all(|byte| (0x20..0x7f).contains(byte));
            return plain.then(|| String::from_utf8(text).ok()).flatten();
        }
        at += step;
    }
    None
}

/// Width in bytes of a field of the C++ type `kind`; types that are not known are pointers or are read as such.
fn width_of(kind: &str) -> u8 {
    let kind = kind.strip_prefix("volatile ").unwrap_or(kind);
    match kind {
        "int" | "jint" | "juint" | "uint" | "u4" | "unsigned int" | "uint32_t" | "int32_t" => 4,
        "u2" | "jushort" | "jshort" | "short" | "unsigned short" | "uint16_t" | "int16_t" => 2,
        "u1" | "jbyte" | "bool" | "signed char" | "unsigned char" | "CompLevel" | "CodeBlobKind" => 1,
        _ => 8,
    }
}

/// Memory that keeps the pages it has read, for tables that never change.
struct TablePages<'a, M> {
    memory: &'a M,
    pages: RefCell<FxHashMap<u64, Option<Box<[u8]>>>>,
}

impl<'a, M: TargetMemory> TablePages<'a, M> {
    fn new(memory: &'a M) -> Self {
        Self { memory, pages: RefCell::default() }
    }

    fn part(&self, address: u64, bytes: &mut [u8]) -> bool {
        let page = address / PAGE * PAGE;
        let mut pages = self.pages.borrow_mut();
        if pages.len() >= MOST_PAGES && !pages.contains_key(&page) {
            return self.memory.read(address, bytes);
        }
        let kept = pages.entry(page).or_insert_with(|| {
            let mut whole = vec![0; PAGE as usize].into_boxed_slice();
            self.memory.read(page, &mut whole).then_some(whole)
        });
        let start = usize::try_from(address - page).unwrap_or(usize::MAX);
        match kept.as_ref().and_then(|kept| kept.get(start..start.checked_add(bytes.len())?)) {
            Some(part) => {
                bytes.copy_from_slice(part);
                true
            }
            None => self.memory.read(address, bytes),
        }
    }
}

impl<M: TargetMemory> TargetMemory for TablePages<'_, M> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let mut at = address;
        let mut rest = bytes;
        while !rest.is_empty() {
            let step = usize::try_from(PAGE - at % PAGE).unwrap_or(1).min(rest.len());
            let (part, tail) = rest.split_at_mut(step);
            let Some(next) = at.checked_add(step as u64) else { return false };
            if !self.part(at, part) {
                return false;
            }
            at = next;
            rest = tail;
        }
        true
    }
}
