//! The instructions of one function, followed along all jumps from its first.

use super::abstract_state::{AbstractFrame, AtReturn, Callees};
use super::facts::{FunctionAnalysis, Surroundings};
use crate::unwind::arch::register_set::{RegisterSet, kept_by};
use crate::unwind::code::bytes::{CodeBytes, CodeSections, ENDBR64};
use crate::unwind::code::function_starts::{FunctionStart, fixed_address};
use crate::unwind::rule::{Rule, RuleKind};
use crate::unwind::table::span::Span;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpKind, Register,
};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Visits of instructions in one function at most, those that are repeated because ways meet included.
const MAX_VISITS: usize = 400_000;

/// Compilers that optimise align functions to this many bytes, and pad what lies before.
const FUNCTION_ALIGNMENT: u64 = 16;

/// Follows one function.
///
/// Gives no rules where a return instruction contradicts the assumption that a caller's return address was at rsp in
/// the beginning, or, unless the start is certain, where no return, tail call, or call of a function that is certain
/// confirms it.
pub(super) fn analyze_function(
    start: &FunctionStart,
    surroundings: &Surroundings<'_>,
    info: &mut InstructionInfoFactory,
) -> FunctionAnalysis {
    let &Surroundings { code, certain, taken, callees, .. } = surroundings;
    let Some(holder) = code.holder(start.address) else { return FunctionAnalysis::default() };
    let next = |starts: &BTreeSet<u64>| starts.range(start.address.saturating_add(1)..).next().copied();
    let limit = [next(certain), next(taken), start.end].into_iter().flatten().min();
    let mut flow = Flow {
        start,
        surroundings,
        code,
        holder,
        certain,
        callees,
        limit: limit.map_or(holder.end(), |limit| limit.min(holder.end())),
        decoder: Decoder::with_ip(64, &holder.bytes, holder.start, DecoderOptions::NONE),
        nodes: Vec::new(),
        by_address: FxHashMap::default(),
        ends: Vec::new(),
        next: None,
        queue: BinaryHeap::new(),
        switch: None,
        addresses: FxHashMap::default(),
        is_guessing: false,
        has_confirmation: false,
        is_contradicted: false,
        is_guess_contradicted: false,
        leaves: false,
        followed: FunctionAnalysis::default(),
        info,
    };
    flow.arrive(start.address, AbstractFrame::at_entry());
    flow.run();
    flow.guess_switch_targets();
    flow.finish()
}

struct FlowNode {
    address: u64,
    frame: AbstractFrame,
    length: u8,
    /// Reached from an indirect jump only, by the guess of `guess_switch_targets`: gives way to all others.
    is_guessed: bool,
    /// Registers that the function called here does not write; none if none is called.
    kept: RegisterSet,
    /// Whether the node has still to be visited.
    is_waiting: bool,
}

struct Flow<'a> {
    start: &'a FunctionStart,
    surroundings: &'a Surroundings<'a>,
    code: &'a CodeSections<'a>,
    holder: &'a CodeBytes,
    certain: &'a BTreeSet<u64>,
    callees: Callees,
    /// Code from here on is another function's.
    limit: u64,
    decoder: Decoder<'a>,
    nodes: Vec<FlowNode>,
    by_address: FxHashMap<u64, u32>,
    /// Addresses after instructions that nothing falls through.
    ends: Vec<u64>,
    /// Node that is visited next, unless the queue has a lower address: mostly that of the next instruction.
    next: Option<(u64, u32)>,
    /// Lowest address first: ways that meet have mostly met before what follows is visited.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    /// The frame at the indirect jumps, if they agree.
    switch: Option<Option<AbstractFrame>>,
    /// Code addresses that `lea` takes into registers; `None` where a register gets several.
    addresses: FxHashMap<Register, Option<u64>>,
    is_guessing: bool,
    has_confirmation: bool,
    is_contradicted: bool,
    is_guess_contradicted: bool,
    /// Some way leads out of the function.
    leaves: bool,
    followed: FunctionAnalysis,
    info: &'a mut InstructionInfoFactory,
}

impl Flow<'_> {
    fn run(&mut self) {
        while let Some(index) = self.take_waiting() {
            self.followed.visits += 1;
            if self.followed.visits > MAX_VISITS {
                // Unfinished: what was found may be wrong.
                self.is_contradicted = true;
                return;
            }
            self.visit(index);
        }
    }

    fn take_waiting(&mut self) -> Option<usize> {
        let (_, index) = match (self.next, self.queue.peek()) {
            (Some(next), Some(&Reverse(queued))) if queued < next => self.queue.pop()?.0,
            (Some(next), _) => {
                self.next = None;
                next
            }
            (None, _) => self.queue.pop()?.0,
        };
        let index = index as usize;
        self.nodes.get_mut(index)?.is_waiting = false;
        Some(index)
    }

    fn wait(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        if std::mem::replace(&mut node.is_waiting, true) {
            return;
        }
        let entry = (node.address, index);
        match self.next.replace(entry) {
            Some(other) if other < entry => {
                self.next = Some(other);
                self.queue.push(Reverse(entry));
            }
            Some(other) => self.queue.push(Reverse(other)),
            None => {}
        }
    }

    fn visit(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let frame = node.frame.clone();
        let is_guessed = node.is_guessed;
        let address = node.address;
        let position = usize::try_from(address.wrapping_sub(self.holder.start)).unwrap_or(usize::MAX);
        if self.decoder.set_position(position).is_err() {
            self.contradict(is_guessed);
            return;
        }
        self.decoder.set_ip(address);
        let instruction = self.decoder.decode();
        if instruction.is_invalid() {
            self.contradict(is_guessed);
            return;
        }
        // At most fifteen.
        node.length = instruction.len() as u8;
        // V8's functions that contain part of another function's prologue or epilogue (`BaselineLeaveFrame`).
        if self.callees == Callees::MayTakeArguments && frame.is_in_another_frame(&instruction) {
            self.contradict(is_guessed);
        }
        let next = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::Return => {
                self.ends.push(next);
                self.leaves = true;
                self.return_by(&instruction, &frame, is_guessed);
            }
            FlowControl::Exception | FlowControl::Interrupt => {
                self.ends.push(next);
            }
            FlowControl::UnconditionalBranch => {
                self.ends.push(next);
                self.jump_to(instruction.near_branch_target(), frame, is_guessed);
            }
            FlowControl::ConditionalBranch => {
                self.jump_to(instruction.near_branch_target(), frame.clone(), is_guessed);
                self.arrive(next, frame);
            }
            FlowControl::IndirectBranch => {
                self.ends.push(next);
                self.leaves = true;
                self.jump_by_register(&instruction, &frame);
            }
            flow => self.pass(index, &instruction, flow, frame),
        }
    }

    fn return_by(&mut self, instruction: &Instruction, frame: &AbstractFrame, is_guessed: bool) {
        match frame.at_return() {
            AtReturn::Consistent => {
                self.has_confirmation = true;
                self.followed.returns = true;
                let is_longer = instruction.code() == Code::Retnq_imm16;
                self.followed.takes_arguments |= is_longer && instruction.immediate16() > 0;
            }
            AtReturn::Contradiction => self.contradict(is_guessed),
            AtReturn::Unknown => {}
        }
    }

    /// A tail call, or a switch: all of a function have one frame.
    fn jump_by_register(&mut self, instruction: &Instruction, frame: &AbstractFrame) {
        self.has_confirmation |= *frame == AbstractFrame::at_entry();
        // A tail call to an address that was taken before (musl's `__libc_start_main`).
        let is_tail_call =
            instruction.op0_kind() == OpKind::Register && frame.at_return() == AtReturn::Consistent;
        if is_tail_call && let Some(&Some(target)) = self.addresses.get(&instruction.op0_register()) {
            self.followed.calls.push(target);
        }
        let agreed = self.switch.get_or_insert_with(|| Some(frame.clone()));
        if agreed.as_ref() != Some(frame) {
            *agreed = None;
        }
    }

    /// An instruction that the next one follows, as far as one can tell.
    fn pass(&mut self, index: usize, instruction: &Instruction, flow: FlowControl, frame: AbstractFrame) {
        let next = instruction.next_ip();
        let is_direct_call = instruction.code() == Code::Call_rel32_64;
        let is_call = matches!(flow, FlowControl::Call | FlowControl::IndirectCall);
        if is_direct_call && instruction.near_branch_target() == next {
            // A function that follows this one, which it ends; or the address of the code is popped off the stack, which
            // then holds a word more than a call leaves there.
            let is_popped = matches!(self.holder.from(next), [0x58..=0x5f, ..] | [0x41, 0x58..=0x5f, ..]);
            if !is_popped {
                self.followed.calls.push(next);
            }
            return;
        }
        if is_direct_call {
            let target = instruction.near_branch_target();
            // A function that never returns is confirmed by what it calls.
            self.has_confirmation |= self.certain.contains(&target) && frame.is_aligned_for_call();
            self.followed.calls.push(target);
        }
        if let Some(address) = self.fixed_address(instruction) {
            self.followed.taken.push(address);
        }
        if instruction.code() == Code::Lea_r64_m && instruction.is_ip_rel_memory_operand() {
            let target = instruction.ip_rel_memory_address();
            self.followed.taken.push(target);
            let address = self.addresses.entry(instruction.op0_register()).or_insert(Some(target));
            if *address != Some(target) {
                *address = None;
            }
        }
        if instruction.code() == Code::Hlt {
            self.ends.push(next);
            return;
        }
        let mut kept = RegisterSet::EMPTY;
        if is_direct_call && frame.needs_kept_register() {
            kept = kept_by(self.code, instruction.near_branch_target(), self.info);
        }
        self.nodes[index].kept = kept;
        if is_call && self.never_returns(instruction) {
            self.ends.push(next);
            return;
        }
        if is_call && self.may_not_return(next) {
            // Padding may also align a loop of this function.
            self.leaves |= !self.starts_function(next.next_multiple_of(FUNCTION_ALIGNMENT));
            return;
        }
        // Below 2^32 where it matters: no function is that long. 0 is the CFA's.
        let number = (instruction.ip().wrapping_sub(self.start.address) as u32).wrapping_add(1).max(1);
        let after = frame.after(instruction, number, self.callees, kept, self.info);
        self.arrive(next, after);
    }

    /// The address in code without entries that an instruction has as a number, in a module with fixed addresses.
    fn fixed_address(&self, instruction: &Instruction) -> Option<u64> {
        let Surroundings { facts, code, .. } = self.surroundings;
        let address = fixed_address(instruction).filter(|_| facts.has_fixed_addresses)?;
        code.holder(address).map(|_| address)
    }

    /// Whether a call is one of a function that is known never to return.
    fn never_returns(&self, call: &Instruction) -> bool {
        let Surroundings { facts, never_return, .. } = self.surroundings;
        match call.code() {
            Code::Call_rel32_64 => {
                let target = call.near_branch_target();
                facts.never_return.is_function(target) || never_return.contains(&target)
            }
            Code::Call_rm64 if call.is_ip_rel_memory_operand() => {
                facts.never_return.is_slot(call.ip_rel_memory_address())
            }
            _ => false,
        }
    }

    /// Whether a call may be the last instruction of its function, because the callee never returns. If another way
    /// leads to the next instruction, that one decides.
    fn may_not_return(&self, next: u64) -> bool {
        if self.start.end.is_some_and(|end| next < end) {
            return false;
        }
        if self.is_known_start(next) {
            return true;
        }
        let bytes = self.holder.from(next);
        let is_padding = matches!(
            bytes,
            [0x90 | 0xcc, ..] | [0x66, 0x90 | 0x66 | 0x2e, ..] | [0x0f, 0x1f, ..] | [0x66, 0x0f, 0x1f, ..]
        );
        let may_start = self.surroundings.is_repeated || next.is_multiple_of(FUNCTION_ALIGNMENT);
        is_padding || (may_start && is_prologue(bytes))
    }

    fn is_known_start(&self, address: u64) -> bool {
        self.certain.contains(&address) || self.surroundings.taken.contains(&address)
    }

    /// Whether another function seems to start at an address.
    fn starts_function(&self, address: u64) -> bool {
        let is_behind = self.start.end.is_some_and(|end| end <= address) || !self.holder.contains(address);
        is_behind || self.is_known_start(address) || is_prologue(self.holder.from(address))
    }

    fn jump_to(&mut self, target: u64, frame: AbstractFrame, is_guessed: bool) {
        let is_outside =
            !self.holder.contains(target) || (target != self.start.address && self.certain.contains(&target));
        if !is_outside {
            self.arrive(target, frame);
            return;
        }
        self.leaves = true;
        if let Some(agrees) = self.agrees_with_entry(target, &frame) {
            self.has_confirmation |= agrees;
            if !agrees {
                self.contradict(is_guessed);
            }
            return;
        }
        // A tail call: the other function finds what this one found.
        match frame.at_return() {
            AtReturn::Consistent => {
                self.has_confirmation = true;
                if self.code.holder(target).is_some() {
                    self.followed.calls.push(target);
                }
            }
            // Into the middle of something else, or a function whose frame is already up: says nothing.
            AtReturn::Contradiction | AtReturn::Unknown => {}
        }
    }

    /// Where code with entries is jumped to, whether its entry has the CFA where `frame` has it. `None` where one of the
    /// two does not say it by the stack pointer.
    fn agrees_with_entry(&self, target: u64, frame: &AbstractFrame) -> Option<bool> {
        let said = self.surroundings.facts.entries?.rule_at(target)?;
        let found = frame.rule(RegisterSet::EMPTY)?;
        let is_comparable = said.kind == RuleKind::Reg && found.kind == RuleKind::Reg;
        (is_comparable && said.cfa_reg == found.cfa_reg).then_some(said.cfa_off == found.cfa_off)
    }

    /// A way leads to `address` with `frame`.
    fn arrive(&mut self, address: u64, frame: AbstractFrame) {
        // Between its start and its limit there is no other function.
        let is_own = self.start.address <= address && address < self.limit;
        if !is_own && (!self.holder.contains(address) || self.certain.contains(&address)) {
            self.leaves = true;
            return;
        }
        // Fewer than MAX_VISITS times two.
        let new = self.nodes.len() as u32;
        let index = *self.by_address.entry(address).or_insert(new);
        let Some(node) = self.nodes.get_mut(index as usize) else {
            let is_guessed = self.is_guessing;
            let kept = RegisterSet::EMPTY;
            self.nodes.push(FlowNode { address, frame, length: 0, is_guessed, kept, is_waiting: false });
            self.wait(index);
            return;
        };
        if self.is_guessing && !node.is_guessed {
            return;
        }
        let joined = node.frame.join(&frame);
        if joined != node.frame {
            node.frame = joined;
            self.wait(index);
        }
    }

    fn contradict(&mut self, is_guessed: bool) {
        if is_guessed {
            self.is_guess_contradicted = true;
        } else {
            self.is_contradicted = true;
        }
    }

    /// Code after an instruction that nothing falls through, in a function with indirect jumps, is reached by those:
    /// it has the frame of the jump.
    fn guess_switch_targets(&mut self) {
        let Some(Some(frame)) = self.switch.clone() else { return };
        if self.is_contradicted {
            return;
        }
        self.is_guessing = true;
        let mut from = self.start.address;
        let mut ends = BTreeSet::new();
        loop {
            ends.extend(self.ends.drain(..));
            let Some(&address) = ends.range(from..self.limit.max(from)).next() else { return };
            from = address + 1;
            // Where exceptions land there is an `endbr64`, and the frame is that of a call.
            let is_landing = self.holder.from(address).starts_with(&ENDBR64);
            if is_landing || self.by_address.contains_key(&address) {
                continue;
            }
            self.arrive(address, frame.clone());
            self.run();
            if self.is_contradicted || self.is_guess_contradicted {
                return;
            }
        }
    }

    fn finish(mut self) -> FunctionAnalysis {
        let is_believed = !self.is_contradicted && (self.start.is_certain || self.has_confirmation);
        let is_counted = is_believed && self.start.is_certain && !self.is_guess_contradicted;
        self.followed.returns &= is_counted;
        self.followed.takes_arguments &= is_counted;
        self.followed.is_contradicted = self.is_contradicted;
        self.followed.never_returns = is_believed && !self.leaves && !self.is_guess_contradicted;
        if !is_believed {
            return self.followed;
        }
        let keeps_guesses = !self.is_guess_contradicted;
        self.nodes.retain(|node| keeps_guesses || !node.is_guessed);
        self.nodes.sort_unstable_by_key(|node| node.address);
        self.followed.runs_to = self.start.address;
        let spans = &mut self.followed.spans;
        let mut covered = 0;
        let mut known: Option<(&AbstractFrame, RegisterSet, Option<Rule>)> = None;
        for node in &self.nodes {
            let start = node.address;
            // Two decodings of the same bytes: neither is believed.
            if start < covered {
                if let Some(last) = spans.last_mut() {
                    last.end = last.end.min(start);
                }
                continue;
            }
            let end = start + u64::from(node.length);
            covered = end;
            if start == self.followed.runs_to {
                self.followed.runs_to = end;
            }
            let rule = match known {
                Some((frame, kept, rule)) if kept == node.kept && frame.is_shared_with(&node.frame) => rule,
                _ => node.frame.rule(node.kept),
            };
            known = Some((&node.frame, node.kept, rule));
            let Some(rule) = rule else { continue };
            match spans.last_mut() {
                Some(last) if last.end == start && last.rule == rule => last.end = end,
                _ => spans.push(Span { start, end, rule }),
            }
        }
        spans.retain(|span| span.end > span.start);
        self.followed
    }
}

/// Whether code begins as functions do that save registers or have a frame.
fn is_prologue(code: &[u8]) -> bool {
    matches!(
        code,
        [0x50..=0x57, ..]
            | [0x41, 0x50..=0x57, ..]
            | [0x48, 0x83 | 0x81, 0xec, ..]
            | [0xf3, 0x0f, 0x1e, 0xfa, ..]
    )
}
