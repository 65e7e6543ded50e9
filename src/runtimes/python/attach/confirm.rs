//! Checks of a set of offsets against the process: by what the types say of their members, by the instructions of
//! exported functions, and by the stacks of the threads that are there.

use rustc_hash::FxHashMap;

use super::disassembly::{FunctionAccesses, accesses};
use crate::runtimes::memory::TargetMemory;
use crate::runtimes::python::frames::{PythonThread, stack};
use crate::runtimes::python::layout::{PythonLineTable, PythonObjectLayout, PythonOffsets, PythonPosition};
use crate::runtimes::python::text::field;

/// Offsets in a type object, from the end of the header and the length that follows it.
const BASIC_SIZE: u32 = 8;
const ITEM_SIZE: u32 = 16;
const MEMBERS: u32 = 216;
/// Size of one entry of the table of members, and the offset in it of the member's own offset.
const MEMBER_SIZE: u64 = 40;
const MEMBER_OFFSET: u64 = 16;
/// Times that a stack is read again, as the thread may run meanwhile.
const ATTEMPTS: usize = 16;
/// Most frames read for the check of stacks.
const MOST_FRAMES: usize = 1 << 16;

/// Result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PythonVerdict {
    Confirmed,
    /// The process says nothing of it.
    Silent,
    Refuted,
}

/// Compares the offsets in code objects (and frame objects) with the members that the types list.
pub(crate) fn members(
    memory: &impl TargetMemory,
    symbols: &dyn Fn(&str) -> Option<u64>,
    offsets: &PythonOffsets,
) -> PythonVerdict {
    let object = &offsets.object;
    let code = &offsets.code;
    let of_code = member_offsets(memory, object, object.code_type);
    let line_table = match code.line_table_kind {
        PythonLineTable::Increments => "co_lnotab",
        PythonLineTable::Ranges | PythonLineTable::Locations => "co_linetable",
    };
    let mut expected = vec![
        (&of_code, "co_filename", code.file),
        (&of_code, "co_name", code.name),
        (&of_code, "co_firstlineno", code.first_line),
        (&of_code, line_table, code.line_table),
    ];
    expected.extend(code.qualified_name.map(|offset| (&of_code, "co_qualname", offset)));
    let frame_type = symbols("PyFrame_Type").filter(|_| code.instructions.is_none());
    let of_frame = frame_type.map(|address| member_offsets(memory, object, address)).unwrap_or_default();
    if code.instructions.is_none() {
        expected.extend([
            (&of_frame, "f_back", offsets.frame.previous),
            (&of_frame, "f_code", offsets.frame.code),
            (&of_frame, "f_lasti", offsets.frame.position),
        ]);
    }
    let mut verdict = PythonVerdict::Silent;
    for (members, name, offset) in expected {
        match members.get(name) {
            Some(&actual) if actual == u64::from(offset) => verdict = PythonVerdict::Confirmed,
            Some(_) => return PythonVerdict::Refuted,
            None => {}
        }
    }
    if has_instructions_at(memory, offsets) == Some(false) {
        return PythonVerdict::Refuted;
    }
    // A type that lists none of these is not the type of code objects.
    if of_code.contains_key("co_filename") { verdict } else { PythonVerdict::Silent }
}

/// True if code objects begin to vary at the offset of the instructions, false if they do elsewhere.
fn has_instructions_at(memory: &impl TargetMemory, offsets: &PythonOffsets) -> Option<bool> {
    let start = offsets.code.instructions?;
    let body = field(offsets.object.code_type, offsets.object.header.checked_add(8)?)?;
    let (size, item) = (memory.u64(field(body, BASIC_SIZE)?)?, memory.u64(field(body, ITEM_SIZE)?)?);
    Some(size == u64::from(start) && item == 2)
}

/// Names and offsets of the members that a type lists.
fn member_offsets(
    memory: &impl TargetMemory,
    object: &PythonObjectLayout,
    address: u64,
) -> FxHashMap<String, u64> {
    let mut offsets = FxHashMap::default();
    let place = object.header.checked_add(8 + MEMBERS).and_then(|offset| field(address, offset));
    let mut entry = place.and_then(|place| memory.u64(place)).unwrap_or(0);
    for _ in 0..64 {
        let Some((name, offset)) = member(memory, entry) else { break };
        offsets.insert(name, offset);
        entry = entry.saturating_add(MEMBER_SIZE);
    }
    offsets
}

fn member(memory: &impl TargetMemory, entry: u64) -> Option<(String, u64)> {
    let bytes = memory.bytes::<24>(memory.u64(entry)?)?;
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let name = std::str::from_utf8(bytes.get(..end)?).ok()?;
    Some((name.to_owned(), memory.u64(entry.checked_add(MEMBER_OFFSET)?)?))
}

/// Compares the offsets in thread states and frames with those that exported functions read.
pub(crate) fn instructions(
    memory: &impl TargetMemory,
    symbols: &dyn Fn(&str) -> Option<u64>,
    offsets: &PythonOffsets,
) -> PythonVerdict {
    let function = |name| symbols(name).map(|address| accesses(memory, address)).unwrap_or_default();
    let leaf: Vec<i64> =
        [Some(offsets.state_frame), offsets.c_frame].into_iter().flatten().map(i64::from).collect();
    let frame = &offsets.frame;
    let of_state = function("PyThreadState_GetFrame");
    let mut checks = vec![expects(&of_state, &leaf, true)];
    let with = |path: &[i64], offset: u32| [path, &[i64::from(offset)]].concat();
    let of_frame = function("PyFrame_GetBack");
    if frame.position_kind == PythonPosition::Pointer {
        // From 3.11 on, a frame object points to the frame proper, whose fields the functions read.
        let code = with(&leaf, frame.code);
        checks.push(expects(&of_state, &code, false));
        checks.push(expects(&of_state, &with(&leaf, frame.position), false));
        checks.push(expects(&of_state, &with(&leaf, frame.previous), false));
        if let Some(start) = offsets.code.instructions {
            checks.push(if of_state.sums.contains(&with(&code, start)) {
                PythonVerdict::Confirmed
            } else {
                PythonVerdict::Silent
            });
        }
    } else {
        checks.push(expects(&of_frame, &[i64::from(frame.previous)], true));
        checks.push(expects(&function("PyFrame_GetCode"), &[i64::from(frame.code)], true));
    }
    if checks.contains(&PythonVerdict::Refuted) {
        PythonVerdict::Refuted
    } else if checks.iter().all(|&check| check == PythonVerdict::Confirmed) {
        PythonVerdict::Confirmed
    } else {
        PythonVerdict::Silent
    }
}

/// Confirms that a function reads the field at `path`. If `is_only` and the function reads fields, but not this one
/// first of all at each depth, that refutes it.
fn expects(accesses: &FunctionAccesses, path: &[i64], is_only: bool) -> PythonVerdict {
    if accesses.fields.iter().any(|field| field == path) {
        return PythonVerdict::Confirmed;
    }
    let others = accesses.fields.iter().any(|field| field.len() == path.len());
    if is_only && others { PythonVerdict::Refuted } else { PythonVerdict::Silent }
}

/// Compares the offsets with the stacks of threads: every frame's code must be a code object and every list end at
/// its root. Confirmed by one stack that fits, refuted if there are stacks and none fits.
pub(crate) fn stacks(
    memory: &impl TargetMemory,
    offsets: &PythonOffsets,
    threads: &[PythonThread],
) -> PythonVerdict {
    let mut verdict = PythonVerdict::Silent;
    let mut frames_left = MOST_FRAMES;
    for thread in threads {
        match stack_of(memory, offsets, thread.state, &mut frames_left) {
            PythonVerdict::Confirmed => return PythonVerdict::Confirmed,
            PythonVerdict::Refuted => verdict = PythonVerdict::Refuted,
            PythonVerdict::Silent => {}
        }
    }
    verdict
}

/// Checks the stack of one thread, and takes the frames it read off `frames_left`.
fn stack_of(
    memory: &impl TargetMemory,
    offsets: &PythonOffsets,
    state: u64,
    frames_left: &mut usize,
) -> PythonVerdict {
    let mut verdict = PythonVerdict::Silent;
    for _ in 0..ATTEMPTS {
        if *frames_left == 0 {
            break;
        }
        let stack = stack(memory, &offsets.frame, offsets.state_frame, offsets.c_frame, state);
        *frames_left = frames_left.saturating_sub(stack.frames.len() + 1);
        let is_code = |code| {
            field(code, offsets.object.type_offset()).and_then(|place| memory.u64(place))
                == Some(offsets.object.code_type)
        };
        let fits = stack.is_complete && stack.frames.iter().all(|frame| is_code(frame.code));
        match (fits, stack.frames.is_empty()) {
            (true, false) => return PythonVerdict::Confirmed,
            (true, true) => return PythonVerdict::Silent,
            (false, _) => verdict = PythonVerdict::Refuted,
        }
    }
    verdict
}
