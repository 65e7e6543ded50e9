//! Stacks of goroutines that do not run, walked by Go's frame pointers.
//!
//! Every Go function that has a frame keeps the caller's frame pointer under its return address:
//!
//! ```text
//! bp ─► caller's bp | return address     … up to runtime.goexit, the return address of a goroutine's first function
//! ```
//!
//! A goroutine that stopped before its function had a frame, or without its frame pointer saved, needs a first step by the
//! stack pointer.

use super::instructions::{InterruptedReturn, is_after_call};
use super::layout::GoStackCode;
use super::strings::word;
use crate::runtimes::TargetMemory;
use std::ops::Range;

/// Bytes of a stack that are read at once; most goroutines use fewer.
const WINDOW_BYTES: u64 = 4096;
/// Largest stack, bytes; Go's own limit is 1 GB.
const MAX_STACK_BYTES: u64 = 2 << 30;

/// Registers with which a goroutine will run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoRegisters {
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    /// 0 if it is not known.
    pub(crate) bp: u64,
    /// Tells that the goroutine may have stopped before its function had a frame.
    pub(crate) may_lack_frame: bool,
}

/// End of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum GoStackEnd {
    /// Not walked: the goroutine runs, so what is saved of it is old.
    Running,
    /// Reached the outermost frame of a goroutine.
    Complete,
    /// As many frames or as much of the stack as was allowed; there are more.
    Limit,
    /// A frame that is not in the stack or cannot be read.
    Broken,
}

/// Function around a process address: its addresses.
pub(crate) type GoFunctionAround<'a> = &'a dyn Fn(u64) -> Option<Range<u64>>;

/// Stack of one goroutine, read in windows.
pub(crate) struct GoStack<'a, M> {
    memory: &'a M,
    pub(crate) registers: GoRegisters,
    /// Addresses between the stack pointer and this are the stack.
    high: u64,
    window: Vec<u8>,
    start: u64,
    /// Windows that may yet be read.
    left: usize,
    /// A caller may be missing from the walk: that of a function which was interrupted and is not known.
    pub(crate) may_miss_caller: bool,
}

impl<'a, M: TargetMemory> GoStack<'a, M> {
    /// A stack that is not read yet and ends at `high`. At most `left` windows of 4 KiB are read; `buffer` is reused.
    pub(crate) fn new(
        memory: &'a M,
        registers: GoRegisters,
        high: u64,
        left: usize,
        mut buffer: Vec<u8>,
    ) -> Self {
        buffer.clear();
        GoStack { memory, registers, high, window: buffer, start: 0, left, may_miss_caller: false }
    }

    /// Buffer for the next stack, and the number of windows that are left for it.
    pub(crate) fn into_buffer(self) -> (Vec<u8>, usize) {
        (self.window, self.left)
    }

    /// End of a walk that misses a frame.
    pub(crate) fn end_without_frame(&self) -> GoStackEnd {
        if self.left == 0 { GoStackEnd::Limit } else { GoStackEnd::Broken }
    }

    /// The word at `address`, which must be in the used part of the stack.
    pub(crate) fn word(&mut self, address: u64) -> Option<u64> {
        let end = address.checked_add(8)?;
        if address < self.registers.sp || end > self.high || self.high - self.registers.sp > MAX_STACK_BYTES {
            return None;
        }
        let at = address.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        if let Some(word) = at.and_then(|at| word(&self.window, at)) {
            return Some(word);
        }
        self.left = self.left.checked_sub(1)?;
        self.window.resize((self.high - address).min(WINDOW_BYTES) as usize, 0);
        self.start = address;
        if !self.memory.read(address, &mut self.window) {
            self.window.clear();
            return None;
        }
        word(&self.window, 0)
    }

    /// Appends the addresses of a stack by frame pointers, leaf first: the address at which the goroutine goes on, then
    /// return addresses. At most `most` of them.
    pub(crate) fn walk_frame_pointers(
        &mut self,
        code: &GoStackCode,
        function_around: GoFunctionAround<'_>,
        most: usize,
        pcs: &mut Vec<u64>,
    ) -> GoStackEnd {
        let first = pcs.len();
        let GoRegisters { mut pc, sp, .. } = self.registers;
        pcs.push(pc);
        let mut bp = self.frame_pointer(code);
        // Where the return address is, if not above what the frame pointer points to.
        let mut slot = self.lacks_frame(code).then_some(sp);
        while pcs.len() - first < most {
            let at = slot.or_else(|| bp.checked_add(8)).unwrap_or(0);
            let Some(caller) = self.word(at).filter(|&caller| caller != 0) else {
                return self.end_without_frame();
            };
            let outer = if slot.is_some() { Some(bp) } else { self.word(bp).filter(|&outer| outer > bp) };
            pcs.push(caller);
            if code.goexit.contains(&caller) {
                return GoStackEnd::Complete;
            }
            let Some(outer) = outer else { return self.end_without_frame() };
            slot = if code.async_preempt.contains(&pc) {
                self.interrupted(at, caller, function_around)
            } else {
                None
            };
            (pc, bp) = (caller, outer);
        }
        GoStackEnd::Limit
    }

    /// Where the return address of a function is that was interrupted at `pc`; `at` is where this was pushed. `None` if it
    /// is above what the frame pointer points to.
    fn interrupted(&mut self, at: u64, pc: u64, function_around: GoFunctionAround<'_>) -> Option<u64> {
        let function = function_around(pc);
        let found = function.map(|function| InterruptedReturn::find(self.memory, &function, pc));
        match found.unwrap_or(InterruptedReturn::Unknown) {
            InterruptedReturn::ByFramePointer => None,
            InterruptedReturn::AboveStackPointer(bytes) => at.checked_add(8)?.checked_add(bytes),
            InterruptedReturn::Unknown => {
                self.may_miss_caller = true;
                None
            }
        }
    }

    /// Tells whether the word at the stack pointer is the return address: of a goroutine that has not run yet, of one that
    /// stopped at the entry of a function, and of one that went to the system stack (Go older than 1.21).
    fn lacks_frame(&mut self, code: &GoStackCode) -> bool {
        let GoRegisters { pc, sp, bp, may_lack_frame } = self.registers;
        if code.systemstack_switch.contains(&pc) {
            return self
                .word(sp)
                .is_some_and(|caller| is_after_call(self.memory, caller, &[code.systemstack]));
        }
        may_lack_frame && (bp == 0 || is_after_call(self.memory, pc, &code.morestack))
    }

    /// The frame pointer, from the size of the frame if it was not saved.
    fn frame_pointer(&self, code: &GoStackCode) -> u64 {
        let GoRegisters { pc, sp, bp, may_lack_frame } = self.registers;
        if bp != 0 || may_lack_frame {
            return bp;
        }
        let frame = code.syscalls.iter().find(|(range, _)| range.contains(&pc));
        frame.map_or(0, |(_, bytes)| sp.saturating_add(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::go::tests::synthetic::SyntheticMemory;

    const STACK: u64 = 0xc000_0000;
    const HIGH: u64 = STACK + 0x2000;
    const GOEXIT: u64 = 0x48_0001;

    fn code() -> GoStackCode {
        GoStackCode {
            goexit: 0x48_0000..0x48_0010,
            morestack: vec![0x47_0000],
            async_preempt: 0x43_0000..0x43_0100,
            systemstack: 0x45_0000,
            systemstack_switch: 0x44_0000..0x44_0010,
            syscalls: vec![(0x46_0000..0x46_0100, 0x60)],
        }
    }

    fn stopped(pc: u64, bp: u64) -> GoRegisters {
        GoRegisters { pc, sp: STACK, bp, may_lack_frame: false }
    }

    fn walk(memory: &SyntheticMemory, registers: GoRegisters, most: usize) -> (Vec<u64>, GoStackEnd) {
        let mut pcs = Vec::new();
        let mut stack = GoStack::new(memory, registers, HIGH, 8, Vec::new());
        let end = stack.walk_frame_pointers(&code(), &|_| None, most, &mut pcs);
        (pcs, end)
    }

    /// A stack of 8 KiB: two words at each offset.
    fn memory(frames: &[(u64, u64, u64)]) -> SyntheticMemory {
        let mut memory = SyntheticMemory::default();
        memory.add(STACK, vec![0; 0x2000]);
        for &(at, outer, caller) in frames {
            memory.set_word(STACK + at, outer);
            memory.set_word(STACK + at + 8, caller);
        }
        memory
    }

    #[test]
    fn parked_goroutine_is_walked_to_its_start() {
        let memory =
            memory(&[(0x20, STACK + 0x1800, 0x41), (0x1800, STACK + 0x1ff0, 0x42), (0x1ff0, 0, GOEXIT)]);
        let (pcs, end) = walk(&memory, stopped(0x40, STACK + 0x20), 64);
        assert_eq!((pcs, end), (vec![0x40, 0x41, 0x42, GOEXIT], GoStackEnd::Complete));
        let (pcs, end) = walk(&memory, stopped(0x40, STACK + 0x20), 2);
        assert_eq!((pcs, end), (vec![0x40, 0x41], GoStackEnd::Limit));
    }

    #[test]
    fn goroutine_that_has_not_run_has_two_addresses() {
        let memory = memory(&[(0, GOEXIT, 0)]);
        let registers = GoRegisters { may_lack_frame: true, ..stopped(0x40, 0) };
        assert_eq!(walk(&memory, registers, 64), (vec![0x40, GOEXIT], GoStackEnd::Complete));
    }

    #[test]
    fn function_that_stopped_at_its_entry_keeps_its_caller() {
        let mut memory = memory(&[(0, 0x41, 0), (0x20, 0, GOEXIT)]);
        // nop; nop; nop; call 0x470000
        memory.add(0x46_fff8, vec![0x90, 0x90, 0x90, 0xe8, 0, 0, 0, 0]);
        let registers = GoRegisters { may_lack_frame: true, ..stopped(0x47_0000, STACK + 0x20) };
        let expected = (vec![0x47_0000, 0x41, GOEXIT], GoStackEnd::Complete);
        assert_eq!(walk(&memory, registers, 64), expected);
    }

    #[test]
    fn system_call_without_saved_frame_pointer() {
        let memory = memory(&[(0x60, 0, GOEXIT)]);
        let expected = (vec![0x46_0050, GOEXIT], GoStackEnd::Complete);
        assert_eq!(walk(&memory, stopped(0x46_0050, 0), 64), expected);
        assert_eq!(walk(&memory, stopped(0x45_0050, 0), 64), (vec![0x45_0050], GoStackEnd::Broken));
    }

    #[test]
    fn goroutine_on_the_system_stack_keeps_its_caller() {
        let mut memory = memory(&[(0, 0x45_0000, 0), (0x20, 0, GOEXIT)]);
        let old = (vec![0x44_0000, 0x45_0000, GOEXIT], GoStackEnd::Complete);
        // nop; nop; nop; call 0x450000
        memory.add(0x44_fff8, vec![0x90, 0x90, 0x90, 0xe8, 0, 0, 0, 0]);
        assert_eq!(walk(&memory, stopped(0x44_0000, STACK + 0x20), 64), old);
        memory.set_word(STACK, STACK + 0x20);
        memory.set_word(STACK + 8, 0x45_0000);
        assert_eq!(walk(&memory, stopped(0x44_0000, STACK), 64), old, "with a frame");
    }

    #[test]
    fn interrupted_function_without_frame_keeps_its_caller() {
        let mut memory =
            memory(&[(0x20, STACK + 0x60, 0x43_0050), (0x60, STACK + 0x80, 0x42_0001), (0x70, 0x41, 0)]);
        memory.set_word(STACK + 0x88, GOEXIT);
        // nop; nop; ret
        memory.add(0x42_0000, vec![0x90, 0x90, 0xc3]);
        let registers = stopped(0x40, STACK + 0x20);
        let walk = |around: GoFunctionAround<'_>| {
            let (mut pcs, mut stack) = (Vec::new(), GoStack::new(&memory, registers, HIGH, 8, Vec::new()));
            let end = stack.walk_frame_pointers(&code(), around, 64, &mut pcs);
            (pcs, end, stack.may_miss_caller)
        };
        let found = walk(&|pc| (pc == 0x42_0001).then_some(0x42_0000..0x42_0003));
        assert_eq!(found, (vec![0x40, 0x43_0050, 0x42_0001, 0x41, GOEXIT], GoStackEnd::Complete, false));
        assert_eq!(walk(&|_| None), (vec![0x40, 0x43_0050, 0x42_0001, GOEXIT], GoStackEnd::Complete, true));
    }

    #[test]
    fn wide_stacks_end_where_enough_was_read() {
        let memory =
            memory(&[(0x20, STACK + 0x1800, 0x41), (0x1800, STACK + 0x1ff0, 0x42), (0x1ff0, 0, GOEXIT)]);
        let mut stack = GoStack::new(&memory, stopped(0x40, STACK + 0x20), HIGH, 1, Vec::new());
        let mut pcs = Vec::new();
        assert_eq!(stack.walk_frame_pointers(&code(), &|_| None, 64, &mut pcs), GoStackEnd::Limit);
        assert_eq!(pcs, [0x40, 0x41]);
        assert_eq!(stack.into_buffer().1, 0);
    }

    #[test]
    fn damaged_stacks_end() {
        let cycle = memory(&[(0x20, STACK + 0x20, 0x41)]);
        assert_eq!(walk(&cycle, stopped(0x40, STACK + 0x20), 64).1, GoStackEnd::Broken);
        let down = memory(&[(0x40, STACK + 0x20, 0x41), (0x20, STACK + 0x40, 0x41)]);
        assert_eq!(walk(&down, stopped(0x40, STACK + 0x40), 64).0.len(), 2);
        let wild = memory(&[(0x20, u64::MAX - 4, 0x41)]);
        assert_eq!(walk(&wild, stopped(0x40, STACK + 0x20), 64), (vec![0x40, 0x41], GoStackEnd::Broken));
        let mut huge = GoStack::new(&wild, stopped(0x40, 8), u64::MAX, 8, Vec::new());
        assert_eq!(huge.word(STACK), None, "2^64 bytes of stack");
        let unreadable = SyntheticMemory::default();
        assert_eq!(walk(&unreadable, stopped(0x40, STACK + 0x20), 64).1, GoStackEnd::Broken);
    }
}
