//! The stack of a process, read from outside: the reference that the kernel's reader is compared with.

use super::layout::{
    CALL_CODE, CALL_TOP, EVALUATED_CODE, FIBER_POSITION, INTERNAL_FUNCTION, IS_INCLUDED, MOST_FRAMES,
    PhpOffsets, USER_FUNCTION, field,
};
use crate::runtimes::memory::TargetMemory;

/// One frame of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhpFrame {
    /// Address of the function, with marks.
    pub(crate) code: u64,
    /// Line; 0 if there is none.
    pub(crate) position: u32,
    /// It has a call of the interpreter loop of its own.
    pub(crate) is_entry: bool,
}

/// Frames of the main thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PhpStack {
    /// The leaf first.
    pub(crate) frames: Vec<PhpFrame>,
    /// The list ended as it should. It may not while the process runs.
    pub(crate) is_complete: bool,
}

/// The stack by the executor's globals.
pub(crate) fn stack(memory: &impl TargetMemory, globals: u64, offsets: &PhpOffsets) -> PhpStack {
    let mut stack = PhpStack::default();
    let first = field(globals, offsets.current_frame).and_then(|place| memory.u64(place));
    let Some(mut frame) = first else { return stack };
    for _ in 0..MOST_FRAMES {
        if frame == 0 {
            stack.is_complete = true;
            return stack;
        }
        let Some(next) = push_frame(memory, globals, offsets, frame, &mut stack) else { return stack };
        frame = next;
    }
    stack
}

/// Adds the frame at `frame`, unless it only joins two others, and returns its caller.
fn push_frame(
    memory: &impl TargetMemory,
    globals: u64,
    offsets: &PhpOffsets,
    frame: u64,
    stack: &mut PhpStack,
) -> Option<u64> {
    let word = |offset| memory.u64(field(frame, offset)?);
    let (function, previous) = (word(offsets.frame.function)?, word(offsets.frame.previous)?);
    if function == 0 {
        return Some(previous);
    }
    let marks = memory.u32(field(frame, offsets.frame.marks)?)?;
    let (mut code, mut position, mut is_entry) = (function, 0, false);
    match memory.u8(function)? {
        INTERNAL_FUNCTION => {
            if memory.u64(field(function, offsets.function.name)?)? == 0 {
                position = FIBER_POSITION;
            }
        }
        USER_FUNCTION | EVALUATED_CODE => {
            is_entry = marks & CALL_TOP != 0;
            if marks & CALL_CODE != 0 && previous != 0 {
                code |= IS_INCLUDED;
            }
            position = line(memory, offsets, word(offsets.frame.instruction)?);
            if position == 0 {
                // The instruction that deals with an exception has no line.
                let thrown_at = memory.u64(field(globals, offsets.thrown_at)?)?;
                position = line(memory, offsets, thrown_at);
            }
        }
        _ => return None,
    }
    stack.frames.push(PhpFrame { code, position, is_entry });
    Some(previous)
}

/// Line of an instruction; 0 if it has none.
fn line(memory: &impl TargetMemory, offsets: &PhpOffsets, instruction: u64) -> u32 {
    field(instruction, offsets.line).and_then(|place| memory.u32(place)).unwrap_or(0)
}
