//! Which segment of a file decides what is added to its addresses: the kernel's side has to choose as user space does,
//! or the stacks of one mapping would change when user space has read of it.

use std::io::Write;
use std::process::{Command, Stdio};

use prof::internals::bpf::MAX_SEGMENTS;
use prof::internals::unwind::{Architecture, ElfImage, Limits};

use crate::host::build;

/// Numbers that are the same in every run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 1
    }
}

/// An executable segment: offset in the file, address, size.
type Segment = (u64, u64, u64);

/// A file with executable segments, and a mapping of it: its address, the offset in the file, its size.
struct Question {
    is_fixed: bool,
    segments: Vec<Segment>,
    mapping: (u64, u64, u64),
}

/// The headers of a file.
fn elf(question: &Question) -> Vec<u8> {
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend(if question.is_fixed { 2u16 } else { 3 }.to_le_bytes());
    let machine: u16 = if Architecture::HOST == Architecture::X86_64 { 62 } else { 183 };
    bytes.extend(machine.to_le_bytes());
    bytes.resize(32, 0);
    bytes.extend(64u64.to_le_bytes());
    bytes.resize(54, 0);
    bytes.extend(56u16.to_le_bytes());
    bytes.extend((question.segments.len() as u16).to_le_bytes());
    bytes.resize(64, 0);
    for &(offset, address, size) in &question.segments {
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(5u32.to_le_bytes());
        for word in [offset, address, address, size, size, 4096] {
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes
}

/// A `struct prof_file` and what a mapping of it shows.
fn kernel_question(question: &Question) -> Vec<u8> {
    let (start, from, size) = question.mapping;
    let mut bytes = Vec::new();
    for word in [1, question.segments.len() as u32, u32::from(question.is_fixed), 0] {
        bytes.extend(word.to_le_bytes());
    }
    // Size and time of the last write: no matter here.
    bytes.extend([0; 16]);
    for index in 0..MAX_SEGMENTS {
        let (offset, address, size) = question.segments.get(index).copied().unwrap_or_default();
        for word in [offset, offset + size, address] {
            bytes.extend(word.to_le_bytes());
        }
    }
    for word in [start, from, from + size] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

/// Layouts as linkers make them: segments that follow each other in the file, whole pages apart or not, and one of
/// them mapped, at its own address or anywhere.
fn some_question(numbers: &mut Numbers) -> Question {
    let mut offset = 0;
    let mut address = 0x40_0000;
    let segments: Vec<Segment> = (0..1 + numbers.below(MAX_SEGMENTS as u64))
        .map(|_| {
            offset += numbers.below(0x3000);
            // Its place in a page is the same in the file and in memory.
            address = ((address + numbers.below(0x4000)) & !0xfff) + (offset & 0xfff);
            let segment = (offset, address, numbers.below(0x3000));
            offset += segment.2;
            address += segment.2 + 0x1000;
            segment
        })
        .collect();
    let (offset, address, size) = segments[numbers.below(segments.len() as u64) as usize];
    let moved = if numbers.coin() { 0 } else { 0x5555_0000_0000 };
    let (first, end) = (offset & !0xfff, (offset + size).next_multiple_of(4096));
    // Some mappings show less than the segment, or more.
    let cut = if numbers.coin() { 0x1000 * numbers.below(2) } else { 0 };
    let more = if numbers.coin() { 0x1000 * numbers.below(2) } else { 0 };
    let from = first + cut;
    let size = (end + more).saturating_sub(from).max(0x1000);
    let start = (address & !0xfff) + cut + moved;
    Question { is_fixed: numbers.coin(), segments, mapping: (start, from, size) }
}

#[test]
fn the_kernel_side_takes_the_segment_that_user_space_takes() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut questions: Vec<Question> = (0..20_000).map(|_| some_question(&mut numbers)).collect();
    // The end of one segment and the beginning of the next in one page, both code, as lld leaves it: the mapping of
    // the second shows more of the first.
    let shared = vec![(0x1000, 0x20_1000, 0xf00), (0x1f00, 0x20_2f00, 0x80)];
    for is_fixed in [false, true] {
        questions.push(Question { is_fixed, segments: shared.clone(), mapping: (0x20_2000, 0x1000, 0x1000) });
    }
    // Numbers that no file has.
    let far = vec![(1 << 63 | 0x1234, 0x1000, 0), (0x1000, 0x1000, 0x100)];
    questions.push(Question { is_fixed: false, segments: far, mapping: (0x1000, 0x1000, 0x1000) });

    let program = build("segment", Architecture::HOST, "address,undefined");
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let asked: Vec<u8> = questions.iter().flat_map(kernel_question).collect();
    let writer = std::thread::spawn(move || input.write_all(&asked));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{}", output.status);

    let answers: Vec<i32> =
        output.stdout.chunks_exact(4).map(|bytes| i32::from_le_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!(answers.len(), questions.len());
    let mut shown = 0;
    for (question, answer) in questions.iter().zip(answers) {
        let (start, from, size) = question.mapping;
        let image = ElfImage::parse(elf(question), &Limits::default().elf).unwrap();
        let expected = image.bias_of_mapping(start, start + size, from);
        let answer = usize::try_from(answer).ok().map(|index| {
            let (offset, address, _) = question.segments[index];
            start.wrapping_sub(address.wrapping_add(from).wrapping_sub(offset))
        });
        assert_eq!(answer, expected, "{:x?} mapped as {:x?}", question.segments, question.mapping);
        shown += usize::from(answer.is_some());
    }
    assert!(shown > questions.len() / 2, "only {shown} mappings show a segment");
}
