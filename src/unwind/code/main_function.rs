//! Where `main` begins, by the code that starts a program: it gives `main` to the C library as its first argument.
//!
//! That proves a function where nothing else does: a `main` that never returns has no instruction that would, and
//! rustc's has no unwind entry where panics abort.

use super::bytes::ENDBR64;
use crate::elf::ElfImage;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Register};

/// glibc's `_start` up to where it loads arguments (sysdeps/x86_64/start.S): `xor %ebp, %ebp; mov %rdx, %r9; pop %rsi;
/// mov %rsp, %rdx; and $-16, %rsp; push %rax; push %rsp`.
const GLIBC_START: [u8; 15] =
    [0x31, 0xed, 0x49, 0x89, 0xd1, 0x5e, 0x48, 0x89, 0xe2, 0x48, 0x83, 0xe4, 0xf0, 0x50, 0x54];
/// musl's `_start` (arch/x86_64/crt_arch.h): `xor %rbp, %rbp; mov %rsp, %rdi`. It calls `_start_c`.
const MUSL_START: [u8; 6] = [0x48, 0x31, 0xed, 0x48, 0x89, 0xe7];
/// `lea 8(%rdi), %rdx`, in `_start_c`: the arguments of the program lie after their number.
const MUSL_ARGUMENTS: [u8; 4] = [0x48, 0x8d, 0x57, 0x08];
/// All of either is shorter, in bytes.
const MAX_BYTES: u64 = 96;

/// The address of a program's `main`, if its entry point is one that is known.
pub(crate) fn find(image: &ElfImage) -> Option<u64> {
    let entry = image.entry();
    if entry == 0 {
        return None;
    }
    let code = read(image, entry)?;
    let body = code.strip_prefix(&ENDBR64[..]).unwrap_or(&code);
    if body.starts_with(&GLIBC_START) {
        return first_argument(&code, entry);
    }
    if !body.starts_with(&MUSL_START) {
        return None;
    }
    let next = decode(&code, entry).find(is_end).filter(|call| call.code() == Code::Call_rel32_64)?;
    let start_c = next.near_branch_target();
    let code = read(image, start_c)?;
    let end = decode(&code, start_c).find(is_end)?.next_ip().wrapping_sub(start_c);
    let body = code.get(..usize::try_from(end).ok()?)?;
    body.windows(MUSL_ARGUMENTS.len()).any(|bytes| bytes == MUSL_ARGUMENTS).then_some(())?;
    first_argument(&code, start_c)
}

fn read(image: &ElfImage, address: u64) -> Option<Vec<u8>> {
    let holder =
        image.segments().iter().find(|s| s.address <= address && address - s.address < s.file_size)?;
    let size = (holder.file_size - (address - holder.address)).min(MAX_BYTES);
    image.read_address(address, size).ok()
}

fn decode(code: &[u8], start: u64) -> impl Iterator<Item = Instruction> {
    let decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    decoder.into_iter().take_while(|instruction| !instruction.is_invalid())
}

/// Whether what comes next is not known.
fn is_end(instruction: &Instruction) -> bool {
    instruction.flow_control() != FlowControl::Next
}

/// The code address in rdi where the first call or jump is.
fn first_argument(code: &[u8], start: u64) -> Option<u64> {
    let mut argument = None;
    for instruction in decode(code, start) {
        if is_end(&instruction) {
            let is_call = matches!(
                instruction.flow_control(),
                FlowControl::Call
                    | FlowControl::IndirectCall
                    | FlowControl::UnconditionalBranch
                    | FlowControl::IndirectBranch
            );
            return argument.filter(|_| is_call);
        }
        if instruction.op0_register().full_register() == Register::RDI {
            argument = match instruction.code() {
                Code::Lea_r64_m if instruction.is_ip_rel_memory_operand() => {
                    Some(instruction.ip_rel_memory_address())
                }
                Code::Mov_r32_imm32 | Code::Mov_rm64_imm32 => Some(instruction.immediate(1)),
                _ => None,
            };
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_argument_is_what_was_last_loaded() {
        let lea = [0x48, 0x8d, 0x3d, 0xf9, 0x0f, 0, 0];
        let call = [0xff, 0x15, 0, 0, 0, 0];
        let of = |parts: &[&[u8]]| first_argument(&parts.concat(), 0x1000);
        assert_eq!(of(&[&lea, &call]), Some(0x2000));
        assert_eq!(of(&[&lea, &[0x31, 0xf6], &call]), Some(0x2000), "xor %esi, %esi");
        assert_eq!(of(&[&lea, &[0x31, 0xff], &call]), None, "xor %edi, %edi");
        assert_eq!(of(&[&[0x48, 0xc7, 0xc7, 0, 0x20, 0x40, 0], &call]), Some(0x40_2000), "mov $x, %rdi");
        assert_eq!(
            of(&[&[0xbf, 0, 0x20, 0x40, 0], &[0xe9, 0, 0, 0, 0]]),
            Some(0x40_2000),
            "mov $x, %edi; jmp"
        );
        assert_eq!(of(&[&lea, &[0xc3], &call]), None, "nothing is called");
        assert_eq!(of(&[&lea]), None);
    }
}
