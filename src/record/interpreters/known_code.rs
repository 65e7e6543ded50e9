//! Code objects of a process: read once, and never believed where the kernel side has seen another one at their address.

use super::function_names::{FunctionNames, FunctionNumber};
use super::language::{CodeLines, Language, ReadCode};
use super::process_memory::InterruptMemory;
use super::seen_codes::SeenCodes;
use crate::bpf::{InterpreterFrame, NewCodeEvent};
use crate::runtimes::TargetMemory;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Code objects that are remembered of a process.
const MOST_CODES: usize = 100_000;

/// A code object as it was when it was read.
#[derive(Debug, Clone)]
struct KeptCode {
    number: FunctionNumber,
    is_shown: bool,
    /// `None` for one that was gone before it could be read.
    lines: Option<Arc<dyn CodeLines>>,
}

/// A function, and the line at which a frame is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::record) struct RunPlace {
    pub(in crate::record) function: FunctionNumber,
    /// 0 when not known.
    pub(in crate::record) line: u32,
}

/// The code objects of one process, by address and check: samples that are on their way may have one whose place another
/// one has taken since.
#[derive(Debug, Default)]
pub(super) struct KnownCodes {
    codes: FxHashMap<(u64, u32), KeptCode>,
    pub(super) seen: SeenCodes,
}

impl KnownCodes {
    /// The function and line of a frame; `None` for code that the interpreter makes for itself.
    pub(super) fn place(
        &mut self,
        frame: InterpreterFrame,
        language: &dyn Language,
        memories: &[&dyn TargetMemory],
        names: &mut FunctionNames,
    ) -> Option<RunPlace> {
        let unread = RunPlace { function: FunctionNumber::UNREAD, line: 0 };
        if frame.check == 0 {
            return Some(unread);
        }
        if self.lacks(frame) {
            self.insert((frame.code, frame.check), read(frame, language, memories, names));
        }
        self.seen.note(frame.code, frame.check, frame.is_checked);
        let known = self.codes.get(&(frame.code, frame.check))?;
        let Some(lines) = &known.lines else { return Some(unread) };
        let line = lines.line(frame.code, frame.position);
        known.is_shown.then_some(RunPlace { function: known.number, line })
    }

    /// Takes a code object as the kernel side has read it. One that it could not read whole is read from the process when a
    /// frame has it.
    pub(super) fn add(&mut self, event: &NewCodeEvent, language: &dyn Language, names: &mut FunctionNames) {
        if let Some(code) = language.read(&CodeParts(event), event.code) {
            self.insert((event.code, event.check), KeptCode::new(Some(code), names));
        }
    }

    fn insert(&mut self, key: (u64, u32), code: KeptCode) {
        if self.codes.len() >= MOST_CODES {
            self.forget();
        }
        self.codes.insert(key, code);
    }

    /// Forgets all: a code object is read again when a frame has it.
    pub(super) fn forget(&mut self) {
        self.codes = FxHashMap::default();
        self.seen = SeenCodes::default();
    }

    /// Those of a forked child, which has a copy of the memory.
    pub(super) fn forked(&self) -> Self {
        KnownCodes { codes: self.codes.clone(), seen: self.seen.clone() }
    }

    /// Whether the code object of a frame is still to be read.
    pub(super) fn lacks(&self, frame: InterpreterFrame) -> bool {
        frame.check != 0 && !self.codes.contains_key(&(frame.code, frame.check))
    }
}

impl KeptCode {
    fn new(code: Option<ReadCode>, names: &mut FunctionNames) -> Self {
        match code {
            Some(ReadCode { function, is_shown, lines }) => {
                KeptCode { number: names.number(function), is_shown, lines: Some(lines) }
            }
            None => KeptCode { number: FunctionNumber::UNREAD, is_shown: true, lines: None },
        }
    }
}

/// Memory that was sent with a code object.
struct CodeParts<'e>(&'e NewCodeEvent);

impl TargetMemory for CodeParts<'_> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let found = self.0.parts.iter().find_map(|(start, part)| {
            let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
            part.get(offset..offset.checked_add(bytes.len())?)
        });
        found.map(|found| bytes.copy_from_slice(found)).is_some()
    }
}

/// Reads the code object of a frame, from the first of some memories in which it is the one that the kernel side has seen.
fn read(
    frame: InterpreterFrame,
    language: &dyn Language,
    memories: &[&dyn TargetMemory],
    names: &mut FunctionNames,
) -> KeptCode {
    let code = memories.iter().find_map(|memory| {
        let seen = InterruptMemory::new(*memory);
        let is_same = |seen: &InterruptMemory<'_>| language.check(seen, frame.code) == Some(frame.check);
        // It may be freed while it is read.
        let code = seen.fit(is_same).then(|| language.read(*memory, frame.code)).flatten();
        code.filter(|_| is_same(&seen))
    });
    KeptCode::new(code.or_else(|| language.unread(frame.code)), names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::interpreters::python::language_of;
    use crate::runtimes::python::tests::SyntheticPython;

    fn frame(python: &SyntheticPython, is_checked: bool) -> InterpreterFrame {
        let language = language_of(python.layout.clone());
        let check = language.check(python.memory(), SyntheticPython::CODE).expect("it is code");
        let position = python.layout.code.instructions.unwrap_or(0);
        InterpreterFrame { code: SyntheticPython::CODE, position, check, is_checked, is_entry: true }
    }

    #[test]
    fn a_function_is_read_once_and_another_at_its_address_is_another_one() {
        let mut python = SyntheticPython::new();
        let (mut codes, mut names) = (KnownCodes::default(), FunctionNames::default());
        let (first, unchecked) = (frame(&python, true), frame(&python, false));
        let place = |codes: &mut KnownCodes, names: &mut FunctionNames, frame, python: &SyntheticPython| {
            let language = language_of(python.layout.clone());
            codes.place(frame, &*language, &[python.memory()], names).expect("it is shown")
        };
        let known = place(&mut codes, &mut names, first, &python);
        assert_ne!(known.function, FunctionNumber::UNREAD);
        assert!(known.line > 0 && !codes.lacks(first));
        for _ in 0..3 {
            assert_eq!(place(&mut codes, &mut names, unchecked, &python), known);
        }
        python.replace();
        let other = frame(&python, true);
        assert!(codes.lacks(other));
        assert_ne!(place(&mut codes, &mut names, other, &python).function, known.function);
        assert_eq!(codes.seen.take_uncertain(), 3, "those since the kernel side looked last");
        assert_eq!(place(&mut codes, &mut names, first, &python), known, "a sample that was on its way");
    }

    #[test]
    fn a_function_that_is_gone_has_no_name() {
        let mut python = SyntheticPython::new();
        let (mut codes, mut names) = (KnownCodes::default(), FunctionNames::default());
        let before = frame(&python, true);
        python.replace();
        let language = language_of(python.layout.clone());
        for memory in [&[python.memory() as &dyn TargetMemory][..], &[]] {
            let place = codes.place(before, &*language, memory, &mut names);
            assert_eq!(place.map(|place| place.function), Some(FunctionNumber::UNREAD));
        }
        let damaged = InterpreterFrame { check: 0, ..before };
        let place = codes.place(damaged, &*language, &[python.memory()], &mut names);
        assert_eq!(place.map(|place| place.function), Some(FunctionNumber::UNREAD));
    }
}
