//! Template interpreter: where it is, which of its code runs before its frame is built, and what its frames hold.

use super::method::JavaMethodLayout;
use super::tables::{JavaTables, text_at};
use crate::runtimes::RuntimeProblem;
use crate::runtimes::memory::TargetMemory;
use std::ops::Range;

/// Bytes below rbp of the caller's stack pointer, as it was before arguments became locals.
pub(crate) const SENDER_BELOW: u64 = 8;
/// Bytes below rbp of the Method pointer.
pub(crate) const METHOD_BELOW: u64 = 24;
/// Bytes below rbp of the position among the bytecodes: one word higher before JDK 9, which has no class mirror there.
const BCP_BELOW: u64 = 64;
/// Bytes between a frame and its caller's stack pointer at most: 65,535 locals.
const MOST_LOCALS: u64 = 1 << 20;

/// Bytes of the interpreter at most; a debug build has about 1 MiB.
const LARGEST: u64 = 4 << 20;
/// Pieces of the interpreter at most; it has 270 to 330.
const MOST_PIECES: usize = 4096;
/// `push rbp; mov rbp, rsp`, which begins every frame of the interpreter.
const ENTER: [u8; 4] = [0x55, 0x48, 0x8b, 0xec];

/// Address range of the interpreter and the pieces that methods are entered by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JavaCodelets {
    pub(crate) code: Range<u64>,
    /// Bytes below rbp of the word with the position among the bytecodes.
    pub(crate) bcp_below: u64,
    /// Entries, each from its start to the instruction after which rbp belongs to the new frame.
    pub(crate) entries: Vec<Range<u64>>,
}

impl JavaCodelets {
    /// Whether `pc` lies in an entry whose frame is not built yet.
    pub(crate) fn is_entering(&self, pc: u64) -> bool {
        self.entries.iter().any(|entry| entry.contains(&pc))
    }

    /// Frame whose rbp is `fp`; `None` if its links fail a check.
    /// `r13` holds the position among the bytecodes while the interpreter itself runs; a caller's is in its frame.
    pub(crate) fn frame_at(
        &self,
        memory: &impl TargetMemory,
        methods: &JavaMethodLayout,
        fp: u64,
        r13: Option<u64>,
    ) -> Option<JavaInterpretedFrame> {
        let below = |bytes: u64| memory.u64(fp.checked_sub(bytes)?);
        let [sender_sp, method] = [below(SENDER_BELOW)?, below(METHOD_BELOW)?];
        if sender_sp <= fp || sender_sp - fp > MOST_LOCALS {
            return None;
        }
        let caller = [memory.u64(fp.checked_add(8)?)?, sender_sp, memory.u64(fp)?];
        let Some(parts) = methods.check(memory, method) else {
            return Some(JavaInterpretedFrame { method: 0, bytecode: 0, caller });
        };
        let places = [r13, below(self.bcp_below)].into_iter().flatten();
        let bytecode = places.into_iter().find(|&place| parts.bci(place).is_some()).unwrap_or(0);
        Some(JavaInterpretedFrame { method, bytecode, caller })
    }
}

/// Interpreter of the JVM; a sentence if it is not there.
pub(crate) fn interpreter(
    memory: &impl TargetMemory,
    tables: &JavaTables,
) -> Result<JavaCodelets, RuntimeProblem> {
    let buffer = tables.need(&[("StubQueue", "_stub_buffer")])?;
    let end = tables.need(&[("StubQueue", "_queue_end")])?;
    let queue = tables.address("AbstractInterpreter", "_code").and_then(|code| memory.u64(code)).unwrap_or(0);
    let start = memory.u64(queue.saturating_add(u64::from(buffer.offset))).unwrap_or(0);
    let size = memory.u32(queue.saturating_add(u64::from(end.offset))).map_or(0, u64::from);
    if start == 0 || size == 0 || size > LARGEST {
        return Err(RuntimeProblem::temporary(
            "java: no names: the interpreter of this JVM is not generated yet; attach again once it has started",
        ));
    }
    let is_before_9 = tables.address("CodeCache", "_heap").is_some();
    let mut codelets = JavaCodelets {
        code: start..start.saturating_add(size),
        bcp_below: BCP_BELOW - 8 * u64::from(is_before_9),
        entries: Vec::new(),
    };
    let piece_size = tables.need(&[("InterpreterCodelet", "_size")])?;
    let description = tables.need(&[("InterpreterCodelet", "_description")])?;
    let header = tables.size("InterpreterCodelet")?;
    let mut at = 0;
    for _ in 0..MOST_PIECES {
        let Some(piece) = memory.range(start.saturating_add(at), header, 64) else { break };
        let (Some(bytes), Some(text)) = (piece_size.of(&piece), description.of(&piece)) else { break };
        if bytes < header || at + bytes > size {
            break;
        }
        if text_at(memory, text, 256).is_some_and(|text| text.starts_with("method entry point")) {
            codelets.entries.extend(entry(memory, start + at..start + at + bytes));
        }
        at += bytes;
        if at >= size {
            break;
        }
    }
    Ok(codelets)
}

/// Part of the piece `code` that runs before the new frame is built.
fn entry(memory: &impl TargetMemory, code: Range<u64>) -> Option<Range<u64>> {
    let bytes = memory.range(code.start, code.end - code.start, 1 << 16)?;
    let built = bytes.windows(ENTER.len()).position(|window| window == ENTER)?;
    Some(code.start..code.start + built as u64 + ENTER.len() as u64)
}

/// Frame of the interpreter, found by its rbp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JavaInterpretedFrame {
    /// Method*; 0 if the frame has none yet, as those that deoptimisation is making.
    pub(crate) method: u64,
    /// Address of the bytecode that it is at; 0 for a native method.
    pub(crate) bytecode: u64,
    /// Caller's pc, sp (as it was before arguments became locals) and rbp.
    pub(crate) caller: [u64; 3],
}

/// Caller's pc and sp if `code`, the bytes at the running instruction, has just taken the frame down:
/// `pop r; mov rsp, rbx; jmp r` after `leave`. What was popped is still below `sp`, or in `r13` if that is the register.
pub(crate) fn left_frame(
    memory: &impl TargetMemory,
    code: &[u8],
    sp: u64,
    r13: Option<u64>,
) -> Option<(u64, u64)> {
    if code.starts_with(&[0x41, 0xff, 0xe5]) {
        return r13.map(|pc| (pc, sp));
    }
    let popped = match code {
        [0x58..=0x5f, rest @ ..] | [0x41, 0x58..=0x5f, rest @ ..] if restores_sp(rest) => 0,
        _ if restores_sp(code) => 8,
        _ => return None,
    };
    let pc = memory.u64(sp.checked_sub(popped)?)?;
    let sender_sp = memory.u64(sp.checked_sub(popped)?.checked_sub(16)?)?;
    (sender_sp >= sp && sender_sp - sp <= MOST_LOCALS).then_some((pc, sender_sp))
}

/// Whether `code` is `mov rsp, rbx` and a jump to a register.
fn restores_sp(code: &[u8]) -> bool {
    let rest = match code {
        [0x48, 0x8b, 0xe3, rest @ ..] | [0x48, 0x89, 0xdc, rest @ ..] => rest,
        _ => return false,
    };
    matches!(rest, [0xff, 0xe0..=0xe7, ..] | [0x41, 0xff, 0xe0..=0xe7, ..])
}
