//! Files that are the runtime of a language, recognized by what they export and not by their names: a program may have it
//! linked in.

use super::language::{LanguageFile, LoopCode, RuntimeCode};
use super::merge::LoopPart;
use super::{perl, php, python, ruby};
use crate::record::modules::ModuleFile;
use crate::unwind::CfiSections;
use std::ops::Range;
use std::sync::Arc;

/// Bits of all languages.
pub(in crate::record) const ALL_LANGUAGES: u32 = {
    let (mut all, mut index) = (0, 0);
    while index < LANGUAGES.len() {
        all |= 1 << LANGUAGES[index].kind;
        index += 1;
    }
    all
};

/// All languages.
static LANGUAGES: [&LanguageFile; 4] = [&python::FILE, &ruby::FILE, &php::FILE, &perl::FILE];

/// A file that is a runtime.
#[derive(Debug)]
pub(super) struct RuntimeFile {
    pub(super) language: &'static LanguageFile,
    /// The module's own addresses of the interpreter's loop, by start, not overlapping.
    loops: Vec<(Range<u64>, LoopPart)>,
    functions: Vec<(u64, u64)>,
}

impl RuntimeFile {
    /// The runtime that a file is, if it is one. `sections` are its unwind entries.
    pub(super) fn of(
        file: &ModuleFile,
        sections: impl FnOnce() -> Option<Arc<CfiSections>>,
    ) -> Option<RuntimeFile> {
        let elf = file.elf.as_deref()?;
        let has = |language: &LanguageFile| language.exports.iter().all(|name| elf.exported(name).is_some());
        let language = LANGUAGES.into_iter().find(|language| has(language))?;
        let functions = sections().map(|sections| sections.function_ranges()).unwrap_or_default();
        let LoopCode { entries, inner } = (language.loops)(&RuntimeCode { elf, functions: &functions });
        let entries = entries.into_iter().map(|range| (range, LoopPart::Entry));
        let mut loops: Vec<_> =
            entries.chain(inner.into_iter().map(|range| (range, LoopPart::Inner))).collect();
        loops.sort_by_key(|(range, _)| range.start);
        Some(RuntimeFile { language, loops, functions })
    }

    /// The bit of its language.
    pub(super) fn bit(&self) -> u32 {
        1 << self.language.kind
    }

    /// Functions of the file: start and end, by start.
    pub(super) fn functions(&self) -> &[(u64, u64)] {
        &self.functions
    }

    /// The part of the interpreter's loop that one of the module's own addresses is in.
    pub(super) fn loop_part(&self, address: u64) -> Option<LoopPart> {
        let after = self.loops.partition_point(|(range, _)| range.start <= address);
        let (range, part) = self.loops.get(after.checked_sub(1)?)?;
        range.contains(&address).then_some(*part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_one_of_the_parts_of_the_loop() {
        let file = RuntimeFile {
            language: LANGUAGES[0],
            loops: vec![(0x100..0x200, LoopPart::Entry), (0x800..0x900, LoopPart::Inner)],
            functions: Vec::new(),
        };
        let parts = [0xff, 0x100, 0x1ff, 0x200, 0x7ff, 0x800, 0x900].map(|address| file.loop_part(address));
        let (entry, inner) = (Some(LoopPart::Entry), Some(LoopPart::Inner));
        assert_eq!(parts, [None, entry, entry, None, None, inner, None]);
    }
}
