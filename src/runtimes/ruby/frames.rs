//! Stacks of threads, read from outside: where no BPF program reads them, and the reference that these are compared with.

use super::layout::{RubyOffsets, RubyStackRange, words_of};
use super::object::RubyKind;
use crate::runtimes::memory::TargetMemory;

/// What the environment of a frame says of it.
const IS_ENTRY: u64 = 0x20;
const FRAME_KIND: u64 = 0x7fff_0001;
const FUNCTION_IN_C: u64 = 0x5555_0001;
/// Kinds of frames from the first to the last.
const KINDS: std::ops::RangeInclusive<u64> = 1..=7;
const KIND_STEP: u64 = 0x1111_0000;
const RESCUE: u64 = 0x7888_0001;
const DUMMY: u64 = 0x7999_0001;

/// One frame of a thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RubyFrame {
    /// Address of the code object: the sequence of instructions, or the entry of a method in C.
    pub(crate) code: u64,
    /// Low half of the distance from the code object to the next instruction; 0 for a method in C.
    pub(crate) position: u32,
    /// The frame was entered from C: it is the outermost of its call of the interpreter's loop.
    pub(crate) is_entry: bool,
    /// It is a method in C.
    pub(crate) is_native: bool,
}

/// Frames of one execution context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RubyStack {
    /// The leaf first.
    pub(crate) frames: Vec<RubyFrame>,
    /// The list ended as it should: at the end of the stack.
    pub(crate) is_complete: bool,
}

/// A control frame, as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RubyStep {
    Frame(RubyFrame),
    /// Nothing that a program would show, such as the frame below all others.
    Hidden,
}

/// Stack of the execution context at `context`.
pub(crate) fn stack(memory: &impl TargetMemory, offsets: &RubyOffsets, context: u64) -> RubyStack {
    let mut stack = RubyStack::default();
    let Some(RubyStackRange { mut frame, end }) = RubyStackRange::of(memory, offsets, context) else {
        return stack;
    };
    while frame < end {
        let Some(step) = step(memory, frame) else { return stack };
        if let RubyStep::Frame(frame) = step {
            stack.frames.push(frame);
        }
        frame += u64::from(offsets.frame_size);
    }
    stack.is_complete = true;
    stack
}

/// Reads the control frame at `address`; `None` if it is none.
fn step(memory: &impl TargetMemory, address: u64) -> Option<RubyStep> {
    let [next, _, code, _, environment] = words_of(&memory.bytes::<40>(address)?);
    let [method, _, flags] = words_of(&memory.bytes::<24>(environment.checked_sub(16)?)?);
    let kind = flags & FRAME_KIND;
    let is_kind =
        kind == RESCUE || kind == DUMMY || KINDS.map(|kind| kind * KIND_STEP + 1).any(|k| k == kind);
    if !is_kind {
        return None;
    }
    if kind == FUNCTION_IN_C {
        let frame = RubyFrame { code: method, position: 0, is_entry: false, is_native: true };
        return (RubyKind::of(memory, method)? == RubyKind::Method).then_some(RubyStep::Frame(frame));
    }
    if code == 0 || next == 0 || kind == DUMMY {
        return Some(RubyStep::Hidden);
    }
    let is_entry = flags & IS_ENTRY != 0;
    let position = next.wrapping_sub(code) as u32;
    match RubyKind::of(memory, code)? {
        RubyKind::Sequence => Some(RubyStep::Frame(RubyFrame { code, position, is_entry, is_native: false })),
        RubyKind::Callback => Some(RubyStep::Hidden),
        RubyKind::Method | RubyKind::Other => None,
    }
}

/// Stack of the thread with this thread pointer; `None` if it runs no Ruby.
#[cfg(test)]
pub(crate) fn stack_of(
    memory: &impl TargetMemory,
    layout: &super::layout::RubyLayout,
    thread_pointer: u64,
) -> Option<RubyStack> {
    Some(stack(memory, &layout.offsets, layout.locator.context(memory, thread_pointer)?))
}
