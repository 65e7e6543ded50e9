//! Code objects of a process: read once, and never believed where the kernel side has seen another one at their address.

use super::function_names::{FunctionNames, FunctionNumber, RunFunction};
use crate::bpf::{CodeContent, InterpreterFrame, NewCodeEvent, code_check, content_bytes};
use crate::runtimes::TargetMemory;
use crate::runtimes::python::{PythonCode, PythonLayout, PythonObjectLayout};
use rustc_hash::FxHashMap;

/// Code objects that are remembered of a process.
const MOST_CODES: usize = 100_000;

/// A code object as it was when it was read.
#[derive(Debug, Clone)]
struct KeptCode {
    number: FunctionNumber,
    /// Lines; `None` for one that was gone before it could be read.
    code: Option<PythonCode>,
}

/// What the last frames with a code object at an address had.
#[derive(Debug, Clone, Default)]
struct LastSeen {
    check: u32,
    /// Frames since the kernel side has last looked at the object.
    unchecked: u64,
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
    last: FxHashMap<u64, LastSeen>,
    /// Frames that may have the name of an object that was there before.
    pub(super) uncertain: u64,
}

impl KnownCodes {
    /// The function and line of a frame; `None` for code that the interpreter makes for itself.
    pub(super) fn place(
        &mut self,
        frame: InterpreterFrame,
        layout: &PythonLayout,
        memory: Option<&impl TargetMemory>,
        names: &mut FunctionNames,
    ) -> Option<RunPlace> {
        let unread = RunPlace { function: FunctionNumber::UNREAD, line: 0 };
        if frame.check == 0 {
            return Some(unread);
        }
        if self.lacks(frame) {
            self.insert((frame.code, frame.check), read(frame, layout, memory, names));
        }
        self.note_seen(frame);
        let known = self.codes.get(&(frame.code, frame.check))?;
        let Some(code) = &known.code else { return Some(unread) };
        if code.is_shim() {
            return None;
        }
        let position = code.position_after(frame.code, frame.position);
        // What a function does before its first line, such as taking the variables of the one around it, has none.
        let line = position.map(|position| code.line(position).unwrap_or(code.first_line));
        Some(RunPlace { function: known.number, line: line.unwrap_or(0) })
    }

    /// Takes a code object as the kernel side has read it. One that it could not read whole is read from the process when a
    /// frame has it.
    pub(super) fn add(&mut self, event: &NewCodeEvent, layout: &PythonLayout, names: &mut FunctionNames) {
        if let Some(code) = PythonCode::read(&CodeParts(event), layout, event.code) {
            self.insert((event.code, event.check), KeptCode::new(Some(code), names));
        }
    }

    fn insert(&mut self, key: (u64, u32), code: KeptCode) {
        if self.codes.len() >= MOST_CODES {
            self.codes.clear();
            self.last.clear();
        }
        self.codes.insert(key, code);
    }

    /// Notes that a frame had this code object. Those since the last look at its address are uncertain if it is another one.
    fn note_seen(&mut self, frame: InterpreterFrame) {
        let last = self.last.entry(frame.code).or_default();
        if last.check != frame.check {
            self.uncertain += last.unchecked;
            *last = LastSeen { check: frame.check, unchecked: 0 };
        }
        last.unchecked = if frame.is_checked { 0 } else { last.unchecked + 1 };
    }

    /// Those of a forked child, which has a copy of the memory.
    pub(super) fn forked(&self) -> Self {
        KnownCodes { codes: self.codes.clone(), last: self.last.clone(), uncertain: 0 }
    }

    /// Whether the code object of a frame is still to be read.
    pub(super) fn lacks(&self, frame: InterpreterFrame) -> bool {
        frame.check != 0 && !self.codes.contains_key(&(frame.code, frame.check))
    }
}

impl KeptCode {
    fn new(code: Option<PythonCode>, names: &mut FunctionNames) -> Self {
        let mut known = KeptCode { number: FunctionNumber::UNREAD, code: None };
        known.code = code.map(|mut code| {
            known.number = names.number(RunFunction {
                name: std::mem::take(&mut code.function),
                file: code.take_file(),
                first_line: code.first_line,
                is_inlined: false,
            });
            code
        });
        known
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

/// Reads the code object of a frame, if it is still the one that the kernel side has seen.
fn read(
    frame: InterpreterFrame,
    layout: &PythonLayout,
    memory: Option<&impl TargetMemory>,
    names: &mut FunctionNames,
) -> KeptCode {
    let code = memory.and_then(|memory| {
        let is_same = || check_of(frame.code, layout, memory) == Some(frame.check);
        // It may be freed while it is read.
        let code = is_same().then(|| PythonCode::read(memory, layout, frame.code)).flatten();
        code.filter(|_| is_same())
    });
    KeptCode::new(code, names)
}

/// The check of the code object at an address now.
fn check_of(code: u64, layout: &PythonLayout, memory: &impl TargetMemory) -> Option<u32> {
    let (words, number) = PythonCode::identity(memory, layout, code)?;
    let [name, file, lines] = words.map(|object| content(object, layout, memory));
    let (text, of_lines) = content_words(&layout.object);
    Some(code_check(words, number, &[(name, text), (file, text), (lines, of_lines)]))
}

/// Words from the length of a text, and of a byte string, to its first character or byte.
pub(super) fn content_words(object: &PythonObjectLayout) -> (usize, usize) {
    // A byte string has a length and a hash after its header, and then its bytes.
    (object.ascii_size.saturating_sub(object.header) as usize / 8, 2)
}

/// An object from its length on; zeros for what cannot be read.
fn content(object: u64, layout: &PythonLayout, memory: &impl TargetMemory) -> CodeContent {
    let mut bytes = [0; size_of::<CodeContent>()];
    let address = object.wrapping_add(layout.object.header.into());
    let readable = content_bytes(address);
    if !memory.read(address, &mut bytes[..readable]) {
        bytes.fill(0);
    }
    let mut content = CodeContent::default();
    for (word, bytes) in content.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::python::tests::SyntheticPython;

    fn frame(python: &SyntheticPython, is_checked: bool) -> InterpreterFrame {
        let check = check_of(SyntheticPython::CODE, &python.layout, python.memory()).expect("it is code");
        let position = python.layout.code.instructions.unwrap_or(0);
        InterpreterFrame { code: SyntheticPython::CODE, position, check, is_checked, is_entry: true }
    }

    #[test]
    fn a_function_is_read_once_and_another_at_its_address_is_another_one() {
        let mut python = SyntheticPython::new();
        let (mut codes, mut names) = (KnownCodes::default(), FunctionNames::default());
        let (first, unchecked) = (frame(&python, true), frame(&python, false));
        let place = |codes: &mut KnownCodes, names: &mut FunctionNames, frame, python: &SyntheticPython| {
            codes.place(frame, &python.layout, Some(python.memory()), names).expect("it is shown")
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
        assert_eq!(codes.uncertain, 3, "those since the kernel side looked last");
        assert_eq!(place(&mut codes, &mut names, first, &python), known, "a sample that was on its way");
    }

    #[test]
    fn a_function_that_is_gone_has_no_name() {
        let mut python = SyntheticPython::new();
        let (mut codes, mut names) = (KnownCodes::default(), FunctionNames::default());
        let before = frame(&python, true);
        python.replace();
        for memory in [Some(python.memory()), None] {
            let place = codes.place(before, &python.layout, memory, &mut names);
            assert_eq!(place.map(|place| place.function), Some(FunctionNumber::UNREAD));
        }
        let damaged = InterpreterFrame { check: 0, ..before };
        let place = codes.place(damaged, &python.layout, Some(python.memory()), &mut names);
        assert_eq!(place.map(|place| place.function), Some(FunctionNumber::UNREAD));
    }
}
