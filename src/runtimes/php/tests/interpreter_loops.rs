//! Parts of the interpreter loop.

use crate::runtimes::php::loop_ranges;
use std::ops::Range;

/// `jmp` from one address to another, 5 bytes.
fn jump(from: u64, to: u64) -> Vec<u8> {
    let distance = to.wrapping_sub(from + 5) as u32;
    [&[0xe9][..], &distance.to_le_bytes()].concat()
}

fn ranges(pieces: &[(Range<u64>, Vec<u8>)]) -> Vec<Range<u64>> {
    let read = |address: u64, size: u64| {
        let (range, bytes) = pieces.iter().find(|(range, _)| range.start == address)?;
        (size <= range.end - range.start).then(|| bytes.clone())
    };
    let function_at =
        |address: u64| pieces.iter().map(|(range, _)| range.clone()).find(|range| range.contains(&address));
    loop_ranges(pieces[0].0.clone(), &read, &function_at)
}

#[test]
fn what_the_compiler_split_off_is_a_part_and_what_is_called_is_not() {
    let own = (0x100..0x140, [jump(0x100, 0x200), jump(0x105, 0x300), jump(0x10a, 0x410)].concat());
    let cold = (0x200..0x220, jump(0x200, 0x120));
    let function = (0x300..0x320, jump(0x300, 0x100));
    let middle = (0x400..0x420, vec![0xc3]);
    assert_eq!(ranges(&[own, cold, function, middle]), [0x100..0x140, 0x200..0x220, 0x400..0x420]);
}

#[test]
fn code_that_cannot_be_read_is_a_part_without_others() {
    assert_eq!(ranges(&[(0x100..0x140, Vec::new())]), std::slice::from_ref(&(0x100..0x140)));
}
