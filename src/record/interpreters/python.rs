//! CPython as one of the languages.

use super::function_names::RunFunction;
use super::language::{
    CodeLines, Language, LanguageFile, LoopCode, MOST_FRAMES, ReadCode, RuntimeCode, RuntimeModule,
    SideFrame, SideStack, no_room,
};
use crate::bpf::{
    CodeContent, REGISTERS, code_check, content_bytes, number, prof_loop_setup, prof_python, prof_runtime,
};
use crate::elf::Architecture;
use crate::runtimes::python::{
    LoopSetup, OldList, PythonCode, PythonEntry, PythonGil, PythonLayout, PythonLocator, PythonObjectLayout,
    PythonPosition, leaf, list, loop_ranges, loop_setup,
};
use crate::runtimes::{RuntimeProblem, TargetMemory};
use std::sync::Arc;

/// The function of its interpreter loop.
const LOOP: &str = "_PyEval_EvalFrameDefault";

/// How its files are recognized.
pub(super) static FILE: LanguageFile =
    LanguageFile { kind: number::PROF_RUNTIME_PYTHON, exports: &["_PyRuntime", LOOP], loops, find };

/// Setups of a loop that the kernel side has room for.
const LOOP_SETUPS: usize = number::PROF_LOOP_SETUPS as usize;

/// An interpreter of a process.
#[derive(Debug)]
struct Python {
    layout: PythonLayout,
    descriptor: prof_runtime,
}

fn loops(code: &RuntimeCode<'_>) -> LoopCode {
    let read_code = |address, size| code.read(address, size);
    let own = code.exported_function(LOOP);
    let ranges = own.map(|own| loop_ranges(own, &read_code, &|address| code.function_at(address)));
    LoopCode { entries: ranges.unwrap_or_default(), inner: Vec::new() }
}

fn find(memory: &dyn TargetMemory, module: &RuntimeModule<'_>) -> Result<Arc<dyn Language>, RuntimeProblem> {
    let layout = PythonLayout::find(&memory, &|name| module.symbol(name), module.path)?;
    let mut descriptor = descriptor(&layout).ok_or_else(|| no_room("python", layout.version))?;
    // Where the list of frames begins while the loop sets itself up.
    if let (Some(inner), Some(own)) = (layout.c_frame, module.code.exported_function(LOOP)) {
        let read_code = |address, size| module.code.read(address, size);
        let setups = loop_setup(own, &read_code, layout.state_frame, inner);
        descriptor.python.setup = loop_setups(&setups, module.bias);
    }
    Ok(Arc::new(Python { layout, descriptor }))
}

impl Language for Python {
    fn runtime(&self) -> String {
        self.layout.version.runtime()
    }

    fn source(&self) -> String {
        format!("python {}: offsets from {}", self.layout.version, self.layout.source)
    }

    fn descriptor(&self) -> prof_runtime {
        self.descriptor
    }

    fn stack(&self, memory: &dyn TargetMemory, state: u64, registers: &[u64; REGISTERS]) -> SideStack {
        let layout = &self.layout;
        let is_lock_of = |holder: u64| (&memory).u64(holder).map(|holder| holder == state);
        let holds_lock = match layout.gil {
            PythonGil::Current { state } => is_lock_of(state),
            PythonGil::Lock { holder, locked } => {
                is_lock_of(holder).zip((&memory).u32(locked)).map(|(is_last, locked)| is_last && locked != 0)
            }
            PythonGil::Absent => None,
        };
        let first = match self.setup_at(registers[REGISTERS - 1]) {
            Some(setup) => self.leaf_in_setup(memory, setup, registers),
            None => leaf(&memory, layout.state_frame, layout.c_frame, state),
        };
        let Some(first) = first else {
            return SideStack { is_cut: true, holds_lock, ..SideStack::default() };
        };
        // Shims are no frames, and there is one for each call from C.
        let (stack, is_whole) = list(&memory, &layout.frame, first, 2 * MOST_FRAMES);
        let is_pointer = layout.frame.position_kind == PythonPosition::Pointer;
        let frames = stack.frames.into_iter().map(|frame| SideFrame {
            code: frame.code,
            position: frame.position.wrapping_sub(if is_pointer { frame.code } else { 0 }) as u32,
            is_entry: frame.is_entry,
            is_brief: false,
        });
        SideStack { holds_lock, ..SideStack::of(frames, is_whole) }
    }

    fn check(&self, memory: &dyn TargetMemory, code: u64) -> Option<u32> {
        let (words, number) = PythonCode::identity(&memory, &self.layout, code)?;
        let [name, file, lines] = words.map(|object| content(object, &self.layout, memory));
        let (text, of_lines) = content_words(&self.layout.object);
        Some(code_check(words, number, &[(name, text), (file, text), (lines, of_lines)]))
    }

    fn read(&self, memory: &dyn TargetMemory, code: u64) -> Option<ReadCode> {
        let mut code = PythonCode::read(&memory, &self.layout, code)?;
        let function = RunFunction {
            name: std::mem::take(&mut code.function),
            file: code.take_file(),
            first_line: code.first_line,
            is_inlined: false,
        };
        Some(ReadCode { function, is_shown: !code.is_shim(), lines: Arc::new(code) })
    }
}

impl Python {
    /// The instructions with which the loop sets itself up, if `address` is one of them.
    fn setup_at(&self, address: u64) -> Option<&prof_loop_setup> {
        let setups = self.descriptor.python.setup.iter();
        setups.into_iter().find(|setup| address.wrapping_sub(setup.start) < u64::from(setup.bytes))
    }

    /// The leaf frame where the loop sets itself up, as `python_first_in_setup` of the kernel side finds it.
    fn leaf_in_setup(
        &self,
        memory: &dyn TargetMemory,
        setup: &prof_loop_setup,
        registers: &[u64; REGISTERS],
    ) -> Option<u64> {
        let place = u64::from(setup.place);
        let list = match place {
            number::PROF_LIST_IN | number::PROF_LIST_INNER_OF => *registers.get(usize::from(setup.reg))?,
            number::PROF_LIST_AT | number::PROF_LIST_INNER_OF_AT => {
                let stack = registers[usize::from(Architecture::HOST.stack_pointer())];
                (&memory).u64(stack.checked_add(setup.offset.into())?)?
            }
            _ => return None,
        };
        match place {
            number::PROF_LIST_IN | number::PROF_LIST_AT => Some(list),
            _ => (&memory).u64(list.checked_add(self.layout.c_frame?.into())?),
        }
    }
}

impl CodeLines for PythonCode {
    fn line(&self, code: u64, position: u32) -> u32 {
        let position = self.position_after(code, position);
        // What a function does before its first line, such as taking the variables of the one around it, has none.
        position.map_or(0, |position| PythonCode::line(self, position).unwrap_or(self.first_line))
    }
}

/// A locator as the kernel side has it: its kind, an offset, and the number of a module.
fn locator(locator: PythonLocator) -> Option<(u64, i64, u32)> {
    Some(match locator {
        PythonLocator::Fixed { offset } => (number::PROF_LOCATOR_THREAD, offset, 0),
        PythonLocator::Key { slot, .. } => (number::PROF_LOCATOR_THREAD, i64::from(slot), 0),
        PythonLocator::Dynamic { module, offset } => {
            (number::PROF_LOCATOR_MODULE, i64::try_from(offset).ok()?, u32::try_from(module).ok()?)
        }
    })
}

/// What the kernel side has to know of a layout; `None` if a number is larger than it has room for.
fn descriptor(layout: &PythonLayout) -> Option<prof_runtime> {
    let (locator, locator_off, locator_module) = locator(layout.locator)?;
    let (lock_holder, is_lock_held_next) = match layout.gil {
        PythonGil::Current { state } => (state, 0),
        PythonGil::Lock { holder, locked } if locked == holder.wrapping_add(8) => (holder, 1),
        PythonGil::Lock { .. } | PythonGil::Absent => (0, 0),
    };
    Some(prof_runtime {
        kind: number::PROF_RUNTIME_PYTHON as u8,
        locator: locator as u8,
        locator_off,
        locator_module,
        lock_holder,
        is_lock_held_next,
        python: python_list(layout)?,
        ..prof_runtime::default()
    })
}

/// The part of that which is about frames and code objects.
fn python_list(layout: &PythonLayout) -> Option<prof_python> {
    let none = number::PROF_NO_FRAME as u16;
    let (entry_off, entry_least, shim_least) = match layout.frame.entry {
        PythonEntry::Every => (0, 0, none),
        PythonEntry::Flag { offset } => (offset, 1, none),
        PythonEntry::Shim { offset, least } => (offset, none, u16::from(least)),
    };
    let in_frame = |offset: u32, size: u32| {
        (offset + size < number::PROF_RUNTIME_FRAME_BYTES as u32).then_some(offset as u16)
    };
    let in_code = |offset: u32, size: u32| {
        (offset + size < number::PROF_RUNTIME_CODE_BYTES as u32).then_some(offset as u16)
    };
    let is_position_pointer = layout.frame.position_kind == PythonPosition::Pointer;
    let position_bytes = if is_position_pointer { 8 } else { 4 };
    let [first, second, third] = layout.code.identity();
    let code_fields = [first + 8, second + 8, third + 8, layout.code.first_line + 4, layout.object.header];
    Some(prof_python {
        entry_off: in_frame(entry_off, 1)?,
        entry_least,
        shim_least,
        is_position_pointer: u8::from(is_position_pointer),
        // Up to 3.10 each frame is an object of its own.
        are_frames_adjacent: u8::from(is_position_pointer),
        list_off: u16::try_from(layout.state_frame).ok()?,
        list_inner_off: match layout.c_frame {
            Some(offset) => u16::try_from(offset).ok()?,
            None => number::PROF_NO_OFFSET as u16,
        },
        code_off: in_frame(layout.frame.code, 8)?,
        previous_off: in_frame(layout.frame.previous, 8)?,
        position_off: in_frame(layout.frame.position, position_bytes)?,
        code_type_off: in_code(layout.object.type_offset(), 8)?,
        code_word_off: [in_code(first, 8)?, in_code(second, 8)?, in_code(third, 8)?],
        code_number_off: in_code(layout.code.first_line, 4)?,
        frame_bytes: u8::try_from(layout.frame.size).ok().filter(|&size| size < 128)?,
        code_bytes: u8::try_from(code_fields.into_iter().max().unwrap_or(0)).ok()?,
        object_header: u8::try_from(layout.object.header).ok()?,
        text_word: content_words(&layout.object).0 as u8,
        lines_word: content_words(&layout.object).1 as u8,
        code_type: layout.object.code_type,
        ..prof_python::default()
    })
}

/// Setups of a loop as the kernel side has them: what there is no room for is lost.
fn loop_setups(setups: &[LoopSetup], bias: u64) -> [prof_loop_setup; LOOP_SETUPS] {
    let mut known = [prof_loop_setup::default(); LOOP_SETUPS];
    let Some(end) = setups.last().map(|last| last.range.end.wrapping_add(bias)) else { return known };
    for (index, slot) in known.iter_mut().enumerate() {
        let is_last = index + 1 == LOOP_SETUPS && setups.len() > LOOP_SETUPS;
        let (place, reg, offset) = match setups.get(index).map(|setup| setup.list).filter(|_| !is_last) {
            Some(OldList::CFrameIn(reg)) => (number::PROF_LIST_INNER_OF, reg, 0),
            Some(OldList::FrameIn(reg)) => (number::PROF_LIST_IN, reg, 0),
            Some(OldList::CFrameAt(offset)) => (number::PROF_LIST_INNER_OF_AT, 0, offset),
            Some(OldList::FrameAt(offset)) => (number::PROF_LIST_AT, 0, offset),
            Some(OldList::Lost) | None => (number::PROF_LIST_LOST, 0, 0),
        };
        let start = setups.get(index).map_or(end, |setup| setup.range.start.wrapping_add(bias));
        let until =
            setups.get(index).filter(|_| !is_last).map_or(end, |setup| setup.range.end.wrapping_add(bias));
        *slot = prof_loop_setup {
            start,
            bytes: until.wrapping_sub(start) as u32,
            place: place as u8,
            reg,
            offset,
        };
    }
    known
}

/// Words from the length of a text, and of a byte string, to its first character or byte.
fn content_words(object: &PythonObjectLayout) -> (usize, usize) {
    // A byte string has a length and a hash after its header, and then its bytes.
    (object.ascii_size.saturating_sub(object.header) as usize / 8, 2)
}

/// An object from its length on; zeros for what cannot be read.
fn content(object: u64, layout: &PythonLayout, memory: &dyn TargetMemory) -> CodeContent {
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

/// The language with this layout, in a process that the kernel side does not know.
#[cfg(test)]
pub(super) fn language_of(layout: PythonLayout) -> Arc<dyn Language> {
    Arc::new(Python { layout, descriptor: prof_runtime::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setups_are_neighbours_and_those_without_room_are_lost() {
        let setup = |start, list| LoopSetup { range: start..start + 16, list };
        let all = [
            setup(0x100, OldList::CFrameIn(1)),
            setup(0x110, OldList::FrameIn(4)),
            setup(0x120, OldList::CFrameIn(2)),
            setup(0x130, OldList::FrameIn(3)),
        ];
        let shape = |count: usize| {
            loop_setups(&all[..count], 0x1000).map(|setup| (setup.start, setup.bytes, setup.place, setup.reg))
        };
        assert_eq!(shape(0), [(0, 0, 0, 0); 3]);
        assert_eq!(shape(2), [(0x1100, 16, 1, 1), (0x1110, 16, 2, 4), (0x1120, 0, 0, 0)]);
        assert_eq!(shape(4), [(0x1100, 16, 1, 1), (0x1110, 16, 2, 4), (0x1120, 32, 0, 0)]);
    }
}
