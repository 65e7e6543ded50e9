//! What unwinding has to know of a processor: register numbers, and what calls and signals do.
//!
//! DWARF numbers: System V psABI for x86-64, figure 3.36; DWARF for the Arm 64-bit Architecture, 4.1.
//! Signal frames: `struct rt_sigframe` of the Linux kernel for each.

use crate::elf::Architecture;
use gimli::{AArch64, Register, Vendor, X86_64};

/// Registers of the processor that has most: x0 to x30 and sp.
pub(crate) const MAX_REGISTERS: usize = 32;

/// Bits 54 to 48: where signatures of return addresses lie when user addresses have 48 bits.
pub const SIGNATURE_MASK_48_BITS: u64 = 0x007f_0000_0000_0000;

/// The bits of a return address that pointer authentication may use, from an address near the upper end of
/// the address space, such as one on a process's first stack: bit 54 down to the first that no address
/// needs. User addresses have 36 to 52 bits, as the kernel was built (`arch/arm64/Kconfig`, `VA_BITS`).
pub(crate) const fn signature_mask_of(highest_address: u64) -> u64 {
    let bits = u64::BITS - highest_address.leading_zeros();
    let bits = if bits < 36 { 36 } else { bits };
    let below_55 = (1 << 55) - 1;
    if bits >= 55 { 0 } else { below_55 & !((1 << bits) - 1) }
}

impl Architecture {
    /// The stack pointer's number.
    pub const fn stack_pointer(self) -> u8 {
        match self {
            Self::X86_64 => 7,
            Self::Aarch64 => 31,
        }
    }

    /// The frame pointer's number: rbp, x29.
    pub const fn frame_pointer(self) -> u8 {
        match self {
            Self::X86_64 => 6,
            Self::Aarch64 => 29,
        }
    }

    /// The register that a call leaves the return address in.
    pub const fn link_register(self) -> Option<u8> {
        match self {
            Self::X86_64 => None,
            Self::Aarch64 => Some(30),
        }
    }

    /// General registers, stack pointer included; their numbers are those below this.
    pub const fn register_count(self) -> u8 {
        match self {
            Self::X86_64 => 16,
            Self::Aarch64 => 32,
        }
    }

    /// Whether a frame record (the saved frame pointer and the return address) lies at the upper end of
    /// its frame, so that its address tells the caller's stack pointer.
    pub(crate) const fn frame_record_tells_stack_pointer(self) -> bool {
        matches!(self, Self::X86_64)
    }

    /// The number under which entries describe the return address.
    pub(crate) const fn return_address(self) -> Register {
        match self {
            Self::X86_64 => X86_64::RA,
            Self::Aarch64 => AArch64::X30,
        }
    }

    /// Whose extensions of call frame instructions entries use.
    pub(crate) const fn vendor(self) -> Vendor {
        match self {
            Self::X86_64 => Vendor::Default,
            Self::Aarch64 => Vendor::AArch64,
        }
    }

    /// Returns the offset of a register in the kernel's signal frame, in bytes from the stack pointer that the code
    /// returning from the signal runs with.
    pub(crate) fn signal_frame_offset(self, number: u8) -> u64 {
        // gregs of struct sigcontext_64, by DWARF number.
        const X86_64: [u64; 16] = [144, 136, 152, 128, 112, 104, 120, 160, 40, 48, 56, 64, 72, 80, 88, 96];
        match self {
            Self::X86_64 => X86_64[usize::from(number & 15)],
            // siginfo of 128 bytes; ucontext up to its sigcontext of 176; fault_address of 8.
            Self::Aarch64 => 312 + 8 * u64::from(number),
        }
    }

    /// Returns the offset of the program counter, like [`Self::signal_frame_offset`].
    pub(crate) const fn signal_frame_pc_offset(self) -> u64 {
        match self {
            Self::X86_64 => 168,
            Self::Aarch64 => 312 + 8 * 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_fill_what_addresses_leave() {
        assert_eq!(signature_mask_of(0xffff_ffff_f000), SIGNATURE_MASK_48_BITS);
        assert_eq!(signature_mask_of(0x7f_c000_0000), 0x007f_ff80_0000_0000, "39 bits");
        assert_eq!(signature_mask_of(0), 0x007f_fff0_0000_0000, "no kernel has fewer than 36");
        assert_eq!(signature_mask_of(u64::MAX), 0);
    }

    #[test]
    fn numbers_agree_with_the_kernel_side() {
        let arm64 = include_str!("../../bpf/c/arch/aarch64.bpf.h");
        let x86 = include_str!("../../bpf/c/arch/x86_64.bpf.h");
        for (header, architecture) in [(arm64, Architecture::Aarch64), (x86, Architecture::X86_64)] {
            for (name, number) in [
                ("REG_BP", architecture.frame_pointer()),
                ("REG_SP", architecture.stack_pointer()),
                ("REG_IP", if architecture == Architecture::X86_64 { 16 } else { 32 }),
                ("REG_MASK", architecture.register_count() - 1),
            ] {
                assert!(header.contains(&format!("#define {name} {number}\n")), "{name} of {architecture:?}");
            }
            let tells = architecture.frame_record_tells_stack_pointer();
            assert!(header.contains(&format!("#define FRAME_RECORD_TELLS_SP {tells}\n")));
        }
        assert!(arm64.contains(&format!("signature_mask = {SIGNATURE_MASK_48_BITS:#018x}ULL")));
        let first = Architecture::Aarch64.signal_frame_offset(0);
        assert!(arm64.contains(&format!("#define SIGNAL_REGISTERS {first}\n")));
        assert_eq!(Architecture::Aarch64.signal_frame_pc_offset(), first + 32 * 8);
    }
}
