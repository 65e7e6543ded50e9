//! The first instructions of a function, moved elsewhere to make room for a jump: which may be moved, and how they read there.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Decoder, DecoderOptions, FlowControl, Instruction, InstructionBlock,
    Mnemonic, Register,
};
use serde::{Deserialize, Serialize};

/// Bytes of a jump to an address within 2 GiB.
pub(super) const JUMP_BYTES: usize = 5;
/// Most bytes of a function that are read in search of jumps into the moved instructions.
pub(super) const MOST_READ_BYTES: usize = 4096;

const DEPENDS: &str = "its first instructions depend on where they are";

/// The moved instructions of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MovedPrologue {
    /// Bytes of the function that the instructions took: those after are as they were.
    pub(super) length: usize,
    /// The instructions for their new place, with the jump back.
    pub(super) bytes: Vec<u8>,
    /// Where each instruction was in the function, and is in `bytes`.
    pub(super) offsets: Vec<(usize, usize)>,
}

impl MovedPrologue {
    /// Moves the first instructions of the function `code` at the address `from` to the address `to`, where there is room for
    /// `room` bytes. `code` is the function as far as it is known.
    ///
    /// # Errors
    ///
    /// Why they cannot be moved.
    pub(super) fn of(code: &[u8], from: u64, to: u64, room: usize) -> Result<Self, String> {
        let (instructions, length) = first_instructions(code, from)?;
        let end = from.checked_add(length as u64).ok_or("it goes on after the last address")?;
        let taken = from + 1..end;
        let leads_inside = |instruction: &Instruction| {
            near_target(instruction).is_some_and(|target| taken.contains(&target))
        };
        let mut decoder = Decoder::with_ip(64, code, from, DecoderOptions::NONE);
        if decoder.iter().take_while(|instruction| !instruction.is_invalid()).any(|each| leads_inside(&each))
        {
            return Err("a jump leads into its first instructions".to_owned());
        }
        // Short jumps become longer ones.
        let block = InstructionBlock::new(&instructions, to);
        let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS)
            .map_err(|_| DEPENDS.to_owned())?;
        if !mean_the_same(&encoded.code_buffer, to, &instructions) {
            return Err(DEPENDS.to_owned());
        }
        let starts = instructions.iter().map(|instruction| (instruction.ip() - from) as usize);
        let new_starts = encoded.new_instruction_offsets.iter().map(|offset| *offset as usize);
        let offsets = starts.zip(new_starts).collect();
        let mut bytes = encoded.code_buffer;
        let goes_on =
            instructions.last().is_some_and(|last| last.flow_control() != FlowControl::UnconditionalBranch);
        if goes_on {
            let back = jump(to.wrapping_add(bytes.len() as u64), end);
            bytes.extend(back.ok_or("it is too far away")?);
        }
        if bytes.len() > room {
            return Err("its first instructions take too much room".to_owned());
        }
        Ok(MovedPrologue { length, bytes, offsets })
    }
}

/// The instructions that a jump at the beginning of a function takes the place of, and their bytes.
fn first_instructions(code: &[u8], from: u64) -> Result<(Vec<Instruction>, usize), String> {
    let mut decoder = Decoder::with_ip(64, code, from, DecoderOptions::NONE);
    let (mut instructions, mut length) = (Vec::new(), 0);
    while length < JUMP_BYTES {
        if !decoder.can_decode() {
            return Err("it is too short".to_owned());
        }
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Err("it has bytes that are no instruction".to_owned());
        }
        length += instruction.len();
        let is_last = match instruction.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch => false,
            FlowControl::UnconditionalBranch if length >= JUMP_BYTES => true,
            FlowControl::UnconditionalBranch | FlowControl::Return => {
                return Err("it is too short".to_owned());
            }
            _ => return Err("it begins with a call".to_owned()),
        };
        // Moved, they would need other instructions to keep their meaning.
        if instruction.is_loop() || instruction.is_loopcc() || instruction.is_jcx_short() {
            return Err("it begins with a jump that is always short".to_owned());
        }
        // No compiler makes such addresses, and the encoder cannot move all of them.
        if instruction.memory_base() == Register::EIP {
            return Err(DEPENDS.to_owned());
        }
        instructions.push(instruction);
        if is_last {
            break;
        }
    }
    Ok((instructions, length))
}

/// Whether moved instructions are one for one what they were, and lead to where they led.
fn mean_the_same(moved: &[u8], to: u64, instructions: &[Instruction]) -> bool {
    let mut decoder = Decoder::with_ip(64, moved, to, DecoderOptions::NONE);
    let is_same = |wanted: &Instruction| {
        let found = decoder.decode();
        found.mnemonic() == wanted.mnemonic()
            && near_target(&found) == near_target(wanted)
            && (!wanted.is_ip_rel_memory_operand()
                || found.ip_rel_memory_address() == wanted.ip_rel_memory_address())
    };
    instructions.iter().all(is_same) && !decoder.can_decode()
}

/// Where an instruction may lead to, other than to the next one, if it says so itself.
fn near_target(instruction: &Instruction) -> Option<u64> {
    use FlowControl::{Call, ConditionalBranch, UnconditionalBranch};
    let is_branch = matches!(instruction.flow_control(), Call | ConditionalBranch | UnconditionalBranch);
    is_branch.then(|| instruction.near_branch_target())
}

/// Where the function `code` at the address `from` may lead to directly, by calls and jumps.
pub(super) fn targets(code: &[u8], from: u64) -> Vec<u64> {
    let decoder = Decoder::with_ip(64, code, from, DecoderOptions::NONE);
    let instructions = decoder.into_iter().take_while(|instruction| !instruction.is_invalid());
    instructions.filter_map(|instruction| near_target(&instruction)).collect()
}

/// The pointer by which the stub `code` of a procedure linkage table at the address `from` jumps on; `None` for other code.
pub(super) fn pointer_of_stub(code: &[u8], from: u64) -> Option<u64> {
    let decoder = Decoder::with_ip(64, code, from, DecoderOptions::NONE);
    let first = decoder.into_iter().find(|instruction| instruction.mnemonic() != Mnemonic::Endbr64)?;
    let is_jump = first.flow_control() == FlowControl::IndirectBranch && first.is_ip_rel_memory_operand();
    is_jump.then(|| first.ip_rel_memory_address())
}

/// A jump from one address to another; `None` where that is more than 2 GiB away.
pub(super) fn jump(from: u64, to: u64) -> Option<[u8; JUMP_BYTES]> {
    let distance = to.wrapping_sub(from.wrapping_add(JUMP_BYTES as u64)).cast_signed();
    let [a, b, c, d] = i32::try_from(distance).ok()?.to_le_bytes();
    Some([0xe9, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_are_followed_by_their_pointers() {
        // jmp *0x1bde2(%rip), and the same after endbr64 and with a prefix.
        for stub in [
            &[0xff, 0x25, 0xe2, 0xbd, 0x01, 0x00, 0x90][..],
            &[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0xde, 0xbd, 0x01, 0x00],
            &[0xf2, 0xff, 0x25, 0xe1, 0xbd, 0x01, 0x00],
        ] {
            assert_eq!(pointer_of_stub(stub, 0xd430), Some(0x29218), "{stub:x?}");
        }
        assert_eq!(pointer_of_stub(&[0xe9, 0x1b, 0xff, 0xff, 0xff], 0xd430), None);
        assert_eq!(targets(&[0xe9, 0x1b, 0xff, 0xff, 0xff], 0xadf10), [0xade30]);
    }

    const FROM: u64 = 0x7f00_0000_1000;
    const TO: u64 = 0x7f00_2000_0000;

    fn moved(code: &[u8]) -> Result<MovedPrologue, String> {
        MovedPrologue::of(code, FROM, TO, 64)
    }

    #[test]
    fn instructions_are_moved_whole_with_a_jump_to_the_rest() {
        // push %r12; mov %rdi,%r12; push %rbp; ret
        let moved = moved(&[0x41, 0x54, 0x49, 0x89, 0xfc, 0x55, 0xc3]).expect("they can be moved");
        assert_eq!((moved.length, &moved.bytes[..5]), (5, &[0x41, 0x54, 0x49, 0x89, 0xfc][..]));
        assert_eq!(moved.bytes[5..], jump(TO + 5, FROM + 5).expect("it is near"));
        assert_eq!(moved.offsets, [(0, 0), (2, 2)]);
    }

    #[test]
    fn addresses_relative_to_the_instruction_and_conditional_jumps_keep_their_meaning() {
        // test %rdi,%rdi; je +0x100; push %rbp: as in free of glibc
        let moved = moved(&[0x48, 0x85, 0xff, 0x0f, 0x84, 0, 1, 0, 0, 0x55]).expect("they can be moved");
        assert_eq!(moved.length, 9);
        let mut decoder = Decoder::with_ip(64, &moved.bytes, TO, DecoderOptions::NONE);
        let instructions: Vec<Instruction> = decoder.iter().take(3).collect();
        assert_eq!(instructions[1].near_branch_target(), FROM + 9 + 0x100);
        assert_eq!(instructions[2].near_branch_target(), FROM + 9);
        // test %rdi,%rdi; je +0xd: as in `operator delete(void*, size_t)` of jemalloc
        let moved = super::MovedPrologue::of(&[0x48, 0x85, 0xff, 0x74, 0x0d, 0x55], FROM, TO, 64);
        let moved = moved.expect("a short jump becomes a longer one");
        assert_eq!((moved.length, &moved.offsets[..]), (5, &[(0, 0), (3, 3)][..]));
        let mut decoder = Decoder::with_ip(64, &moved.bytes, TO, DecoderOptions::NONE);
        let instructions: Vec<Instruction> = decoder.iter().collect();
        let targets = instructions[1..].iter().map(Instruction::near_branch_target);
        assert_eq!(targets.collect::<Vec<_>>(), [FROM + 5 + 0xd, FROM + 5]);
    }

    #[test]
    fn what_cannot_be_moved_is_refused_in_words() {
        let why = |code: &[u8]| moved(code).expect_err("it cannot be moved");
        assert_eq!(why(&[0xc3]), "it is too short");
        assert_eq!(why(&[0x90, 0xe8, 0, 0, 0, 0, 0x90]), "it begins with a call");
        assert_eq!(why(&[0xeb, 0x10, 0x90, 0x90, 0x90, 0x90]), "it is too short");
        // Five nops and a jump back to the third of them.
        assert_eq!(
            why(&[0x90, 0x90, 0x90, 0x90, 0x90, 0xeb, 0xfb]),
            "a jump leads into its first instructions"
        );
        let code = [0x90; 16];
        assert_eq!(MovedPrologue::of(&code, FROM, FROM + (4 << 30), 64).unwrap_err(), "it is too far away");
        let of_the_last = MovedPrologue::of(&code, u64::MAX - 2, TO, 64);
        assert_eq!(of_the_last.unwrap_err(), "it goes on after the last address");
    }
}
