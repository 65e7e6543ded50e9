//! A synthetic interpreter with one thread.

use super::Arena;
use crate::runtimes::RuntimeProblem;
use crate::runtimes::python::attach::debug_offsets;
use crate::runtimes::python::attach::tables;
use crate::runtimes::python::layout::{
    PythonEntry, PythonLayout, PythonObjectLayout, PythonOffsets, PythonPosition,
};

pub(super) const RUNTIME: u64 = 0x1_0000;
pub(super) const CODE_TYPE: u64 = 0x9_0000;
pub(super) const TEXT_TYPE: u64 = 0x9_1000;
pub(super) const BYTES_TYPE: u64 = 0x9_2000;
pub(super) const FRAME_TYPE: u64 = 0x9_3000;
pub(super) const VERSION: u64 = 0x9_4000;
pub(super) const GETTER: u64 = 0x9_5000;
pub(super) const INTERPRETER: u64 = 0xa_0000;
pub(super) const LOCK: u64 = 0xb_8000;
pub(super) const STATE: u64 = 0xb_0000;
pub(super) const C_FRAME: u64 = 0xb_1000;
pub(super) const THREAD: u64 = 0xc_0000;
pub(super) const FRAMES: u64 = 0x10_0000;
pub(super) const CODES: u64 = 0x20_0000;
/// Distance of frames, of code objects, and of what a code object points to.
pub(super) const STEP: u64 = 0x1000;
const KEY: u32 = 3;

pub(super) struct Interpreter {
    pub(super) arena: Arena,
    pub(super) offsets: PythonOffsets,
    minor: u8,
}

impl Interpreter {
    /// Interpreter of version 3.`minor` that runs no frame.
    pub(super) fn new(minor: u8) -> Self {
        Self::of_build(minor, false)
    }

    /// Interpreter without a global lock if `is_free_threaded`.
    pub(super) fn of_build(minor: u8, is_free_threaded: bool) -> Self {
        let mut arena = Arena::new();
        let offsets = tables::offsets(minor).unwrap_or_else(|| publish(&mut arena, minor, is_free_threaded));
        let mut new = Self { arena, offsets, minor };
        new.put_types();
        new.put_thread();
        new
    }

    fn put_types(&mut self) {
        let code = self.offsets.code;
        let line_table = if self.minor < 10 { "co_lnotab" } else { "co_linetable" };
        let mut members = vec![
            ("co_filename", code.file),
            ("co_name", code.name),
            ("co_firstlineno", code.first_line),
            (line_table, code.line_table),
        ];
        members.extend(code.qualified_name.map(|offset| ("co_qualname", offset)));
        self.put_members(CODE_TYPE, &members);
        if let Some(start) = code.instructions {
            let header = u64::from(self.offsets.object.header);
            self.arena.put_u64(CODE_TYPE + header + 16, u64::from(start));
            self.arena.put_u64(CODE_TYPE + header + 24, 2);
        }
        let frame = self.offsets.frame;
        self.put_members(FRAME_TYPE, &[("f_back", frame.previous), ("f_code", frame.code)]);
        self.arena.put_u32(VERSION, 0x0300_02f0 | (u32::from(self.minor) << 16));
    }

    pub(super) fn put_members(&mut self, address: u64, members: &[(&str, u32)]) {
        let table = address + 0x200;
        self.arena.put_u64(address + u64::from(self.offsets.object.header) + 224, table);
        for (index, (name, offset)) in (0u64..).zip(members) {
            let text = address + 0x800 + 32 * index;
            self.arena.put(text, name.as_bytes());
            self.arena.put_u64(table + 40 * index, text);
            self.arena.put_u64(table + 40 * index + 16, u64::from(*offset));
        }
    }

    fn put_thread(&mut self) {
        let lists = self.offsets.lists;
        self.arena.put_u64(RUNTIME + u64::from(self.offsets.interpreters), INTERPRETER);
        self.arena.put_u64(INTERPRETER + u64::from(lists.threads), STATE);
        self.arena.put_u64(STATE + u64::from(lists.thread_id), THREAD);
        if self.offsets.c_frame.is_some() {
            self.arena.put_u64(STATE + u64::from(self.offsets.state_frame), C_FRAME);
        }
        let key = u64::from(self.offsets.key.unwrap_or(0x900));
        self.arena.put_u32(RUNTIME + key, 1);
        self.arena.put_u32(RUNTIME + key + 4, KEY);
        self.arena.put_u64(THREAD + 0x310 + 16 * u64::from(KEY) + 8, STATE);
        // mov rdi, the key's address; jmp elsewhere
        self.arena.put(GETTER, &[0x48, 0xbf]);
        self.arena.put_u64(GETTER + 2, RUNTIME + key);
        self.arena.put(GETTER + 10, &[0xe9, 0, 0, 1, 0]);
        if let Some((pointer, holder, locked)) = self.offsets.lock {
            self.arena.put_u64(INTERPRETER + u64::from(pointer), LOCK);
            self.arena.put_u64(LOCK + u64::from(holder), STATE);
            self.arena.put_u32(LOCK + u64::from(locked), 1);
        }
    }

    /// Makes the thread run `count` frames, the leaf first, each of a code object of its own; the last is an entry.
    pub(super) fn put_frames(&mut self, count: u64) {
        let leaf = self
            .offsets
            .c_frame
            .map_or(STATE + u64::from(self.offsets.state_frame), |offset| C_FRAME + u64::from(offset));
        self.arena.put_u64(leaf, FRAMES);
        let has_shim = matches!(self.offsets.frame.entry, PythonEntry::Shim { .. });
        for index in 0..count {
            self.put_code(CODES + index * STEP);
            let is_last = index + 1 == count;
            let previous = if is_last && !has_shim { 0 } else { FRAMES + (index + 1) * STEP };
            self.put_frame(FRAMES + index * STEP, CODES + index * STEP, previous);
            if let (true, PythonEntry::Flag { offset }) = (is_last, self.offsets.frame.entry) {
                self.arena.put(FRAMES + index * STEP + u64::from(offset), &[1]);
            }
        }
        if let PythonEntry::Shim { offset, .. } = self.offsets.frame.entry {
            self.arena.put(FRAMES + count * STEP + u64::from(offset), &[3]);
        }
    }

    pub(super) fn put_frame(&mut self, address: u64, code: u64, previous: u64) {
        let frame = self.offsets.frame;
        self.arena.put_u64(address + u64::from(frame.code), code | u64::from(frame.code_mask != u64::MAX));
        self.arena.put_u64(address + u64::from(frame.previous), previous);
        let place = address + u64::from(frame.position);
        match (frame.position_kind, self.offsets.code.instructions) {
            (PythonPosition::Pointer, Some(start)) => self.arena.put_u64(place, code + u64::from(start) + 4),
            _ => self.arena.put_u32(place, 4),
        }
    }

    /// Puts a code object with byte code of 8 bytes at `address`, and what it points to after it.
    pub(super) fn put_code(&mut self, address: u64) {
        let (code, object) = (self.offsets.code, self.offsets.object);
        self.arena.put_u64(address + u64::from(object.header) - 8, CODE_TYPE);
        self.arena.put_u64(address + u64::from(object.header), 4);
        let texts = [(Some(code.file), "dir/file.py"), (Some(code.name), "f"), (code.qualified_name, "C.f")];
        for (index, (offset, text)) in (0u64..).zip(texts) {
            let place = address + 0x300 + 0x100 * index;
            self.put_ascii(place, text);
            if let Some(offset) = offset {
                self.arena.put_u64(address + u64::from(offset), place);
            }
        }
        self.arena.put_u32(address + u64::from(code.first_line), 10);
        self.arena.put_u64(address + u64::from(code.line_table), address + 0x700);
        self.put_bytes(address + 0x700, &[2, 1, 2, 1]);
    }

    pub(super) fn put_ascii(&mut self, address: u64, text: &str) {
        let object = self.offsets.object;
        self.arena.put_u64(address + u64::from(object.header) - 8, TEXT_TYPE);
        self.arena.put_u64(address + u64::from(object.header), text.len() as u64);
        self.put_text_state(address, 1, true, true);
        self.arena.put(address + u64::from(object.ascii_size), text.as_bytes());
    }

    pub(super) fn put_text_state(&mut self, address: u64, width: u32, is_compact: bool, is_ascii: bool) {
        let object = self.offsets.object;
        let bits = width | u32::from(is_compact) << 3 | u32::from(is_ascii) << 4;
        self.arena.put_u32(address + u64::from(object.text_state), bits << object.text_state_shift | 1);
    }

    pub(super) fn put_bytes(&mut self, address: u64, bytes: &[u8]) {
        let header = u64::from(self.offsets.object.header);
        self.arena.put_u64(address + header - 8, BYTES_TYPE);
        self.arena.put_u64(address + header, bytes.len() as u64);
        self.arena.put(address + header + 16, bytes);
    }

    /// Layout of objects with the addresses of types.
    pub(super) fn object(&self) -> PythonObjectLayout {
        PythonObjectLayout {
            code_type: CODE_TYPE,
            text_type: TEXT_TYPE,
            bytes_type: BYTES_TYPE,
            ..self.offsets.object
        }
    }

    pub(super) fn find(&self) -> Result<PythonLayout, RuntimeProblem> {
        let symbol = |name: &str| {
            Some(match name {
                "_PyRuntime" => RUNTIME,
                "PyCode_Type" => CODE_TYPE,
                "PyUnicode_Type" => TEXT_TYPE,
                "PyBytes_Type" => BYTES_TYPE,
                "PyFrame_Type" => FRAME_TYPE,
                "Py_Version" => VERSION,
                "PyGILState_GetThisThreadState" => GETTER,
                _ => return None,
            })
        };
        PythonLayout::find(&self.arena, &symbol, "/usr/lib/libpython3.so")
    }
}

/// Puts published offsets of version 3.`minor` into memory: in every structure, field after field of eight bytes.
fn publish(arena: &mut Arena, minor: u8, is_free_threaded: bool) -> PythonOffsets {
    let header: u64 = if is_free_threaded { 32 } else { 16 };
    // Sizes of the parts in words, as the version orders them: runtime, interpreter, state, frame, code object,
    // object, type, tuple, list, set, dictionary, float, integer, bytes, text.
    let parts: &[u64] = match minor {
        13 => &[3, 13, 9, 6, 10, 2, 4, 3, 3, 3, 2, 3, 3, 4],
        _ => &[3, 16, 9, 8, 11, 2, 4, 3, 3, 4, 3, 2, 3, 3, 4],
    };
    arena.put(RUNTIME, b"xdebugpy");
    arena.put_u64(RUNTIME + 8, 0x0300_03f0 | u64::from(minor) << 16);
    arena.put_u64(RUNTIME + 16, u64::from(is_free_threaded));
    let mut word = 3;
    for (part, &count) in parts.iter().enumerate() {
        for index in 0..count {
            let value = match (part, parts.len() - 1 - part, index) {
                (0, _, 0) => 0x1000,
                (0, _, index) => 0x800 + 8 * index,
                (5, _, 0) => header,
                (5, _, _) => header - 8,
                (_, 1, 0) => header + 24,
                (_, 1, index) => header + 16 * (index - 1),
                (_, 0, _) => header + [48, 16, 0, 24][usize::try_from(index).unwrap()],
                (1..=4, _, 0) => 0x100,
                (_, _, index) => header + 8 + 8 * index,
            };
            arena.put_u64(RUNTIME + 8 * word, value);
            word += 1;
        }
    }
    debug_offsets::offsets(arena, RUNTIME, minor, is_free_threaded).expect("the order of this version")
}
