//! The old list in vector registers and on the stack, where no general register holds it.

use super::loop_setups::{CALL, CLEAR_EAX, LOAD_OLD, NEW_RCX, OPEN_RCX, setups};
use crate::runtimes::python::loop_setup::OldList::{self, CFrameAt, CFrameIn, FrameAt, FrameIn, Lost};

const COPY_RBP: &[u8] = &[0x48, 0x89, 0xcd]; // mov rbp, rcx
const CLOSE_RBP: &[u8] = &[0x48, 0x89, 0x75, 0x08]; // mov [rbp + 8], rsi
const KEEP_HEAD: &[u8] = &[0x0f, 0x16, 0x40, 0x08]; // movhps xmm0, [rax + 8]
const STORE_XMM0: &[u8] = &[0x0f, 0x11, 0x44, 0x24, 0x60]; // movups [rsp + 0x60], xmm0
const STORE_OLD: &[u8] = &[0x48, 0x89, 0x44, 0x24, 0x60]; // mov [rsp + 0x60], rax

/// Answer for the instruction that closes the window, after `code` in the window of 3.11.
fn last_answer(code: &[&[u8]]) -> Option<OldList> {
    let window = [&[LOAD_OLD, NEW_RCX, OPEN_RCX, COPY_RBP][..], code, &[CLOSE_RBP]].concat();
    setups(&window).last().map(|part| part.2)
}

#[test]
fn words_are_followed_through_vector_registers() {
    let cases: &[(&[u8], OldList)] = &[
        (&[0x48, 0x89, 0x44, 0x24, 0x60], CFrameAt(0x60)), // mov [rsp + 0x60], rax
        // movq xmm1, rax; punpcklqdq xmm0, xmm1; movaps [rsp + 0x60], xmm0
        (
            &[0x66, 0x48, 0x0f, 0x6e, 0xc8, 0x66, 0x0f, 0x6c, 0xc1, 0x0f, 0x29, 0x44, 0x24, 0x60],
            CFrameAt(0x68),
        ),
        // movq xmm0, [rax + 8]; movdqa xmm5, xmm0; movq [rsp + 0x60], xmm5
        (
            &[0xf3, 0x0f, 0x7e, 0x40, 0x08, 0x66, 0x0f, 0x6f, 0xe8, 0x66, 0x0f, 0xd6, 0x6c, 0x24, 0x60],
            FrameAt(0x60),
        ),
        // pinsrq xmm0, rax, 1; movhps [rsp + 0x60], xmm0
        (&[0x66, 0x48, 0x0f, 0x3a, 0x22, 0xc0, 0x01, 0x0f, 0x17, 0x44, 0x24, 0x60], CFrameAt(0x60)),
        // movsd xmm0, [rax + 8]; unpcklpd xmm1, xmm0; movhpd [rsp + 0x60], xmm1
        (
            &[0xf2, 0x0f, 0x10, 0x40, 0x08, 0x66, 0x0f, 0x14, 0xc8, 0x66, 0x0f, 0x17, 0x4c, 0x24, 0x60],
            FrameAt(0x60),
        ),
        // movups xmm3, [rax]; movsd xmm3, xmm1; movups [rsp + 0x60], xmm3
        (&[0x0f, 0x10, 0x18, 0xf2, 0x0f, 0x10, 0xd9, 0x0f, 0x11, 0x5c, 0x24, 0x60], FrameAt(0x68)),
        // movlps xmm0, [rax + 8]; movlhps xmm1, xmm0; pextrq [rsp + 0x60], xmm1, 1
        (
            &[0x0f, 0x12, 0x40, 0x08, 0x0f, 0x16, 0xc8, 0x66, 0x48, 0x0f, 0x3a, 0x16, 0x4c, 0x24, 0x60, 0x01],
            FrameAt(0x60),
        ),
        // movq xmm1, rax; movq rbx, xmm1
        (&[0x66, 0x48, 0x0f, 0x6e, 0xc8, 0x66, 0x48, 0x0f, 0x7e, 0xcb], CFrameIn(3)),
        // movhps xmm1, [rax + 8]; pextrq rbx, xmm1, 1
        (&[0x0f, 0x16, 0x48, 0x08, 0x66, 0x48, 0x0f, 0x3a, 0x16, 0xcb, 0x01], FrameIn(3)),
        // mov [rsp + 0x60], rax; movhps xmm1, [rsp + 0x60]; movaps [rsp + 0x70], xmm1; mov [rsp + 0x60], rdx
        (
            &[
                0x48, 0x89, 0x44, 0x24, 0x60, 0x0f, 0x16, 0x4c, 0x24, 0x60, 0x0f, 0x29, 0x4c, 0x24, 0x70,
                0x48, 0x89, 0x54, 0x24, 0x60,
            ],
            CFrameAt(0x78),
        ),
    ];
    for (code, expected) in cases {
        assert_eq!(last_answer(&[code, CLEAR_EAX]), Some(*expected), "{code:x?}");
    }
}

#[test]
fn words_are_followed_through_forms_of_three_operands() {
    let cases: &[(&[u8], OldList)] = &[
        // vmovq xmm1, rax; vpinsrq xmm2, xmm1, [rax + 8], 1; vmovups [rsp + 0x60], ymm2
        (
            &[
                0xc4, 0xe1, 0xf9, 0x6e, 0xc8, 0xc4, 0xe3, 0xf1, 0x22, 0x50, 0x08, 0x01, 0xc5, 0xfc, 0x11,
                0x54, 0x24, 0x60,
            ],
            FrameAt(0x68),
        ),
        // vmovhps xmm1, xmm2, [rax + 8]; vmovsd xmm3, xmm1, xmm4; vmovdqu [rsp + 0x60], xmm3
        (
            &[0xc5, 0xe8, 0x16, 0x48, 0x08, 0xc5, 0xf3, 0x10, 0xdc, 0xc5, 0xfa, 0x7f, 0x5c, 0x24, 0x60],
            FrameAt(0x68),
        ),
        // vmovq xmm1, rax; vpunpcklqdq xmm2, xmm1, xmm0; vmovlps [rsp + 0x60], xmm2
        (
            &[0xc4, 0xe1, 0xf9, 0x6e, 0xc8, 0xc5, 0xf1, 0x6c, 0xd0, 0xc5, 0xf8, 0x13, 0x54, 0x24, 0x60],
            CFrameAt(0x60),
        ),
    ];
    for (code, expected) in cases {
        assert_eq!(last_answer(&[code, CLEAR_EAX]), Some(*expected), "{code:x?}");
    }
}

#[test]
fn other_writes_end_a_vector_register() {
    let cases: &[&[u8]] = &[
        &[0x66, 0x0f, 0xef, 0xc0],                   // pxor xmm0, xmm0
        &[0x0f, 0x12, 0xc1],                         // movhlps xmm0, xmm1
        &[0xf2, 0x0f, 0x10, 0x04, 0x24],             // movsd xmm0, [rsp]
        &[0x0f, 0x16, 0],                            // movhps xmm0, [rax]
        &[0x0f, 0x28, 0xc1],                         // movaps xmm0, xmm1
        &[0xf2, 0x0f, 0x2a, 0xc2],                   // cvtsi2sd xmm0, edx
        &[0x66, 0x0f, 0xd4, 0xc1],                   // paddq xmm0, xmm1
        &[0xc5, 0xf5, 0xef, 0xc1],                   // vpxor ymm0, ymm1, ymm1
        &[0x62, 0xf1, 0x7c, 0x09, 0x10, 0xc1],       // vmovups xmm0{k1}, xmm1
        &[0x66, 0x48, 0x0f, 0x3a, 0x22, 0xc2, 0x01], // pinsrq xmm0, rdx, 1
        &[0xe8, 0, 0, 0, 0],                         // call .+5
    ];
    assert_eq!(last_answer(&[KEEP_HEAD, STORE_XMM0, CLEAR_EAX]), Some(FrameAt(0x68)));
    for case in cases {
        assert_eq!(last_answer(&[KEEP_HEAD, case, STORE_XMM0, CLEAR_EAX]), Some(Lost), "{case:x?}");
    }
    let masked = [0x62, 0xf1, 0x7c, 0x09, 0x11, 0x44, 0x24, 0x06]; // vmovups [rsp + 0x60]{k1}, xmm0
    assert_eq!(last_answer(&[KEEP_HEAD, &masked, CLEAR_EAX]), Some(Lost));
}

#[test]
fn stores_end_a_word_of_the_stack() {
    let cases: &[&[u8]] = &[
        &[0xc6, 0x44, 0x24, 0x67, 0],                      // mov byte [rsp + 0x67], 0
        &[0x66, 0xc7, 0x44, 0x24, 0x5f, 0, 0],             // mov word [rsp + 0x5f], 0
        &[0x0f, 0x11, 0x4c, 0x24, 0x58],                   // movups [rsp + 0x58], xmm1
        &[0x48, 0x89, 0x0a],                               // mov [rdx], rcx
        &[0x48, 0x89, 0x0c, 0x16],                         // mov [rsi + rdx], rcx
        &[0xe8, 0, 0, 0, 0],                               // call .+5
        &[0x48, 0x89, 0xd4],                               // mov rsp, rdx
        &[0x48, 0x83, 0xc4, 0x68, 0x48, 0x83, 0xec, 0x68], // add rsp, 0x68; sub rsp, 0x68
    ];
    for case in cases {
        assert_eq!(last_answer(&[STORE_OLD, CLEAR_EAX, case]), Some(Lost), "{case:x?}");
    }
    // A rep movsb to the stack may also write the slot that closes the window.
    let code: &[&[u8]] = &[STORE_OLD, CLEAR_EAX, &[0x48, 0x89, 0xe7], &[0xf3, 0xa4]];
    assert_eq!(last_answer(code), Some(Lost));
}

#[test]
fn words_of_the_stack_move_with_the_stack_pointer() {
    let cases: &[(&[u8], u16)] = &[
        (&[0xc7, 0x44, 0x24, 0x5c, 0, 0, 0, 0], 0x60), // mov dword [rsp + 0x5c], 0
        (&[0x0f, 0x11, 0x4c, 0x24, 0x68], 0x60),       // movups [rsp + 0x68], xmm1
        (&[0x48, 0x89, 0x4e, 0x08], 0x60),             // mov [rsi + 8], rcx
        (&[0x89, 0x57, 0x24], 0x60),                   // mov [rdi + 0x24], edx
        (&[0x89, 0x05, 0x34, 0x12, 0, 0], 0x60),       // mov [rip + 0x1234], eax
        (&[0x64, 0x89, 0x02], 0x60),                   // mov fs:[rdx], eax
        (&[0x52], 0x68),                               // push rdx
        (&[0x48, 0x83, 0xec, 0x20], 0x80),             // sub rsp, 0x20
        (&[0x48, 0x83, 0xc4, 0x60], 0),                // add rsp, 0x60
    ];
    for (case, offset) in cases {
        let expected = Some(CFrameAt(*offset));
        assert_eq!(last_answer(&[STORE_OLD, CLEAR_EAX, case]), expected, "{case:x?}");
    }
    let far = [0x48, 0x81, 0xec, 0, 0, 0x01, 0]; // sub rsp, 0x10000
    assert_eq!(last_answer(&[STORE_OLD, CLEAR_EAX, &far]), Some(Lost));
}

#[test]
fn words_of_the_stack_hold_on_both_ways_or_not_at_all() {
    let skip_store: &[u8] = &[0x74, 0x05]; // je over the store
    assert_eq!(last_answer(&[skip_store, STORE_OLD, CLEAR_EAX]), Some(Lost));
    assert_eq!(last_answer(&[STORE_OLD, CLEAR_EAX, skip_store, CALL]), Some(Lost));
    assert_eq!(last_answer(&[STORE_OLD, CLEAR_EAX, skip_store, &[0x90; 5]]), Some(CFrameAt(0x60)));
    let skip_load: &[u8] = &[0x74, 0x04]; // je over the load of the upper word
    assert_eq!(last_answer(&[skip_load, KEEP_HEAD, STORE_XMM0, CLEAR_EAX]), Some(Lost));
}
