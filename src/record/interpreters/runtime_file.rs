//! Files that are the runtime of a language, recognized by what they export and not by their names: a program may have it
//! linked in.

use super::language::{LanguageFile, RuntimeCode};
use super::python;
use crate::record::modules::ModuleFile;
use crate::unwind::CfiSections;
use std::ops::Range;
use std::sync::Arc;

/// All languages.
static LANGUAGES: [&LanguageFile; 1] = [&python::FILE];

/// A file that is a runtime.
#[derive(Debug)]
pub(super) struct RuntimeFile {
    pub(super) language: &'static LanguageFile,
    /// The module's own addresses of the functions by which the interpreter is entered, by start, not overlapping.
    loops: Vec<Range<u64>>,
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
        let mut loops = (language.loops)(&RuntimeCode { elf, functions: &functions });
        loops.sort_by_key(|range| range.start);
        Some(RuntimeFile { language, loops, functions })
    }

    /// Functions of the file: start and end, by start.
    pub(super) fn functions(&self) -> &[(u64, u64)] {
        &self.functions
    }

    /// Whether one of the module's own addresses is in the interpreter's loop.
    pub(super) fn is_loop(&self, address: u64) -> bool {
        let after = self.loops.partition_point(|range| range.start <= address);
        after.checked_sub(1).is_some_and(|index| self.loops[index].contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_one_of_the_parts_of_the_loop() {
        let file = RuntimeFile {
            language: LANGUAGES[0],
            loops: vec![0x100..0x200, 0x800..0x900],
            functions: Vec::new(),
        };
        let is_loop = |address| file.is_loop(address);
        assert!(is_loop(0x100) && is_loop(0x1ff) && is_loop(0x800));
        assert!(!is_loop(0xff) && !is_loop(0x200) && !is_loop(0x7ff) && !is_loop(0x900));
    }
}
