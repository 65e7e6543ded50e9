//! Stacks of real programs, recorded once (`record.rs`), with frames by gdb.

use std::path::PathBuf;

use prof::internals::bpf::{LEAF_FRAMES, MAX_USER_FRAMES};
use prof::internals::unwind::{FoundBy, walk};

use crate::case::{Case, ImageState};
use crate::differential::compare;
use crate::host::Replay;
use crate::record::record_all;
use crate::text::Recorded;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/walker/cases"))
}

/// All cases by name; made again before, if that is asked for.
pub(crate) fn cases() -> Vec<(String, Recorded)> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "case"));
    files.sort();
    let name = |file: &PathBuf| file.file_stem().unwrap().to_string_lossy().into_owned();
    let read = |file: &PathBuf| Recorded::from_text(&std::fs::read_to_string(file).unwrap());
    files.iter().map(|file| (name(file), read(file))).collect()
}

#[test]
fn recorded_stacks_have_the_frames_that_gdb_finds() {
    if std::env::var_os("UPDATE").is_some() {
        record_all(&folder());
    }
    let cases = cases();
    assert!(cases.len() >= 14, "{} cases", cases.len());
    let mut replay = Replay::start();
    let mut wrong = Vec::new();
    for (name, recorded) in &cases {
        let host = replay.walk(&recorded.case);
        let found: Vec<u64> = host.frames.iter().map(|frame| frame.address).collect();
        let whole: Vec<u64> = recorded.frames.iter().map(|(pc, _)| *pc).collect();
        let expected = if whole.len() <= MAX_USER_FRAMES {
            whole
        } else {
            [&whole[..LEAF_FRAMES], &whole[whole.len() - LEAF_FRAMES..]].concat()
        };
        if (host.outcome, &found) != (recorded.outcome, &expected) {
            wrong.push(format!(
                "{name}: outcome {}, {found:x?}\nexpected {:x?}",
                host.outcome, recorded.frames
            ));
        }
        let stack = walk(&recorded.case.start(), &recorded.case, &recorded.case, MAX_USER_FRAMES);
        if let Err(difference) = compare(&host, &stack) {
            wrong.push(format!("{name}: {difference}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The same stack with something missing: its frames are the first of the whole one's, and nothing claims to be the
/// root but the root.
fn check_prefix(replay: &mut Replay, name: &str, whole: &Recorded, damaged: &Case, what: &str) {
    let host = replay.walk(damaged);
    let stack = walk(&damaged.start(), damaged, damaged, MAX_USER_FRAMES);
    if let Err(difference) = compare(&host, &stack) {
        panic!("{name} {what}: {difference}");
    }
    let found: Vec<u64> = host.frames.iter().map(|frame| frame.address).collect();
    let expected: Vec<u64> = whole.frames.iter().map(|(pc, _)| *pc).collect();
    let (leaf_end, root_end) = found.split_at(found.len().min(LEAF_FRAMES));
    assert!(expected.starts_with(leaf_end), "{name} {what}: {:x?}", host.frames);
    // Of a deeper stack some frames between the ends are left out.
    let is_left_out = found.len() == MAX_USER_FRAMES;
    let is_somewhere = root_end.is_empty()
        || expected[leaf_end.len()..]
            .windows(root_end.len())
            .take(if is_left_out { expected.len() } else { 1 })
            .any(|frames| frames == root_end);
    assert!(is_somewhere, "{name} {what}: {:x?}", host.frames);
    if host.outcome == 1 {
        assert!(expected.ends_with(root_end), "{name} {what} claims to be complete");
        assert_eq!(found.len(), expected.len().min(MAX_USER_FRAMES), "{name} {what} claims to be complete");
    }
}

#[test]
fn a_recorded_stack_without_one_of_its_pages_ends_there() {
    let mut replay = Replay::start();
    for (name, recorded) in cases() {
        for (index, piece) in recorded.case.memory.iter().enumerate() {
            for cut in (0..piece.bytes.len()).step_by(4096) {
                let mut damaged = recorded.case.clone();
                let mut after = damaged.memory[index].clone();
                after.start += cut as u64 + 4096;
                after.bytes = after.bytes.split_off(cut + 4096);
                damaged.memory[index].bytes.truncate(cut);
                damaged.memory.insert(index + 1, after);
                check_prefix(&mut replay, &name, &recorded, &damaged, "without a page");
            }
        }
    }
}

#[test]
fn a_recorded_stack_without_one_of_its_tables_ends_there() {
    let mut replay = Replay::start();
    for (name, recorded) in cases() {
        for image in 0..recorded.case.images.len() {
            if recorded.case.images[image].state != ImageState::Ready {
                continue;
            }
            let mut damaged = recorded.case.clone();
            damaged.images[image].state = ImageState::NotLoaded;
            check_prefix(&mut replay, &name, &recorded, &damaged, "without a table");
            let stack = walk(&damaged.start(), &damaged, &damaged, MAX_USER_FRAMES);
            assert!(
                matches!(stack.end, prof::internals::unwind::End::TableNotLoaded { .. })
                    || stack.frames.last().is_some_and(|frame| frame.found_by == FoundBy::FramePointer),
                "{name}: {:?}",
                stack.end
            );
        }
    }
}
