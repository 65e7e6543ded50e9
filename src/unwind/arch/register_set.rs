//! Registers that functions do not write.
//!
//! Hand-written functions keep a caller's frame in a register that the ABI lets every function overwrite (`mov %rsp,
//! %rcx` around calls of their own parts). Where all instructions that such a call can reach are known, and none writes
//! that register, it has the same value at every moment until the call returns.

use crate::unwind::code::bytes::CodeSections;
use iced_x86::{
    Code as Operation, Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, OpAccess, Register,
};
use rustc_hash::FxHashSet;

/// Instructions of a function, with those that it calls, that are looked at.
const MAX_INSTRUCTIONS: usize = 4096;

/// A set of general registers, by DWARF number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegisterSet(u16);

impl RegisterSet {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) fn contains(self, register: usize) -> bool {
        register < 16 && self.0 >> register & 1 != 0
    }

    fn remove(&mut self, register: usize) {
        self.0 &= !(1 << (register & 15));
    }
}

/// The registers that neither a function nor anything that it calls writes before it returns: none, where its
/// instructions lead out of code without entries, or cannot be followed.
pub(crate) fn kept_by(code: &CodeSections<'_>, start: u64, info: &mut InstructionInfoFactory) -> RegisterSet {
    let mut kept = RegisterSet(u16::MAX);
    let mut seen: FxHashSet<u64> = FxHashSet::default();
    let mut waiting = vec![start];
    while let Some(from) = waiting.pop() {
        let Some(holder) = code.holder(from) else { return RegisterSet::EMPTY };
        let mut decoder = Decoder::with_ip(64, &holder.bytes, holder.start, DecoderOptions::NONE);
        let mut at = from;
        while seen.insert(at) {
            let position = usize::try_from(at.wrapping_sub(holder.start)).unwrap_or(usize::MAX);
            if seen.len() > MAX_INSTRUCTIONS
                || decoder.set_position(position).is_err()
                || !decoder.can_decode()
            {
                return RegisterSet::EMPTY;
            }
            decoder.set_ip(at);
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return RegisterSet::EMPTY;
            }
            for used in info.info(&instruction).used_registers().iter().filter(|used| is_write(used.access()))
            {
                if let Some(register) = general(used.register().full_register()) {
                    kept.remove(register);
                }
            }
            at = instruction.next_ip();
            match (instruction.flow_control(), instruction.code()) {
                // `hlt` and what raises an exception is not followed by anything.
                (FlowControl::Return | FlowControl::Exception, _) | (_, Operation::Hlt) => break,
                (FlowControl::Next, _) => {}
                (FlowControl::ConditionalBranch, _) | (_, Operation::Call_rel32_64) => {
                    waiting.push(instruction.near_branch_target());
                }
                (FlowControl::UnconditionalBranch, _) => {
                    waiting.push(instruction.near_branch_target());
                    break;
                }
                _ => return RegisterSet::EMPTY,
            }
        }
    }
    kept
}

/// iced-x86's order of the general registers (rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 …) in DWARF numbers.
const DWARF: [u8; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// The DWARF number of a 64-bit general register.
pub(crate) fn general(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| usize::from(DWARF[register.number() & 15]))
}

pub(crate) fn is_write(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::code::bytes::CodeBytes;

    fn kept(bytes: &[u8]) -> RegisterSet {
        let code = [CodeBytes { start: 0x1000, bytes: bytes.to_vec() }];
        kept_by(&CodeSections(&code), 0x1000, &mut InstructionInfoFactory::new())
    }

    fn written(kept: RegisterSet) -> Vec<usize> {
        (0..16).filter(|&register| !kept.contains(register)).collect()
    }

    #[test]
    fn what_is_written_on_any_way_and_in_any_callee_counts() {
        let code = [
            0x74, 0x02, // je 0x1004
            0x31, 0xc0, // xor eax, eax
            0xe8, 0x01, 0x00, 0x00, 0x00, // call 0x100a
            0xc3, // ret
            0x41, 0x89, 0xd8, // mov r8d, ebx
            0x39, 0xca, // cmp edx, ecx
            0xc3, // ret
        ];
        assert_eq!(written(kept(&code)), [0, 7, 8]);
    }

    #[test]
    fn where_code_leads_is_unknown_no_register_is_kept() {
        assert_eq!(kept(&[0xff, 0xd0, 0xc3]), RegisterSet::EMPTY, "call *%rax");
        assert_eq!(kept(&[0xff, 0xe0]), RegisterSet::EMPTY, "jmp *%rax");
        assert_eq!(kept(&[0xe9, 0, 0x10, 0, 0]), RegisterSet::EMPTY, "jmp to somewhere else");
        assert_eq!(kept(&[0x90]), RegisterSet::EMPTY, "the code ends");
    }

    #[test]
    fn a_loop_is_looked_at_once() {
        assert_eq!(written(kept(&[0xff, 0xca, 0x75, 0xfc, 0xc3])), [1, 7], "dec edx; jne; ret");
    }
}
