//! Recorded stacks, walked in user space: frames have to be gdb's, all of them, with proof of the root.

use prof::unwind::architecture::SIGNATURE_MASK_48_BITS;
use prof::unwind::{End, FoundBy, FrameState, walk};

use crate::case::visit_stops;

/// Walks every stop of a case. Returns how many there are.
fn replay(name: &str) -> usize {
    let mut stops = 0;
    visit_stops(name, SIGNATURE_MASK_48_BITS, |modules, stop| {
        stops += 1;
        let stack = walk(&FrameState::interrupted_aarch64(&stop.registers), modules, stop.memory, 1000);
        let frames: Vec<u64> = stack.frames.iter().map(|frame| frame.address).collect();
        assert_eq!(frames, stop.frames, "{name}:{}: {stack:x?}\nexpected {:x?}", stop.line, stop.frames);
        assert_eq!(stack.end, End::Complete, "{name}:{}", stop.line);
        assert!(
            stack.frames.iter().all(|frame| frame.found_by != FoundBy::FramePointer),
            "{name}:{}: {stack:x?}",
            stop.line
        );
    });
    stops
}

#[test]
fn every_instruction_of_calls_has_the_whole_stack() {
    assert!(replay("calls.txt") >= 200);
}

#[test]
fn programs_without_frame_pointers_have_the_whole_stack() {
    assert!(replay("nofp.txt") >= 200);
}

#[test]
fn signed_return_addresses_are_stripped() {
    let mut signed = 0;
    visit_stops("signed.txt", 0, |_, stop| {
        signed += stop.memory.words.values().filter(|word| is_signed(**word)).count();
    });
    assert!(signed > 0, "the recording has signatures");
    assert!(replay("signed.txt") >= 200);
}

fn is_signed(word: u64) -> bool {
    word & SIGNATURE_MASK_48_BITS != 0 && (0x40_0000..0x60_0000).contains(&(word & !SIGNATURE_MASK_48_BITS))
}

#[test]
fn signals_are_crossed_on_any_stack_and_at_a_first_instruction() {
    assert!(replay("signals.txt") >= 50);
}

#[test]
fn linkage_tables_and_the_resolver_have_the_whole_stack() {
    assert!(replay("library.txt") >= 700);
}
