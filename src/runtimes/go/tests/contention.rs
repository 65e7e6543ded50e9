//! Waits as a Go program has counted them, and damaged lists.

use super::heap::uses;
use super::synthetic::SyntheticMemory;
use crate::runtimes::go::{GoRateAddresses, GoTableLack, GoWaitLayout, GoWaitPlace, GoWaitRates};
use std::ops::Range;

const CODE: u64 = 0x40_0000;
const VARIABLES: u64 = 0x50_0000;
const WAIT: u64 = 0x7000_0000;
const RELEASE: u64 = 0x7000_1000;

/// A place: its words up to the stack, the stack, and how many waits of how many ticks it has.
fn place(kind: u64, stack: &[u64], count: f64, ticks: u64) -> Vec<u64> {
    let mut words = vec![0, 0, kind, 0x1234, 0, stack.len() as u64];
    words.extend(stack);
    words.extend([count.to_bits(), ticks]);
    words
}

/// A program with rates, and lists that begin with these places.
fn program(rates: [u64; 2], first: [u64; 2]) -> SyntheticMemory {
    let mut memory = SyntheticMemory::default();
    memory.add(CODE, uses(CODE, 0x8b, VARIABLES));
    memory.add(CODE + 16, uses(CODE + 16, 0x8b, VARIABLES + 8));
    memory.add(
        CODE + 32,
        [uses(CODE + 32, 0x8d, VARIABLES + 16), uses(CODE + 48, 0x8d, VARIABLES + 24)].concat(),
    );
    memory.add_words(VARIABLES, &[rates[0], rates[1], first[0], first[1]]);
    memory.add_words(WAIT, &place(2, &[0x11, 0x22], 2.5, 1000));
    memory.add_words(RELEASE, &place(3, &[0x33], 7.0, 900));
    memory
}

fn functions(name: &str) -> Option<Range<u64>> {
    match name {
        "runtime.blockevent" => Some(CODE..CODE + 16),
        "sync.event" => Some(CODE + 16..CODE + 32),
        "runtime.stkbucket" => Some(CODE + 32..CODE + 64),
        _ => None,
    }
}

#[test]
fn both_sides_and_their_rates_are_read() {
    let memory = program([5000, 10], [WAIT, RELEASE]);
    let mut layout = GoWaitLayout::find(&memory, &functions).expect("it is there");
    assert_eq!(layout.rates, GoRateAddresses { wait_ticks: VARIABLES, releases: VARIABLES + 8 });
    assert_eq!(layout.rates(&memory), Some(GoWaitRates { wait_ticks: 5000, releases: 10 }));
    let waits = layout.waits(&memory, &functions, 10).expect("it can be read");
    let wait = GoWaitPlace { address: WAIT, stack: vec![0x11, 0x22], count: 2.5, ticks: 1000 };
    assert_eq!(waits, [wait]);
    let releases = layout.releases(&memory, &functions, 10).expect("it can be read");
    assert_eq!((releases[0].count, releases[0].ticks, &releases[0].stack[..]), (7.0, 900, &[0x33][..]));
    assert_eq!(layout.waits(&memory, &functions, 0), Err(GoTableLack::TooMany));
}

#[test]
fn lists_are_found_once_there_is_something_in_them() {
    let mut memory = program([0, 0], [0, 0]);
    let mut layout = GoWaitLayout::find(&memory, &functions).expect("it is there");
    assert_eq!(layout.waits(&memory, &functions, 10), Ok(Vec::new()));
    memory.set_word(VARIABLES + 16, WAIT);
    assert_eq!(layout.waits(&memory, &functions, 10).map(|waits| waits.len()), Ok(1));
    assert_eq!(layout.releases(&memory, &functions, 10), Ok(Vec::new()));
}

#[test]
fn what_is_no_rate_or_list_is_refused() {
    // A pointer is where a rate should be.
    assert_eq!(GoWaitLayout::find(&program([u64::MAX, 0], [0, 0]), &functions), None);
    let of_one = |name: &str| functions(if name == "sync.event" { "runtime.blockevent" } else { name });
    assert_eq!(GoWaitLayout::find(&program([0, 0], [0, 0]), &of_one), None, "one variable for both");
    let mut memory = program([0, 0], [WAIT, RELEASE]);
    let mut layout = GoWaitLayout::find(&memory, &functions).expect("it is there");
    layout.waits(&memory, &functions, 10).expect("it can be read");
    memory.set_word(WAIT + 16, 3);
    assert_eq!(layout.waits(&memory, &functions, 10), Err(GoTableLack::Unreadable), "of another kind");
    // Numbers that are none count nothing.
    memory.set_word(WAIT + 16, 2);
    memory.set_word(WAIT + 64, f64::NAN.to_bits());
    memory.set_word(WAIT + 72, u64::MAX);
    let waits = layout.waits(&memory, &functions, 10).expect("it can be read");
    assert_eq!((waits[0].count, waits[0].ticks), (0.0, 0));
}
