//! The functions of libgcc that go on in the frame which catches an exception (`__builtin_eh_return`, x86-64).
//!
//! Their entries describe them as functions that return to their caller, which is wrong towards the end:
//!
//! ```text
//!     call uw_install_context_1     writes the catching frame's rbp and return address over those of this function
//!     mov  n+8(%rbp), %rsi          the landing pad's address, from the description of the catching frame, and its
//!     mov  n(%rbp), %rdi            CFA
//!     call _Unwind_DebugHook
//!     mov  %rsi, 8(%rbp,%rdx)       writes the landing pad's address over the return address of a frame further up
//!     lea  8(%rbp,%rcx), %rcx       rcx: where that is
//!     mov  …                        the registers of the catching frame, rbp last
//!     mov  %rcx, %rsp; pop %rcx; jmp *%rcx
//! ```
//!
//! A landing pad is often the first instruction of a function's cold part, and nothing calls it: looked up one byte
//! before, as return addresses are, it would belong to another function. With the wrong return address and rbp a walk
//! would find frames that are none, and leave others out. From the first of these calls on the caller is therefore the
//! frame that catches, as libgcc describes it.

use super::bytes::CodeBytes;
use crate::unwind::rule::{RBP, RSP, RaKind, RbpKind, Rule, RuleKind};
use crate::unwind::table::span::Span;
use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register,
};

/// DWARF number of rcx, which holds the new stack pointer.
const RCX: u8 = 2;
/// Rule that the entries have for the first instruction of the end: the CFA is found by rcx.
pub(super) const LAST_ROW: Rule = Rule::reg(RCX, 8);
/// `mov %rcx, %rsp; pop %rcx; jmp *%rcx`
const END: [u8; 6] = [0x48, 0x89, 0xcc, 0x59, 0xff, 0xe1];
/// Longer functions are none of these, bytes.
pub(crate) const MAX_FUNCTION_BYTES: u64 = 16_384;

/// Rules for such a function. `rows` are its entry's, by address; the last of them with [`LAST_ROW`] is where it ends.
/// Empty where its instructions are not those above.
pub(crate) fn rules(function: &CodeBytes, rows: &[(u64, Rule)]) -> Vec<Span> {
    find(function, rows).unwrap_or_default()
}

fn find(function: &CodeBytes, rows: &[(u64, Rule)]) -> Option<Vec<Span>> {
    let &(end, _) = rows.iter().rfind(|(_, rule)| *rule == LAST_ROW)?;
    let at = usize::try_from(end.checked_sub(function.start)?).ok()?;
    if !function.bytes.get(at..)?.starts_with(&END) {
        return None;
    }
    let way = Way::read(&function.bytes[..at], function.start)?;
    let frame = Rule::reg(RSP, way.frame_bytes?);
    let mut spans = Vec::new();
    // The frame's size does not change: where its entry goes by rbp, which may be lost further down, go by rsp.
    for (index, &(start, rule)) in rows.iter().enumerate() {
        let next = rows.get(index + 1).map_or(function.end(), |row| row.0);
        let (start, next) = (start.max(way.frame_from), next.min(way.install));
        let is_by_rbp = rule.kind == RuleKind::Reg && (rule.cfa_reg, rule.cfa_off) == (RBP, 16);
        if is_by_rbp && rule.ra_kind == RaKind::AtCfa && rule.rbp_kind == RbpKind::AtCfa && start < next {
            spans.push(Span { start, end: next, rule: frame.with_rbp_at_cfa(rule.rbp_off) });
        }
    }
    let context = way.context.checked_add(way.frame_bytes?.checked_sub(16)?)?;
    let steps = [
        (way.install, end, Rule::landing(context)),
        (end, end + 3, Rule::reg(RCX, 8).with_jump()),
        (end + 3, end + 4, Rule::reg(RSP, 8).with_jump()),
        // The word has been popped, and is still below rsp.
        (end + 4, end + 6, Rule::reg(RSP, 0).with_jump()),
    ];
    spans.extend(steps.map(|(start, end, rule)| Span { start, end, rule }));
    Some(spans)
}

/// Facts that the instructions up to the end tell.
struct Way {
    /// Distance from rsp to the CFA once the frame is complete, if it has one size.
    frame_bytes: Option<i32>,
    /// From here on.
    frame_from: u64,
    /// The call that writes over what was saved.
    install: u64,
    /// From the frame's rbp to the CFA in the description of the catching frame, bytes.
    context: i32,
}

impl Way {
    /// Reads the instructions one by one, as they lie.
    fn read(bytes: &[u8], start: u64) -> Option<Self> {
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let mut info = InstructionInfoFactory::new();
        let mut instruction = Instruction::default();
        let (mut frame, mut frame_from) = (Some(8i32), start);
        let (mut call, mut install, mut loads) = (None, None, Loads::default());
        let mut context = None;
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let next = instruction.next_ip();
            match instruction.mnemonic() {
                Mnemonic::INVALID => return None,
                Mnemonic::Call => {
                    // The one between them tells debuggers.
                    if loads.context().is_some() {
                        (install, context) = (call, loads.context());
                    }
                    (call, loads) = (Some(instruction.ip()), Loads::default());
                }
                Mnemonic::Mov if instruction.memory_base() == Register::RBP => loads.take(&instruction),
                // On the way out; what follows it lies after a jump.
                Mnemonic::Leave | Mnemonic::Ret => (),
                Mnemonic::Push if call.is_none() => {
                    frame = frame.map(|bytes| bytes + 8);
                    frame_from = next;
                }
                Mnemonic::Sub if call.is_none() && is_size_of_frame(&instruction) => {
                    let size = i32::try_from(instruction.immediate(1)).ok()?;
                    frame = frame.and_then(|bytes| bytes.checked_add(size));
                    frame_from = next;
                }
                // Not of one size.
                _ => {
                    let used = info.info(&instruction).used_registers();
                    let writes =
                        |access| !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead);
                    if used.iter().any(|used| used.register() == Register::RSP && writes(used.access())) {
                        frame = None;
                    }
                }
            }
        }
        Some(Self { frame_bytes: frame, frame_from, install: install?, context: context? })
    }
}

/// `sub $n, %rsp`
fn is_size_of_frame(instruction: &Instruction) -> bool {
    instruction.op0_register() == Register::RSP
        && matches!(instruction.code(), Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32)
}

/// Places of what was loaded since the last call for the next one, from rbp, bytes.
#[derive(Debug, Default)]
struct Loads {
    landing_pad: Option<i32>,
    cfa: Option<i32>,
}

impl Loads {
    fn take(&mut self, instruction: &Instruction) {
        let place = i32::try_from(instruction.memory_displacement64().cast_signed()).ok();
        match (instruction.code(), instruction.op0_register()) {
            (Code::Mov_r64_rm64, Register::RSI) => self.landing_pad = place,
            (Code::Mov_r64_rm64, Register::RDI) => self.cfa = place,
            _ => (),
        }
    }

    /// Returns the offset of the CFA, if the landing pad is in the word after it.
    fn context(&self) -> Option<i32> {
        self.cfa.filter(|cfa| cfa.checked_add(8) == self.landing_pad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: [u8; 36] = [
        0x55, // 1000: push %rbp
        0x48, 0x89, 0xe5, // mov %rsp, %rbp
        0x48, 0x83, 0xec, 0x40, // 1004: sub $64, %rsp
        0xe8, 0, 0, 0, 0, // 1008: call uw_install_context_1
        0x48, 0x8b, 0x75, 0xe8, // mov -24(%rbp), %rsi
        0x48, 0x8b, 0x7d, 0xe0, // mov -32(%rbp), %rdi
        0xe8, 0, 0, 0, 0, // call _Unwind_DebugHook
        0x48, 0x8b, 0x6d, 0x00, // mov (%rbp), %rbp
        0x48, 0x89, 0xcc, // 101e: mov %rcx, %rsp
        0x59, // 1021: pop %rcx
        0xff, 0xe1, // 1022: jmp *%rcx
    ];

    fn rows() -> Vec<(u64, Rule)> {
        vec![
            (0x1000, Rule::reg(RSP, 8)),
            (0x1001, Rule::reg(RSP, 16).with_rbp_at_cfa(-16)),
            (0x1004, Rule::reg(RBP, 16).with_rbp_at_cfa(-16)),
            (0x101e, LAST_ROW),
            (0x1021, Rule::reg(RSP, 8)),
            (0x1022, Rule::unpushed(RSP, RCX)),
        ]
    }

    fn rules_of(code: &[u8]) -> Vec<Span> {
        rules(&CodeBytes { start: 0x1000, bytes: code.to_vec() }, &rows())
    }

    #[test]
    fn the_caller_is_the_frame_that_catches_once_the_real_one_is_overwritten() {
        let expected = [
            // rbp is 64 bytes above rsp, and the description's CFA 32 below that.
            Span { start: 0x1008, end: 0x101e, rule: Rule::landing(32) },
            Span { start: 0x101e, end: 0x1021, rule: Rule::reg(RCX, 8).with_jump() },
            Span { start: 0x1021, end: 0x1022, rule: Rule::reg(RSP, 8).with_jump() },
            Span { start: 0x1022, end: 0x1024, rule: Rule::reg(RSP, 0).with_jump() },
        ];
        assert_eq!(rules_of(&CODE), expected);
    }

    #[test]
    fn other_instructions_get_no_rules() {
        let mut other_end = CODE;
        other_end[0x21] = 0x58; // pop %rax
        let mut far_apart = CODE;
        far_apart[0x14] = 0xd8; // the second word is no longer after the first
        let mut of_any_size = CODE;
        of_any_size[4..8].copy_from_slice(&[0x48, 0x29, 0xc4, 0x90]); // sub %rax, %rsp
        for code in [other_end, far_apart, of_any_size] {
            assert_eq!(rules_of(&code), []);
        }
        assert_eq!(rules_of(&CODE[..0x20]), [], "cut short");
    }
}
