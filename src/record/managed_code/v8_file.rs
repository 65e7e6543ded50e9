//! A program or library that has V8 in it, recognized by what it exports and not by its name.

use crate::elf::ElfImage;
use crate::runtimes::v8::{V8CodeKind, V8Symbol};
use std::ops::Range;

/// A function that every V8 exports, and nothing else does.
const OF_V8: &str = "_ZN2v87Isolate10GetCurrentEv";
/// Beginning of the names of V8's own generated code.
const BUILTIN: &str = "Builtins_";
/// Code that makes the frame of an interpreted function.
const ENTRY: &str = "Builtins_InterpreterEntryTrampoline";
/// Beginnings of the names of symbols by which V8 describes itself.
const DESCRIPTIONS: [&str; 3] =
    ["v8dbg_", "_ZN2v88internal7Version", "_ZN2v88internal11interpreter9Bytecodes"];
/// What Node.js knows of its versions, its own first.
const NODE_METADATA: &str = "_ZN4node11per_process8metadataE";
/// Symbols that are kept.
const MOST_SYMBOLS: usize = 16_384;
/// Bytes of the last builtin where its size is not known.
const LAST_BYTES: u64 = 4096;

/// What a piece of V8's own generated code does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum V8Builtin {
    /// It interprets the function whose frame the frame pointer points to.
    Interpreter,
    /// So it does once it has made that frame.
    Entry,
    /// It is a function of the language's library, or calls others.
    Other,
}

/// A file that has V8 in it.
#[derive(Debug, Default)]
pub(super) struct V8File {
    /// Symbols that describe V8: name, the file's own address, size.
    symbols: Vec<(String, u64, u64)>,
    /// Where each builtin starts, by the file's own addresses, in order.
    builtins: Vec<(u64, V8Builtin)>,
    /// All of them.
    pub(super) builtin_code: Range<u64>,
    /// The file's own address of what Node.js knows of its versions.
    pub(super) node_metadata: Option<u64>,
}

impl V8File {
    /// What a file has of V8; `None` if it has none.
    pub(super) fn of(elf: &ElfImage) -> Option<V8File> {
        elf.exported(OF_V8)?;
        let mut file = V8File::default();
        for table in [&b".symtab"[..], b".dynsym"] {
            elf.visit_symbols(table, |name, symbol| file.add(name, symbol.address, symbol.size));
        }
        file.symbols.sort_unstable();
        file.symbols.dedup_by(|one, other| one.0 == other.0);
        file.builtins.sort_unstable_by_key(|(start, _)| *start);
        file.builtins.dedup_by_key(|(start, _)| *start);
        Some(file)
    }

    fn add(&mut self, name: &str, address: u64, size: u64) {
        let has_room = |count: usize| count < MOST_SYMBOLS;
        if name.starts_with(BUILTIN) && has_room(self.builtins.len()) {
            let what = match V8CodeKind::of_builtin(name) {
                Some(_) if name.starts_with(ENTRY) => V8Builtin::Entry,
                Some(_) => V8Builtin::Interpreter,
                None => V8Builtin::Other,
            };
            self.builtins.push((address, what));
            let end = address.saturating_add(if size == 0 { LAST_BYTES } else { size });
            let code = &mut self.builtin_code;
            *code = if code.is_empty() { address..end } else { code.start.min(address)..code.end.max(end) };
        } else if name == NODE_METADATA {
            self.node_metadata = Some(address);
        } else if DESCRIPTIONS.iter().any(|start| name.starts_with(start)) && has_room(self.symbols.len()) {
            self.symbols.push((name.to_owned(), address, size));
        }
    }

    /// Whether builtins are known: without them no interpreted function is.
    pub(super) fn has_builtins(&self) -> bool {
        !self.builtins.is_empty()
    }

    /// The symbols that describe V8, where they are in a process.
    pub(super) fn symbols(&self, bias: u64) -> impl Iterator<Item = V8Symbol<'_>> + Clone {
        self.symbols.iter().map(move |(name, address, size)| V8Symbol {
            name,
            address: address.wrapping_add(bias),
            size: *size,
        })
    }

    /// What is at one of the file's own addresses; `None` outside V8's generated code.
    pub(super) fn builtin_at(&self, address: u64) -> Option<V8Builtin> {
        if !self.builtin_code.contains(&address) {
            return None;
        }
        let after = self.builtins.partition_point(|(start, _)| *start <= address);
        after.checked_sub(1).map(|index| self.builtins[index].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtins_are_told_by_their_names() {
        let mut file = V8File::default();
        for (name, address, size) in [
            ("Builtins_InterpreterEntryTrampoline", 0x100, 0x40),
            ("Builtins_ArrayMap", 0x140, 0x40),
            ("Builtins_AddHandler", 0x180, 0),
            ("main", 0x10, 0x20),
            ("v8dbg_off_fp_function", 0x20, 4),
        ] {
            file.add(name, address, size);
        }
        assert_eq!(file.builtin_code, 0x100..0x1180);
        let at = [0x10, 0x100, 0x150, 0x200, 0x1180].map(|address| file.builtin_at(address));
        let known = [V8Builtin::Entry, V8Builtin::Other, V8Builtin::Interpreter].map(Some);
        assert_eq!(at, [None, known[0], known[1], known[2], None]);
        assert!(file.symbols(0x1000).map(|symbol| symbol.address).eq([0x1020]));
    }
}
