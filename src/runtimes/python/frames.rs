//! Stacks of threads, read from outside: the reference that the kernel's reader is compared with.

#[cfg(test)]
use super::layout::PythonLayout;
use super::layout::{MOST_STEPS, PythonEntry, PythonFrameLayout, PythonLists, PythonPosition};
use super::text::field;
use crate::runtimes::memory::TargetMemory;

/// One frame of a thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PythonFrame {
    /// Address of the code object, without tag.
    pub(crate) code: u64,
    /// Position word as stored; `PythonCode::position` gives it a meaning.
    pub(crate) position: u64,
    /// The frame was entered from C: it is the outermost of its call of the interpreter loop.
    pub(crate) is_entry: bool,
}

/// Frames of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PythonStack {
    /// The leaf first.
    pub(crate) frames: Vec<PythonFrame>,
    /// The list ended as it should, at a frame that was entered from C. It may not while the thread runs, and for the
    /// moment that a generator takes to leave it.
    pub(crate) is_complete: bool,
    /// A shim lies before all frames: the leaf-most call of the interpreter loop runs no function yet, or no more.
    pub(crate) begins_with_shim: bool,
}

/// Thread of an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PythonThread {
    /// Address of the interpreter it belongs to.
    pub(crate) interpreter: u64,
    /// Address of its state.
    pub(crate) state: u64,
    /// Its thread pointer.
    pub(crate) thread_pointer: u64,
}

/// Stack of the thread with this thread pointer; `None` if it has no state.
///
/// Where the newest call of the interpreter loop has only begun, its frame is left out, as it is not linked yet.
#[cfg(test)]
pub(crate) fn frames(
    memory: &impl TargetMemory,
    layout: &PythonLayout,
    thread_pointer: u64,
) -> Option<PythonStack> {
    let state = layout.locator.thread_state(memory, thread_pointer)?;
    let stack = stack(memory, &layout.frame, layout.state_frame, layout.c_frame, state);
    let is_code = |frame: &PythonFrame| {
        field(frame.code, layout.object.type_offset()).and_then(|place| memory.u64(place))
            == Some(layout.object.code_type)
    };
    let begins_well = stack.frames.first().map_or(stack.is_complete, is_code);
    let before = if begins_well { None } else { stack_before(memory, layout, state) };
    Some(before.filter(|stack| stack.frames.first().is_some_and(is_code)).unwrap_or(stack))
}

/// Stack without the newest call of the interpreter loop, by the C frame before.
#[cfg(test)]
fn stack_before(memory: &impl TargetMemory, layout: &PythonLayout, state: u64) -> Option<PythonStack> {
    let newest = memory.u64(field(state, layout.state_frame)?)?;
    let before = field(newest, layout.previous_c_frame?)?;
    let leaf = memory.u64(field(memory.u64(before)?, layout.c_frame?)?)?;
    let mut stack = stack_from(memory, &layout.frame, leaf);
    stack.begins_with_shim = true;
    Some(stack)
}

/// Stack of the thread with this state.
pub(crate) fn stack(
    memory: &impl TargetMemory,
    layout: &PythonFrameLayout,
    state_frame: u32,
    c_frame: Option<u32>,
    state: u64,
) -> PythonStack {
    leaf(memory, state_frame, c_frame, state).map(|leaf| stack_from(memory, layout, leaf)).unwrap_or_default()
}

/// Stack whose leaf is the frame at `frame`.
fn stack_from(memory: &impl TargetMemory, layout: &PythonFrameLayout, frame: u64) -> PythonStack {
    let (mut stack, is_whole) = list(memory, layout, frame, MOST_STEPS);
    stack.is_complete = is_whole && stack.frames.last().is_none_or(|root| root.is_entry);
    stack
}

/// Stack whose leaf is the frame at `frame`, of at most so many frames and shims; and whether the list has ended.
pub(crate) fn list(
    memory: &impl TargetMemory,
    layout: &PythonFrameLayout,
    mut frame: u64,
    most: usize,
) -> (PythonStack, bool) {
    let mut stack = PythonStack::default();
    for _ in 0..most {
        if frame == 0 {
            return (stack, true);
        }
        let Some(next) = push_frame(memory, layout, frame, &mut stack) else { break };
        frame = next;
    }
    (stack, false)
}

/// The leaf frame of the thread with this state; 0 if it has none.
pub(crate) fn leaf(
    memory: &impl TargetMemory,
    state_frame: u32,
    c_frame: Option<u32>,
    state: u64,
) -> Option<u64> {
    let word = memory.u64(field(state, state_frame)?)?;
    match c_frame {
        Some(offset) => memory.u64(field(word, offset)?),
        None => Some(word),
    }
}

/// Adds the frame at `frame`, unless it is a shim, and returns its caller.
fn push_frame(
    memory: &impl TargetMemory,
    layout: &PythonFrameLayout,
    frame: u64,
    stack: &mut PythonStack,
) -> Option<u64> {
    let previous = memory.u64(field(frame, layout.previous)?)?;
    let is_entry = match layout.entry {
        PythonEntry::Every => true,
        PythonEntry::Flag { offset } => memory.u8(field(frame, offset)?)? != 0,
        PythonEntry::Shim { offset, least } => {
            if memory.u8(field(frame, offset)?)? >= least {
                match stack.frames.last_mut() {
                    Some(entered) => entered.is_entry = true,
                    None => stack.begins_with_shim = true,
                }
                return Some(previous);
            }
            false
        }
    };
    let place = field(frame, layout.position)?;
    let position = match layout.position_kind {
        PythonPosition::Pointer => memory.u64(place)?,
        PythonPosition::Bytes | PythonPosition::Instructions => u64::from(memory.u32(place)?),
    };
    let code = memory.u64(field(frame, layout.code)?)? & layout.code_mask;
    stack.frames.push(PythonFrame { code, position, is_entry });
    Some(previous)
}

/// Threads of all interpreters, those of the main interpreter last.
pub(crate) fn threads(memory: &impl TargetMemory, lists: &PythonLists) -> Vec<PythonThread> {
    let mut threads = Vec::new();
    let mut interpreter = memory.u64(lists.interpreters).unwrap_or(0);
    let mut steps = 0;
    while interpreter != 0 && steps < MOST_STEPS {
        let mut state = word(memory, interpreter, lists.threads);
        while state != 0 && steps < MOST_STEPS {
            let thread_pointer = word(memory, state, lists.thread_id);
            threads.push(PythonThread { interpreter, state, thread_pointer });
            state = word(memory, state, lists.next_thread);
            steps += 1;
        }
        interpreter = word(memory, interpreter, lists.next_interpreter);
        steps += 1;
    }
    threads
}

fn word(memory: &impl TargetMemory, address: u64, offset: u32) -> u64 {
    field(address, offset).and_then(|address| memory.u64(address)).unwrap_or(0)
}
