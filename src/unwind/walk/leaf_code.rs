//! The frame of an interrupted leaf without unwind information, where its instructions prove it.
//!
//! At a function's first or last instructions rbp is still, or again, the caller's frame pointer: to follow it
//! would leave the caller out. The twin of `leaf_return_distance` in `src/bpf/c/arch/x86_64.bpf.h`.

/// Number of bytes before the instruction pointer that are looked at: the last one of the instruction before.
pub(super) const BYTES_BEFORE: u64 = 1;

/// Bytes of code that are looked at: [`BYTES_BEFORE`] the instruction pointer, and from there on.
pub(super) const CODE_BYTES: usize = 16;

/// Returns the place of the return address, in bytes from rsp, if the code around the instruction pointer proves it.
/// 8: the caller's rbp is at rsp. `is_rbp_pushed` tells whether rbp is the word at rsp.
pub(super) fn return_distance(code: &[u8; CODE_BYTES], is_rbp_pushed: bool) -> Option<u64> {
    let (before, next) = (code[0], &code[1..]);
    match next {
        // `ret`, with what compilers put before it and after it.
        [0xc3 | 0xc2, ..] | [0xf3, 0xc3, ..] => return Some(0),
        // `pop %rbp; ret`
        [0x5d, 0xc3, ..] => return Some(8),
        _ => {}
    }
    let entry = next.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa][..]).unwrap_or(next);
    if entry[0] == 0x55 && sets_frame_pointer(&entry[1..]) {
        return Some(0);
    }
    (before == 0x55 && is_rbp_pushed && sets_frame_pointer(next)).then_some(8)
}

/// `mov %rsp, %rbp`, in both ways to write it.
fn sets_frame_pointer(code: &[u8]) -> bool {
    matches!(code, [0x48, 0x89, 0xe5, ..] | [0x48, 0x8b, 0xec, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(before: u8, next: &[u8], is_rbp_pushed: bool) -> Option<u64> {
        let mut code = [0x90; CODE_BYTES];
        code[0] = before;
        code[1..=next.len()].copy_from_slice(next);
        return_distance(&code, is_rbp_pushed)
    }

    #[test]
    fn first_and_last_instructions_tell_where_the_return_address_is() {
        assert_eq!(distance(0x90, &[0x55, 0x48, 0x89, 0xe5], false), Some(0));
        assert_eq!(distance(0x90, &[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x8b, 0xec], false), Some(0));
        assert_eq!(distance(0x55, &[0x48, 0x89, 0xe5], true), Some(8));
        assert_eq!(distance(0x5d, &[0xc3], false), Some(0));
        assert_eq!(distance(0xc9, &[0xc2, 0x10, 0x00], false), Some(0));
        assert_eq!(distance(0x90, &[0x5d, 0xc3], false), Some(8));
    }

    #[test]
    fn other_code_proves_nothing() {
        assert_eq!(
            distance(0x55, &[0x48, 0x89, 0xe5], false),
            None,
            "0x55 was another instruction's last byte"
        );
        assert_eq!(
            distance(0x90, &[0x55, 0x53], false),
            None,
            "rbp is saved, and then used for something else"
        );
        assert_eq!(distance(0x90, &[0x48, 0x89, 0xe5], true), None);
        assert_eq!(distance(0x90, &[0x5d, 0x5b, 0xc3], false), None);
        assert_eq!(distance(0x90, &[], false), None);
    }
}
