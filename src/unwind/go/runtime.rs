//! Where Go's runtime keeps the goroutine that it works for, as its own instructions say.
//!
//! The functions that go from a goroutine's stack to the thread's own are assembly (`runtime/asm_amd64.s`), and write
//! the goroutine's registers into its `g`. The offsets that they use are those of this build, whatever Go's version:
//! none is assumed. Where the instructions are not as known here, nothing is said.

use crate::unwind::rule::{GoroutineOffsets, RSP, Rule};

/// A byte of a pattern that may be anything.
const ANY: i16 = -1;

/// `mov %fs:N, %rax; mov N(%rax), %rbx`: the g, and its m. The first number takes bytes 5 to 8, the second byte 12.
const FIXED_G: [i16; 13] = [0x64, 0x48, 0x8b, 0x04, 0x25, ANY, ANY, ANY, ANY, 0x48, 0x8b, 0x58, ANY];
/// The same in position-independent programs: `mov $N, %rcx; mov %fs:(%rcx), %rax; mov N(%rax), %rbx`; bytes 3 to 6
/// and 14.
const RELATIVE_G: [i16; 15] =
    [0x48, 0xc7, 0xc1, ANY, ANY, ANY, ANY, 0x64, 0x48, 0x8b, 0x01, 0x48, 0x8b, 0x58, ANY];
/// The same in shared libraries, where the number is in memory: `mov N(%rip), %rcx` first; bytes 3 to 6 and 14.
const LOOKED_UP_G: [i16; 15] =
    [0x48, 0x8b, 0x0d, ANY, ANY, ANY, ANY, 0x64, 0x48, 0x8b, 0x01, 0x48, 0x8b, 0x58, ANY];
/// Length of its first instruction, from whose end on the number counts.
const LOOK_UP_BYTES: usize = 7;
/// `cmp N(%rbx), %rax; jne`: whether the g is the one that the m runs. Bytes 3 to 6; byte 3 in the short form.
const CURRENT_G: [i16; 8] = [0x48, 0x3b, 0x83, ANY, ANY, ANY, ANY, 0x75];
const CURRENT_G_SHORT: [i16; 5] = [0x48, 0x3b, 0x43, ANY, 0x75];
/// `mov (%rsp), %rax; mov %rax, N(g); lea 8(%rsp), %rax; mov %rax, N(g); mov %rbp, N(g)`: the caller's rip, rsp and
/// rbp. Bytes 7, 16 and 20 are the numbers, 6, 15 and 19 name the register with the g.
const SAVED: [i16; 21] = [
    0x48, 0x8b, 0x04, 0x24, 0x48, 0x89, ANY, ANY, 0x48, 0x8d, 0x44, 0x24, 0x08, 0x48, 0x89, ANY, ANY, 0x48,
    0x89, ANY, ANY,
];
/// `mov %rdi, N(%rsp); mov N(%rdi), %rdi; sub %rdx, %rdi; mov %rdi, N(%rsp)`: before a call of C, the g, and how far its
/// stack's end (whose offset is the second number) is from the stack pointer. Bytes 4, 8 and 16.
const CALL_NOTED: [i16; 17] =
    [0x48, 0x89, 0x7c, 0x24, ANY, 0x48, 0x8b, 0x7f, ANY, 0x48, 0x29, 0xd7, 0x48, 0x89, 0x7c, 0x24, ANY];
/// `movq $0, N(%rsp); mov %rdx, N(%rsp)`: the same on the thread's own stack. Bytes 4 and 13.
const OWN_CALL_NOTED: [i16; 14] = [0x48, 0xc7, 0x44, 0x24, ANY, 0, 0, 0, 0, 0x48, 0x89, 0x54, 0x24, ANY];
/// `mov N(%rsi), %rsp`: on to the thread's own stack.
const SYSTEM_STACK: [i16; 4] = [0x48, 0x8b, 0x66, ANY];
/// `sub $64, %rsp`: room for the notes.
const ROOM_FOR_CALL: [i16; 4] = [0x48, 0x83, 0xec, 0x40];
/// `mov %rsi, %rsp`: back on the caller's.
const CALLERS_STACK: [i16; 3] = [0x48, 0x89, 0xf4];

/// An address of a register and a short distance, in the byte that names both operands.
const SHORT_DISTANCE: u8 = 0x40;
const RAX: u8 = 0;
const RBP: u8 = 5;

/// Returns the first place of a pattern.
fn find(bytes: &[u8], pattern: &[i16]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| {
        window.iter().zip(pattern).all(|(byte, wanted)| *wanted == ANY || i16::from(*byte) == *wanted)
    })
}

fn number(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A positive distance of one byte.
fn short(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied().filter(|distance| *distance < 0x80)
}

/// The offsets by the code of `runtime.systemstack`, which lies at `start` and finds g, m and the goroutine that m runs, and that of
/// `runtime.morestack`, which stores registers into the goroutine.
pub(super) fn goroutine_offsets(
    start: u64,
    systemstack: &[u8],
    morestack: &[u8],
) -> Option<GoroutineOffsets> {
    let number_at = |at: usize| number(systemstack, at);
    let m_at = |at: usize| short(systemstack, at);
    let (g, is_g_looked_up, m, rest) = if let Some(at) = find(systemstack, &RELATIVE_G) {
        (number_at(at + 3)?, false, m_at(at + 14)?, at + RELATIVE_G.len())
    } else if let Some(at) = find(systemstack, &LOOKED_UP_G) {
        let after = start.checked_add((at + LOOK_UP_BYTES) as u64)?;
        let word = after.checked_add_signed(i64::from(number_at(at + 3)?))?;
        (i32::try_from(word).ok()?, true, m_at(at + 14)?, at + LOOKED_UP_G.len())
    } else {
        let at = find(systemstack, &FIXED_G)?;
        (number_at(at + 5)?, false, m_at(at + 12)?, at + FIXED_G.len())
    };
    let rest = &systemstack[rest..];
    let current = match find(rest, &CURRENT_G) {
        Some(at) => number(rest, at + 3)?,
        None => i32::from(short(rest, find(rest, &CURRENT_G_SHORT)? + 3)?),
    };
    let saved = &morestack[find(morestack, &SAVED)?..];
    let operands = [(6, RAX), (15, RAX), (19, RBP)];
    let base = saved[6] & 7;
    // Register 4 would be an index.
    let is_one_base = base != 4
        && operands.iter().all(|&(at, register)| saved[at] == SHORT_DISTANCE | register << 3 | base);
    let (rip, rsp, rbp) = (short(saved, 7)?, short(saved, 16)?, short(saved, 20)?);
    let is_known = is_one_base
        && rip == rsp + 8
        && rbp > rip
        && [m, rsp, rbp].iter().all(|offset| offset % 8 == 0)
        && g % 8 == 0
        && current > 0
        && current % 8 == 0;
    is_known.then_some(GoroutineOffsets {
        g,
        is_g_looked_up,
        m_word: m / 8,
        current,
        buffer: i16::from(rsp),
        rbp_word: (rbp - rsp) / 8,
    })
}

/// The rules of `runtime.asmcgocall` where it keeps no frame pointer (before Go 1.21), each with where it begins and
/// ends, bytes from the function's start: from where it leaves its caller's stack until it is back. `None` if its
/// instructions are not those known.
pub(crate) fn call_rules(asmcgocall: &[u8]) -> Option<Vec<(usize, usize, Rule)>> {
    let after =
        |from: usize, pattern: &[i16]| Some(from + find(asmcgocall.get(from..)?, pattern)? + pattern.len());
    let leaves = after(0, &SYSTEM_STACK)?;
    let noted = after(leaves, &CALL_NOTED)?;
    let back = after(noted, &CALLERS_STACK)?;
    let own_leaves = after(back, &ROOM_FOR_CALL)?;
    let own_noted = after(own_leaves, &OWN_CALL_NOTED)?;
    let own_back = after(own_noted, &CALLERS_STACK)?;
    let at = |place: usize| short(asmcgocall, place);
    let (g, stack_end, depth) = (at(noted - 13)?, at(noted - 9)?, at(noted - 1)?);
    if (at(own_noted - 10)?, at(own_noted - 1)?) != (g, depth) {
        return None;
    }
    let call = Rule::go_call(i16::from(g), i32::from(depth), i32::from(stack_end));
    let returning = Rule::reg(RSP, 8);
    Some(vec![
        (leaves, noted, Rule::NONE),
        (noted, back, call),
        (back, own_leaves, returning),
        (own_leaves, own_noted, Rule::NONE),
        (own_noted, own_back, call),
        (own_back, asmcgocall.len(), returning),
    ])
}

/// The return addresses of the direct calls in `code`, which lies at `start`, of any of the functions at `targets`.
pub(super) fn calls_of(code: &[u8], start: u64, targets: &[u64]) -> Vec<u64> {
    const CALL_BYTES: usize = 5;
    let call = |(at, window): (usize, &[u8])| {
        let after = start.checked_add((at + CALL_BYTES) as u64)?;
        let target = after.wrapping_add_signed(i64::from(number(window, 1)?));
        (window[0] == 0xe8 && targets.contains(&target)).then_some(after)
    };
    code.windows(CALL_BYTES).enumerate().filter_map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Go 1.26, a program at a fixed address: from `mov %fs:-8, %rax` to the last comparison.
    const SYSTEMSTACK: &str =
        "55 4889e5 488b7c2410 64488b0425f8ffffff 488b5830 483b4348 7465 488b13 4839d0 745d
        483b83b8000000 755d e8aef2ffff";
    const MORESTACK: &str =
        "64488b3c25f8ffffff 488b5f30 488b0424 48894740 488d442408 48894738 48896f60 48895750";
    /// Go 1.19, position-independent.
    const SYSTEMSTACK_1_19: &str =
        "488b7c2408 48c7c1f8ffffff 64488b01 488b5830 483b4350 7453 488b13 4839d0 744b
        483b83c0000000 754a e8d0f1ffff";
    const MORESTACK_1_19: &str =
        "64488b31 48897318 488b0424 48894640 488d442408 48894638 48896e68 48895650 488b1b";

    /// All of Go 1.19's, at a fixed address.
    const ASMCGOCALL_1_19: &str = "
        488b442408 488b5c2410 4889e2 64488b3c25f8ffffff 4883ff00 7467 4c8b4730 498b7050 4839f7 745a 498b30
        4839f7 7452 e86ad3ffff 6448893425f8ffffff 488b6638 4883ec40 4883e4f0 48897c2430 488b7f08 4829d7
        48897c2428 4889df 4889d9 ffd0 488b7c2430 488b7708 482b742428 6448893c25f8ffffff 4889f4 89442418 c3
        4883ec40 4883e4f0 48c744243000000000 4889542428 4889df 4889d9 ffd0 488b742428 4889f4 89442418 c3";

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    #[test]
    fn offsets_are_those_of_the_instructions() {
        let offsets = goroutine_offsets(0x1000, &bytes(SYSTEMSTACK), &bytes(MORESTACK));
        let known = GoroutineOffsets {
            g: -8,
            is_g_looked_up: false,
            m_word: 6,
            current: 0xb8,
            buffer: 0x38,
            rbp_word: 5,
        };
        assert_eq!(offsets, Some(known));
        let offsets = goroutine_offsets(0x1000, &bytes(SYSTEMSTACK_1_19), &bytes(MORESTACK_1_19));
        let known = GoroutineOffsets { current: 0xc0, rbp_word: 6, ..known };
        assert_eq!(offsets, Some(known));
        // A shared library.
        let shared = bytes(&SYSTEMSTACK_1_19.replace("48c7c1f8ffffff", "488b0d04020000"));
        let offsets = goroutine_offsets(0x1000, &shared, &bytes(MORESTACK_1_19));
        let known = GoroutineOffsets { g: 0x1000 + 5 + 7 + 0x204, is_g_looked_up: true, ..known };
        assert_eq!(offsets, Some(known));
    }

    #[test]
    fn other_instructions_say_nothing() {
        let (systemstack, morestack) = (bytes(SYSTEMSTACK), bytes(MORESTACK));
        for length in 0..systemstack.len() - 7 {
            assert_eq!(goroutine_offsets(0x1000, &systemstack[..length], &morestack), None);
        }
        for length in 0..morestack.len() - 4 {
            assert_eq!(goroutine_offsets(0x1000, &systemstack, &morestack[..length]), None);
        }
        // The stack pointer goes into another structure than the others.
        let other = bytes(&MORESTACK.replace("48894738", "48894638"));
        assert_eq!(goroutine_offsets(0x1000, &systemstack, &other), None);
        // rip is not next to rsp.
        let other = bytes(&MORESTACK.replace("48894740", "48894748"));
        assert_eq!(goroutine_offsets(0x1000, &systemstack, &other), None);
    }

    #[test]
    fn a_call_of_c_is_noted_beside_its_arguments() {
        let code = bytes(ASMCGOCALL_1_19);
        let rules = call_rules(&code).unwrap();
        let call = Rule::go_call(48, 40, 8);
        assert_eq!((rules[1], rules[4]), ((0x5c, 0x7e, call), (0x99, 0xa9, call)));
        assert!(rules.windows(2).all(|pair| pair[0].1 == pair[1].0), "{rules:x?}");
        for length in 0..0xa9 {
            assert_eq!(call_rules(&code[..length]), None, "{length} bytes");
        }
        // The goroutine is noted elsewhere by one of the two ways.
        assert_eq!(call_rules(&bytes(&ASMCGOCALL_1_19.replace("48c7442430", "48c7442438"))), None);
    }

    #[test]
    fn calls_are_known_by_their_target() {
        let code = bytes("90 e80b000000 e8fbffffff e800");
        assert_eq!(calls_of(&code, 0x1000, &[0x1011]), [0x1006]);
        assert_eq!(calls_of(&code, 0x1000, &[0x1011, 0x1006]), [0x1006, 0x100b]);
        assert!(calls_of(&code, 0x1000, &[]).is_empty());
    }
}
