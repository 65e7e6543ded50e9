//! Layouts of structures by version. Released versions cannot change any more; what functions of the process say of them
//! is compared before anything is read by them.

use super::layout::{NO_TYPE, PerlShape};

/// Minor numbers of the versions that are known.
pub(super) const KNOWN: [u8; 8] = [28, 30, 32, 34, 36, 38, 40, 42];

/// Layout of version 5.`minor`; `None` if that is not known.
pub(crate) fn shape(minor: u8) -> Option<PerlShape> {
    if !KNOWN.contains(&minor) {
        return None;
    }
    // 5.34 keeps the number of the last sub, format or eval on the stack in each block of these.
    let is_linked = minor >= 34;
    Some(PerlShape {
        blocks: 8,
        outer: 16,
        last: 32,
        stack_type: if is_linked { 44 } else { 40 },
        block_bytes: if is_linked { 104 } else { 96 },
        old_statement: 16,
        return_op: 48,
        sub: if is_linked { 72 } else { 64 },
        required: if is_linked { 64 } else { 56 },
        line: 36,
        file: 48,
        sub_type: 9,
        block_type: 2,
        defer_type: if minor >= 36 { 13 } else { NO_TYPE },
        try_flag: if minor >= 34 { 0x80 } else { 0 },
        is_stash_wide: minor >= 36,
    })
}
