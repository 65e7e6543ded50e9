//! The stack of a process, read from outside: where no BPF program reads it, and the reference that these are compared with.

use super::check::mix;
use super::layout::{
    CALL_CODE, CALL_TOP, EVALUATED_CODE, FIBER_POSITION, FUNCTION_MARKS, INSTRUCTION_BYTES,
    INTERNAL_FUNCTION, IS_IMMUTABLE, IS_INCLUDED, MOST_FRAMES, MOST_INSTRUCTIONS, PhpKept, PhpLayout,
    USER_FUNCTION, field,
};
use crate::runtimes::memory::TargetMemory;

/// One frame of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhpFrame {
    /// Address of the function, with marks.
    pub(crate) code: u64,
    /// Bits of a hash of where the names of the function are, and of its lines: memory is used again.
    pub(crate) tag: u8,
    /// Line; 0 if there is none.
    pub(crate) position: u32,
    /// It has a call of the interpreter loop of its own.
    pub(crate) is_entry: bool,
    /// The function is thrown away when it has run, or with its request.
    pub(crate) is_brief: bool,
}

/// Frames of the main thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PhpStack {
    /// The leaf first.
    pub(crate) frames: Vec<PhpFrame>,
    /// The list ended as it should. It may not while the process runs.
    pub(crate) is_complete: bool,
}

/// What the interpreter's loop has in registers, where it was made by GCC: the frame itself has the instruction as it was saved
/// last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhpLoopPlace {
    /// r14.
    pub(crate) frame: u64,
    /// r15.
    pub(crate) instruction: u64,
}

/// The stack by the executor's globals; with `registers` if the thread is in the interpreter's loop.
pub(crate) fn stack(
    memory: &impl TargetMemory,
    layout: &PhpLayout,
    mut registers: Option<PhpLoopPlace>,
) -> PhpStack {
    let mut stack = PhpStack::default();
    let first = field(layout.globals, layout.offsets.current_frame).and_then(|place| memory.u64(place));
    let Some(mut frame) = first else { return stack };
    for _ in 0..MOST_FRAMES {
        if frame == 0 {
            stack.is_complete = true;
            return stack;
        }
        let Some(next) = push_frame(memory, layout, frame, registers.take(), &mut stack) else {
            return stack;
        };
        frame = next;
    }
    stack
}

/// Adds the frame at `frame`, unless it only joins two others, and returns its caller.
fn push_frame(
    memory: &impl TargetMemory,
    layout: &PhpLayout,
    frame: u64,
    registers: Option<PhpLoopPlace>,
    stack: &mut PhpStack,
) -> Option<u64> {
    let offsets = &layout.offsets;
    let word = |offset| memory.u64(field(frame, offset)?);
    let (function, previous) = (word(offsets.frame.function)?, word(offsets.frame.previous)?);
    if function == 0 {
        return Some(previous);
    }
    let marks = memory.u32(field(frame, offsets.frame.marks)?)?;
    let of_function = |offset| memory.u64(field(function, offset)?);
    let (name, class) = (of_function(offsets.function.name)?, of_function(offsets.function.class)?);
    let mut mixed = mix(mix(0, name), class);
    let mut pushed = PhpFrame { code: function, tag: 0, position: 0, is_entry: false, is_brief: false };
    match memory.u8(function)? {
        INTERNAL_FUNCTION if name == 0 => pushed.position = FIBER_POSITION,
        INTERNAL_FUNCTION => {}
        USER_FUNCTION | EVALUATED_CODE => {
            let lines = of_function(offsets.function.file.checked_add(8)?)?;
            mixed = mix(mix(mixed, of_function(offsets.function.file)?), lines);
            pushed.is_entry = marks & CALL_TOP != 0;
            if marks & CALL_CODE != 0 && previous != 0 {
                pushed.code |= IS_INCLUDED;
            }
            let of_loop = registers.filter(|registers| registers.frame == frame);
            let of_loop =
                of_loop.and_then(|known| loop_line(memory, layout, function, known.instruction, lines));
            pushed.position = match of_loop {
                Some(line) => line,
                None => saved_line(memory, layout, word(offsets.frame.instruction)?),
            };
            let function_marks = memory.u32(field(function, FUNCTION_MARKS)?)?;
            pushed.is_brief = !is_kept(layout.kept, function_marks, name);
        }
        _ => return None,
    }
    pushed.tag = (mixed >> 56) as u8;
    stack.frames.push(pushed);
    Some(previous)
}

/// Whether a function of the program stays where it is. What has no name is thrown away when it has run, unless it is in shared
/// memory.
fn is_kept(kept: PhpKept, marks: u32, name: u64) -> bool {
    kept == PhpKept::All && name != 0 || kept != PhpKept::None && marks & IS_IMMUTABLE != 0
}

/// Line of the instruction that the loop is at; `None` if that is no instruction of the function, whose first and last line are
/// the halves of `lines`.
fn loop_line(
    memory: &impl TargetMemory,
    layout: &PhpLayout,
    function: u64,
    instruction: u64,
    lines: u64,
) -> Option<u32> {
    let first = memory.u64(field(function, layout.offsets.function.instructions?)?)?;
    let distance = instruction.wrapping_sub(first);
    let is_its =
        distance < MOST_INSTRUCTIONS * INSTRUCTION_BYTES && distance.is_multiple_of(INSTRUCTION_BYTES);
    let line = line(memory, layout, instruction);
    (is_its && (lines as u32..=(lines >> 32) as u32).contains(&line)).then_some(line)
}

/// Line of a frame by the instruction that it has saved; 0 if it has none.
fn saved_line(memory: &impl TargetMemory, layout: &PhpLayout, instruction: u64) -> u32 {
    let own = line(memory, layout, instruction);
    if own != 0 {
        return own;
    }
    // The instruction that deals with an exception has no line.
    let thrown_at =
        field(layout.globals, layout.offsets.thrown_at).and_then(|place| memory.u64(place)).unwrap_or(0);
    line(memory, layout, thrown_at)
}

/// Line of an instruction; 0 if it has none.
fn line(memory: &impl TargetMemory, layout: &PhpLayout, instruction: u64) -> u32 {
    field(instruction, layout.offsets.line).and_then(|place| memory.u32(place)).unwrap_or(0)
}
