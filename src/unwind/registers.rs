//! What is known about the processor in one frame.

use super::rule::{RBP, RSP};

/// The general registers of x86-64 in DWARF order: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 … r15.
pub const GENERAL_REGISTERS: usize = 16;

/// All registers of an interrupted thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// General registers, indexed by DWARF number.
    pub general: [u64; GENERAL_REGISTERS],
    /// The next instruction's address.
    pub rip: u64,
}

/// Where a walk stands: an address in a frame's code, and the registers known there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameState {
    /// The address of the instruction that runs, or that the frame returns to.
    pub pc: u64,
    /// Whether `pc` follows a call (or a system call instruction): it then belongs to the code one byte
    /// before it.
    pub is_return_address: bool,
    /// General registers by DWARF number; `None` is unknown.
    pub general: [Option<u64>; GENERAL_REGISTERS],
}

impl FrameState {
    /// An interrupted thread: every register is known, and `rip` is exact.
    pub fn interrupted(registers: &Registers) -> Self {
        Self { pc: registers.rip, is_return_address: false, general: registers.general.map(Some) }
    }

    /// A thread in a system call: every register is known, and `rip` is after the instruction.
    pub fn in_system_call(registers: &Registers) -> Self {
        Self { is_return_address: true, ..Self::interrupted(registers) }
    }

    /// A caller, such as the frame where the kernel's walk stopped: only rsp and rbp are known.
    pub fn caller(pc: u64, rsp: u64, rbp: u64) -> Self {
        let mut general = [None; GENERAL_REGISTERS];
        general[usize::from(RSP)] = Some(rsp);
        general[usize::from(RBP)] = Some(rbp);
        Self { pc, is_return_address: true, general }
    }

    /// The address to look `pc` up by.
    pub fn lookup_address(&self) -> u64 {
        self.pc.wrapping_sub(u64::from(self.is_return_address))
    }

    /// The value of a register, or `None` where it is unknown or there is no such register.
    pub fn register(&self, number: u8) -> Option<u64> {
        self.general.get(usize::from(number)).copied().flatten()
    }
}
