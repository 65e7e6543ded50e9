//! The window at the start of the interpreter loop: prologues of real builds, and code that must not be believed.

use crate::runtimes::python::loop_setup::OldList::{CFrameIn, FrameAt, FrameIn, Lost};
use crate::runtimes::python::loop_setup::{LoopSetup, OldList, loop_setup};

const LOOP: u64 = 0x1000;
/// Offset of the pointer in a thread state.
const STATE: u32 = 0x38;

const PUSH_ALL: &[u8] = &[0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54, 0x55, 0x53];
const RESERVE: &[u8] = &[0x48, 0x81, 0xec, 0x28, 0x01, 0, 0]; // sub rsp, 0x128
pub(super) const LOAD_OLD: &[u8] = &[0x48, 0x8b, 0x47, 0x38]; // mov rax, [rdi + 0x38]
pub(super) const NEW_RCX: &[u8] = &[0x48, 0x8d, 0x4c, 0x24, 0x40]; // lea rcx, [rsp + 0x40]
pub(super) const OPEN_RCX: &[u8] = &[0x48, 0x89, 0x4f, 0x38]; // mov [rdi + 0x38], rcx
const HEAD_RDX: &[u8] = &[0x48, 0x8b, 0x50, 0x08]; // mov rdx, [rax + 8]
pub(super) const CLEAR_EAX: &[u8] = &[0x31, 0xc0]; // xor eax, eax
const CLOSE_RSI: &[u8] = &[0x48, 0x89, 0x74, 0x24, 0x48]; // mov [rsp + 0x48], rsi
pub(super) const CALL: &[u8] = &[0xe8, 0, 1, 0, 0];

/// Answers for code at `LOOP`, ranges relative to it.
fn setups_at(code: &[&[u8]], current_frame: u32) -> Vec<(u64, u64, OldList)> {
    let bytes = code.concat();
    let end = LOOP + bytes.len() as u64;
    let read = |address: u64, size: u64| {
        let start = usize::try_from(address.checked_sub(LOOP)?).ok()?;
        Some(bytes.get(start..start.checked_add(usize::try_from(size).ok()?)?)?.to_vec())
    };
    loop_setup(LOOP..end, &read, STATE, current_frame)
        .into_iter()
        .map(|LoopSetup { range, list }| (range.start - LOOP, range.end - LOOP, list))
        .collect()
}

/// Answers for code of the offsets of 3.11.
pub(super) fn setups(code: &[&[u8]]) -> Vec<(u64, u64, OldList)> {
    setups_at(code, 8)
}

#[test]
fn prologue_of_3_12_keeps_the_c_frame_then_the_head_on_the_stack() {
    let code: &[&[u8]] = &[
        PUSH_ALL,
        &[0x48, 0x81, 0xec, 0x48, 0x01, 0, 0], // sub rsp, 0x148
        &[0x48, 0x89, 0x7c, 0x24, 0x08],       // mov [rsp + 8], rdi
        &[0x48, 0x85, 0xff, 0x0f, 0x84, 0x29, 0xae, 0, 0], // test rdi, rdi; je far
        &[0x48, 0x8d, 0x84, 0x24, 0x80, 0, 0, 0], // lea rax, [rsp + 0x80]
        &[0x89, 0xd5, 0x48, 0x89, 0xf3],       // mov ebp, edx; mov rbx, rsi
        &[0x48, 0x8b, 0x57, 0x38],             // mov rdx, [rdi + 0x38]
        &[0x48, 0x89, 0x47, 0x38],             // mov [rdi + 0x38], rax
        &[0x48, 0x8b, 0x47, 0x10],             // 52: mov rax, [rdi + 0x10]
        &[0xc6, 0x84, 0x24, 0x36, 0x01, 0, 0, 0x03], // mov byte [rsp + 0x136], 3
        &[0x66, 0x48, 0x0f, 0x6e, 0xd2],       // movq xmm2, rdx
        &[0x48, 0x8b, 0x80, 0x28, 0xd3, 0x05, 0], // mov rax, [rax + 0x5d328]
        &[0xc7, 0x84, 0x24, 0x30, 0x01, 0, 0, 0, 0, 0, 0], // mov dword [rsp + 0x130], 0
        &[0x48, 0x8d, 0x88, 0xc0, 0, 0, 0],    // lea rcx, [rax + 0xc0]
        &[0x66, 0x48, 0x0f, 0x6e, 0xc0],       // movq xmm0, rax
        &[0x48, 0x8d, 0x84, 0x24, 0xf0, 0, 0, 0], // lea rax, [rsp + 0xf0]
        &[0x0f, 0x16, 0x02],                   // movhps xmm0, [rdx]
        &[0x48, 0x89, 0x44, 0x24, 0x40],       // mov [rsp + 0x40], rax
        &[0x48, 0x89, 0x46, 0x08, 0x8b, 0x47, 0x24], // mov [rsi + 8], rax; mov eax, [rdi + 0x24]
        &[0x0f, 0x29, 0x84, 0x24, 0xf0, 0, 0, 0], // movaps [rsp + 0xf0], xmm0
        &[0x66, 0x48, 0x0f, 0x6e, 0xc6, 0x8d, 0x50, 0xfe], // movq xmm0, rsi; lea edx, [rax - 2]
        &[0x48, 0x89, 0x8c, 0x24, 0x28, 0x01, 0, 0], // 138: mov [rsp + 0x128], rcx
        &[0x66, 0x0f, 0x6c, 0xc2, 0x31, 0xc9], // punpcklqdq xmm0, xmm2; xor ecx, ecx
        &[0x83, 0xe8, 0x01],                   // sub eax, 1
        &[0x66, 0x89, 0x8c, 0x24, 0x34, 0x01, 0, 0], // mov [rsp + 0x134], cx
        &[0x89, 0x57, 0x24],                   // mov [rdi + 0x24], edx
        &[0x0f, 0x29, 0x84, 0x24, 0x80, 0, 0, 0], // movaps [rsp + 0x80], xmm0
        &[0x85, 0xc0],                         // 174: test eax, eax
    ];
    assert_eq!(setups_at(code, 0), [(52, 138, CFrameIn(1)), (138, 174, FrameAt(0xf8))]);
}

#[test]
fn prologue_of_3_11_keeps_the_c_frame_then_the_head() {
    let code: &[&[u8]] = &[
        PUSH_ALL,
        &[0x48, 0x81, 0xec, 0x18, 0x01, 0, 0], // sub rsp, 0x118
        &[0x48, 0x85, 0xff, 0x0f, 0x84, 0x72, 0x97, 0, 0], // test rdi, rdi; je far
        &[0x48, 0x8b, 0x47, 0x10, 0x48, 0x89, 0xf5], // mov rax, [rdi + 0x10]; mov rbp, rsi
        &[0x48, 0x8d, 0xb4, 0x24, 0xa0, 0, 0, 0], // lea rsi, [rsp + 0xa0]
        &[0x49, 0x89, 0xfc, 0x66, 0x48, 0x0f, 0x6e, 0xc5], // mov r12, rdi; movq xmm0, rbp
        &[0x48, 0x89, 0x44, 0x24, 0x20],       // mov [rsp + 0x20], rax
        &[0x48, 0x8b, 0x47, 0x38, 0x0f, 0xb6, 0x08], // mov rax, [rdi + 0x38]; movzx ecx, byte [rax]
        &[0x66, 0x48, 0x0f, 0x6e, 0xd8],       // movq xmm3, rax
        &[0x48, 0x89, 0x77, 0x38],             // mov [rdi + 0x38], rsi
        &[0x48, 0x8b, 0x70, 0x08, 0x66, 0x0f, 0x6c, 0xc3], // 70: mov rsi, [rax + 8]; punpcklqdq xmm0, xmm3
        &[0x8b, 0x47, 0x20],                   // mov eax, [rdi + 0x20]
        &[0xc6, 0x45, 0x44, 0x01],             // 81: mov byte [rbp + 0x44], 1
        &[0x88, 0x8c, 0x24, 0xa0, 0, 0, 0],    // mov [rsp + 0xa0], cl
        &[0x48, 0x89, 0x75, 0x30],             // mov [rbp + 0x30], rsi
        &[0x0f, 0x11, 0x84, 0x24, 0xa8, 0, 0, 0, 0x85, 0xd2], // movups [rsp + 0xa8], xmm0; test edx, edx
    ];
    assert_eq!(setups(code), [(70, 81, CFrameIn(0)), (81, 104, FrameIn(4))]);
}

#[test]
fn prologue_of_debian_3_11_keeps_the_c_frame_then_the_head() {
    let code: &[&[u8]] = &[
        PUSH_ALL,
        RESERVE,
        &[0x48, 0x85, 0xff, 0x0f, 0x84, 0xf8, 0xda, 0xf2, 0xff], // test rdi, rdi; je far, backward
        &[0x48, 0x8b, 0x47, 0x10, 0x66, 0x48, 0x0f, 0x6e, 0xc6], // mov rax, [rdi + 0x10]; movq xmm0, rsi
        &[0x85, 0xd2, 0x49, 0x89, 0xfc, 0x48, 0x89, 0xf3],       // test edx, edx; mov r12, rdi; mov rbx, rsi
        &[0x48, 0x89, 0x44, 0x24, 0x08],                         // mov [rsp + 8], rax
        &[0x48, 0x8b, 0x47, 0x38, 0x0f, 0xb6, 0x08], // mov rax, [rdi + 0x38]; movzx ecx, byte [rax]
        &[0x66, 0x48, 0x0f, 0x6e, 0xd8, 0x66, 0x0f, 0x6c, 0xc3], // movq xmm3, rax; punpcklqdq xmm0, xmm3
        &[0x88, 0x8c, 0x24, 0xb0, 0, 0, 0],          // mov [rsp + 0xb0], cl
        &[0x48, 0x8d, 0x8c, 0x24, 0xb0, 0, 0, 0],    // lea rcx, [rsp + 0xb0]
        &[0x48, 0x89, 0x4f, 0x38],                   // mov [rdi + 0x38], rcx
        &[0x48, 0x8b, 0x48, 0x08, 0x8b, 0x47, 0x20], // 83: mov rcx, [rax + 8]; mov eax, [rdi + 0x20]
        &[0xc6, 0x46, 0x44, 0x01],                   // 90: mov byte [rsi + 0x44], 1
        &[0x48, 0x89, 0x4e, 0x30, 0x8d, 0x50, 0xff], // mov [rsi + 0x30], rcx; lea edx, [rax - 1]
        &[0x0f, 0x11, 0x84, 0x24, 0xb8, 0, 0, 0, 0x89, 0x57, 0x20], // movups [rsp + 0xb8], xmm0
    ];
    assert_eq!(setups(code), [(83, 90, CFrameIn(0)), (90, 109, FrameIn(2))]);
}

#[test]
fn spilled_and_aligned_prologue_is_followed() {
    let code: &[&[u8]] = &[
        &[0x55, 0x48, 0x89, 0xe5],                   // push rbp; mov rbp, rsp
        &[0x48, 0x83, 0xe4, 0xe0],                   // and rsp, -32
        &[0x48, 0x81, 0xec, 0x80, 0, 0, 0],          // sub rsp, 0x80
        &[0x48, 0x89, 0x3c, 0x24],                   // mov [rsp], rdi
        CALL,                                        // may change rdi
        &[0x4c, 0x8b, 0x24, 0x24],                   // mov r12, [rsp]
        &[0x49, 0x8b, 0x44, 0x24, 0x38, 0x50, 0x5b], // mov rax, [r12 + 0x38]; push rax; pop rbx
        NEW_RCX,
        &[0x49, 0x89, 0x4c, 0x24, 0x38], // mov [r12 + 0x38], rcx
        CLEAR_EAX,                       // 45
        CALL,
        &[0x48, 0x8b, 0x5b, 0x08],                   // 52: mov rbx, [rbx + 8]
        &[0xc5, 0xfc, 0x11, 0x44, 0x24, 0x30, 0x90], // 56: vmovups [rsp + 0x30], ymm0; nop
    ];
    assert_eq!(setups(code), [(45, 47, CFrameIn(0)), (47, 56, CFrameIn(3)), (56, 62, FrameIn(3))]);
}

#[test]
fn jumps_into_the_window_weaken_the_answer() {
    let open = [LOAD_OLD, NEW_RCX, OPEN_RCX];
    // je over the xor: the old pointer is lost on one of the two ways.
    let code = [&open[..], &[&[0x74, 0x02], CLEAR_EAX, CLOSE_RSI]].concat();
    assert_eq!(setups(&code), [(13, 17, CFrameIn(0)), (17, 22, Lost)]);
    // A jump over the opening store, and a loop in the window, are not understood.
    let code = [&[&[0x74, 0x0e][..]], &open[..], &[&[0x90], CLOSE_RSI]].concat();
    assert_eq!(setups(&code), [(15, 21, Lost)]);
    let code = [&open[..], &[&[0x90], CLOSE_RSI, &[0x74, 0xf9]]].concat();
    assert_eq!(setups(&code), [(13, 19, Lost)]);
    // A loop before the window loses the thread state.
    let code = [&[&[0x90, 0x74, 0xfd][..]], &open[..], &[CLOSE_RSI]].concat();
    assert_eq!(setups(&code), []);
}

#[test]
fn loads_and_writes_of_parts_do_not_count() {
    let close = [CLEAR_EAX, CLOSE_RSI];
    // Loaded after the store, it is the new pointer.
    let code = [&[NEW_RCX, OPEN_RCX, LOAD_OLD, HEAD_RDX][..], &close].concat();
    assert_eq!(setups(&code), [(9, 24, Lost)]);
    // mov al, 0 and cmovne rax, rcx change the register; mov edx, eax is half of a copy.
    for change in [&[0xb0, 0x00][..], &[0x48, 0x0f, 0x45, 0xc1], &[0x89, 0xc2, 0x31, 0xc0]] {
        let code = [&[LOAD_OLD, NEW_RCX, OPEN_RCX, change][..], &close].concat();
        assert_eq!(setups(&code).last().map(|part| part.2), Some(Lost));
    }
    // The register of the answer stays while it can: rdx is a copy.
    let code = [&[LOAD_OLD, &[0x48, 0x89, 0xc2], NEW_RCX, OPEN_RCX][..], &close].concat();
    assert_eq!(setups(&code), [(16, 18, CFrameIn(0)), (18, 23, CFrameIn(1))]);
}

#[test]
fn code_without_a_window_is_empty() {
    let open = [LOAD_OLD, NEW_RCX, OPEN_RCX];
    let early = [&[LOAD_OLD, NEW_RCX, CLOSE_RSI, OPEN_RCX][..], &[CLOSE_RSI]].concat();
    let cases: &[&[&[u8]]] = &[
        &[],
        &open,
        &[LOAD_OLD, &[0x48, 0x89, 0x77, 0x38], CLOSE_RSI], // a frame is stored, as 3.13 does
        &early,                                            // filled in first
        &[&open.concat(), &[0xc3], CLOSE_RSI],             // ret
        &[&open.concat(), &[0xeb, 0x00], CLOSE_RSI],       // jmp
        &[&open.concat(), &[0xff, 0xe0], CLOSE_RSI],       // jmp rax
        &[&open.concat(), &[0x0f, 0x0b], CLOSE_RSI],       // ud2
        &[&open.concat(), &[0x06], CLOSE_RSI],             // no instruction
        &[&open.concat(), &CLOSE_RSI[..3]],                // cut short
        &[&open.concat(), &[0x90; 512], CLOSE_RSI],        // too far
        &[&[0x48, 0x29, 0xc4], &open.concat(), CLOSE_RSI], // sub rsp, rax
        &[&[0x0f, 0x11, 0x47, 0x30], &open.concat(), CLOSE_RSI], // movups [rdi + 0x30], xmm0
    ];
    for (index, code) in cases.iter().enumerate() {
        assert_eq!(setups(code), [], "case {index}");
    }
}

#[test]
fn stores_that_are_not_understood_lose_the_window() {
    let cases: &[&[u8]] = &[
        &[0xc7, 0x44, 0x24, 0x48, 0, 0, 0, 0], // mov dword [rsp + 0x48], 0
        &[0x48, 0x89, 0x74, 0xc4, 0x48],       // mov [rsp + rax * 8 + 0x48], rsi
        &[0x48, 0x89, 0xcf, 0xf3, 0x48, 0xab], // mov rdi, rcx; rep stosq
        &[0x48, 0x89, 0x70, 0x08],             // mov [rax + 8], rsi
        &[0x48, 0x89, 0x77, 0x38],             // mov [rdi + 0x38], rsi
    ];
    for case in cases {
        let code: &[&[u8]] = &[LOAD_OLD, NEW_RCX, OPEN_RCX, case, CLOSE_RSI];
        assert_eq!(setups(code), [(13, 18 + case.len() as u64, Lost)], "{case:x?}");
    }
}

#[test]
fn hostile_ranges_and_bytes_end() {
    let nothing = |_: u64, _: u64| None;
    let endless = |_: u64, _: u64| Some(vec![0x74; 1 << 20]);
    for range in [0..u64::MAX, u64::MAX - 4..u64::MAX, 8..8] {
        assert_eq!(loop_setup(range.clone(), &nothing, u32::MAX, u32::MAX), []);
        assert_eq!(loop_setup(range, &endless, u32::MAX, u32::MAX), []);
    }
    // Nested jumps to the same places.
    assert_eq!(setups(&[&[0x74, 0x02, 0x74, 0x00].repeat(128)]), []);
    let mut seed = 1_u64;
    for _ in 0..2_000 {
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed.to_be_bytes()[0]
        })
        .take(64)
        .collect();
        let code: &[&[u8]] = &[LOAD_OLD, NEW_RCX, OPEN_RCX, &bytes, CLOSE_RSI];
        let parts = setups(code);
        assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0 && pair[0].2 != pair[1].2));
    }
}
