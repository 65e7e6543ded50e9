//! Files that are the runtime of a language, recognized by what they export and not by their names: a program may have it
//! linked in.

use crate::record::modules::ModuleFile;
use crate::runtimes::python;
use crate::unwind::CfiSections;
use std::ops::Range;
use std::sync::Arc;

/// Symbols that every CPython exports, and nothing else does.
const OF_PYTHON: [&str; 2] = ["_PyRuntime", "_PyEval_EvalFrameDefault"];

/// A file that is a runtime.
#[derive(Debug)]
pub(super) struct RuntimeFile {
    /// The module's own addresses of its interpreter loop, by start, not overlapping.
    loops: Vec<Range<u64>>,
    /// The function of the loop without parts that the compiler split off.
    own: Range<u64>,
}

impl RuntimeFile {
    /// The runtime that a file is, if it is one. `sections` are its unwind entries.
    pub(super) fn of(
        file: &ModuleFile,
        sections: impl FnOnce() -> Option<Arc<CfiSections>>,
    ) -> Option<RuntimeFile> {
        let elf = file.elf.as_deref()?;
        let [_, interpreter_loop] = OF_PYTHON.map(|name| elf.exported(name));
        let entry = interpreter_loop.filter(|_| elf.exported(OF_PYTHON[0]).is_some())?;
        let ranges = sections().map(|sections| sections.function_ranges()).unwrap_or_default();
        let function_at = |address: u64| {
            let after = ranges.partition_point(|(start, _)| *start <= address);
            let (start, end) = *ranges.get(after.checked_sub(1)?)?;
            (address < end).then_some(start..end)
        };
        // The size in the symbol table may be missing; that of the unwind entry is not.
        let own =
            function_at(entry.address).unwrap_or(entry.address..entry.address.saturating_add(entry.size));
        let read_code = |address, size| elf.read_address(address, size).ok();
        let mut loops = python::loop_ranges(own.clone(), &read_code, &function_at);
        loops.sort_by_key(|range| range.start);
        Some(RuntimeFile { loops, own })
    }

    /// The function of the interpreter loop, by the module's own addresses.
    pub(super) fn loop_function(&self) -> Range<u64> {
        self.own.clone()
    }

    /// Whether one of the module's own addresses is in the interpreter loop.
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
        let file = RuntimeFile { own: 0x100..0x200, loops: vec![0x100..0x200, 0x800..0x900] };
        let is_loop = |address| file.is_loop(address);
        assert!(is_loop(0x100) && is_loop(0x1ff) && is_loop(0x800));
        assert!(!is_loop(0xff) && !is_loop(0x200) && !is_loop(0x7ff) && !is_loop(0x900));
    }
}
