//! The interpreter of one process: how its memory is laid out, what the kernel side has to know of it, and which code it
//! has run.

use super::function_names::FunctionNames;
use super::known_code::{KnownCodes, RunPlace, content_words};
use super::process_memory::ProcessMemory;
use crate::bpf::{InterpreterFrame, number, prof_loop_setup, prof_runtime};
use crate::profile::FrameId;
use crate::record::modules::FileId;
use crate::runtimes::python::{
    LoopSetup, OldList, PythonEntry, PythonGil, PythonLayout, PythonLocator, PythonPosition, PythonProblem,
    loop_setup,
};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// Frames that are remembered of a process.
const MOST_FRAMES: usize = 200_000;

/// Setups of a loop that the kernel side has room for.
const LOOP_SETUPS: usize = number::PROF_LOOP_SETUPS as usize;

/// Interpreter of a process, as far as it is known.
#[derive(Debug, Default)]
pub(crate) enum ProcessInterpreter {
    /// The process has none.
    #[default]
    None,
    /// Its file is mapped, but it has not begun yet.
    Pending {
        /// Its file.
        file: FileId,
        /// Time at which it was first looked for, ns.
        since_ns: u64,
        /// Time of the next attempt, ns.
        next_ns: u64,
        /// Why the last attempt failed.
        why: String,
    },
    /// Its stacks can be read.
    Ready(Box<Interpreter>),
    /// Its stacks cannot be read; why, was said.
    Unknown {
        /// Its file.
        file: FileId,
        /// Why they cannot be read.
        why: String,
    },
}

impl ProcessInterpreter {
    /// The same in a forked child, which has a copy of the memory.
    pub(crate) fn forked(&self) -> Self {
        match self {
            ProcessInterpreter::None => ProcessInterpreter::None,
            ProcessInterpreter::Pending { file, why, .. } => {
                ProcessInterpreter::Pending { file: *file, since_ns: 0, next_ns: 0, why: why.clone() }
            }
            ProcessInterpreter::Ready(interpreter) => {
                ProcessInterpreter::Ready(Box::new(interpreter.forked()))
            }
            ProcessInterpreter::Unknown { file, why } => {
                ProcessInterpreter::Unknown { file: *file, why: why.clone() }
            }
        }
    }

    /// What the kernel side has to know.
    pub(crate) fn descriptor(&self) -> prof_runtime {
        match self {
            ProcessInterpreter::Ready(interpreter) => interpreter.descriptor,
            ProcessInterpreter::Pending { .. } => {
                prof_runtime { kind: number::PROF_RUNTIME_PENDING as u8, ..prof_runtime::default() }
            }
            ProcessInterpreter::None | ProcessInterpreter::Unknown { .. } => prof_runtime::default(),
        }
    }

    /// Returns the version of the runtime and the source of its offsets, or why its stacks cannot be read; `None` where the
    /// process has no runtime.
    pub(crate) fn describe(&self) -> Option<Result<String, String>> {
        match self {
            ProcessInterpreter::None => None,
            ProcessInterpreter::Ready(interpreter) => {
                let PythonLayout { version, source, .. } = &*interpreter.layout;
                Some(Ok(format!("python {version}: offsets from {source}")))
            }
            ProcessInterpreter::Pending { why, .. } | ProcessInterpreter::Unknown { why, .. } => {
                Some(Err(why.clone()))
            }
        }
    }

    /// Forgets frames of the profile, because they get new numbers.
    pub(crate) fn forget_frames(&mut self) {
        if let ProcessInterpreter::Ready(interpreter) = self {
            interpreter.frames = FxHashMap::default();
        }
    }

    /// The file of the runtime.
    pub(super) fn file(&self) -> Option<FileId> {
        match self {
            ProcessInterpreter::None => None,
            ProcessInterpreter::Ready(interpreter) => Some(interpreter.file),
            ProcessInterpreter::Pending { file, .. } | ProcessInterpreter::Unknown { file, .. } => {
                Some(*file)
            }
        }
    }
}

/// An interpreter whose stacks can be read.
#[derive(Debug)]
pub(crate) struct Interpreter {
    pub(super) file: FileId,
    pub(super) layout: Arc<PythonLayout>,
    descriptor: prof_runtime,
    /// `None` until it is wanted, or where it cannot be opened.
    memory: Option<ProcessMemory>,
    pub(super) codes: KnownCodes,
    /// Frames of the profile, by code object, check and position; `None` for frames that are not shown.
    pub(super) frames: FxHashMap<(u64, u32, u32), Option<FrameId>>,
}

impl Interpreter {
    /// Looks for the interpreter in the memory of a process. `symbols` has the addresses of the runtime's symbols in it.
    pub(super) fn find(
        pid: u32,
        file: FileId,
        path: &str,
        symbols: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Self, PythonProblem> {
        let memory = ProcessMemory::open(pid).map_err(|error| {
            PythonProblem::temporary(format!(
                "memory of pid {pid} cannot be read: {error}: its Python functions are not known; run prof as root or as \
                 the user of the process"
            ))
        })?;
        let layout = PythonLayout::find(&memory, symbols, path)?;
        let descriptor = descriptor(&layout).ok_or_else(|| {
            PythonProblem::lasting(format!(
                "python {}: offsets that the kernel side has no room for",
                layout.version
            ))
        })?;
        Ok(Interpreter {
            file,
            layout: Arc::new(layout),
            descriptor,
            memory: Some(memory),
            codes: KnownCodes::default(),
            frames: FxHashMap::default(),
        })
    }

    /// Has the kernel side know where the list of frames begins while the loop at `function` sets itself up: an address of
    /// the runtime's own, which lies in the process by `bias` further on.
    pub(super) fn note_setup(
        &mut self,
        function: Range<u64>,
        bias: u64,
        read_code: &dyn Fn(u64, u64) -> Option<Vec<u8>>,
    ) {
        if let Some(inner) = self.layout.c_frame {
            let setups = loop_setup(function, read_code, self.layout.state_frame, inner);
            self.descriptor.setup = loop_setups(&setups, bias);
        }
    }

    fn forked(&self) -> Self {
        Interpreter {
            file: self.file,
            layout: Arc::clone(&self.layout),
            descriptor: self.descriptor,
            memory: None,
            codes: self.codes.forked(),
            frames: FxHashMap::default(),
        }
    }

    /// The function and line of a frame; `None` for code that the interpreter makes for itself.
    pub(super) fn place(
        &mut self,
        pid: u32,
        frame: InterpreterFrame,
        names: &mut FunctionNames,
    ) -> Option<RunPlace> {
        if self.memory.is_none() && self.codes.lacks(frame) {
            self.memory = ProcessMemory::open(pid).ok();
        }
        self.codes.place(frame, &self.layout, self.memory.as_ref(), names)
    }

    /// Remembers the frame of the profile that a frame is.
    pub(super) fn remember(&mut self, key: (u64, u32, u32), frame: Option<FrameId>) {
        if self.frames.len() >= MOST_FRAMES {
            self.frames.clear();
        }
        self.frames.insert(key, frame);
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
    let (entry_mark, entry_off, entry_least) = match layout.frame.entry {
        PythonEntry::Every => (number::PROF_ENTRY_EVERY, 0, 0),
        PythonEntry::Flag { offset } => (number::PROF_ENTRY_FRAME, offset, 1),
        PythonEntry::Shim { offset, least } => (number::PROF_ENTRY_SHIM, offset, least),
    };
    let (lock_holder, lock_held) = match layout.gil {
        PythonGil::Current { state } => (state, 0),
        PythonGil::Lock { holder, locked } => (holder, locked),
        PythonGil::Absent => (0, 0),
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
    Some(prof_runtime {
        kind: number::PROF_RUNTIME_PYTHON as u8,
        locator: locator as u8,
        entry_mark: entry_mark as u8,
        entry_least,
        entry_off: in_frame(entry_off, 1)?,
        is_position_pointer: u8::from(is_position_pointer),
        // Up to 3.10 each frame is an object of its own.
        are_frames_adjacent: u8::from(is_position_pointer),
        locator_off,
        locator_module,
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
        lock_holder,
        lock_held,
        ..prof_runtime::default()
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
