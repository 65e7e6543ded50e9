//! What short functions of the interpreter read, from their instructions: which fields of the interpreter and of stacks,
//! and how large a block is.
//!
//! Instructions are followed in order of address, without jumping. What a register holds is forgotten where that is not
//! known. That is good for finding what a function may do, which is compared with what is known of its version.

use super::layout::TYPE_MASK;
use crate::runtimes::TargetMemory;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use rustc_hash::FxHashMap;

/// Most bytes of a function that are read.
const MOST_BYTES: usize = 4096;
/// Most pointers followed.
const MOST_DEPTH: usize = 4;
/// Constants are no larger.
const MOST_SCALE: i64 = 1 << 12;

/// Stands for the result of a function, whose address is the root.
const RESULT: i64 = i64::MIN;

/// A place in memory: offsets from the first argument on, or from a constant address, every one but the last followed as a
/// pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PerlPlace {
    /// `None`: the function's first argument.
    pub(super) root: Option<u64>,
    pub(super) offsets: Vec<i64>,
}

/// What a register holds: what a place holds, plus a number of another place multiplied, plus a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PerlValue {
    /// `None`: nothing, so that the value is a number. Without offsets: the root itself.
    base: Option<PerlPlace>,
    index: Option<(PerlPlace, i64)>,
    constant: i64,
    /// The register holds the type of a block, less the constant.
    is_type: bool,
}

/// An address within an array whose place and index are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PerlElement {
    /// Where the array's address is.
    pub(super) array: PerlPlace,
    /// Where the index is.
    pub(super) index: PerlPlace,
    pub(super) size: i64,
    pub(super) offset: i64,
}

/// What a function does with memory.
#[derive(Debug, Default)]
pub(super) struct PerlAccesses {
    /// Places read or compared.
    pub(super) reads: Vec<PerlPlace>,
    /// Places written with what another place holds: `(to, from)`.
    pub(super) copies: Vec<(PerlPlace, PerlPlace)>,
    /// Elements of arrays, read or compared.
    pub(super) elements: Vec<PerlElement>,
    /// Numbers that types of blocks are compared with.
    pub(super) types: Vec<i64>,
    /// Constant addresses put in a register.
    pub(super) constants: Vec<u64>,
    /// Targets of direct calls, and of jumps out of what was read.
    pub(super) targets: Vec<u64>,
}

/// Reads `size` bytes of code at `address`, or fewer where that is all that can be read; empty if nothing can be.
pub(super) fn accesses(memory: &impl TargetMemory, address: u64, size: usize) -> PerlAccesses {
    let sizes = [size.min(MOST_BYTES), 2048, 512, 128, 64, 32, 16];
    let bytes = (sizes.into_iter().filter(|&part| part <= size))
        .find_map(|size| memory.range(address, size as u64, MOST_BYTES))
        .unwrap_or_default();
    accesses_of(&bytes, address)
}

/// The same of code that was read.
pub(super) fn accesses_of(bytes: &[u8], address: u64) -> PerlAccesses {
    let mut reader = PerlAccessReader {
        registers: FxHashMap::default(),
        factory: InstructionInfoFactory::new(),
        accesses: PerlAccesses::default(),
        code: address..address.saturating_add(bytes.len() as u64),
    };
    let argument = PerlPlace { root: None, offsets: Vec::new() };
    reader.registers.insert(Register::RDI, PerlValue::of(argument));
    for instruction in &mut Decoder::with_ip(64, bytes, address, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            break;
        }
        reader.step(&instruction);
    }
    reader.accesses
}

impl PerlValue {
    fn of(base: PerlPlace) -> Self {
        PerlValue { base: Some(base), index: None, constant: 0, is_type: false }
    }

    fn number(constant: i64) -> Self {
        PerlValue { base: None, index: None, constant, is_type: false }
    }

    fn plus(&self, other: &PerlValue) -> Option<PerlValue> {
        let base = match (&self.base, &other.base) {
            (Some(_), Some(_)) => return None,
            (one, another) => one.clone().or_else(|| another.clone()),
        };
        let index = match (&self.index, &other.index) {
            (Some((one, by)), Some((another, more))) if one == another => {
                Some((one.clone(), by.checked_add(*more)?))
            }
            (Some(_), Some(_)) => return None,
            (one, another) => one.clone().or_else(|| another.clone()),
        };
        let constant = self.constant.checked_add(other.constant)?;
        Some(PerlValue { base, index, constant, is_type: false })
    }

    fn times(&self, factor: i64) -> Option<PerlValue> {
        if factor == 1 {
            return Some(self.clone());
        }
        let index = match &self.index {
            Some((place, by)) => {
                Some((place.clone(), by.checked_mul(factor).filter(|by| by.abs() <= MOST_SCALE)?))
            }
            None => None,
        };
        let constant = self.constant.checked_mul(factor)?;
        self.base.is_none().then_some(PerlValue { base: None, index, constant, is_type: false })
    }

    /// The place at this address, if that is one.
    fn place(&self) -> Option<PerlPlace> {
        let base =
            self.base.as_ref().filter(|base| self.index.is_none() && base.offsets.len() < MOST_DEPTH)?;
        let mut place = base.clone();
        place.offsets.push(self.constant);
        Some(place)
    }

    /// The element of an array at this address, if that is one.
    fn element(&self) -> Option<PerlElement> {
        let (index, size) = self.index.clone()?;
        Some(PerlElement { array: self.base.clone()?, index, size, offset: self.constant })
    }
}

struct PerlAccessReader {
    registers: FxHashMap<Register, PerlValue>,
    factory: InstructionInfoFactory,
    accesses: PerlAccesses,
    code: std::ops::Range<u64>,
}

impl PerlAccessReader {
    fn step(&mut self, instruction: &Instruction) {
        match instruction.flow_control() {
            // Compilers know which registers a function of their own leaves as they are.
            FlowControl::Call => {
                self.note_target(instruction);
                // Its result may be the number of a block.
                let result =
                    PerlPlace { root: Some(instruction.near_branch_target()), offsets: vec![RESULT] };
                self.registers
                    .insert(Register::RAX, PerlValue { index: Some((result, 1)), ..PerlValue::number(0) });
            }
            FlowControl::IndirectCall => {
                self.registers.retain(|register, _| is_kept_by_calls(*register));
            }
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                self.note_target(instruction)
            }
            FlowControl::Next => {
                self.note(instruction);
                let value = self.value(instruction);
                for used in self.factory.info(instruction).used_registers() {
                    if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None) {
                        self.registers.remove(&used.register().full_register());
                    }
                }
                if let Some(value) = value {
                    self.registers.insert(instruction.op0_register().full_register(), value);
                }
            }
            _ => {}
        }
    }

    fn note_target(&mut self, instruction: &Instruction) {
        if instruction.op0_kind() == OpKind::NearBranch64
            && !self.code.contains(&instruction.near_branch_target())
        {
            self.accesses.targets.push(instruction.near_branch_target());
        }
    }

    /// Notes what an instruction reads, writes or compares.
    fn note(&mut self, instruction: &Instruction) {
        let mnemonic = instruction.mnemonic();
        if mnemonic == Mnemonic::Cmp && instruction.op0_kind() == OpKind::Register {
            let known = self.registers.get(&instruction.op0_register().full_register());
            if let (Some(value), Ok(number)) = (known, instruction.try_immediate(1))
                && value.is_type
            {
                self.accesses.types.push(i64::from(number as u8).wrapping_add(value.constant));
            }
        }
        let has_memory =
            (0..instruction.op_count()).any(|index| instruction.op_kind(index) == OpKind::Memory);
        if !has_memory || matches!(mnemonic, Mnemonic::Lea | Mnemonic::Nop | Mnemonic::Endbr64) {
            return;
        }
        let Some(address) = self.address(instruction) else { return };
        if let Some(element) = address.element() {
            self.accesses.elements.push(element);
        }
        let Some(place) = address.place() else { return };
        if mnemonic == Mnemonic::Mov && instruction.op0_kind() == OpKind::Memory {
            let from = (instruction.op1_kind() == OpKind::Register)
                .then(|| self.registers.get(&instruction.op1_register()))
                .flatten();
            let from = from.filter(|value| value.index.is_none() && value.constant == 0);
            if let Some(from) = from.and_then(|value| value.base.clone()) {
                self.accesses.copies.push((place, from));
            }
            return;
        }
        self.accesses.reads.push(place);
    }

    /// Address of an instruction's memory.
    fn address(&self, instruction: &Instruction) -> Option<PerlValue> {
        if instruction.segment_prefix() != Register::None {
            return None;
        }
        if instruction.is_ip_rel_memory_operand() {
            let address = instruction.ip_rel_memory_address();
            return Some(PerlValue::of(PerlPlace { root: Some(address), offsets: Vec::new() }));
        }
        let part = |register: Register, factor: i64| match register {
            Register::None => Some(PerlValue::number(0)),
            _ => self.registers.get(&register.full_register()).filter(|value| !value.is_type)?.times(factor),
        };
        let scale = instruction.memory_index_scale().into();
        let sum = part(instruction.memory_base(), 1)?.plus(&part(instruction.memory_index(), scale)?)?;
        sum.plus(&PerlValue::number(instruction.memory_displacement64().cast_signed()))
    }

    /// Value that an instruction puts in its first operand, if that is a register.
    fn value(&mut self, instruction: &Instruction) -> Option<PerlValue> {
        if instruction.op0_kind() != OpKind::Register {
            return None;
        }
        let register = |index| match instruction.op_kind(index) {
            OpKind::Register => self.registers.get(&instruction.op_register(index).full_register()),
            _ => None,
        };
        let number = instruction.try_immediate(1).ok().map(u64::cast_signed);
        let own = register(0).cloned();
        match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov | Mnemonic::Movsxd | Mnemonic::Movzx, OpKind::Register) => register(1).cloned(),
            (Mnemonic::Mov | Mnemonic::Movsxd, OpKind::Memory) => self.loaded(instruction),
            // The first byte of an element is the type of a block.
            (Mnemonic::Movzx, OpKind::Memory) => {
                self.address(instruction)?.element().filter(|element| element.offset == 0)?;
                Some(PerlValue { is_type: true, ..PerlValue::number(0) })
            }
            (Mnemonic::Cdqe, _) => self.registers.get(&Register::RAX).cloned(),
            (Mnemonic::Lea, _) => {
                let address = self.address(instruction)?;
                let root =
                    address.base.as_ref().filter(|base| base.offsets.is_empty()).and_then(|base| base.root);
                self.accesses.constants.extend(root);
                Some(address)
            }
            (Mnemonic::Add, OpKind::Register) => own?.plus(register(1)?),
            (Mnemonic::Add, OpKind::Memory) => own?.plus(&self.loaded(instruction)?),
            (Mnemonic::Shl, _) => own?.times(1_i64.checked_shl(u32::try_from(number?).ok()?)?),
            (Mnemonic::Imul, OpKind::Register) if instruction.op_count() == 3 => {
                register(1)?.times(instruction.try_immediate(2).ok()?.cast_signed())
            }
            (Mnemonic::And, _) if number == Some(TYPE_MASK.into()) => own.filter(|value| value.is_type),
            (Mnemonic::Sub, _) => {
                let own = own.filter(|value| value.is_type)?;
                Some(PerlValue { constant: own.constant.checked_add(number?)?, ..own })
            }
            _ => None,
        }
    }

    /// What an instruction loads: a pointer, or a number of 32 bits.
    fn loaded(&self, instruction: &Instruction) -> Option<PerlValue> {
        let place = self.address(instruction)?.place()?;
        let is_number = instruction.mnemonic() == Mnemonic::Movsxd || instruction.op0_register().size() == 4;
        Some(match is_number {
            true => PerlValue { index: Some((place, 1)), ..PerlValue::number(0) },
            false => PerlValue::of(place),
        })
    }
}

/// True for registers that a called function leaves as they are.
fn is_kept_by_calls(register: Register) -> bool {
    matches!(
        register,
        Register::RBX | Register::RBP | Register::R12 | Register::R13 | Register::R14 | Register::R15
    )
}
