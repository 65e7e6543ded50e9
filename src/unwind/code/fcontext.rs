//! Where a context of Boost.Context begins, as fibers of PHP and coroutines of C++ programs do: code without entries, which
//! jumps to the context's function and is returned to when that ends.

use super::bytes::{CodeBytes, ENDBR64};
use super::known::add_pattern;
use crate::unwind::rule::Rule;
use crate::unwind::table::span::Span;

/// `push %rbp; jmp *%rbx`: the function is called with the address of [`FINISH`] as its return address (`make_fcontext`,
/// `make_x86_64_sysv_elf_gas.S`).
const ENTER: [u8; 3] = [0x55, 0xff, 0xe3];
/// `xor %rdi, %rdi; call _exit`, without the distance of the call.
const FINISH: [u8; 4] = [0x48, 0x31, 0xff, 0xe8];
/// Size of that with the call, bytes.
const FINISH_BYTES: u64 = 8;

/// Adds the rules of the beginning of contexts, wherever it is: nothing called it.
pub(super) fn add(spans: &mut Vec<Span>, code: &CodeBytes) {
    add_pattern(spans, code, &ENTER, |at| {
        let after = at + ENTER.len() as u64;
        let rest = code.from(after);
        let body = rest.strip_prefix(&ENDBR64[..]).unwrap_or(rest);
        let mark = (rest.len() - body.len()) as u64;
        // `hlt`.
        let is_it =
            body.starts_with(&FINISH) && code.from(after + mark + FINISH_BYTES).first() == Some(&0xf4);
        let end = if is_it { after + mark + FINISH_BYTES + 1 } else { at };
        (at, end, Rule::STOP)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the end of `make_fcontext` on.
    const PLAIN: [u8; 14] = [0xc3, 0x55, 0xff, 0xe3, 0x48, 0x31, 0xff, 0xe8, 1, 2, 3, 4, 0xf4, 0x0f];
    const MARKED: [u8; 17] =
        [0xc3, 0x55, 0xff, 0xe3, 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x31, 0xff, 0xe8, 1, 2, 3, 4, 0xf4];

    fn spans(bytes: &[u8]) -> Vec<(u64, u64)> {
        let mut spans = Vec::new();
        add(&mut spans, &CodeBytes { start: 0x1000, bytes: bytes.to_vec() });
        assert!(spans.iter().all(|span| span.rule == Rule::STOP));
        spans.iter().filter(|span| span.start < span.end).map(|span| (span.start, span.end)).collect()
    }

    #[test]
    fn a_context_begins_where_its_function_is_entered_and_where_that_returns_to() {
        assert_eq!(spans(&PLAIN), [(0x1001, 0x100d)]);
        assert_eq!(spans(&MARKED), [(0x1001, 0x1011)]);
    }

    #[test]
    fn other_code_with_such_a_jump_is_none() {
        assert_eq!(spans(&PLAIN[..12]), [], "cut off");
        for (index, byte) in [(4, 0x90), (7, 0xe9), (12, 0x90)] {
            let mut other = PLAIN;
            other[index] = byte;
            assert_eq!(spans(&other), [], "{byte:#x} at {index}");
        }
    }
}
