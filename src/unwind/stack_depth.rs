//! Rules for code without entries, from its instructions.
//!
//! A libc without call frame information (musl) is in every stack of a program. Its instructions say how
//! far the stack pointer is below the CFA: from a function's first instruction, where the distance is 8,
//! the effect of every instruction on rsp and rbp is followed along all jumps. Where two ways disagree, or
//! an instruction sets rsp to something else, nothing is claimed.
//!
//! Function starts are symbols, targets of calls, and code addresses that `lea` takes.

use std::collections::{BTreeMap, VecDeque};

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind,
    Register,
};
use rustc_hash::FxHashMap;

use super::compile::Span;
use super::rule::{RBP, RSP, Rule};

/// Instructions that are decoded at most, in all. One takes about 100 bytes of memory meanwhile.
const MAX_INSTRUCTIONS: usize = 1 << 20;
/// The longest instruction of the processor, in bytes.
const MAX_INSTRUCTION_BYTES: usize = 15;
/// A frame larger than this is taken for a misread instruction.
const MAX_DEPTH: i64 = 1 << 30;

/// Bytes of code and the address of the first.
#[derive(Debug)]
pub(super) struct CodeBytes {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

impl CodeBytes {
    fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|distance| distance < self.bytes.len() as u64)
    }

    fn from(&self, address: u64) -> &[u8] {
        let rest = address
            .checked_sub(self.start)
            .and_then(|distance| self.bytes.get(usize::try_from(distance).ok()?..))
            .unwrap_or(&[]);
        &rest[..rest.len().min(MAX_INSTRUCTION_BYTES)]
    }
}

/// Where the caller's registers are. Depths are distances below the CFA, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// Of rsp; `None` where it is unknown.
    depth: Option<i64>,
    /// Of rbp, where it holds a frame address.
    frame: Option<i64>,
    /// Of the saved rbp.
    saved_rbp: Option<i64>,
    /// Whether rbp was overwritten without having been saved.
    is_rbp_lost: bool,
}

impl State {
    const ENTRY: Self = Self { depth: Some(8), frame: None, saved_rbp: None, is_rbp_lost: false };

    fn rule(&self) -> Option<Rule> {
        if self.is_rbp_lost {
            return None;
        }
        let rule = match (self.depth, self.frame) {
            (Some(depth @ 8..), _) => Rule::reg(RSP, i32::try_from(depth).ok()?),
            (None, Some(depth)) => Rule::reg(RBP, i32::try_from(depth).ok()?),
            _ => return None,
        };
        Some(match self.saved_rbp {
            Some(depth) => rule.with_rbp_at_cfa(-i32::try_from(depth).ok()?),
            None => rule,
        })
    }

    /// The state after an instruction that does not end the path.
    fn after(mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) -> Self {
        let first = instruction.op0_register();
        match instruction.code() {
            Code::Push_r64 => {
                self.sink(8);
                if first == Register::RBP && self.frame.is_none() && self.saved_rbp.is_none() {
                    self.saved_rbp = self.depth;
                }
                return self;
            }
            Code::Pop_r64 if first != Register::RSP => {
                let slot = self.depth;
                self.sink(-8);
                if first == Register::RBP {
                    self.set_rbp_from(slot);
                }
                return self;
            }
            Code::Pop_r64 => {
                self.depth = None;
                return self;
            }
            Code::Leaveq => {
                self.depth = self.frame;
                let slot = self.depth;
                self.sink(-8);
                self.set_rbp_from(slot);
                return self;
            }
            Code::Mov_r64_rm64 | Code::Mov_rm64_r64 if instruction.op1_kind() == OpKind::Register => {
                match (first, instruction.op1_register()) {
                    (Register::RBP, Register::RSP) => {
                        self.is_rbp_lost |= self.saved_rbp.is_none();
                        self.frame = self.depth;
                        return self;
                    }
                    (Register::RSP, Register::RBP) => {
                        self.depth = self.frame;
                        return self;
                    }
                    _ => {}
                }
            }
            Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32 if first == Register::RSP => {
                self.sink(instruction.immediate(1).cast_signed());
                return self;
            }
            Code::Add_rm64_imm8 | Code::Add_rm64_imm32 if first == Register::RSP => {
                self.sink(instruction.immediate(1).cast_signed().saturating_neg());
                return self;
            }
            Code::Lea_r64_m if first == Register::RSP && instruction.memory_index() == Register::None => {
                let added = instruction.memory_displacement64().cast_signed();
                self.depth = match instruction.memory_base() {
                    Register::RSP => self.depth,
                    Register::RBP => self.frame,
                    _ => None,
                };
                self.sink(added.saturating_neg());
                return self;
            }
            _ => {}
        }
        if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            return self;
        }
        let increment = i64::from(instruction.stack_pointer_increment());
        if instruction.is_stack_instruction() && increment != 0 {
            self.sink(increment.saturating_neg());
            return self;
        }
        for used in info.info(instruction).used_registers() {
            if !matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            ) {
                continue;
            }
            match used.register().full_register() {
                Register::RSP => self.depth = None,
                Register::RBP => {
                    self.frame = None;
                    self.is_rbp_lost |= self.saved_rbp.is_none();
                }
                _ => {}
            }
        }
        self
    }

    fn sink(&mut self, bytes: i64) {
        self.depth = self
            .depth
            .and_then(|depth| depth.checked_add(bytes))
            .filter(|depth| (0..MAX_DEPTH).contains(depth));
    }

    /// rbp was loaded from a slot at this depth.
    fn set_rbp_from(&mut self, slot: Option<i64>) {
        self.frame = None;
        if slot.is_some() && slot == self.saved_rbp {
            self.saved_rbp = None;
        } else {
            self.is_rbp_lost |= self.saved_rbp.is_none();
        }
    }

    fn join(self, other: Self) -> Self {
        let same = |a: Option<i64>, b: Option<i64>| if a == b { a } else { None };
        Self {
            depth: same(self.depth, other.depth),
            frame: same(self.frame, other.frame),
            saved_rbp: same(self.saved_rbp, other.saved_rbp),
            is_rbp_lost: self.is_rbp_lost || other.is_rbp_lost || self.saved_rbp != other.saved_rbp,
        }
    }
}

/// Rules for the code that can be followed from the given function starts: ascending, without overlaps.
/// `callers` is code that has entries of its own; only its calls are looked at.
///
/// `functions` are addresses and sizes, 0 for an unknown size.
pub(super) fn follow(code: &[CodeBytes], functions: &[(u64, u64)], callers: &[CodeBytes]) -> Vec<Span> {
    let extents = functions.iter().map(|&(start, size)| (start, start.saturating_add(size))).collect();
    let mut flow = Flow {
        code,
        extents,
        states: BTreeMap::new(),
        ends: BTreeMap::new(),
        functions: BTreeMap::new(),
        switches: FxHashMap::default(),
        queue: VecDeque::new(),
        info: InstructionInfoFactory::new(),
        decoded: 0,
        is_guessing: false,
    };
    for &(start, _) in functions {
        flow.add_function(start);
    }
    for code in callers {
        flow.add_called_by(code);
    }
    flow.run();
    flow.fill_switches();
    flow.spans()
}

/// What follows an instruction.
#[derive(Debug, Clone, Copy)]
struct Node {
    state: State,
    length: u8,
    /// Reached from a jump table only, by the guess of `fill_switches`: gives way to all others.
    is_guessed: bool,
}

struct Flow<'a> {
    code: &'a [CodeBytes],
    /// From the start of a function whose size is known to its end.
    extents: BTreeMap<u64, u64>,
    states: BTreeMap<u64, Node>,
    /// Addresses after instructions that nothing falls through.
    ends: BTreeMap<u64, ()>,
    /// Function starts; the flag says that it is certain.
    functions: BTreeMap<u64, bool>,
    /// By function start: the state at its indirect jumps, if they agree.
    switches: FxHashMap<u64, Option<State>>,
    queue: VecDeque<u64>,
    info: InstructionInfoFactory,
    decoded: usize,
    is_guessing: bool,
}

impl Flow<'_> {
    fn holder(&self, address: u64) -> Option<&CodeBytes> {
        let after = self.code.partition_point(|code| code.start <= address);
        self.code.get(after.checked_sub(1)?).filter(|code| code.contains(address))
    }

    fn add_function(&mut self, start: u64) {
        if self.holder(start).is_none() || self.functions.get(&start) == Some(&true) {
            return;
        }
        self.functions.insert(start, true);
        // Whatever seemed to flow in here came after a call that does not return.
        self.states.insert(start, Node { state: State::ENTRY, length: 0, is_guessed: false });
        self.queue.push_back(start);
    }

    fn add_called_by(&mut self, code: &CodeBytes) {
        let mut decoder = Decoder::with_ip(64, &code.bytes, code.start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() && self.decoded < MAX_INSTRUCTIONS {
            decoder.decode_out(&mut instruction);
            self.decoded += 1;
            let is_direct =
                matches!(instruction.code(), Code::Call_rel32_64 | Code::Jmp_rel32_64 | Code::Jmp_rel8_64);
            if is_direct && !code.contains(instruction.near_branch_target()) {
                self.add_function(instruction.near_branch_target());
            }
        }
    }

    fn run(&mut self) {
        while let Some(address) = self.queue.pop_front() {
            if self.decoded >= MAX_INSTRUCTIONS {
                // Unfinished states may be wrong: claim nothing.
                self.states.clear();
                self.queue.clear();
                return;
            }
            self.decoded += 1;
            self.visit(address);
        }
    }

    fn visit(&mut self, address: u64) {
        let (Some(&Node { state, .. }), Some(code)) = (self.states.get(&address), self.holder(address))
        else {
            return;
        };
        let mut decoder = Decoder::with_ip(64, code.from(address), address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            self.ends.insert(address, ());
            return;
        }
        if let Some(node) = self.states.get_mut(&address) {
            // At most fifteen.
            node.length = instruction.len() as u8;
        }
        let next = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch => {
                self.flow_to(instruction.near_branch_target(), state);
                self.ends.insert(next, ());
            }
            FlowControl::ConditionalBranch => {
                self.flow_to(instruction.near_branch_target(), state);
                self.flow_to(next, state);
            }
            FlowControl::Return | FlowControl::Exception | FlowControl::Interrupt => {
                self.ends.insert(next, ());
            }
            FlowControl::IndirectBranch => {
                self.ends.insert(next, ());
                if let Some(function) = self.function_of(address) {
                    let agreed = self.switches.entry(function).or_insert(Some(state));
                    if *agreed != Some(state) {
                        *agreed = None;
                    }
                }
            }
            flow => {
                if flow == FlowControl::Call && instruction.code() == Code::Call_rel32_64 {
                    self.add_function(instruction.near_branch_target());
                }
                if instruction.code() == Code::Lea_r64_m && instruction.is_ip_rel_memory_operand() {
                    self.flow_to_taken(instruction.ip_rel_memory_address());
                }
                if instruction.code() == Code::Hlt {
                    self.ends.insert(next, ());
                    return;
                }
                let is_call = matches!(flow, FlowControl::Call | FlowControl::IndirectCall);
                if is_call && self.may_not_return(next) {
                    return;
                }
                let after = state.after(&instruction, &mut self.info);
                self.flow_to(next, after);
            }
        }
    }

    /// Whether a call may be the last instruction of its function, because the callee never returns. If
    /// another way leads to the next instruction, that one decides.
    fn may_not_return(&self, next: u64) -> bool {
        let is_inside = |(_, &end): (&u64, &u64)| next < end;
        if self.extents.range(..=next).next_back().is_some_and(is_inside) {
            return false;
        }
        let bytes = self.holder(next).map_or(&[][..], |code| code.from(next));
        let is_padding = matches!(
            bytes,
            [0x90 | 0xcc, ..] | [0x66, 0x90 | 0x66 | 0x2e, ..] | [0x0f, 0x1f, ..] | [0x66, 0x0f, 0x1f, ..]
        );
        let is_prologue = matches!(
            bytes,
            [0x50..=0x57, ..]
                | [0x41, 0x50..=0x57, ..]
                | [0x48, 0x83 | 0x81, 0xec, ..]
                | [0xf3, 0x0f, 0x1e, 0xfa, ..]
        );
        is_padding || (is_prologue && next.is_multiple_of(16))
    }

    fn flow_to(&mut self, address: u64, state: State) {
        if self.functions.get(&address) == Some(&true) || self.holder(address).is_none() {
            return;
        }
        match self.states.get_mut(&address) {
            None => {
                self.states.insert(address, Node { state, length: 0, is_guessed: self.is_guessing });
                self.queue.push_back(address);
            }
            Some(node) if self.is_guessing && !node.is_guessed => {}
            Some(node) => {
                let joined = node.state.join(state);
                if joined != node.state {
                    node.state = joined;
                    self.queue.push_back(address);
                }
            }
        }
    }

    /// An address that `lea` takes may be a function's, or a label in the middle of one: it counts only
    /// while nothing else leads there.
    fn flow_to_taken(&mut self, address: u64) {
        if self.holder(address).is_some() && !self.states.contains_key(&address) {
            self.functions.insert(address, false);
            self.flow_to(address, State::ENTRY);
        }
    }

    fn function_of(&self, address: u64) -> Option<u64> {
        self.functions.range(..=address).next_back().map(|(&start, _)| start)
    }

    /// Code after an instruction that nothing falls through, in a function with jump tables, is reached
    /// by those: it has the state of the jump.
    fn fill_switches(&mut self) {
        self.is_guessing = true;
        let mut done: Option<u64> = None;
        while self.decoded < MAX_INSTRUCTIONS {
            let from = done.map_or(0, |done| done + 1);
            let Some((&address, ())) = self.ends.range(from..).next() else { return };
            done = Some(address);
            self.decoded += 1;
            if self.states.contains_key(&address) {
                continue;
            }
            let Some(Some(state)) =
                self.function_of(address).and_then(|function| self.switches.get(&function)).copied()
            else {
                continue;
            };
            self.flow_to(address, state);
            self.run();
        }
    }

    fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut covered = 0;
        for (&start, node) in &self.states {
            // Two decodings of the same bytes: neither is believed.
            if start < covered {
                if let Some(last) = spans.last_mut() {
                    last.end = last.end.min(start);
                }
                continue;
            }
            let end = start + u64::from(node.length);
            covered = end;
            let Some(rule) = node.state.rule() else { continue };
            match spans.last_mut() {
                Some(last) if last.end == start && last.rule == rule => last.end = end,
                _ => spans.push(Span { start, end, rule }),
            }
        }
        spans.retain(|span| span.end > span.start);
        spans
    }
}
