//! perf's numbers of registers (`arch/*/include/uapi/asm/perf_regs.h` of the Linux kernel), and the DWARF numbers of the same.

use crate::elf::Architecture;

/// DWARF's numbers of perf's first eight registers of x86-64: ax, bx, cx, dx, si, di, bp, sp.
const X86_64_LOW: [u8; 8] = [0, 3, 2, 1, 4, 5, 6, 7];
/// perf's numbers of the instruction pointer, and of r8; the seven after that follow it.
const X86_64_IP: u32 = 8;
const X86_64_R8: u32 = 16;
/// perf's number of the program counter of arm64; those before it are DWARF's.
const AARCH64_PC: u32 = 32;
/// DWARF's numbers of rbx and r12 to r15.
const UNSAVED_IN_NMI: [u8; 5] = [3, 12, 13, 14, 15];

/// What one of perf's registers is for a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PerfRegister {
    /// A general register or the stack pointer, with its DWARF number.
    General(u8),
    /// The program counter.
    ProgramCounter,
    /// One that no walk asks for.
    Other,
}

impl PerfRegister {
    /// The register of perf's number.
    pub(crate) fn of(architecture: Architecture, number: u32) -> Self {
        match (architecture, number) {
            (Architecture::X86_64, X86_64_IP) | (Architecture::Aarch64, AARCH64_PC) => {
                PerfRegister::ProgramCounter
            }
            (Architecture::X86_64, 0..8) => PerfRegister::General(X86_64_LOW[number as usize]),
            (Architecture::X86_64, X86_64_R8..24) => PerfRegister::General((number - X86_64_R8 + 8) as u8),
            (Architecture::Aarch64, 0..AARCH64_PC) => PerfRegister::General(number as u8),
            _ => PerfRegister::Other,
        }
    }

    /// Those that a walk asks for, as the mask that perf takes.
    pub(crate) fn walk_mask(architecture: Architecture) -> u64 {
        let is_asked_for = |number: &u32| Self::of(architecture, *number) != PerfRegister::Other;
        (0..u64::BITS).filter(is_asked_for).fold(0, |mask, number| mask | 1 << number)
    }
}

/// Whether the registers of user code in `general`, by DWARF number, are those that the kernel has in an NMI: it does not have
/// rbx and r12 to r15 then, and says -1 (perf_get_regs_user).
pub(crate) fn lacks_unsaved(architecture: Architecture, general: impl Fn(u8) -> Option<u64>) -> bool {
    architecture == Architecture::X86_64
        && UNSAVED_IN_NMI.iter().all(|&number| general(number) == Some(u64::MAX))
}

/// The DWARF numbers of the registers that [`lacks_unsaved`] is about.
pub(crate) const fn unsaved() -> [u8; 5] {
    UNSAVED_IN_NMI
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_asks_for_every_general_register_and_the_program_counter() {
        assert_eq!(PerfRegister::walk_mask(Architecture::X86_64), 0xff_01ff);
        assert_eq!(PerfRegister::walk_mask(Architecture::Aarch64), (1 << 33) - 1);
        for architecture in [Architecture::X86_64, Architecture::Aarch64] {
            let mut numbers: Vec<u8> = (0..u64::BITS)
                .filter_map(|number| match PerfRegister::of(architecture, number) {
                    PerfRegister::General(dwarf) => Some(dwarf),
                    _ => None,
                })
                .collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..architecture.register_count()), "each of them once");
        }
    }

    #[test]
    fn flags_and_segments_are_no_registers_of_a_walk() {
        for number in 9..16 {
            assert_eq!(PerfRegister::of(Architecture::X86_64, number), PerfRegister::Other, "{number}");
        }
    }
}
