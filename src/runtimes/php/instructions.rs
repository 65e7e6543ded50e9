//! What a short exported function reads in the executor's globals and through the pointers there, from its instructions.
//!
//! Instructions are followed in order of address. What registers hold at the target of a forward jump is kept for when
//! that address is reached: what all ways there agree on.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use rustc_hash::FxHashMap;

use crate::runtimes::memory::TargetMemory;

/// Most bytes of a function that are read.
const MOST_BYTES: usize = 768;
/// Most pointers followed.
const MOST_DEPTH: usize = 5;

/// What a register holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HeldValue {
    /// An address in or after the globals: their start and a number of bytes.
    Globals(i64),
    /// A pointer found by following these offsets from the globals on.
    Path(Vec<i64>),
}

type PhpRegisters = FxHashMap<Register, HeldValue>;

/// A field that a function reads: offsets from the globals on, every one but the last followed as a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PhpRead {
    pub(crate) path: Vec<i64>,
    /// Size of the field in bytes.
    pub(crate) bytes: usize,
}

/// What a function does.
#[derive(Clone, Debug, Default)]
pub(crate) struct PhpReads {
    pub(crate) fields: Vec<PhpRead>,
    /// Numbers added to pointers, as fields with the last number added and not read.
    pub(crate) sums: Vec<Vec<i64>>,
    /// Numbers put in a register, or in memory.
    pub(crate) numbers: Vec<u64>,
    /// Offsets from a pointer at which words of 32 bits are written.
    pub(crate) written: Vec<i64>,
    /// Constant addresses of words that are read.
    pub(crate) words: Vec<u64>,
}

/// Reads the function at `address` of an interpreter with its globals at `globals`; empty if its code cannot be read.
pub(crate) fn reads(memory: &impl TargetMemory, address: u64, globals: u64) -> PhpReads {
    // A function at the end of a mapping is shorter than the window.
    let bytes = [MOST_BYTES, 384, 192, 96, 48, 16]
        .into_iter()
        .find_map(|size| memory.range(address, size as u64, MOST_BYTES))
        .unwrap_or_default();
    let mut reader = ReadsReader {
        memory,
        globals,
        registers: Some(PhpRegisters::default()),
        at_targets: FxHashMap::default(),
        end: address.saturating_add(bytes.len() as u64),
        factory: InstructionInfoFactory::new(),
        reads: PhpReads::default(),
    };
    for instruction in &mut Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE) {
        if instruction.is_invalid() || (reader.registers.is_none() && reader.at_targets.is_empty()) {
            break;
        }
        reader.step(&instruction);
    }
    reader.reads
}

struct ReadsReader<'m, M> {
    memory: &'m M,
    globals: u64,
    /// What registers hold; `None` where the code is not reached.
    registers: Option<PhpRegisters>,
    /// What they hold at targets of forward jumps.
    at_targets: FxHashMap<u64, PhpRegisters>,
    end: u64,
    factory: InstructionInfoFactory,
    reads: PhpReads,
}

impl<M: TargetMemory> ReadsReader<'_, M> {
    fn step(&mut self, instruction: &Instruction) {
        if let Some(at_target) = self.at_targets.remove(&instruction.ip()) {
            self.registers = Some(match self.registers.take() {
                Some(registers) => common(registers, &at_target),
                None => at_target,
            });
        }
        let Some(mut registers) = self.registers.take() else { return };
        match instruction.flow_control() {
            FlowControl::Next => {
                self.note(instruction, &registers);
                self.change(instruction, &mut registers);
            }
            FlowControl::ConditionalBranch => self.note_target(instruction, &registers),
            FlowControl::Call | FlowControl::IndirectCall => {
                registers.retain(|register, _| is_kept_by_calls(*register));
            }
            FlowControl::UnconditionalBranch => return self.note_target(instruction, &registers),
            _ => return,
        }
        self.registers = Some(registers);
    }

    fn note_target(&mut self, instruction: &Instruction, registers: &PhpRegisters) {
        let target = instruction.near_branch_target();
        if target <= instruction.ip() || target >= self.end {
            return;
        }
        let known = match self.at_targets.remove(&target) {
            Some(known) => common(known, registers),
            None => registers.clone(),
        };
        self.at_targets.insert(target, known);
    }

    /// Notes what an instruction reads, adds and writes.
    fn note(&mut self, instruction: &Instruction, registers: &PhpRegisters) {
        if matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Endbr64) {
            return;
        }
        if let Some(number) =
            (0..instruction.op_count()).find_map(|operand| instruction.try_immediate(operand).ok())
        {
            self.reads.numbers.push(number);
            if let Some(HeldValue::Path(path)) = registers.get(&instruction.op0_register().full_register())
                && instruction.mnemonic() == Mnemonic::Add
            {
                self.reads.sums.push(joined(path, number.cast_signed()));
            }
        }
        let has_memory =
            (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
        if !has_memory {
            return;
        }
        let bytes = instruction.memory_size().size();
        if instruction.op0_kind() == OpKind::Memory && instruction.mnemonic() == Mnemonic::Mov {
            if bytes == 4 && !instruction.is_ip_rel_memory_operand() {
                self.reads.written.push(instruction.memory_displacement64().cast_signed());
            }
            return;
        }
        match self.place(instruction, registers) {
            Some(path) if instruction.mnemonic() == Mnemonic::Lea => self.reads.sums.push(path),
            Some(path) => self.reads.fields.push(PhpRead { path, bytes }),
            None if instruction.is_ip_rel_memory_operand() && instruction.mnemonic() == Mnemonic::Mov => {
                self.reads.words.push(instruction.ip_rel_memory_address());
            }
            None => {}
        }
    }

    /// Brings the registers up to date after an instruction.
    fn change(&mut self, instruction: &Instruction, registers: &mut PhpRegisters) {
        let value = self.value(instruction, registers);
        for used in self.factory.info(instruction).used_registers() {
            if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None) {
                registers.remove(&used.register().full_register());
            }
        }
        if let Some(value) = value {
            registers.insert(instruction.op0_register(), value);
        }
    }

    /// What an instruction puts in its first operand.
    fn value(&self, instruction: &Instruction, registers: &PhpRegisters) -> Option<HeldValue> {
        if instruction.op0_kind() != OpKind::Register || instruction.op0_register().size() != 8 {
            return None;
        }
        match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov, OpKind::Register) => registers.get(&instruction.op1_register()).cloned(),
            (Mnemonic::Mov, OpKind::Memory) if self.address_word(instruction).is_some() => {
                self.address_word(instruction).map(HeldValue::Globals)
            }
            (Mnemonic::Mov, OpKind::Memory) => self
                .place(instruction, registers)
                .filter(|path| path.len() <= MOST_DEPTH)
                .map(HeldValue::Path),
            (Mnemonic::Lea, OpKind::Memory) if instruction.is_ip_rel_memory_operand() => {
                self.in_globals(instruction.ip_rel_memory_address()).map(HeldValue::Globals)
            }
            // A program at a fixed address.
            (Mnemonic::Mov, OpKind::Immediate32to64 | OpKind::Immediate64) => {
                self.in_globals(instruction.try_immediate(1).ok()?).map(HeldValue::Globals)
            }
            _ => None,
        }
    }

    /// The address in the globals that a constant word holds: a library finds them by its table of addresses.
    fn address_word(&self, instruction: &Instruction) -> Option<i64> {
        let address = instruction.ip_rel_memory_address();
        let is_constant = instruction.is_ip_rel_memory_operand() && self.in_globals(address).is_none();
        is_constant.then(|| self.in_globals(self.memory.u64(address)?)).flatten()
    }

    /// The field that a memory operand means.
    fn place(&self, instruction: &Instruction, registers: &PhpRegisters) -> Option<Vec<i64>> {
        if instruction.memory_index() != Register::None || instruction.segment_prefix() != Register::None {
            return None;
        }
        if instruction.is_ip_rel_memory_operand() {
            return self.in_globals(instruction.ip_rel_memory_address()).map(|offset| vec![offset]);
        }
        let displacement = instruction.memory_displacement64().cast_signed();
        match registers.get(&instruction.memory_base()) {
            Some(HeldValue::Globals(start)) => Some(vec![start.checked_add(displacement)?]),
            Some(HeldValue::Path(path)) => Some(joined(path, displacement)),
            None if instruction.memory_base() == Register::None => {
                self.in_globals(displacement.cast_unsigned()).map(|offset| vec![offset])
            }
            None => None,
        }
    }

    /// Distance of an address from the start of the globals, if it is in there.
    fn in_globals(&self, address: u64) -> Option<i64> {
        let offset = address.checked_sub(self.globals)?;
        (offset < super::layout::GLOBALS_SIZE).then_some(offset.cast_signed())
    }
}

/// A path with one step more.
fn joined(path: &[i64], step: i64) -> Vec<i64> {
    path.iter().copied().chain([step]).collect()
}

/// What two states of registers agree on.
fn common(mut registers: PhpRegisters, other: &PhpRegisters) -> PhpRegisters {
    registers.retain(|register, value| other.get(register) == Some(value));
    registers
}

/// True for registers that a called function leaves as they are.
fn is_kept_by_calls(register: Register) -> bool {
    matches!(
        register,
        Register::RBX | Register::RBP | Register::R12 | Register::R13 | Register::R14 | Register::R15
    )
}
