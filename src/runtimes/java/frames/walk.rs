//! Java frames of a stack: from generated code, frame by frame, up to the native code that called it.

use super::code::{self, JavaCodePath, JavaFrameExit};
use super::stack::{JavaEnd, JavaFrame, JavaLive, JavaPosition, JavaRegisters, JavaWalk};
use crate::runtimes::java::blob::{JavaBlob, JavaBlobKind};
use crate::runtimes::java::interpreter::{self, JavaInterpretedFrame};
use crate::runtimes::java::layout::JavaLayout;
use crate::runtimes::memory::TargetMemory;

/// Physical frames at most.
const MOST_FRAMES: usize = 4096;
/// Bytes of instructions read at the top frame.
const CODE_BYTES: u64 = 384;
/// Bytes of an entry that are followed to a pc in it.
const ENTRY_BYTES: u64 = 512;
/// Bytes of adapters between one kind of call and the other.
const ADAPTER_BYTES: usize = 1 << 16;
/// Words that compiled code may have pushed on top of its frame.
const MOST_PUSHED: u64 = 16;
/// Bytes of stack in which the return address of a stub is looked for.
const STUB_STACK: u64 = 4096;
/// Word between the frame pointer and the return address of the stub that methods call when they are entered.
const ENTRY_COOKIE: u64 = u64::MAX;
/// Bytes from sp to rbp of a frame that is found by rbp at most.
const LARGEST_FRAME: u64 = 1 << 20;

/// Frames from `registers`, whose pc lies in generated code, up to native code. `memory` must have the stack as it was
/// when the registers were read.
pub(crate) fn walk(
    memory: &impl TargetMemory,
    layout: &JavaLayout,
    registers: JavaRegisters,
    position: JavaPosition,
) -> JavaWalk {
    let walker = JavaWalker { memory, layout };
    let mut walk = JavaWalk { frames: Vec::new(), end: JavaEnd::TooDeep, registers };
    let mut place = JavaFramePlace { is_loose: true, position };
    while walk.frames.len() < MOST_FRAMES {
        if !layout.is_generated(walk.registers.pc) {
            walk.end = JavaEnd::Native;
            break;
        }
        let Some(blob) = layout.blob(memory, walk.registers.pc) else {
            walk.end = JavaEnd::NoBlob;
            break;
        };
        let mut frame = walker.frame(walk.registers, &blob, place);
        let caller = walker.caller(&mut frame, walk.registers, &blob, place);
        walk.frames.push(frame);
        match caller {
            // A frame of the interpreter that is already gone may leave sp where its caller has it.
            Ok(caller) if caller.sp < walk.registers.sp.saturating_add(u64::from(!place.is_loose)) => {
                walk.end = JavaEnd::Stuck
            }
            // Only stubs are called from native code.
            Ok(caller) if frame.kind != JavaBlobKind::Stubs && !layout.is_generated(caller.pc) => {
                walk.end = JavaEnd::Unclear;
            }
            Ok(caller) => {
                walk.registers = caller;
                place = JavaFramePlace {
                    is_loose: frame.kind == JavaBlobKind::Stubs,
                    position: JavaPosition::Returning,
                };
                continue;
            }
            Err(end) => walk.end = end,
        }
        break;
    }
    walk
}

/// Place of a frame in its walk.
#[derive(Clone, Copy)]
struct JavaFramePlace {
    /// Whether the frame may be in any state: it is the first, or called a stub that has no frame of its own.
    is_loose: bool,
    position: JavaPosition,
}

type JavaCaller = Result<JavaRegisters, JavaEnd>;

struct JavaWalker<'a, M> {
    memory: &'a M,
    layout: &'a JavaLayout,
}

impl<M: TargetMemory> JavaWalker<'_, M> {
    fn frame(&self, at: JavaRegisters, blob: &JavaBlob, place: JavaFramePlace) -> JavaFrame {
        let replaced = place.position == JavaPosition::Returning && blob.deopt.contains(&at.pc);
        let original = replaced.then(|| self.word(at.sp, blob.original_pc).ok()).flatten();
        let original = original.filter(|original| blob.code.contains(original));
        JavaFrame {
            pc: original.unwrap_or(at.pc),
            sp: at.sp,
            kind: blob.kind,
            blob: blob.start,
            compile_id: blob.compile_id,
            method: blob.method,
            bytecode: 0,
            is_deoptimized: replaced,
        }
    }

    fn caller(
        &self,
        frame: &mut JavaFrame,
        at: JavaRegisters,
        blob: &JavaBlob,
        place: JavaFramePlace,
    ) -> JavaCaller {
        match blob.kind {
            JavaBlobKind::Compiled | JavaBlobKind::NativeWrapper | JavaBlobKind::Runtime => {
                self.of_sized(at, blob, place)
            }
            JavaBlobKind::Interpreter => self.of_interpreted(frame, at, place.position),
            JavaBlobKind::Stubs => self.of_stub(at, blob, place),
            JavaBlobKind::Adapter => self.of_adapter(at, blob, place.position),
            JavaBlobKind::VtableChunk | JavaBlobKind::MethodHandles => self.of_jump(at),
        }
    }

    /// Caller of a frame of fixed size, which may not be complete or may have more below it.
    fn of_sized(&self, at: JavaRegisters, blob: &JavaBlob, place: JavaFramePlace) -> JavaCaller {
        if let JavaPosition::Running(_) = place.position
            && let Some(exit) = self.of_incomplete(at, blob)
        {
            return self.leave(at, exit);
        }
        let mut sp = at.sp;
        if place.is_loose {
            let instructions = self.instructions(at.pc, blob);
            match code::forward(&instructions, at.pc, &blob.code) {
                JavaCodePath::Returns(exit) => return self.leave(at, exit),
                JavaCodePath::Jumps(exit) if self.is_return(sp.saturating_add(exit.up)) => {
                    return self.leave(at, exit);
                }
                JavaCodePath::LeavesFrame => return self.by_fp(at),
                JavaCodePath::Rejoins(up) => sp = sp.saturating_add(up),
                _ => sp = sp.saturating_add(code::leading_pops(&instructions, at.pc)),
            }
        }
        let Some(up) = blob.frame_bytes.checked_sub(8) else { return Err(JavaEnd::Unclear) };
        if place.is_loose && blob.kind == JavaBlobKind::Runtime {
            // Deoptimisation aligns sp for its calls; rbp then tells where the frame is.
            if at.fp.checked_sub(at.sp) == Some(up) {
                return self.by_fp(at);
            }
        } else if place.is_loose && !sp.checked_add(up).is_some_and(|place| self.is_return(place)) {
            if place.position != JavaPosition::Returning && self.is_return(at.sp) {
                return self.leave(at, JavaFrameExit { up: 0, fp: None });
            }
            sp = self.with_pushed(sp, up);
        }
        if place.position == JavaPosition::Returning && self.is_taken_down(at, sp.saturating_add(up), blob) {
            return self.by_fp(at);
        }
        let fp = i64::try_from(up).ok().and_then(|up| up.checked_sub(8)).filter(|&fp| fp >= 0);
        self.leave(JavaRegisters { sp, ..at }, JavaFrameExit { up, fp })
    }

    /// Whether a frame has lost what lies below its rbp, so that its size says nothing: what enters virtual threads does
    /// that when they yield.
    fn is_taken_down(&self, at: JavaRegisters, place: u64, blob: &JavaBlob) -> bool {
        let leads_on = self.memory.u64(place).is_some_and(|pc| self.layout.is_generated(pc));
        let is_near = at.fp.checked_sub(at.sp).is_some_and(|above| above < blob.frame_bytes);
        !leads_on && is_near && at.fp.checked_add(8).is_some_and(|place| self.is_return(place))
    }

    /// Lowest word of a frame whose return address is `up` bytes above it, if the code has pushed words on top of it, so
    /// that what lies `up` bytes above `sp` is no return address; `sp` if none is found.
    fn with_pushed(&self, sp: u64, up: u64) -> u64 {
        let places = (1..=MOST_PUSHED).filter_map(|words| sp.checked_add(8 * words));
        let mut frames =
            places.filter(|place| place.checked_add(up).is_some_and(|place| self.is_return(place)));
        frames.next().unwrap_or(sp)
    }

    /// State of a frame that is not built yet, is gone, or never was.
    fn of_incomplete(&self, at: JavaRegisters, blob: &JavaBlob) -> Option<JavaFrameExit> {
        let none = JavaFrameExit { up: 0, fp: None };
        let before = at.pc.checked_sub(10).and_then(|start| self.memory.bytes(start));
        let after = self.instructions(at.pc, blob);
        if before.is_some_and(|before| code::is_frameless(&before, &after)) && self.is_return(at.sp) {
            return Some(none);
        }
        // Some stubs are jumped to with the frame of the one before them.
        let returns =
            |exit: &JavaFrameExit| self.word(at.sp, exit.up).is_ok_and(|pc| self.layout.is_generated(pc));
        let since_entry = self.since_entry(at.pc, blob).filter(returns);
        since_entry.or_else(|| (blob.frame_bytes == 0).then_some(none))
    }

    /// State at `pc` if it lies between an entry of `blob` and the end of what builds its frame.
    fn since_entry(&self, pc: u64, blob: &JavaBlob) -> Option<JavaFrameExit> {
        let is_building = pc < blob.complete || blob.kind == JavaBlobKind::Runtime || blob.frame_bytes == 0;
        let usual = [blob.code.start, blob.entry].map(|entry| if is_building { entry } else { 0 });
        let entry = usual.into_iter().chain([blob.osr_entry]).filter(|&entry| entry <= pc).max()?;
        if !blob.code.contains(&entry) || pc - entry > ENTRY_BYTES {
            return None;
        }
        let bytes = self.memory.range(entry, pc - entry, ENTRY_BYTES as usize)?;
        let exit = code::since_entry(&bytes, entry, pc)?;
        (blob.frame_bytes == 0 || exit.up + 8 <= blob.frame_bytes).then_some(exit)
    }

    /// Caller of an interpreted frame, with what that frame says entered in `frame`.
    fn of_interpreted(&self, frame: &mut JavaFrame, at: JavaRegisters, position: JavaPosition) -> JavaCaller {
        let mut bcp = None;
        if let JavaPosition::Running(live) = position {
            let r13 = live.map(|live| live.r13);
            bcp = r13;
            if self.layout.interpreter.is_entering(at.pc) {
                return self.of_entering(at, live);
            }
            let code = self.memory.range(at.pc, 16, 16).unwrap_or_default();
            if let Some((pc, sp)) = interpreter::left_frame(self.memory, &code, at.sp, r13) {
                return Ok(JavaRegisters { pc, sp, fp: at.fp });
            }
            if let Some(caller) = self.of_unfinished(at, r13) {
                return caller;
            }
        }
        let found = self.interpreted_at(at.fp, bcp);
        // Without a method the links must do: deoptimisation makes frames that get their method last.
        let returns = || at.fp.checked_add(8).is_some_and(|place| self.is_return(place));
        let Some(found) = found.filter(|found| found.method != 0 || returns()) else {
            return match position {
                JavaPosition::Running(_) if self.is_return(at.sp) => {
                    self.leave(at, JavaFrameExit { up: 0, fp: None })
                }
                _ => Err(JavaEnd::Unclear),
            };
        };
        frame.method = found.method;
        frame.bytecode = found.bytecode;
        let [pc, sp, fp] = found.caller;
        Ok(JavaRegisters { pc, sp, fp })
    }

    /// Caller of an interpreted frame that has its rbp but not all of its words.
    fn of_unfinished(&self, at: JavaRegisters, r13: Option<u64>) -> Option<JavaCaller> {
        if at.sp > at.fp || at.fp - at.sp >= 24 {
            return None;
        }
        let sender =
            if at.fp - at.sp >= 8 { self.word(at.fp, 0).ok().and(self.memory.u64(at.fp - 8)) } else { r13 };
        let sender = sender.filter(|&sender| sender > at.fp && sender - at.fp < LARGEST_FRAME);
        let caller = self.by_fp(at);
        Some(caller.map(|caller| JavaRegisters { sp: sender.unwrap_or(caller.sp), ..caller }))
    }

    /// Caller at the entry of an interpreted method, whose frame is not built yet.
    fn of_entering(&self, at: JavaRegisters, live: Option<JavaLive>) -> JavaCaller {
        let sender = live.map(|live| live.r13).filter(|&r13| r13 > at.sp && r13 - at.sp < LARGEST_FRAME);
        let code = self.memory.range(at.pc.saturating_sub(1), 4, 4).unwrap_or_default();
        let exit = match code.as_slice() {
            [0x55, 0x48, 0x8b, 0xec] => JavaFrameExit { up: 8, fp: Some(0) },
            _ if self.is_return(at.sp) => JavaFrameExit { up: 0, fp: None },
            _ => return self.in_register(at, live),
        };
        let caller = self.leave(at, exit)?;
        Ok(JavaRegisters { sp: sender.unwrap_or(caller.sp), ..caller })
    }

    /// Caller whose return address is in rax and whose stack pointer is in r13, or else the one that rbp still belongs to.
    /// Without these registers it cannot be told: rbp may belong to a frame further up.
    fn in_register(&self, at: JavaRegisters, live: Option<JavaLive>) -> JavaCaller {
        let JavaLive { rax, r13 } = live.ok_or(JavaEnd::Unclear)?;
        if r13 >= at.sp && r13 - at.sp < LARGEST_FRAME && self.is_return_address(rax) {
            return Ok(JavaRegisters { pc: rax, sp: r13, fp: at.fp });
        }
        self.enclosing(at)
    }

    /// Caller of stub code, which has a frame by rbp or none.
    fn of_stub(&self, at: JavaRegisters, blob: &JavaBlob, place: JavaFramePlace) -> JavaCaller {
        if !place.is_loose {
            return self.of_framed_stub(at, blob, false);
        }
        let mut sp = at.sp;
        match code::forward(&self.instructions(at.pc, blob), at.pc, &blob.code) {
            JavaCodePath::Returns(exit) => return self.leave(at, exit),
            JavaCodePath::Jumps(exit) if self.is_return(sp.saturating_add(exit.up)) => {
                return self.leave(at, exit);
            }
            JavaCodePath::LeavesFrame => return self.by_fp(at),
            JavaCodePath::Rejoins(up) => sp = sp.saturating_add(up),
            _ => {}
        }
        let none = JavaFrameExit { up: 0, fp: None };
        let around = self.memory.range(at.pc.saturating_sub(1), 5, 5).unwrap_or_default();
        match around.as_slice() {
            [_, 0x55, 0x48, 0x8b, 0xec] => self.leave(at, none),
            [0x55, 0x48, 0x8b, 0xec, _] => self.leave(at, JavaFrameExit { up: 8, fp: Some(0) }),
            _ if self.is_return(sp) => self.leave(JavaRegisters { sp, ..at }, none),
            _ => self.of_framed_stub(at, blob, place.position != JavaPosition::Returning),
        }
    }

    /// Caller of a stub that has pushed something: by rbp if a call returns there, otherwise the next word of the stack
    /// that is the return address of a call to this stub.
    fn of_framed_stub(&self, at: JavaRegisters, blob: &JavaBlob, may_search: bool) -> JavaCaller {
        let by_fp = self.by_fp(at);
        let is_call_stub = at.pc == self.layout.call_stub_return;
        if is_call_stub
            || (by_fp.is_ok() && (at.fp.checked_add(8).is_some_and(|place| self.is_return(place))))
        {
            return by_fp;
        }
        let words = if may_search { self.stack_words(at.sp) } else { Vec::new() };
        for (index, &address) in words.iter().enumerate() {
            let Some(entry) = self.call_target(address).filter(|entry| blob.code.contains(entry)) else {
                continue;
            };
            let up = 8 * index as u64;
            let pushes_rbp = self.memory.u8(entry) == Some(0x55);
            let fp = (pushes_rbp && index > 0).then(|| up.cast_signed() - 8);
            return self.leave(at, JavaFrameExit { up, fp });
        }
        let calls = |caller: &JavaRegisters| {
            let before: Option<[u8; 7]> = caller.pc.checked_sub(7).and_then(|start| self.memory.bytes(start));
            before.is_some_and(|before| code::ends_in_call(&before))
        };
        by_fp.and_then(|caller| if calls(&caller) { Ok(caller) } else { Err(JavaEnd::Unclear) })
    }

    /// Words of the stack from `sp` on, among which a stub's return address is looked for.
    fn stack_words(&self, sp: u64) -> Vec<u64> {
        let whole =
            [STUB_STACK, STUB_STACK / 8].into_iter().find_map(|size| self.memory.range(sp, size, 1 << 16));
        let bytes = whole.unwrap_or_default();
        bytes.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes)).collect()
    }

    /// Address that the call which returns to `address` calls, if both lie in generated code.
    fn call_target(&self, address: u64) -> Option<u64> {
        if !self.layout.is_generated(address) {
            return None;
        }
        let before: [u8; 13] = self.memory.bytes(address.checked_sub(13)?)?;
        code::call_target(&before, address)
    }

    /// Caller of code that only jumps: the return address is on top, or the interpreter's frame is still the current one.
    fn of_jump(&self, at: JavaRegisters) -> JavaCaller {
        if self.is_return(at.sp) {
            self.leave(at, JavaFrameExit { up: 0, fp: None })
        } else {
            self.enclosing(at)
        }
    }

    /// Caller of an adapter, which moves arguments between the return address and the caller's frame.
    fn of_adapter(&self, at: JavaRegisters, blob: &JavaBlob, position: JavaPosition) -> JavaCaller {
        let live = if let JavaPosition::Running(live) = position { live } else { None };
        let start = blob.code.start;
        let bytes = self.memory.range(start, at.pc - start, ADAPTER_BYTES).unwrap_or_default();
        let pushed = code::in_adapter(&bytes, start, at.pc);
        let entry_sp = pushed.and_then(|pushed| at.sp.checked_add_signed(pushed));
        let Some(entry_sp) = entry_sp else { return self.in_register(at, live) };
        for place in [at.sp, entry_sp] {
            if self.is_return(place) {
                let pc = self.word(place, 0)?;
                return Ok(JavaRegisters { pc, sp: entry_sp.saturating_add(8), fp: at.fp });
            }
        }
        self.in_register(at, live)
    }

    /// Caller that rbp still belongs to: an interpreted frame or the call stub. Its pc is one that this kind of frame may
    /// have; the real one is in a register.
    fn enclosing(&self, at: JavaRegisters) -> JavaCaller {
        if at.fp <= at.sp || at.fp - at.sp > LARGEST_FRAME {
            return Err(JavaEnd::Unclear);
        }
        let sp = at.sp.saturating_add(8);
        if self.interpreted_at(at.fp, None).is_some_and(|frame| frame.method != 0) {
            return Ok(JavaRegisters { pc: self.layout.interpreter.code.start, sp, fp: at.fp });
        }
        let above = self.word(at.fp, 8)?;
        if above < 4096 || self.layout.is_generated(above) {
            return Err(JavaEnd::Unclear);
        }
        Ok(JavaRegisters { pc: self.layout.call_stub_return, sp, fp: at.fp })
    }

    /// Caller of the frame that rbp points to.
    fn by_fp(&self, at: JavaRegisters) -> JavaCaller {
        if at.fp < at.sp || at.fp - at.sp > LARGEST_FRAME {
            return Err(JavaEnd::Unclear);
        }
        let up = at.fp - at.sp;
        // Entry barriers of methods keep a word there, in which they note that the method was thrown away.
        let kept = 8 * u64::from(self.word(at.fp, 8)? == ENTRY_COOKIE);
        self.leave(at, JavaFrameExit { up: up.saturating_add(8 + kept), fp: i64::try_from(up).ok() })
    }

    fn interpreted_at(&self, fp: u64, r13: Option<u64>) -> Option<JavaInterpretedFrame> {
        self.layout.interpreter.frame_at(self.memory, &self.layout.methods, fp, r13)
    }

    fn leave(&self, at: JavaRegisters, exit: JavaFrameExit) -> JavaCaller {
        let pc = self.word(at.sp, exit.up)?;
        let fp = match exit.fp {
            Some(place) => at.sp.checked_add_signed(place).and_then(|place| self.memory.u64(place)),
            None => Some(at.fp),
        };
        let sp = at.sp.checked_add(exit.up).and_then(|sp| sp.checked_add(8));
        match (sp, fp) {
            (Some(sp), Some(fp)) => Ok(JavaRegisters { pc, sp, fp }),
            _ => Err(JavaEnd::Unreadable),
        }
    }

    /// Whether the word at `place` is a return address in generated code.
    fn is_return(&self, place: u64) -> bool {
        self.memory.u64(place).is_some_and(|address| self.is_return_address(address))
    }

    /// Whether `address` is one in generated code that a call or the interpreter returns to.
    fn is_return_address(&self, address: u64) -> bool {
        if !self.layout.is_generated(address) {
            return false;
        }
        let known = [self.layout.call_stub_return, self.layout.return_barrier].contains(&address);
        if known || self.layout.interpreter.code.contains(&address) {
            return true;
        }
        let before: Option<[u8; 7]> = address.checked_sub(7).and_then(|start| self.memory.bytes(start));
        let is_called = before.is_some_and(|before| code::ends_in_call(&before));
        self.layout.blob(self.memory, address).is_some_and(|blob| is_called || blob.deopt.contains(&address))
    }

    /// Instructions from `pc` on, as far as the blob has some.
    fn instructions(&self, pc: u64, blob: &JavaBlob) -> Vec<u8> {
        let size = blob.code.end.saturating_sub(pc).min(CODE_BYTES);
        self.memory.range(pc, size, CODE_BYTES as usize).unwrap_or_default()
    }

    fn word(&self, base: u64, offset: u64) -> Result<u64, JavaEnd> {
        base.checked_add(offset).and_then(|address| self.memory.u64(address)).ok_or(JavaEnd::Unreadable)
    }
}
