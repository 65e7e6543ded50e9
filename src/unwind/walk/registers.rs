//! What is known about the processor in one frame.

use super::stack::{FoundBy, FrameAddress};
use crate::elf::Architecture;
use crate::unwind::arch::architecture::MAX_REGISTERS;
use crate::unwind::rule::{RBP, RSP};

/// The general registers of x86-64 in DWARF order: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 … r15.
pub(crate) const GENERAL_REGISTERS: usize = 16;

/// All registers of an interrupted thread on x86-64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// General registers, indexed by DWARF number.
    pub general: [u64; GENERAL_REGISTERS],
    /// The next instruction's address.
    pub rip: u64,
}

/// All registers of an interrupted thread on arm64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aarch64Registers {
    /// x0 to x30, then sp: by DWARF number.
    pub general: [u64; MAX_REGISTERS],
    /// The next instruction's address.
    pub pc: u64,
    /// Bits of a return address that hold a signature (pointer authentication).
    pub signature_mask: u64,
}

/// Values of general registers by DWARF number, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameRegisters {
    /// 0 where it is not known.
    values: [u64; MAX_REGISTERS],
    /// Bit n: that of register n is known.
    known: u32,
}

impl FrameRegisters {
    /// The value of a register; `None` where it is unknown or there is no such register.
    pub(crate) fn get(&self, number: u8) -> Option<u64> {
        let value = self.values.get(usize::from(number))?;
        (self.known >> number & 1 != 0).then_some(*value)
    }

    /// Sets the value of a register, or that it is unknown. Numbers that no register has are left out.
    pub(crate) fn set(&mut self, number: u8, value: Option<u64>) {
        if let Some(place) = self.values.get_mut(usize::from(number)) {
            *place = value.unwrap_or(0);
            self.known = self.known & !(1 << number) | u32::from(value.is_some()) << number;
        }
    }

    /// Forgets all registers but those of which bits are set, whose values stay.
    fn forget_all_but(&mut self, kept: u32) {
        // Nearly always there is nothing to forget: that is what makes a step cheap.
        if self.known & !kept != 0 {
            let numbers = 0..MAX_REGISTERS as u8;
            numbers.filter(|number| kept >> number & 1 == 0).for_each(|number| self.set(number, None));
        }
    }
}

impl FromIterator<(u8, u64)> for FrameRegisters {
    /// Those that are known, with their numbers.
    fn from_iter<I: IntoIterator<Item = (u8, u64)>>(values: I) -> Self {
        let mut known = Self::default();
        values.into_iter().for_each(|(number, value)| known.set(number, Some(value)));
        known
    }
}

/// State of a walk: an address in a frame's code, and the registers known there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameState {
    /// The processor.
    pub architecture: Architecture,
    /// Bits of a return address that are not part of the address; 0 on x86-64.
    pub signature_mask: u64,
    /// The address of the instruction that runs, or that the frame returns to.
    pub pc: u64,
    /// Whether `pc` follows a call (or a system call instruction): it then belongs to the code one byte
    /// before it.
    pub is_return_address: bool,
    /// The stack pointer is at or above the value in `general`, more is not known: the frame was found by
    /// a frame record that may lie anywhere in the frame below.
    pub is_sp_hidden: bool,
    /// Address of the thread's own data (fs on x86-64); `None` where memory outside the stack cannot be read.
    pub thread_pointer: Option<u64>,
    /// General registers.
    pub general: FrameRegisters,
}

impl FrameState {
    /// An interrupted thread: every register is known, and `rip` is exact.
    pub fn interrupted(registers: &Registers) -> Self {
        let general = (0..).zip(registers.general).collect();
        Self { general, is_return_address: false, ..Self::caller(registers.rip, 0, 0) }
    }

    /// Returns the state of an interrupted thread, like [`FrameState::interrupted`], on arm64.
    pub fn interrupted_aarch64(registers: &Aarch64Registers) -> Self {
        Self {
            architecture: Architecture::Aarch64,
            signature_mask: registers.signature_mask,
            pc: registers.pc,
            is_return_address: false,
            is_sp_hidden: false,
            thread_pointer: None,
            general: (0..).zip(registers.general).collect(),
        }
    }

    /// A thread in a system call: every register is known, and `rip` is after the instruction.
    pub fn in_system_call(registers: &Registers) -> Self {
        Self { is_return_address: true, ..Self::interrupted(registers) }
    }

    /// A caller on x86-64, such as the frame where the kernel's walk stopped: only rsp and rbp are known.
    pub fn caller(pc: u64, rsp: u64, rbp: u64) -> Self {
        let mut general = FrameRegisters::default();
        general.set(RSP, Some(rsp));
        general.set(RBP, Some(rbp));
        Self {
            architecture: Architecture::X86_64,
            signature_mask: 0,
            pc,
            is_return_address: true,
            is_sp_hidden: false,
            thread_pointer: None,
            general,
        }
    }

    /// The caller of this frame: only the stack pointer and perhaps the frame pointer are known.
    pub(super) fn caller_of(&self, return_address: u64, cfa: u64, frame_pointer: Option<u64>) -> CallerFrame {
        CallerFrame {
            pc: return_address & !self.signature_mask,
            is_return_address: true,
            is_sp_hidden: false,
            registers: CallerRegisters::Carried { stack_pointer: cfa, frame_pointer },
        }
    }

    /// Goes on to the frame above.
    pub(super) fn become_caller(&mut self, caller: CallerFrame) {
        self.pc = caller.pc;
        self.is_return_address = caller.is_return_address;
        self.is_sp_hidden = caller.is_sp_hidden;
        match caller.registers {
            CallerRegisters::Carried { stack_pointer, frame_pointer } => {
                let (sp, fp) = (self.architecture.stack_pointer(), self.architecture.frame_pointer());
                self.general.forget_all_but(1 << sp | 1 << fp);
                self.general.set(sp, Some(stack_pointer));
                self.general.set(fp, frame_pointer);
            }
            CallerRegisters::Whole(general) => self.general = *general,
        }
    }

    /// The frame itself.
    pub(super) fn frame(&self, found_by: FoundBy) -> FrameAddress {
        FrameAddress {
            address: self.pc,
            is_return_address: self.is_return_address,
            found_by,
            frame_pointer: self.frame_pointer(),
            note: None,
        }
    }

    /// The address to look `pc` up by.
    pub fn lookup_address(&self) -> u64 {
        self.pc.wrapping_sub(u64::from(self.is_return_address))
    }

    /// The value of a register, or `None` where it is unknown or there is no such register.
    pub(crate) fn register(&self, number: u8) -> Option<u64> {
        self.general.get(number)
    }

    pub(crate) fn stack_pointer(&self) -> Option<u64> {
        self.register(self.architecture.stack_pointer())
    }

    pub(crate) fn frame_pointer(&self) -> Option<u64> {
        self.register(self.architecture.frame_pointer())
    }
}

/// What a step finds out of the frame above. Small: of nearly all frames two registers are known.
#[derive(Debug)]
pub(super) struct CallerFrame {
    /// The address that the frame returns to, or of the instruction that a signal has interrupted.
    pub(super) pc: u64,
    /// As in [`FrameState`].
    pub(super) is_return_address: bool,
    /// As in [`FrameState`].
    pub(super) is_sp_hidden: bool,
    pub(super) registers: CallerRegisters,
}

/// Registers of the frame above.
#[derive(Debug)]
pub(super) enum CallerRegisters {
    /// The two that rules carry along.
    Carried { stack_pointer: u64, frame_pointer: Option<u64> },
    /// All that are known, after a step that keeps more than these.
    Whole(Box<FrameRegisters>),
}

impl CallerFrame {
    /// The address to look `pc` up by.
    pub(super) fn lookup_address(&self) -> u64 {
        self.pc.wrapping_sub(u64::from(self.is_return_address))
    }
}
