//! What a short exported function reads, from its instructions: which fields of its first argument, which constant
//! addresses, which thread-local words.
//!
//! Instructions are followed in order of address. The state at the target of a forward jump is kept for when that
//! address is reached, so that nothing is believed of code which the function does not run.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, MemorySize, Mnemonic,
    OpAccess, OpKind, Register,
};
use rustc_hash::FxHashMap;

use crate::runtimes::memory::TargetMemory;

/// Most bytes of a function that are read.
const MOST_BYTES: usize = 320;
/// Most pointers followed from the first argument.
const MOST_DEPTH: usize = 6;

/// KnownValue value of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KnownValue {
    Constant {
        value: u64,
        /// Address it was loaded from.
        from: Option<u64>,
    },
    /// Pointer found by following these offsets from the first argument.
    Path(Vec<i64>),
}

type KnownRegisters = FxHashMap<Register, KnownValue>;

/// First argument of a call that the function makes, where it is constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConstantArgument {
    pub(crate) value: u64,
    /// Address it was loaded from.
    pub(crate) from: Option<u64>,
}

/// What a function reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct FunctionAccesses {
    /// Fields read: offsets from the first argument on, every one but the last followed as a pointer.
    pub(crate) fields: Vec<Vec<i64>>,
    /// Addresses computed from fields, as `fields`, the last number added and not read.
    pub(crate) sums: Vec<Vec<i64>>,
    /// Constant addresses read.
    pub(crate) constants: Vec<u64>,
    /// Constant addresses or numbers put in a register.
    pub(crate) numbers: Vec<u64>,
    /// Offsets from the thread pointer read.
    pub(crate) thread_local: Vec<i64>,
    /// Constant first arguments of calls.
    pub(crate) arguments: Vec<ConstantArgument>,
}

/// Reads the function at `address`; empty if its code cannot be read.
pub(crate) fn accesses(memory: &impl TargetMemory, address: u64) -> FunctionAccesses {
    // A function at the end of a mapping is shorter than the window.
    let bytes = [MOST_BYTES, 128, 64, 32, 16]
        .into_iter()
        .find_map(|size| memory.range(address, size as u64, MOST_BYTES))
        .unwrap_or_default();
    let mut reader = AccessReader {
        memory,
        registers: Some(FxHashMap::from_iter([(Register::RDI, KnownValue::Path(Vec::new()))])),
        at_targets: FxHashMap::default(),
        end: address.saturating_add(bytes.len() as u64),
        factory: InstructionInfoFactory::new(),
        accesses: FunctionAccesses::default(),
    };
    for instruction in &mut Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            break;
        }
        reader.step(&instruction);
    }
    reader.accesses
}

struct AccessReader<'a, M> {
    memory: &'a M,
    /// What is known of registers; `None` where the code is not reached.
    registers: Option<KnownRegisters>,
    /// State at targets of forward jumps.
    at_targets: FxHashMap<u64, KnownRegisters>,
    end: u64,
    factory: InstructionInfoFactory,
    accesses: FunctionAccesses,
}

impl<M: TargetMemory> AccessReader<'_, M> {
    fn step(&mut self, instruction: &Instruction) {
        if self.registers.is_none() {
            self.registers = self.at_targets.remove(&instruction.ip());
        }
        let Some(mut registers) = self.registers.take() else { return };
        match instruction.flow_control() {
            FlowControl::Next => {
                self.note_memory(instruction, &registers);
                self.change(instruction, &mut registers);
            }
            FlowControl::ConditionalBranch => self.note_target(instruction, &registers),
            FlowControl::Call | FlowControl::IndirectCall => {
                self.note_argument(&registers);
                registers.retain(|register, _| is_kept_by_calls(*register));
            }
            FlowControl::UnconditionalBranch => {
                let target = instruction.near_branch_target();
                if target > instruction.ip() && target < self.end {
                    self.note_target(instruction, &registers);
                } else {
                    self.note_argument(&registers);
                }
                return;
            }
            FlowControl::IndirectBranch => {
                self.note_argument(&registers);
                return;
            }
            _ => return,
        }
        self.registers = Some(registers);
    }

    fn note_target(&mut self, instruction: &Instruction, registers: &KnownRegisters) {
        let target = instruction.near_branch_target();
        if target > instruction.ip() && target < self.end {
            self.at_targets.entry(target).or_insert_with(|| registers.clone());
        }
    }

    fn note_argument(&mut self, registers: &KnownRegisters) {
        if let Some(KnownValue::Constant { value, from }) = registers.get(&Register::RDI) {
            self.accesses.arguments.push(ConstantArgument { value: *value, from: *from });
        }
    }

    /// Notes what the memory operand of an instruction refers to.
    fn note_memory(&mut self, instruction: &Instruction, registers: &KnownRegisters) {
        let has_memory =
            (0..instruction.op_count()).any(|index| instruction.op_kind(index) == OpKind::Memory);
        let is_nop = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Endbr64);
        if !has_memory || is_nop {
            return;
        }
        let is_sum = instruction.mnemonic() == Mnemonic::Lea;
        match place(instruction, registers) {
            Some(OperandPlace::Field(path)) if is_sum => self.accesses.sums.push(path),
            Some(OperandPlace::Field(path)) => self.accesses.fields.push(path),
            Some(OperandPlace::Constant(address)) if !is_sum => self.accesses.constants.push(address),
            Some(OperandPlace::ThreadLocal(offset)) => self.accesses.thread_local.push(offset),
            Some(OperandPlace::Constant(_)) | None => {}
        }
    }

    /// Brings the known registers up to date after an instruction.
    fn change(&mut self, instruction: &Instruction, registers: &mut KnownRegisters) {
        let value = self.value(instruction, registers);
        for used in self.factory.info(instruction).used_registers() {
            if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None) {
                registers.remove(&used.register().full_register());
            }
        }
        if let Some(value) = value {
            registers.insert(instruction.op0_register().full_register(), value);
        }
    }

    /// Value that an instruction puts in its first operand.
    fn value(&mut self, instruction: &Instruction, registers: &KnownRegisters) -> Option<KnownValue> {
        if instruction.op0_kind() != OpKind::Register || instruction.op0_register().size() < 4 {
            return None;
        }
        match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov, OpKind::Register) => {
                registers.get(&instruction.op1_register().full_register()).cloned()
            }
            (Mnemonic::Mov, OpKind::Memory) => self.loaded(instruction, registers),
            (Mnemonic::Mov, _) => {
                let value = instruction.try_immediate(1).ok()?;
                self.accesses.numbers.push(value);
                Some(KnownValue::Constant { value, from: None })
            }
            (Mnemonic::Lea, _) => match place(instruction, registers)? {
                OperandPlace::Constant(value) => {
                    self.accesses.numbers.push(value);
                    Some(KnownValue::Constant { value, from: None })
                }
                OperandPlace::Field(_) | OperandPlace::ThreadLocal(_) => None,
            },
            // A tag taken off a pointer.
            (Mnemonic::And, kind) if kind != OpKind::Register && kind != OpKind::Memory => {
                let known = registers.get(&instruction.op0_register().full_register())?;
                matches!(known, KnownValue::Path(_)).then(|| known.clone())
            }
            _ => None,
        }
    }

    fn loaded(&self, instruction: &Instruction, registers: &KnownRegisters) -> Option<KnownValue> {
        match place(instruction, registers)? {
            OperandPlace::Field(path) => {
                let is_pointer = instruction.memory_size() == MemorySize::UInt64 && path.len() <= MOST_DEPTH;
                is_pointer.then_some(KnownValue::Path(path))
            }
            OperandPlace::Constant(address) => {
                let value = match instruction.op0_register().size() {
                    8 => self.memory.u64(address)?,
                    _ => u64::from(self.memory.u32(address)?),
                };
                Some(KnownValue::Constant { value, from: Some(address) })
            }
            OperandPlace::ThreadLocal(_) => None,
        }
    }
}

/// What a memory operand refers to.
enum OperandPlace {
    Constant(u64),
    Field(Vec<i64>),
    ThreadLocal(i64),
}

fn place(instruction: &Instruction, registers: &KnownRegisters) -> Option<OperandPlace> {
    let displacement = instruction.memory_displacement64();
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    let known = registers.get(&base.full_register());
    if instruction.segment_prefix() == Register::FS {
        let start = match (base, known) {
            (Register::None, _) => 0,
            (_, Some(KnownValue::Constant { value, .. })) => *value,
            _ => return None,
        };
        return (index == Register::None)
            .then_some(OperandPlace::ThreadLocal(start.wrapping_add(displacement).cast_signed()));
    }
    if instruction.is_ip_rel_memory_operand() {
        return Some(OperandPlace::Constant(instruction.ip_rel_memory_address()));
    }
    let mut parts = [base, index].into_iter().filter_map(|part| registers.get(&part.full_register()));
    match (known, index) {
        (None, Register::None) if base == Register::None => Some(OperandPlace::Constant(displacement)),
        (Some(KnownValue::Constant { value, .. }), Register::None) => {
            Some(OperandPlace::Constant(value.wrapping_add(displacement)))
        }
        _ => parts.find_map(|part| match part {
            KnownValue::Path(path) => {
                let mut path = path.clone();
                path.push(displacement.cast_signed());
                Some(OperandPlace::Field(path))
            }
            KnownValue::Constant { .. } => None,
        }),
    }
}

/// True for registers that a called function leaves as they are.
fn is_kept_by_calls(register: Register) -> bool {
    matches!(
        register,
        Register::RBX | Register::RBP | Register::R12 | Register::R13 | Register::R14 | Register::R15
    )
}
