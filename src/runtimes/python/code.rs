//! Code objects: what a frame runs, read once and kept.

use super::layout::{PythonLayout, PythonLineTable, PythonPosition};
use super::lines;
use super::text::{field, read_bytes, read_text};
use crate::runtimes::memory::TargetMemory;

/// File of code that the interpreter makes for itself, such as the end of a constructor's call.
const SHIM: &str = "<shim>";
/// Largest byte code that is believed.
const MOST_INSTRUCTION_BYTES: u64 = 1 << 28;

/// Function, file and lines of one code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PythonCode {
    /// Qualified name from 3.11 on (`Parser.token.<locals>.<lambda>`), plain name before.
    pub(crate) function: String,
    pub(crate) file: String,
    pub(crate) first_line: u32,
    is_shim: bool,
    line_table: Vec<u8>,
    line_table_kind: PythonLineTable,
    position_kind: PythonPosition,
    /// Process addresses of the first instruction of each copy of the byte code; empty up to 3.10.
    instructions: Vec<u64>,
    /// Size of the byte code in bytes, where `instructions` has any.
    size: u64,
}

impl PythonCode {
    /// Reads the code object at `address`; `None` if it is none, or any part of it cannot be read or is not possible.
    pub(crate) fn read(memory: &impl TargetMemory, layout: &PythonLayout, address: u64) -> Option<Self> {
        let (object, code) = (&layout.object, &layout.code);
        if memory.u64(field(address, object.type_offset())?)? != object.code_type {
            return None;
        }
        let pointer = |offset| memory.u64(field(address, offset)?);
        let function = read_text(memory, object, pointer(code.qualified_name.unwrap_or(code.name))?)?;
        let file = read_text(memory, object, pointer(code.file)?)?;
        let line_table = read_bytes(memory, object, pointer(code.line_table)?)?;
        let first_line = memory.u32(field(address, code.first_line)?)?;
        let (instructions, size) = Self::instructions(memory, layout, address)?;
        Some(Self {
            function,
            file,
            // Code made by hand may say -1.
            first_line: if first_line > i32::MAX.cast_unsigned() { 0 } else { first_line },
            is_shim: false,
            line_table,
            line_table_kind: code.line_table_kind,
            position_kind: layout.frame.position_kind,
            instructions,
            size,
        })
    }

    /// Words and a number that change when the object at `address` becomes another code object: addresses of its name, file
    /// and lines, and its first line. `None` if it is no code object.
    pub(crate) fn identity(
        memory: &impl TargetMemory,
        layout: &PythonLayout,
        address: u64,
    ) -> Option<([u64; 3], u32)> {
        if memory.u64(field(address, layout.object.type_offset())?)? != layout.object.code_type {
            return None;
        }
        let [name, file, lines] = layout.code.identity().map(|offset| memory.u64(field(address, offset)?));
        Some(([name?, file?, lines?], memory.u32(field(address, layout.code.first_line)?)?))
    }

    /// Addresses of the copies of the byte code, and its size.
    fn instructions(
        memory: &impl TargetMemory,
        layout: &PythonLayout,
        address: u64,
    ) -> Option<(Vec<u64>, u64)> {
        let Some(offset) = layout.code.instructions else { return Some((Vec::new(), 0)) };
        let units = memory.u64(field(address, layout.object.length_offset())?)?;
        let size = units.checked_mul(2).filter(|&size| size > 0 && size <= MOST_INSTRUCTION_BYTES)?;
        let mut starts = vec![field(address, offset)?];
        if let Some(offset) = layout.code.thread_instructions {
            let copies = memory.u64(field(address, offset)?)?;
            let count = if copies == 0 { 0 } else { memory.u64(copies)?.min(4096) };
            for index in 0..count {
                starts.push(memory.u64(copies.checked_add(8 * (index + 1))?)?);
            }
            starts.retain(|&start| start != 0);
        }
        Some((starts, size))
    }

    /// Bytes from the first instruction to the one that the position word of a frame means; `None` if that lies
    /// outside this code, which then is not the code that the frame ran.
    ///
    /// A frame that has not begun is at `u32::MAX` or just below.
    pub(crate) fn position(&self, word: u64) -> Option<u32> {
        let number = (word & 0xffff_ffff) as u32;
        match self.position_kind {
            PythonPosition::Bytes => Some(number),
            PythonPosition::Instructions if number.cast_signed() < 0 => Some(number),
            PythonPosition::Instructions => number.checked_mul(2),
            PythonPosition::Pointer => self.instructions.iter().find_map(|&start| {
                // One instruction before the first: the frame has not begun.
                let distance = word.wrapping_sub(start).cast_signed();
                let size = self.size.cast_signed();
                (-2..size).contains(&distance).then_some((distance & 0xffff_ffff) as u32)
            }),
        }
    }

    /// Bytes from the first instruction to the one that a frame means whose position the kernel side has sent: the number
    /// in the frame, or the low half of the distance of the instruction from the code object at `code`.
    pub(crate) fn position_after(&self, code: u64, sent: u32) -> Option<u32> {
        match self.position_kind {
            PythonPosition::Pointer => self.position(code.wrapping_add(sent.into())),
            PythonPosition::Bytes | PythonPosition::Instructions => self.position(sent.into()),
        }
    }

    /// Takes the file's name out of it.
    pub(crate) fn take_file(&mut self) -> String {
        self.is_shim = self.file == SHIM;
        std::mem::take(&mut self.file)
    }

    /// Line of the instruction `position` bytes from the first; the first line if the code has not begun; `None` if
    /// the instruction belongs to no line.
    pub(crate) fn line(&self, position: u32) -> Option<u32> {
        if position.cast_signed() < 0 {
            return Some(self.first_line);
        }
        lines::line(self.line_table_kind, &self.line_table, self.first_line, position)
    }

    /// True for code that the interpreter makes for itself and no profile should show.
    pub(crate) fn is_shim(&self) -> bool {
        self.is_shim || self.file == SHIM
    }
}
