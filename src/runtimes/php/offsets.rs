//! Offsets of an interpreter, from the instructions of functions that it exports.
//!
//! `zend_get_executed_lineno` goes from the globals to the frame that runs, from frame to frame, to their functions and
//! instructions, and to the line; others read names, classes and files in the same way. What two of them read must be equal.

use super::instructions::{PhpRead, PhpReads, reads};
use super::layout::{CALL_CODE, CALL_TOP, PhpFrameOffsets, PhpFunctionOffsets, PhpOffsets};
use crate::runtimes::memory::TargetMemory;

/// Marks of a frame, after the object of the call: a fact of all versions that `zend_execute` confirms.
const FRAME_MARKS: u32 = 40;
/// Length of a string, and its first character.
const TEXT_LENGTH: u32 = 16;
const TEXT_START: i64 = 24;
/// Least offset of the name of a file in a function: fields that all functions have come before.
const LEAST_FILE: i64 = 64;

/// Reads the offsets in the code of the interpreter.
///
/// # Errors
/// What does not fit, as the middle of a sentence.
pub(crate) fn offsets(
    memory: &impl TargetMemory,
    symbols: &dyn Fn(&str) -> Option<u64>,
    globals: u64,
) -> Result<PhpOffsets, String> {
    let read = |name: &str| -> Result<PhpReads, String> {
        let function = symbols(name).ok_or_else(|| format!("it does not export `{name}`"))?;
        Ok(reads(memory, function, globals))
    };
    let unknown = |name: &str| format!("`{name}` does not read what it was expected to read");
    let lineno = read("zend_get_executed_lineno")?;
    let frame = frame_path(&lineno.fields).ok_or_else(|| unknown("zend_get_executed_lineno"))?;
    let name = "zend_get_executed_filename_ex";
    let file = only_pointer(&read(name)?, frame, |step| step >= LEAST_FILE).ok_or_else(|| unknown(name))?;
    let name = "zend_get_executed_scope";
    let class = only_pointer(&read(name)?, frame, |_| true).ok_or_else(|| unknown(name))?;
    let name = "get_active_function_name";
    let of_name = read(name)?;
    let function_name = only_pointer(&of_name, frame, |_| true)
        .filter(|&step| of_name.sums.contains(&vec![frame.current, frame.function, step, TEXT_START]))
        .ok_or_else(|| unknown(name))?;
    let name = "get_active_class_name";
    let of_class = read(name)?;
    let class_name = class_name(&of_class, frame, class).ok_or_else(|| unknown(name))?;
    let started = read("zend_execute")?;
    let is_marked = |number: &u64| {
        let marks = u64::from(CALL_TOP | CALL_CODE);
        *number <= u32::MAX.into() && *number & marks == marks
    };
    if !started.numbers.iter().any(is_marked) || !started.written.contains(&i64::from(FRAME_MARKS)) {
        return Err(unknown("zend_execute"));
    }
    let unfit = |_| "an offset is larger than any known one".to_owned();
    let small = |offset: i64| u16::try_from(offset).map(u32::from).map_err(unfit);
    Ok(PhpOffsets {
        current_frame: small(frame.current)?,
        thrown_at: small(frame.thrown_at)?,
        frame: PhpFrameOffsets {
            instruction: small(frame.instruction)?,
            function: small(frame.function)?,
            marks: FRAME_MARKS,
            previous: small(frame.previous)?,
        },
        function: PhpFunctionOffsets {
            name: small(function_name)?,
            class: small(class)?,
            file: small(file)?,
            instructions: frame.instructions.map(small).transpose()?,
        },
        class_name: small(class_name)?,
        line: small(frame.line)?,
        text_length: TEXT_LENGTH,
    })
}

/// Steps of `zend_get_executed_lineno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FramePath {
    current: i64,
    function: i64,
    instruction: i64,
    line: i64,
    previous: i64,
    thrown_at: i64,
    /// In a function, for a frame that has no instruction yet.
    instructions: Option<i64>,
}

/// The steps by which a function that asks for the line goes; `None` if it is not clear which is which.
fn frame_path(fields: &[PhpRead]) -> Option<FramePath> {
    // The kind of a function is a byte, its first.
    let (current, function) = only(fields.iter().filter_map(|read| match (&read.path[..], read.bytes) {
        (&[current, function, 0], 1) => Some((current, function)),
        _ => None,
    }))?;
    let (instruction, line) = only(fields.iter().filter_map(|read| match (&read.path[..], read.bytes) {
        (&[start, instruction, line], 4) if start == current => Some((instruction, line)),
        _ => None,
    }))?;
    let previous = only(fields.iter().filter_map(|read| match (&read.path[..], read.bytes) {
        (&[start, step], 8) if start == current && step != function && step != instruction => Some(step),
        _ => None,
    }))?;
    // The line of the instruction that has thrown is read like that of the frame's.
    let thrown_at = only(fields.iter().filter_map(|read| match (&read.path[..], read.bytes) {
        (&[start, place], 4) if start != current && place == line => Some(start),
        _ => None,
    }))?;
    let instructions = only(fields.iter().filter_map(|read| match (&read.path[..], read.bytes) {
        (&[start, step, first, place], 4) if (start, step, place) == (current, function, line) => Some(first),
        _ => None,
    }));
    Some(FramePath { current, function, instruction, line, previous, thrown_at, instructions })
}

/// Offset of the only pointer in a function that is read and `fits`.
fn only_pointer(reads: &PhpReads, frame: FramePath, fits: impl Fn(i64) -> bool) -> Option<i64> {
    only(reads.fields.iter().filter_map(|read| match (&read.path[..], read.bytes) {
        (&[current, function, step], 8) if (current, function) == (frame.current, frame.function) => {
            fits(step).then_some(step)
        }
        _ => None,
    }))
}

/// Offset of the name in a class, which is at `class` in a function.
fn class_name(reads: &PhpReads, frame: FramePath, class: i64) -> Option<i64> {
    let before = [frame.current, frame.function, class];
    let name = only(reads.fields.iter().filter_map(|read| match (&read.path[..], read.bytes) {
        (&[current, function, place, name], 8) if [current, function, place] == before => Some(name),
        _ => None,
    }))?;
    let [current, function, class] = before;
    reads.sums.contains(&vec![current, function, class, name, TEXT_START]).then_some(name)
}

/// The value that all of `values` are; `None` if there is none, or they differ.
fn only<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
