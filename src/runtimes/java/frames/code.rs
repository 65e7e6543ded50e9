//! What instructions around an address do to sp and rbp, so that unfinished frames can be left.
//! Only straight code is followed: forwards to the return, or from an entry to the address.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use std::ops::Range;

/// Instructions followed forwards at most.
const MOST_FORWARD: usize = 64;
/// Instructions followed from an entry at most.
const MOST_ENTRY: usize = 64;
/// Largest change of sp that is believed, in bytes.
const LARGEST: i64 = 1 << 24;

/// Where the return address and the caller's rbp are, seen from an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JavaFrameExit {
    /// Bytes from sp to the return address.
    pub(crate) up: u64,
    /// Bytes from sp to the caller's rbp, if it must be read; below zero if it is above sp by now.
    pub(crate) fp: Option<i64>,
}

/// Way on which straight code leaves the address it starts at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JavaCodePath {
    /// Reaches a return.
    Returns(JavaFrameExit),
    /// Reaches a jump to other code after restoring rbp: a call in place of a return, if there is a return address.
    Jumps(JavaFrameExit),
    /// Reaches `leave` and a return: the frame is the one of rbp.
    LeavesFrame,
    /// Jumps back into the code of its blob after removing so many bytes that were pushed on top of the frame.
    Rejoins(u64),
    /// Nothing is known.
    Unknown,
}

/// Effect of the straight code that begins at `pc` with `bytes`, in a blob with the instructions `code`.
pub(crate) fn forward(bytes: &[u8], pc: u64, code: &Range<u64>) -> JavaCodePath {
    let mut decoder = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE);
    let mut up = 0_i64;
    let mut fp = None;
    let mut leaves = false;
    for _ in 0..MOST_FORWARD {
        if !decoder.can_decode() {
            break;
        }
        let instruction = decoder.decode();
        match instruction.code() {
            Code::Retnq | Code::Retnq_imm16 if leaves => return JavaCodePath::LeavesFrame,
            Code::Retnq | Code::Retnq_imm16 => return returns(up, fp),
            Code::Leaveq => leaves = true,
            Code::Jmp_rel8_64 | Code::Jmp_rel32_64 if !leaves => {
                return jumps(up, fp, code.contains(&instruction.near_branch64()));
            }
            Code::Jmp_rm64 if !leaves => return jumps(up, fp, false),
            _ => {}
        }
        if instruction.mnemonic() == Mnemonic::Pop && instruction.op0_register() == Register::RBP {
            fp = Some(up);
        }
        if let Some(offset) = rbp_load(&instruction) {
            fp = Some(up + offset);
        }
        match change(&instruction) {
            Some(_) if leaves => {}
            Some(bytes) if (0..LARGEST).contains(&(up + bytes)) => up += bytes,
            _ => break,
        }
    }
    JavaCodePath::Unknown
}

fn returns(up: i64, fp: Option<i64>) -> JavaCodePath {
    u64::try_from(up).map_or(JavaCodePath::Unknown, |up| JavaCodePath::Returns(JavaFrameExit { up, fp }))
}

/// Effect of a jump out of the blob or back into it.
fn jumps(up: i64, fp: Option<i64>, stays: bool) -> JavaCodePath {
    match (u64::try_from(up), fp, stays) {
        (Ok(up), Some(_), false) => JavaCodePath::Jumps(JavaFrameExit { up, fp }),
        (Ok(up), None, true) if up > 0 => JavaCodePath::Rejoins(up),
        _ => JavaCodePath::Unknown,
    }
}

/// Offset from sp of a load of rbp from the stack.
fn rbp_load(instruction: &Instruction) -> Option<i64> {
    let loads = instruction.code() == Code::Mov_r64_rm64 && instruction.op0_register() == Register::RBP;
    (loads && is_stack_slot(instruction)).then(|| instruction.memory_displacement64().cast_signed())
}

fn is_stack_slot(instruction: &Instruction) -> bool {
    instruction.memory_base() == Register::RSP && instruction.memory_index() == Register::None
}

/// Bytes that an instruction adds to sp; `None` for calls, jumps and what cannot be told.
fn change(instruction: &Instruction) -> Option<i64> {
    match instruction.mnemonic() {
        Mnemonic::Call | Mnemonic::Jmp | Mnemonic::Int3 | Mnemonic::Hlt | Mnemonic::INVALID => return None,
        Mnemonic::Cmp | Mnemonic::Test => return Some(0),
        Mnemonic::Leave => return Some(0),
        _ => {}
    }
    let moved = i64::from(instruction.stack_pointer_increment());
    if moved != 0 {
        return Some(moved);
    }
    let on_sp = instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register() == Register::RSP;
    if !on_sp {
        return Some(0);
    }
    match instruction.mnemonic() {
        Mnemonic::Add if is_immediate(instruction) => Some(instruction.immediate(1).cast_signed()),
        Mnemonic::Sub if is_immediate(instruction) => Some(-instruction.immediate(1).cast_signed()),
        Mnemonic::Lea if is_stack_slot(instruction) => {
            Some(instruction.memory_displacement64().cast_signed())
        }
        _ => None,
    }
}

fn is_immediate(instruction: &Instruction) -> bool {
    matches!(instruction.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64)
}

/// State of a frame between an entry and `pc`, found from `bytes` that begin at `entry`; `None` if the straight code
/// does not meet `pc` or does something else than building a frame.
pub(crate) fn since_entry(bytes: &[u8], entry: u64, pc: u64) -> Option<JavaFrameExit> {
    let mut decoder = Decoder::with_ip(64, bytes, entry, DecoderOptions::NONE);
    let mut pushed = 0_i64;
    let mut fp = None;
    for _ in 0..MOST_ENTRY {
        if decoder.ip() >= pc {
            break;
        }
        let instruction = decoder.decode();
        let moved = match instruction.mnemonic() {
            Mnemonic::Call => 0,
            _ => change(&instruction)?,
        };
        pushed -= moved;
        if !(0..LARGEST).contains(&pushed) {
            return None;
        }
        if instruction.mnemonic() == Mnemonic::Push && instruction.op0_register() == Register::RBP {
            fp.get_or_insert(pushed);
        }
        let stores = instruction.code() == Code::Mov_rm64_r64 && instruction.op1_register() == Register::RBP;
        if stores && instruction.op0_kind() == OpKind::Memory && is_stack_slot(&instruction) {
            fp.get_or_insert(pushed - instruction.memory_displacement64().cast_signed());
        }
    }
    if decoder.ip() != pc {
        return None;
    }
    let up = u64::try_from(pushed).ok()?;
    Some(JavaFrameExit { up, fp: fp.map(|place| pushed - place) })
}

/// Bytes between sp at `pc` and sp at the entry of the adapter that `pc` lies in; below zero if the return address was
/// popped. Adapters lie one after the other in `bytes`, which begin at `start`, and each ends in a jump.
pub(crate) fn in_adapter(bytes: &[u8], start: u64, pc: u64) -> Option<i64> {
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let mut pushed = Some(0_i64);
    while decoder.can_decode() && decoder.ip() < pc {
        let instruction = decoder.decode();
        pushed = match (instruction.mnemonic(), change(&instruction)) {
            (Mnemonic::Jmp, _) => Some(0),
            (Mnemonic::Call, _) => pushed,
            (_, Some(moved)) => pushed.map(|pushed| pushed - moved),
            (_, None) => None,
        };
    }
    pushed.filter(|pushed| decoder.ip() == pc && (-8..LARGEST).contains(pushed))
}

/// Bytes that the instructions at `pc` take off the stack before anything else: arguments pushed on top of a frame for
/// a call that has returned. None if it is the frame itself that they remove.
pub(crate) fn leading_pops(bytes: &[u8], pc: u64) -> u64 {
    let mut decoder = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE);
    let mut popped = 0;
    for _ in 0..MOST_FORWARD {
        let instruction = decoder.decode();
        let pops = instruction.mnemonic() == Mnemonic::Pop;
        if pops && instruction.op0_register() == Register::RBP {
            return 0;
        }
        let adds = instruction.mnemonic() == Mnemonic::Add && instruction.op0_register() == Register::RSP;
        match change(&instruction).and_then(|change| u64::try_from(change).ok()) {
            Some(bytes) if pops || adds => popped += bytes,
            _ => break,
        }
    }
    popped
}

/// Whether code that ends with `before` ends with a call.
pub(crate) fn ends_in_call(before: &[u8]) -> bool {
    let tail = |length: usize| before.len().checked_sub(length).and_then(|start| before.get(start..));
    matches!(tail(5), Some([0xe8, ..]))
        || matches!(tail(2), Some([0xff, 0xd0..=0xd7 | 0x10..=0x13 | 0x16 | 0x17]))
        || matches!(tail(3), Some([0xff, 0x50..=0x57, _]))
        || matches!(tail(4), Some([0xff, 0x54, _, _]))
        || matches!(tail(6), Some([0xff, 0x15 | 0x90..=0x97, ..]))
        || matches!(tail(7), Some([0xff, 0x94, ..]))
}

/// Address that a call calls which ends at `end`, with the 13 bytes `before` it: `call n`, or `mov r, n; call r`.
pub(crate) fn call_target(before: &[u8; 13], end: u64) -> Option<u64> {
    let number = |from: usize| {
        let bytes = before.get(from..from + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    match before {
        [0x49, 0xb8..=0xbf, .., 0x41, 0xff, 0xd0..=0xd7] => number(2),
        [_, 0x48, 0xb8..=0xbf, .., 0xff, 0xd0..=0xd7] => number(3),
        [.., 0xe8, a, b, c, d] => {
            Some(end.wrapping_add_signed(i64::from(i32::from_le_bytes([*a, *b, *c, *d]))))
        }
        _ => None,
    }
}

/// Whether `after`, the instructions at an address with ten bytes `before` them, run at the state in which their code was
/// entered. True for the stub of a safepoint poll in an epilogue, when the frame is already gone
/// (`lea r10, [rip-n]` or `mov r10, n`, then `mov [r15+n], r10; jmp`), for the stub of a static call (`mov rbx, n; jmp`) and for the jump that ends
/// a runtime stub or follows an epilogue.
pub(crate) fn is_frameless(before: &[u8; 10], after: &[u8]) -> bool {
    const STORE: [u8; 3] = [0x4d, 0x89, 0x97];
    const METHOD: [u8; 2] = [0x48, 0xbb];
    let jumps = |code: &[u8], size: usize| code.get(size) == Some(&0xe9);
    let stores = |code: &[u8]| code.starts_with(&STORE) && jumps(code, 7);
    let is_near_poll = after.starts_with(&[0x4c, 0x8d, 0x15]) && after.get(7..).is_some_and(stores);
    let is_far_poll = after.starts_with(&[0x49, 0xba]) && after.get(10..).is_some_and(stores);
    let is_call = after.starts_with(&METHOD) && jumps(after, 10);
    let is_jump = jumps(after, 0) && (before.starts_with(&METHOD) || before.get(3..6) == Some(&STORE));
    let is_popped =
        matches!(before, [.., 0x48, 0x83, 0xc4, _, 0x5d] | [.., 0x48, 0x81, 0xc4, _, _, _, _, 0x5d]);
    let is_last = (is_popped && jumps(after, 0)) || matches!(after, [0xff, 0xe0..=0xe7, ..]);
    is_near_poll || is_far_poll || stores(after) || is_call || is_jump || is_last
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: Range<u64> = 0x1000..0x2000;

    fn exit(up: u64, fp: Option<i64>) -> JavaCodePath {
        JavaCodePath::Returns(JavaFrameExit { up, fp })
    }

    #[test]
    fn epilogues_from_each_instruction() {
        // add rsp,0x20; pop rbp; cmp rsp,[r15+0x348]; ja +0; ret
        let bytes = [
            0x48, 0x83, 0xc4, 0x20, 0x5d, 0x49, 0x3b, 0xa7, 0x48, 3, 0, 0, 0x0f, 0x87, 0, 0, 0, 0, 0xc3, 0x90,
        ];
        let at = |skip: usize| forward(&bytes[skip..], 0x1000 + skip as u64, &CODE);
        assert_eq!(at(0), exit(0x28, Some(0x20)));
        assert_eq!(at(4), exit(8, Some(0)));
        assert_eq!(at(5), exit(0, None));
        assert_eq!(at(18), exit(0, None));
        assert_eq!(at(19), JavaCodePath::Unknown);
    }

    #[test]
    fn jumps_may_end_a_frame() {
        // mov rbp,[rsp]; add rsp,8; pop rdx; jmp r8
        let bytes = [0x48, 0x8b, 0x2c, 0x24, 0x48, 0x83, 0xc4, 8, 0x5a, 0x41, 0xff, 0xe0];
        let jumps = JavaCodePath::Jumps(JavaFrameExit { up: 16, fp: Some(0) });
        assert_eq!(forward(&bytes, 0x1000, &CODE), jumps);
        // add rsp,0x20; pop rbp; jmp out of the blob
        let bytes = [0x48, 0x83, 0xc4, 0x20, 0x5d, 0xe9, 0, 0, 1, 0];
        assert_eq!(
            forward(&bytes, 0x1000, &CODE),
            JavaCodePath::Jumps(JavaFrameExit { up: 0x28, fp: Some(0x20) })
        );
    }

    #[test]
    fn barriers_rejoin_their_code() {
        // add rsp,0x40; jmp 0x1010
        let bytes = [0x48, 0x83, 0xc4, 0x40, 0xe9, 7, 0, 0, 0];
        assert_eq!(forward(&bytes, 0x1000, &CODE), JavaCodePath::Rejoins(0x40));
        assert_eq!(forward(&bytes, 0x1000, &(0x1000..0x1009)), JavaCodePath::Unknown);
    }

    #[test]
    fn prologues_up_to_each_instruction() {
        // mov [rsp-0x14000],eax; push rbp; sub rsp,0x30; nop
        let bytes = [0x89, 0x84, 0x24, 0, 0xc0, 0xfe, 0xff, 0x55, 0x48, 0x83, 0xec, 0x30, 0x90];
        let at = |skip: u64| since_entry(&bytes, 0x1000, 0x1000 + skip);
        assert_eq!(at(0), Some(JavaFrameExit { up: 0, fp: None }));
        assert_eq!(at(7), Some(JavaFrameExit { up: 0, fp: None }));
        assert_eq!(at(8), Some(JavaFrameExit { up: 8, fp: Some(0) }));
        assert_eq!(at(12), Some(JavaFrameExit { up: 0x38, fp: Some(0x30) }));
        assert_eq!(at(9), None, "inside an instruction");
    }

    #[test]
    fn small_frames_store_rbp() {
        // sub rsp,0x18; mov [rsp+0x10],rbp
        let bytes = [0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x6c, 0x24, 0x10];
        assert_eq!(since_entry(&bytes, 0, 4), Some(JavaFrameExit { up: 0x18, fp: None }));
        assert_eq!(since_entry(&bytes, 0, 9), Some(JavaFrameExit { up: 0x18, fp: Some(0x10) }));
    }

    #[test]
    fn leave_finds_the_frame_by_rbp() {
        // pop rax; leave; ret
        assert_eq!(forward(&[0x58, 0xc9, 0xc3], 0x1000, &CODE), JavaCodePath::LeavesFrame);
    }

    #[test]
    fn calls_tell_their_target() {
        let direct = [0, 0, 0, 0, 0, 0, 0, 0, 0xe8, 0xfb, 0xff, 0xff, 0xff];
        assert_eq!(call_target(&direct, 0x1000), Some(0xffb));
        let by_register = [0x49, 0xba, 1, 2, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xd2];
        assert_eq!(call_target(&by_register, 0x1000), Some(0x201));
        assert_eq!(call_target(&[0; 13], 0x1000), None);
        assert!(ends_in_call(&direct) && ends_in_call(&by_register) && !ends_in_call(&[0; 7]));
    }

    #[test]
    fn stubs_without_a_frame_are_known_at_each_instruction() {
        let poll = [0x4c, 0x8d, 0x15, 1, 2, 3, 4, 0x4d, 0x89, 0x97, 0x50, 3, 0, 0, 0xe9, 1, 2, 3, 4];
        let far = [0x49, 0xba, 1, 2, 3, 4, 5, 6, 7, 8, 0x4d, 0x89, 0x97, 0x50, 3, 0, 0, 0xe9, 1, 2, 3, 4];
        let call = [0x48, 0xbb, 1, 2, 3, 4, 5, 6, 7, 8, 0xe9, 1, 2, 3, 4];
        let at = |code: &[u8], skip: usize| {
            let whole = [&[0x90; 10], code].concat();
            is_frameless(whole[skip..skip + 10].try_into().unwrap(), &whole[skip + 10..])
        };
        assert!(
            at(&far, 0) && at(&poll, 0) && at(&poll, 7) && at(&poll, 14) && at(&call, 0) && at(&call, 10)
        );
        assert!(!at(&[0xe9, 1, 2, 3, 4], 0) && at(&[0x48, 0x83, 0xc4, 0x30, 0x5d, 0xe9, 1, 2, 3, 4], 5));
    }

    #[test]
    fn arguments_of_a_finished_call_are_popped() {
        // pop rdx; pop rdx; test edx,edx
        assert_eq!(leading_pops(&[0x5a, 0x5a, 0x85, 0xd2], 0x1000), 16);
        // add rsp,0x20; pop rbp
        assert_eq!(leading_pops(&[0x48, 0x83, 0xc4, 0x20, 0x5d], 0x1000), 0);
        assert_eq!(leading_pops(&[0x90, 0x5a], 0x1000), 0);
    }

    #[test]
    fn any_bytes_end() {
        for seed in 0..256_u64 {
            let bytes: Vec<u8> = (0..64).map(|index| (seed * 31 + index * index * 7) as u8).collect();
            let _ = forward(&bytes, u64::MAX - 8, &CODE);
            let _ = since_entry(&bytes, u64::MAX - 8, u64::MAX);
        }
    }
}
