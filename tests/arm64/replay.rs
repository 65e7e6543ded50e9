//! Recorded stacks, walked in user space: frames have to be gdb's, all of them, with proof of the root.

use prof::internals::unwind::arch::architecture::SIGNATURE_MASK_48_BITS;
use prof::internals::unwind::{End, FoundBy, FrameAddress, FrameState, walk};

use crate::case::visit_stops;

/// Walks every stop of a case. Returns how many there are.
fn replay(name: &str) -> usize {
    replay_with(name, 0)
}

/// As [`replay`], where so many frames are found by frame pointers.
fn replay_with(name: &str, by_frame_pointer: usize) -> usize {
    let mut stops = 0;
    visit_stops(name, SIGNATURE_MASK_48_BITS, |modules, stop| {
        stops += 1;
        let stack = walk(&FrameState::interrupted_aarch64(&stop.registers), modules, stop.memory, 1000);
        let frames: Vec<u64> = stack.frames.iter().map(|frame| frame.address).collect();
        assert_eq!(frames, stop.frames, "{name}:{}: {stack:x?}\nexpected {:x?}", stop.line, stop.frames);
        assert_eq!(stack.end, End::Complete, "{name}:{}", stop.line);
        let is_by_frame_pointer = |frame: &&FrameAddress| frame.found_by == FoundBy::FramePointer;
        let found = stack.frames.iter().filter(is_by_frame_pointer).count();
        assert_eq!(found, by_frame_pointer, "{name}:{}: {stack:x?}", stop.line);
    });
    stops
}

#[test]
fn every_instruction_of_calls_has_the_whole_stack() {
    assert!(replay("calls.txt") >= 200);
}

/// Detail 3 of the promises: stacks of stock binaries are complete, and files are small.
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
fn a_frame_record_leads_over_code_without_entries_and_back_to_rules() {
    // The frame above it, and the one above that, whose rule tells where its record is.
    assert!(replay_with("bare.txt", 2) >= 8);
}

#[test]
fn code_without_entries_is_followed_by_its_instructions() {
    assert!(replay("followed.txt") >= 11);
}

#[test]
fn linkage_tables_and_the_resolver_have_the_whole_stack() {
    assert!(replay("library.txt") >= 700);
}
