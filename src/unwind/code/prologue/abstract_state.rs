//! What one place in a function's code means for unwinding: where registers and stack slots point.
//!
//! A function's first instruction finds the return address at rsp and the caller's rbp in rbp. From there the effect
//! of every instruction on values that matter is known: addresses relative to the CFA, addresses relative to a stack
//! pointer that was aligned or moved by an unknown amount, the caller's rbp, and the return address. Everything else
//! is unknown. Stores
//! through other pointers are taken not to hit the slots where registers were saved, as in call frame information.

use super::stack_place::{AFTER_CALL, CFA, RETURN_ADDRESS, StackPlace, Value};
use crate::unwind::arch::register_set::{RegisterSet, general, is_write};
use crate::unwind::rule::{RBP, RSP, Rule};
use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register, UsedMemory,
};
use std::ops::Deref;
use std::rc::Rc;

/// Slots that are remembered; values saved after that are forgotten.
const MAX_SLOTS: usize = 24;
/// Bytes below rsp that signal handlers leave alone (x86-64 psABI).
const RED_ZONE_BYTES: i32 = 128;
/// Registers that a called function may change, by DWARF number: rax, rdx, rcx, rsi, rdi, r8 to r11.
const CALLER_SAVED: [usize; 9] = [0, 1, 2, 4, 5, 8, 9, 10, 11];

/// Effect of a module's functions on the stack pointer when they return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callees {
    /// Functions take off their return address, as the psABI says.
    TakeReturnAddress,
    /// Functions may take off their arguments too, as V8's built-in functions do: after a call nothing is known about rsp.
    MayTakeArguments,
}

/// Facts known before one instruction. Most instructions change none of these facts, so that many share them.
#[derive(Debug, Clone)]
pub(crate) struct AbstractFrame(Rc<Facts>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Values of the registers, by DWARF number.
    registers: [Value; 16],
    /// Saved values of interest, by place.
    slots: Vec<(StackPlace, Value)>,
}

/// Verdict of a return instruction on the way that led to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtReturn {
    /// Everything is back where it was at the first instruction.
    Consistent,
    /// The stack pointer is known, and is not what a caller expects.
    Contradiction,
    /// The stack pointer was lost on the way.
    Unknown,
}

impl Deref for AbstractFrame {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.0
    }
}

impl PartialEq for AbstractFrame {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other) || self.0 == other.0
    }
}

impl AbstractFrame {
    /// At the first instruction of a function.
    pub(super) fn at_entry() -> Self {
        let mut registers = [Value::Unknown; 16];
        registers[usize::from(RSP)] = Value::Stack(RETURN_ADDRESS);
        registers[usize::from(RBP)] = Value::CallersRbp;
        Self(Rc::new(Facts { registers, slots: vec![(RETURN_ADDRESS, Value::ReturnAddress)] }))
    }

    /// Whether both are one in memory, and therefore equal.
    pub(super) fn is_shared_with(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The stack pointer where two ways meet. It is the same on both: a way that knows it says it for one that does not
    /// know what a call has taken.
    fn joined_rsp(&self, other: &Self) -> Value {
        let [own, others] = [self, other].map(|frame| frame.registers[usize::from(RSP)]);
        let is_after_call = |value: Value| value.place().is_some_and(|place| place.base & AFTER_CALL != 0);
        match (is_after_call(own), is_after_call(others)) {
            (_, true) => own,
            (true, false) => others,
            (false, false) if own == others => own,
            (false, false) => Value::Unknown,
        }
    }

    fn set(&mut self, register: usize, value: Value) {
        if self.registers[register] != value {
            Rc::make_mut(&mut self.0).registers[register] = value;
        }
    }

    fn retain_slots(&mut self, is_kept: impl Fn(&(StackPlace, Value)) -> bool) {
        if !self.slots.iter().all(&is_kept) {
            Rc::make_mut(&mut self.0).slots.retain(is_kept);
        }
    }

    fn rsp(&self) -> Option<StackPlace> {
        self.registers[usize::from(RSP)].place()
    }

    fn slot(&self, place: StackPlace) -> Value {
        self.slots.iter().find(|(at, _)| *at == place).map_or(Value::Unknown, |(_, value)| *value)
    }

    /// The rule that holds here, if everything that it needs is known. At a call, `kept` are the registers
    /// that no function called writes.
    pub(crate) fn rule(&self, kept: RegisterSet) -> Option<Rule> {
        let rule = self.cfa()?;
        let is_base_kept = !matches!(rule.cfa_reg, RSP | RBP) && kept.contains(rule.cfa_reg.into());
        Some(self.with_rbp(if is_base_kept { rule.with_base_kept() } else { rule }))
    }

    /// Whether the CFA is found by a register that calls may overwrite.
    pub(super) fn needs_kept_register(&self) -> bool {
        self.rsp().is_none_or(|rsp| rsp.base != CFA)
            && self.cfa().is_some_and(|rule| !matches!(rule.cfa_reg, RSP | RBP))
    }

    fn cfa(&self) -> Option<Rule> {
        // V8's built-in functions take it off the stack, push arguments, and push it again below them: no rule says that.
        if self.slot(RETURN_ADDRESS) != Value::ReturnAddress {
            return None;
        }
        let direct = |register: u8| {
            let place = self.registers[usize::from(register)].place()?;
            (place.base == CFA).then(|| Rule::reg(register, -place.offset))
        };
        if self.has_frame_pointer() {
            return direct(RBP);
        }
        // A register that is above what it points into would be no frame.
        if let Some(rule) = direct(RSP).filter(|rule| rule.cfa_off >= 8) {
            return Some(rule);
        }
        let saved_near = |register: u8| {
            let place = self.registers[usize::from(register)].place().filter(|place| place.base != CFA)?;
            self.slots.iter().find_map(|(at, value)| {
                let saved = value.place().filter(|saved| saved.base == CFA && at.base == place.base)?;
                let added = i16::try_from(-saved.offset).ok()?;
                Some(Rule::deref(register, at.offset - place.offset, added))
            })
        };
        saved_near(RSP)
            .or_else(|| direct(RBP))
            .or_else(|| saved_near(RBP))
            .or_else(|| (0..16).filter(|&register| register != RSP).find_map(direct))
    }

    /// Whether rbp points to where this function has saved the caller's. It stays so whatever a called function does
    /// to the stack pointer.
    fn has_frame_pointer(&self) -> bool {
        let place = self.registers[usize::from(RBP)].place().filter(|place| place.base == CFA);
        place.is_some_and(|place| self.slot(place) == Value::CallersRbp)
    }

    fn with_rbp(&self, rule: Rule) -> Rule {
        let rbp = self.registers[usize::from(RBP)];
        // The slot is preferred while it is on the stack, so that all of a function's body has one rule.
        let is_popped =
            |at: &StackPlace| self.rsp().is_some_and(|rsp| rsp.base == at.base && at.offset < rsp.offset);
        let slots = || self.slots.iter().filter(|(_, value)| *value == Value::CallersRbp);
        // Of several the highest: others are in the red zone of functions that jumped here.
        let mut of_frame = slots().rev().filter(|(at, _)| at.base == CFA);
        if rbp == Value::CallersRbp {
            let live = of_frame.find(|(at, _)| !is_popped(at));
            return live.map_or(rule, |(at, _)| rule.with_rbp_at_cfa(at.offset));
        }
        if let Some((at, _)) = of_frame.next() {
            return rule.with_rbp_at_cfa(at.offset);
        }
        let saved = slots().find_map(|(at, _)| {
            let near = rbp.place().filter(|place| place.base == at.base)?;
            Some(rule.with_rbp_at_rbp(at.offset - near.offset))
        });
        // Parts of assembly functions use it for data, where those that call them have saved it.
        saved.unwrap_or(rule.with_rbp_lost())
    }

    /// Verdict of a return instruction at this place.
    pub(super) fn at_return(&self) -> AtReturn {
        match self.rsp() {
            Some(RETURN_ADDRESS) if self.slot(RETURN_ADDRESS) != Value::ReturnAddress => AtReturn::Unknown,
            Some(RETURN_ADDRESS) => match self.registers[usize::from(RBP)] {
                Value::Stack(_) => AtReturn::Contradiction,
                Value::CallersRbp | Value::Unknown | Value::ReturnAddress => AtReturn::Consistent,
            },
            Some(StackPlace { base: CFA, .. }) => AtReturn::Contradiction,
            _ => AtReturn::Unknown,
        }
    }

    /// Whether the stack pointer is where the ABI wants it before a call: a multiple of 16 bytes below the CFA.
    pub(super) fn is_aligned_for_call(&self) -> bool {
        self.rsp().is_some_and(|rsp| rsp.base == CFA && rsp.offset % 16 == 0)
    }

    /// Whether an instruction reads below the caller's rbp: the function works in a frame that is not its own, and was
    /// jumped to, so that no return address was at rsp when it began.
    pub(super) fn is_in_another_frame(&self, instruction: &Instruction) -> bool {
        self.registers[usize::from(RBP)] == Value::CallersRbp
            && instruction.memory_base() == Register::RBP
            && instruction.memory_displacement64().cast_signed() < 0
            && instruction.code() != Code::Lea_r64_m
    }

    /// Joins what is known where two ways meet.
    pub(crate) fn join(&self, other: &Self) -> Self {
        let mut joined = self.clone();
        if self.is_shared_with(other) {
            return joined;
        }
        for (register, value) in other.registers.iter().enumerate() {
            if joined.registers[register] != *value {
                joined.set(register, Value::Unknown);
            }
        }
        joined.set(usize::from(RSP), self.joined_rsp(other));
        joined.retain_slots(|(at, value)| other.slot(*at) == *value);
        joined
    }

    /// The state after an instruction that does not end the way. `number` tells this instruction from all others of
    /// its function; it is not 0. `kept` are the registers that a call does not write.
    pub(crate) fn after(
        &self,
        instruction: &Instruction,
        number: u32,
        callees: Callees,
        kept: RegisterSet,
        info: &mut InstructionInfoFactory,
    ) -> Self {
        let mut next = self.clone();
        if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            next.apply_call(number, callees, kept);
        } else if !next.apply_known(instruction, number) && !next.apply_plain(instruction, number) {
            next.apply_other(instruction, number, info);
        }
        if next.is_shared_with(self) {
            return next;
        }
        if let Some(rsp) = next.rsp() {
            next.retain_slots(|(at, _)| {
                at.base != rsp.base || at.offset >= rsp.offset.saturating_sub(RED_ZONE_BYTES)
            });
            // Back on the function's own frame: everything relative to a moved stack pointer is gone.
            if rsp.base == CFA
                && next.slots.iter().any(|(at, _)| at.base != CFA)
                && !next.has_moved_register()
            {
                next.retain_slots(|(at, _)| at.base == CFA);
            }
        }
        next
    }

    fn has_moved_register(&self) -> bool {
        self.registers.iter().filter_map(|value| value.place()).any(|place| place.base != CFA)
    }

    /// Instructions that move or save addresses. Returns false for all others.
    fn apply_known(&mut self, instruction: &Instruction, number: u32) -> bool {
        let first = general(instruction.op0_register());
        let second = general(instruction.op1_register());
        match instruction.code() {
            Code::Push_r64 => {
                let value = first.map_or(Value::Unknown, |register| self.registers[register]);
                self.push(value);
            }
            Code::Pop_r64 => {
                let Some(register) = first else { return false };
                self.pop(register);
            }
            Code::Leaveq => {
                self.set(usize::from(RSP), self.registers[usize::from(RBP)]);
                self.pop(usize::from(RBP));
            }
            Code::Mov_r64_rm64 | Code::Mov_rm64_r64 => match (first, second) {
                (Some(to), Some(from)) => self.set(to, self.registers[from]),
                (Some(to), None) => {
                    let place = self.memory_place(instruction);
                    self.set(to, place.map_or(Value::Unknown, |place| self.slot(place)));
                }
                (None, Some(from)) => {
                    if let Some(place) = self.memory_place(instruction) {
                        self.store(place, 8, self.registers[from]);
                    }
                }
                (None, None) => return false,
            },
            Code::Lea_r64_m => {
                let Some(to) = first else { return false };
                let place = self.memory_place(instruction);
                self.set(to, place.map_or(Value::Unknown, Value::Stack));
                self.keep_stack_base(to, number);
            }
            Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32 => {
                let Some(register) = first else { return false };
                let bytes = instruction.immediate(1).cast_signed().saturating_neg();
                self.set(register, self.registers[register].plus(bytes));
            }
            Code::Add_rm64_imm8 | Code::Add_rm64_imm32 => {
                let Some(register) = first else { return false };
                let bytes = instruction.immediate(1).cast_signed();
                self.set(register, self.registers[register].plus(bytes));
            }
            Code::And_rm64_imm8 | Code::And_rm64_imm32 => {
                let Some(register) = first else { return false };
                if self.registers[register].place().is_none() {
                    return false;
                }
                self.set(register, Value::Unknown);
                self.new_base(register, number);
            }
            _ => return false,
        }
        true
    }

    fn pop(&mut self, register: usize) {
        let value = self.rsp().map_or(Value::Unknown, |top| self.slot(top));
        self.move_rsp(8);
        self.set(register, value);
    }

    /// Common instructions that write their first operand or nothing; they only need a closer look where that is on
    /// the stack or is rsp. Returns false for all others.
    fn apply_plain(&mut self, instruction: &Instruction, number: u32) -> bool {
        let is_written = match instruction.mnemonic() {
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::Bt => false,
            Mnemonic::Mov
            | Mnemonic::Movzx
            | Mnemonic::Movsx
            | Mnemonic::Movsxd
            | Mnemonic::Lea
            | Mnemonic::Xor
            | Mnemonic::Or
            | Mnemonic::And
            | Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Neg
            | Mnemonic::Not
            | Mnemonic::Inc
            | Mnemonic::Dec
            | Mnemonic::Movaps
            | Mnemonic::Movups
            | Mnemonic::Movdqa
            | Mnemonic::Movdqu
            | Mnemonic::Movq
            | Mnemonic::Movd => true,
            Mnemonic::Imul => {
                if instruction.op_count() < 2 {
                    return false;
                }
                true
            }
            _ => return false,
        };
        if !is_written {
            return true;
        }
        match instruction.op0_kind() {
            OpKind::Register => {
                let Some(register) = general(instruction.op0_register().full_register()) else { return true };
                self.set(register, Value::Unknown);
                self.keep_stack_base(register, number);
            }
            OpKind::Memory => {
                if let Some(place) = self.memory_place(instruction) {
                    self.store(place, instruction.memory_size().size() as u64, Value::Unknown);
                }
            }
            // `mov` to an absolute address.
            _ => return false,
        }
        true
    }

    /// All other instructions: whatever they write is unknown.
    fn apply_other(&mut self, instruction: &Instruction, number: u32, info: &mut InstructionInfoFactory) {
        let increment = i64::from(instruction.stack_pointer_increment());
        if instruction.is_stack_instruction() && increment < 0 {
            self.move_rsp(increment);
            if let Some(top) = self.rsp() {
                self.store(top, increment.unsigned_abs(), Value::Unknown);
            }
            return;
        }
        let used = info.info(instruction);
        for memory in used.used_memory().iter().filter(|memory| is_write(memory.access())) {
            if let Some(place) = self.used_memory_place(memory) {
                self.store(place, memory.memory_size().size() as u64, Value::Unknown);
            }
        }
        let is_stack_instruction = instruction.is_stack_instruction() && increment != 0;
        for register in used.used_registers().iter().filter(|register| is_write(register.access())) {
            let Some(register) = general(register.register().full_register()) else { continue };
            if register == usize::from(RSP) {
                if !is_stack_instruction {
                    self.set(register, Value::Unknown);
                    self.new_base(register, number);
                }
            } else {
                self.set(register, Value::Unknown);
            }
        }
        if is_stack_instruction {
            self.move_rsp(increment);
        }
    }

    /// A call that returns: what lies below rsp belongs to the function called.
    fn apply_call(&mut self, number: u32, callees: Callees, kept: RegisterSet) {
        for register in CALLER_SAVED.into_iter().filter(|&register| !kept.contains(register)) {
            self.set(register, Value::Unknown);
        }
        if let Some(rsp) = self.rsp() {
            self.retain_slots(|(at, _)| at.base != rsp.base || at.offset >= rsp.offset);
        }
        if callees == Callees::MayTakeArguments {
            self.new_base(usize::from(RSP), number | AFTER_CALL);
        }
    }

    fn push(&mut self, value: Value) {
        self.move_rsp(-8);
        if let Some(top) = self.rsp() {
            self.store(top, 8, value);
        }
    }

    fn move_rsp(&mut self, bytes: i64) {
        self.set(usize::from(RSP), self.registers[usize::from(RSP)].plus(bytes));
    }

    /// rsp has a value that has nothing to do with what it was: the place where it points is a base of its own.
    fn keep_stack_base(&mut self, register: usize, number: u32) {
        if register == usize::from(RSP) && self.registers[register] == Value::Unknown {
            self.new_base(register, number);
        }
    }

    fn new_base(&mut self, register: usize, number: u32) {
        // What was relative to the value that this instruction gave before is not relative to the new one.
        self.retain_slots(|(at, value)| at.base != number && value.place().is_none_or(|v| v.base != number));
        for other in 0..self.registers.len() {
            if self.registers[other].place().is_some_and(|place| place.base == number) {
                self.set(other, Value::Unknown);
            }
        }
        self.set(register, Value::Stack(StackPlace { base: number, offset: 0 }));
    }

    fn store(&mut self, place: StackPlace, bytes: u64, value: Value) {
        if bytes == 8 && value != Value::Unknown && self.slot(place) == value {
            return;
        }
        let end = i64::from(place.offset).saturating_add_unsigned(bytes);
        self.retain_slots(|(at, _)| {
            let start = i64::from(at.offset);
            at.base != place.base || start >= end || start + 8 <= i64::from(place.offset)
        });
        if value != Value::Unknown && self.slots.len() < MAX_SLOTS {
            let slots = &mut Rc::make_mut(&mut self.0).slots;
            let index = slots.partition_point(|(at, _)| *at < place);
            slots.insert(index, (place, value));
        }
    }

    /// The place of an instruction's memory operand, if it is on the stack and known.
    fn memory_place(&self, instruction: &Instruction) -> Option<StackPlace> {
        if instruction.memory_index() != Register::None || instruction.segment_prefix() != Register::None {
            return None;
        }
        let base = general(instruction.memory_base())?;
        self.registers[base].place()?.plus(instruction.memory_displacement64().cast_signed())
    }

    fn used_memory_place(&self, memory: &UsedMemory) -> Option<StackPlace> {
        let base = general(memory.base())?;
        let is_plain = memory.index() == Register::None;
        is_plain.then(|| self.registers[base].place()?.plus(memory.displacement().cast_signed())).flatten()
    }
}
