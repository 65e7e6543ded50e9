//! Tests of snapshots on a synthetic program.

use super::synthetic_program::{ALL, GOEXIT, SyntheticProgram, field};
use crate::runtimes::TargetMemory;
use crate::runtimes::go::layout::GoLayout;
use crate::runtimes::go::snapshot::{GoSnapshotOptions, GoState, GoroutineSnapshot};
use crate::runtimes::go::stacks::GoStackEnd;
use std::cell::Cell;

fn layout(program: &SyntheticProgram) -> GoLayout {
    GoLayout::find(&program.memory, &|name| program.function(name)).unwrap()
}

fn take(program: &SyntheticProgram, options: &GoSnapshotOptions) -> GoroutineSnapshot {
    let layout = layout(&SyntheticProgram::new(1));
    GoroutineSnapshot::take(&program.memory, &layout, options, &|_| None).unwrap()
}

/// A process in which a byte changes whenever it is read, a number of times.
struct RestlessMemory<'a> {
    program: &'a SyntheticProgram,
    address: u64,
    changes: Cell<u8>,
}

impl TargetMemory for RestlessMemory<'_> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let could = self.program.memory.read(address, bytes);
        let at = self.address.checked_sub(address).and_then(|at| bytes.get_mut(at as usize));
        if let (Some(byte), left @ 1..) = (at, self.changes.get()) {
            *byte = left;
            self.changes.set(left - 1);
        }
        could
    }
}

#[test]
fn goroutines_have_state_reason_stack_and_origin() {
    let snapshot = take(&SyntheticProgram::new(20), &GoSnapshotOptions::default());
    assert_eq!((snapshot.goroutines.len(), snapshot.listed, snapshot.weight()), (20, 20, 1.0));
    let ids = snapshot.goroutines.iter().map(|goroutine| goroutine.id);
    assert_eq!(ids.collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
    let last = &snapshot.goroutines[19];
    assert_eq!((last.state, last.wait_reason, last.waits_since_ns), (GoState::Waiting, Some(1), Some(77)));
    assert_eq!((last.parent_id, last.created_at, last.start_function), (Some(1), 0x46_2000, 0x46_3000));
    assert_eq!(snapshot.pcs(last), [0x46_1000, 0x46_1100, GOEXIT]);
    assert_eq!((last.stack_end, last.may_miss_caller, last.thread_id), (GoStackEnd::Complete, false, None));
}

#[test]
fn running_goroutines_are_not_walked_and_ended_ones_left_out() {
    let mut program = SyntheticProgram::new(4);
    program.set(0, field::STATUS, 2);
    program.set(1, field::STATUS, 6);
    program.set(2, field::STATUS, 0x1004);
    program.set(3, field::STATUS, 99);
    let snapshot = take(&program, &GoSnapshotOptions::default());
    let [running, scanned] = snapshot.goroutines.as_slice() else { panic!("{snapshot:?}") };
    assert_eq!((running.state, running.stack_end), (GoState::Running, GoStackEnd::Running));
    assert_eq!((snapshot.pcs(running), running.thread_id), (&[][..], Some(4711)));
    assert_eq!((scanned.state, scanned.stack_end), (GoState::Waiting, GoStackEnd::Complete));
    assert_eq!((snapshot.ended, snapshot.unreadable, snapshot.changed), (1, 1, 0));
}

#[test]
fn goroutine_that_ran_meanwhile_is_read_again_or_left_out() {
    let program = SyntheticProgram::new(8);
    let layout = layout(&program);
    for (changes, left) in [(1, 8), (2, 8), (100, 7)] {
        let address = SyntheticProgram::goroutine(5) + field::STOPS;
        let memory = RestlessMemory { program: &program, address, changes: Cell::new(changes) };
        let snapshot =
            GoroutineSnapshot::take(&memory, &layout, &GoSnapshotOptions::default(), &|_| None).unwrap();
        assert_eq!((snapshot.goroutines.len(), snapshot.changed), (left, 8 - left), "{changes} changes");
    }
}

#[test]
fn labels_are_shared_by_goroutines() {
    let mut program = SyntheticProgram::new(3);
    program.memory.add(0x9000, b"tenantalpha".to_vec());
    program.memory.add_words(0x9100, &[0x9200, 1, 1, 0x9000, 6, 0x9006, 5]);
    program.memory.add_words(0x9200, &[0x9000, 6, 0x9006, 5]);
    program.set(0, field::LABELS, 0x9100);
    program.set(2, field::LABELS, 0x9100);
    let snapshot = take(&program, &GoSnapshotOptions::default());
    let labels: Vec<_> = snapshot.goroutines.iter().map(|goroutine| snapshot.labels(goroutine)).collect();
    let expected = [("tenant".to_string(), "alpha".to_string())];
    assert_eq!(labels, [&expected[..], &[], &expected]);
    program.set(1, field::LABELS, 0xdead_0000);
    let snapshot = take(&program, &GoSnapshotOptions::default());
    assert_eq!(snapshot.labels(&snapshot.goroutines[1]), []);
}

#[test]
fn more_goroutines_than_allowed_are_sampled() {
    let options = GoSnapshotOptions { most_goroutines: 10, seed: 3, ..GoSnapshotOptions::default() };
    let snapshot = take(&SyntheticProgram::new(40), &options);
    assert_eq!((snapshot.goroutines.len(), snapshot.chosen, snapshot.weight()), (10, 10, 4.0));
}

#[test]
fn hostile_lists_end() {
    let mut program = SyntheticProgram::new(6);
    program.set(0, 0, u64::MAX);
    program.set(1, 56, 0);
    program.set(2, 96, 0xdead_0000);
    for (entry, wild) in [(3, u64::MAX), (4, 0)] {
        program.memory.set_word(SyntheticProgram::entry(entry), wild);
    }
    let snapshot = take(&program, &GoSnapshotOptions::default());
    let ends: Vec<_> =
        snapshot.goroutines.iter().map(|goroutine| (goroutine.id, goroutine.stack_end)).collect();
    let broken = GoStackEnd::Broken;
    assert_eq!(ends, [(2, broken), (3, broken), (6, GoStackEnd::Complete)]);
    assert_eq!(snapshot.unreadable, 3);
    program.memory.set_word(ALL + 8, 1 << 60);
    let layout = layout(&SyntheticProgram::new(1));
    let snapshot =
        GoroutineSnapshot::take(&program.memory, &layout, &GoSnapshotOptions::default(), &|_| None);
    assert!(snapshot.is_none(), "more entries than memory");
}
