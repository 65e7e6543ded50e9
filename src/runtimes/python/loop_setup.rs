//! Instructions at the start of the interpreter loop, `_PyEval_EvalFrameDefault`, during which a thread's list of frames
//! must not be read, and the place that holds the list instead.
//!
//! CPython 3.11 and 3.12 keep the list in a `_PyCFrame` on the C stack of the loop:
//!
//! ```text
//! thread state ──state_frame──▶ _PyCFrame ──current_frame──▶ newest interpreter frame
//! ```
//!
//! The loop makes the thread state point to its own `_PyCFrame` first and fills `current_frame` in some instructions
//! later. In between, the window, that word is whatever the stack held before. The pointer to the `_PyCFrame` of the
//! caller, or the head of its list, is still in a register then, or on the stack.
//!
//! The code is followed in order of address, as if conditional jumps were not taken. Where they lead forward to code
//! that is followed too, only what holds on both ways is believed.

use std::ops::{ControlFlow, Range};

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory,
};
use rustc_hash::FxHashSet;

use super::loop_registers::{Content, POINTER, SetupFacts, is_thread_local, overlaps};

/// Most bytes of the function that are read.
const MOST_BYTES: u64 = 512;
/// DWARF numbers of the general registers in the order of their numbers in instructions.
const DWARF_NUMBERS: [u8; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// Instructions of the window that have the same answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoopSetup {
    /// Module addresses; an instruction belongs to it if it is the next one to run.
    pub(crate) range: Range<u64>,
    pub(crate) list: OldList,
}

/// Place of the list of frames as it was before the loop was entered. Registers are DWARF numbers of x86-64; words of
/// the stack are named only where no general register holds what is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OldList {
    /// Register that holds the pointer to the caller's `_PyCFrame`.
    CFrameIn(u8),
    /// Register that holds the head of the list.
    FrameIn(u8),
    /// Word of the stack that holds the head of the list: offset in bytes from the stack pointer.
    FrameAt(u16),
    /// Word of the stack that holds the pointer to the caller's `_PyCFrame`: offset in bytes from the stack pointer.
    CFrameAt(u16),
    /// No place is known for either.
    Lost,
}

/// Finds the window in the loop's code: ranges in order of address that follow each other without gaps.
///
/// `function` is the range of `_PyEval_EvalFrameDefault`; `read_code` gives bytes at a module address; `state_frame` and
/// `current_frame` are the offsets of the two pointers in a thread state and in a `_PyCFrame`.
///
/// Empty if there is no window: the two stores are not found, or `current_frame` is filled in first. One range that is
/// `Lost` if something between the stores is not understood.
pub(crate) fn loop_setup(
    function: Range<u64>,
    read_code: &dyn Fn(u64, u64) -> Option<Vec<u8>>,
    state_frame: u32,
    current_frame: u32,
) -> Vec<LoopSetup> {
    let size = function.end.saturating_sub(function.start).min(MOST_BYTES);
    let Some(bytes) = (read_code)(function.start, size) else { return Vec::new() };
    let decoder = Decoder::with_ip(64, &bytes, function.start, DecoderOptions::NONE);
    let code: Vec<Instruction> = decoder
        .into_iter()
        .take_while(|instruction| !instruction.is_invalid() && instruction.next_ip() > instruction.ip())
        .take_while(|instruction| instruction.next_ip() - function.start <= size)
        .collect();
    let mut reader = SetupReader {
        facts: SetupFacts::at_entry(state_frame, current_frame),
        at_targets: Vec::new(),
        loops: backward_targets(&code),
        factory: InstructionInfoFactory::new(),
        is_understood: true,
        window: Vec::new(),
    };
    match code.iter().try_for_each(|instruction| reader.step(instruction)) {
        ControlFlow::Break(Ending::Closed) => reader.answer(),
        ControlFlow::Break(Ending::NoWindow) | ControlFlow::Continue(()) => Vec::new(),
    }
}

/// Targets of jumps that lead to earlier addresses.
fn backward_targets(code: &[Instruction]) -> FxHashSet<u64> {
    code.iter()
        .filter(|instruction| {
            let flow = instruction.flow_control();
            matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
        })
        .map(|instruction| (instruction.ip(), instruction.near_branch_target()))
        .filter(|(from, target)| target <= from)
        .map(|(_, target)| target)
        .collect()
}

/// Why the code is not followed further.
enum Ending {
    /// Last instruction completes the store of `current_frame`.
    Closed,
    NoWindow,
}

struct SetupReader {
    facts: SetupFacts,
    /// Facts at targets of forward jumps.
    at_targets: Vec<(u64, SetupFacts)>,
    /// Addresses that later code jumps back to.
    loops: FxHashSet<u64>,
    factory: InstructionInfoFactory,
    /// False once something in the window is not understood.
    is_understood: bool,
    /// Answers so far.
    window: Vec<LoopSetup>,
}

impl SetupReader {
    fn step(&mut self, instruction: &Instruction) -> ControlFlow<Ending> {
        self.join(instruction.ip());
        self.note(instruction);
        match instruction.flow_control() {
            FlowControl::Next => self.run(instruction),
            FlowControl::ConditionalBranch => {
                self.run(instruction)?;
                let target = instruction.near_branch_target();
                if target > instruction.ip() {
                    self.at_targets.push((target, self.facts.clone()));
                }
                ControlFlow::Continue(())
            }
            FlowControl::Call | FlowControl::IndirectCall => {
                self.facts.call();
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(Ending::NoWindow),
        }
    }

    /// Weakens the facts at an address that jumps lead to.
    fn join(&mut self, address: u64) {
        let facts = &mut self.facts;
        let mut is_same_phase = true;
        for (_, other) in self.at_targets.extract_if(.., |(target, _)| *target == address) {
            is_same_phase &= facts.meet(&other);
        }
        if self.loops.contains(&address) {
            facts.forget();
            is_same_phase = false;
        }
        self.is_understood &= is_same_phase || facts.c_frame.is_none();
    }

    /// Adds an instruction of the window to the answers.
    fn note(&mut self, instruction: &Instruction) {
        if self.facts.c_frame.is_none() {
            return;
        }
        let list = old_list(&self.facts, self.window.last().map(|part| part.list));
        match self.window.last_mut().filter(|part| part.list == list) {
            Some(part) => part.range.end = instruction.next_ip(),
            None => self.window.push(LoopSetup { range: instruction.ip()..instruction.next_ip(), list }),
        }
    }

    fn answer(self) -> Vec<LoopSetup> {
        match (self.window.first(), self.window.last()) {
            (Some(first), Some(last)) if !self.is_understood => {
                vec![LoopSetup { range: first.range.start..last.range.end, list: OldList::Lost }]
            }
            _ => self.window,
        }
    }

    /// Brings the facts up to date after an instruction other than a call.
    fn run(&mut self, instruction: &Instruction) -> ControlFlow<Ending> {
        let info = self.factory.info(instruction);
        let changed: Vec<_> = info
            .used_registers()
            .iter()
            .filter(|used| is_write(used.access()))
            .map(|used| used.register().full_register())
            .collect();
        let stores: Vec<_> =
            info.used_memory().iter().copied().filter(|used| is_write(used.access())).collect();
        for store in &stores {
            self.store(instruction, store)?;
        }
        self.facts.run(instruction, &changed);
        ControlFlow::Continue(())
    }

    /// Takes account of one store to memory.
    fn store(&mut self, instruction: &Instruction, store: &UsedMemory) -> ControlFlow<Ending> {
        if is_thread_local(store.segment()) {
            return ControlFlow::Continue(());
        }
        let base = self.facts.register(store.base()).or_else(|| self.facts.register(store.index()));
        let size = i64::try_from(store.memory_size().size()).unwrap_or_default();
        let has_known_end = size != 0
            && store.index() == Register::None
            && !instruction.has_rep_prefix()
            && !instruction.has_repne_prefix();
        let range = if has_known_end {
            let offset = store.displacement().cast_signed();
            offset..offset.saturating_add(size)
        } else {
            i64::MIN..i64::MAX
        };
        match base {
            Some(Content::ThreadState) if overlaps(&range, self.facts.state_frame) => {
                self.store_c_frame(instruction, &range)
            }
            Some(Content::OldCFrame) if overlaps(&range, self.facts.current_frame) => self.misunderstand(),
            Some(Content::Stack(place)) => self.store_on_stack(
                instruction,
                store,
                has_known_end.then(|| place.saturating_add(range.start)..place.saturating_add(range.end)),
            ),
            // Pointers from before the call cannot lead to this function's part of the stack.
            Some(_) if has_known_end => ControlFlow::Continue(()),
            None if store.base() == Register::None && store.index() == Register::None => {
                ControlFlow::Continue(())
            }
            _ => {
                self.facts.forget_old_words();
                ControlFlow::Continue(())
            }
        }
    }

    /// Store to the pointer of the thread state: it opens the window.
    fn store_c_frame(&mut self, instruction: &Instruction, range: &Range<i64>) -> ControlFlow<Ending> {
        let facts = &mut self.facts;
        let is_pointer = *range == (facts.state_frame..facts.state_frame.saturating_add(POINTER));
        let [stored, _] = facts.stored(instruction);
        match (stored.filter(|_| is_pointer), facts.c_frame) {
            (Some(Content::Stack(place)), None) => {
                if facts.is_written(place.saturating_add(facts.current_frame)) {
                    return ControlFlow::Break(Ending::NoWindow);
                }
                facts.c_frame = Some(place);
                ControlFlow::Continue(())
            }
            _ => self.misunderstand(),
        }
    }

    /// Store to the stack: it may close the window, or spill a register. `range` is `None` if it may write anywhere.
    fn store_on_stack(
        &mut self,
        instruction: &Instruction,
        store: &UsedMemory,
        range: Option<Range<i64>>,
    ) -> ControlFlow<Ending> {
        let stored = range.as_ref().map_or([None; 2], |_| self.facts.stored(instruction));
        let is_plain = range.is_some() && store.access() == OpAccess::Write && !instruction.has_op_mask();
        let range = range.unwrap_or(i64::MIN..i64::MAX);
        let slot = self.facts.c_frame.map(|place| place.saturating_add(self.facts.current_frame));
        self.facts.write_stack(&range, stored);
        match slot.filter(|slot| overlaps(&range, *slot)) {
            Some(slot) if is_plain && range.start <= slot && range.end >= slot.saturating_add(POINTER) => {
                ControlFlow::Break(Ending::Closed)
            }
            Some(_) => self.misunderstand(),
            None => ControlFlow::Continue(()),
        }
    }

    /// Notes that an instruction is not understood: the search ends before the window, its answer is lost within.
    fn misunderstand(&mut self) -> ControlFlow<Ending> {
        self.is_understood = false;
        match self.facts.c_frame {
            Some(_) => ControlFlow::Continue(()),
            None => ControlFlow::Break(Ending::NoWindow),
        }
    }
}

fn is_write(access: OpAccess) -> bool {
    !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
}

/// Place of the old list; the answer before stays so while it can.
fn old_list(facts: &SetupFacts, before: Option<OldList>) -> OldList {
    let registers =
        |content| facts.holders(content).filter_map(|register| DWARF_NUMBERS.get(register.number()).copied());
    let in_register = || {
        let c_frame = choose(registers(Content::OldCFrame), OldList::CFrameIn, before);
        c_frame.or_else(|| choose(registers(Content::OldFrame), OldList::FrameIn, before))
    };
    let on_stack = || {
        let frame = choose(facts.slots(Content::OldFrame), OldList::FrameAt, before);
        frame.or_else(|| choose(facts.slots(Content::OldCFrame), OldList::CFrameAt, before))
    };
    in_register().or_else(on_stack).unwrap_or(OldList::Lost)
}

/// Answer of one kind, made of the lowest of the places that have it; the answer before goes first.
fn choose<Place: Copy + Ord>(
    places: impl Iterator<Item = Place>,
    answer: fn(Place) -> OldList,
    before: Option<OldList>,
) -> Option<OldList> {
    places.min_by_key(|place| (Some((answer)(*place)) != before, *place)).map(answer)
}
