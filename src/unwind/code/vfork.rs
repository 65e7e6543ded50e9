//! Functions that keep their return address in a register around a system call, in code whose entries do not say so.
//!
//! After vfork, and clone with CLONE_VM and CLONE_VFORK, parent and child run on the same stack, and what the child
//! calls overwrites the return address that the parent still needs: it is popped before and pushed after.

use super::bytes::CodeBytes;
use super::known::add_pattern;
use crate::unwind::rule::{RSP, Rule};
use crate::unwind::table::span::Span;

/// `pop %r12; syscall; push %r12`, in Go's `syscall.rawVforkSyscall` (`src/syscall/asm_linux_amd64.s`).
const GO_CALL: [u8; 6] = [0x41, 0x5c, 0x0f, 0x05, 0x41, 0x54];
/// Size of the `pop` in [`GO_CALL`], bytes.
const GO_POP_BYTES: usize = 2;
/// `pop %rdx; mov $58, %eax; syscall; push %rdx`: musl's `vfork` (`src/process/x86_64/vfork.s`).
const MUSL_VFORK: [u8; 9] = [0x5a, 0xb8, 0x3a, 0, 0, 0, 0x0f, 0x05, 0x52];
/// `mov %rax, %rdi` and the first byte of a jump: the rest of it.
const MUSL_REST: [u8; 3] = [0x48, 0x89, 0xc7];
/// DWARF numbers (x86-64 psABI).
const RDX: u8 = 1;
const R12: u8 = 12;

/// The return address is popped into `register`.
fn popped(register: u8) -> Rule {
    Rule::reg(RSP, 0).with_ra_in_register(register).unwrap_or(Rule::NONE)
}

/// Returns the part of Go's `syscall.rawVforkSyscall`, which begins at `start`, that has no return address on the stack.
pub(crate) fn go_call(start: u64, code: &[u8]) -> Option<Span> {
    let at = code.windows(GO_CALL.len()).position(|bytes| bytes == GO_CALL)?;
    let (from, to) = (at + GO_POP_BYTES, at + GO_CALL.len());
    Some(Span { start: start + from as u64, end: start + to as u64, rule: popped(R12) })
}

/// Adds the rules of musl's `vfork`, wherever it is.
pub(super) fn add_musl(spans: &mut Vec<Span>, code: &CodeBytes) {
    let on_stack = Rule::reg(RSP, 8);
    let after = |at: u64| at + MUSL_VFORK.len() as u64;
    add_pattern(spans, code, &MUSL_VFORK, |at| (at, at + 1, on_stack));
    add_pattern(spans, code, &MUSL_VFORK, |at| (at + 1, after(at), popped(RDX)));
    add_pattern(spans, code, &MUSL_VFORK, |at| {
        let is_known = code.from(after(at)).starts_with(&MUSL_REST);
        let length = if is_known { MUSL_REST.len() as u64 + 1 } else { 0 };
        (after(at), after(at) + length, on_stack)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Go 1.26, from `mov 8(%rsp), %rax` to `cmp`.
    const GO: [u8; 17] = [
        0x48, 0x8b, 0x44, 0x24, 0x08, 0x41, 0x5c, 0x0f, 0x05, 0x41, 0x54, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff,
    ];
    /// musl 1.2.3, with a `ret` before and the next function's first byte after.
    const MUSL: [u8; 19] =
        [0xc3, 0x5a, 0xb8, 0x3a, 0, 0, 0, 0x0f, 0x05, 0x52, 0x48, 0x89, 0xc7, 0xe9, 0x80, 0x03, 0, 0, 0x48];

    #[test]
    fn go_has_its_return_address_in_r12_from_behind_the_pop_to_the_end_of_the_push() {
        let span = go_call(0x1000, &GO).unwrap();
        assert_eq!((span.start, span.end), (0x1007, 0x100b));
        assert_eq!(Some(span.rule), Rule::reg(RSP, 0).with_ra_in_register(12));
        for length in 0..11 {
            assert_eq!(go_call(0x1000, &GO[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn musl_has_it_in_rdx() {
        let spans_of = |bytes: &[u8]| {
            let mut spans = Vec::new();
            add_musl(&mut spans, &CodeBytes { start: 0x1000, bytes: bytes.to_vec() });
            spans.retain(|span| span.start < span.end);
            spans
        };
        let spans = spans_of(&MUSL);
        let ranges: Vec<(u64, u64)> = spans.iter().map(|span| (span.start, span.end)).collect();
        assert_eq!(ranges, [(0x1001, 0x1002), (0x1002, 0x100a), (0x100a, 0x100e)]);
        assert_eq!(Some(spans[1].rule), Rule::reg(RSP, 0).with_ra_in_register(1));
        assert_eq!([spans[0].rule, spans[2].rule], [Rule::reg(RSP, 8); 2]);
        assert_eq!(spans_of(&MUSL[..9]), []);
        assert_eq!(spans_of(&MUSL[..12]).len(), 2, "what follows is cut off");
    }
}
