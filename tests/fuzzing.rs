//! The bodies of the fuzz targets, without a fuzzer: over their kept corpora, and over what a simple mutator makes of these.
//! The mutator is the same in each run, so that a failure comes again. `scripts/fuzz.sh` searches further, and for longer.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints what it has tried"
)]

use prof::internals::fuzzing::{BODIES, run};
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Mutated inputs of each target.
const MUTATIONS: u64 = 2_000;

/// Inputs do not grow longer than this, bytes.
const LONGEST: usize = 64 << 10;

/// Largest file of a corpus, and all files together, bytes.
const LARGEST_INPUT: u64 = 100_000;
const LARGEST_CORPORA: u64 = 1_000_000;

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target)
}

/// The inputs that are kept for a target, in the order of their names.
fn inputs(target: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(corpus(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Numbers without a pattern, the same in each run (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `end`; 0 if that is 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 16) as usize % end.max(1)
    }
}

/// Numbers at which lengths, offsets and counts break.
const EDGES: [u64; 8] = [0, 1, 0x7f, 0x80, 0xffff, 0x7fff_ffff, 0xffff_fff0, u64::MAX];

/// Changes one thing: a bit, a byte, a number, a length, a part that is left out, repeated or taken from another input.
fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len());
    let size = 1 + random.below(8);
    let end = (at + size).min(bytes.len());
    match random.below(9) {
        0 => bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << random.below(8)),
        1 => bytes.get_mut(at).into_iter().for_each(|byte| *byte = random.next() as u8),
        2 => {
            let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
            bytes[at..end].iter_mut().zip(edge).for_each(|(byte, edge)| *byte = edge);
        }
        3 => {
            let step = (random.below(65) as u8).wrapping_sub(32);
            bytes.get_mut(at).into_iter().for_each(|byte| *byte = byte.wrapping_add(step));
        }
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(at..end)),
        6 => {
            let part = bytes[at..(at + random.below(256)).min(bytes.len())].to_vec();
            bytes.splice(at..at, part);
        }
        7 => {
            let from = random.below(other.len());
            let part = &other[from..(from + random.below(256)).min(other.len())];
            let end = (at + part.len()).min(bytes.len());
            bytes.splice(at..end, part.iter().copied());
        }
        _ => bytes.insert(at.min(bytes.len()), random.next() as u8),
    }
    bytes.truncate(LONGEST);
}

/// Runs a body; where it panics, the input is kept in a file and its path is in the message.
fn check(target: &str, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| run(target, input))).is_err() {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{target}.input"));
        fs::write(&path, input).unwrap();
        panic!("{target} panics, as said above, on the {} bytes of `{}`", input.len(), path.display());
    }
}

#[test]
fn every_target_has_a_body_a_corpus_and_a_program() {
    let targets: BTreeSet<&str> = BODIES.iter().map(|(name, _)| *name).collect();
    assert_eq!(targets.len(), BODIES.len(), "a name is used once");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    for target in &targets {
        let program = fs::read_to_string(root.join(format!("fuzz_targets/{target}.rs"))).unwrap();
        assert!(program.contains(&format!("run(\"{target}\"")), "fuzz_targets/{target}.rs runs another body");
        assert!(manifest.contains(&format!("name = \"{target}\"")), "fuzz/Cargo.toml lacks {target}");
        assert!(!inputs(target).is_empty(), "fuzz/corpus/{target} is empty");
    }
    let sizes = targets.iter().flat_map(|target| fs::read_dir(corpus(target)).unwrap());
    let sizes: Vec<u64> = sizes.map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    assert!(sizes.iter().all(|size| *size <= LARGEST_INPUT), "an input is too large");
    assert!(sizes.iter().sum::<u64>() <= LARGEST_CORPORA, "the corpora are too large");
    let folders = fs::read_dir(root.join("corpus")).unwrap().map(|entry| entry.unwrap().file_name());
    let strangers: Vec<_> = folders.filter(|name| !targets.contains(name.to_str().unwrap())).collect();
    assert!(strangers.is_empty(), "corpora without a target: {strangers:?}");
}

/// Inputs on which a body once failed are in the corpora.
#[test]
fn kept_inputs_break_no_promise() {
    for (target, _) in BODIES {
        for input in inputs(target) {
            check(target, &input);
        }
    }
}

/// `PROF_FUZZ_FACTOR`: how many times as many.
#[test]
fn changed_inputs_break_no_promise() {
    let factor: u64 = std::env::var("PROF_FUZZ_FACTOR").map_or(1, |factor| factor.parse().unwrap());
    std::thread::scope(|scope| {
        let checks = BODIES.map(|(target, _)| {
            scope.spawn(move || {
                let inputs = inputs(target);
                for number in 0..MUTATIONS * factor {
                    let mut random = Random((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                    let mut input = inputs[random.below(inputs.len())].clone();
                    let other = &inputs[random.below(inputs.len())];
                    for _ in 0..=random.below(6) {
                        change(&mut input, other, &mut random);
                    }
                    check(target, &input);
                }
                println!("{target}: {} inputs", MUTATIONS * factor);
            })
        });
        let failed = checks.into_iter().map(|check| check.join()).filter(Result::is_err).count();
        assert_eq!(failed, 0, "targets that panicked; each is said above");
    });
}

/// Names and versions of the crates that the package asks for in `manifest`: it pins them all.
fn pinned(manifest: &str) -> Vec<(&str, &str)> {
    let mut is_asked_for = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_asked_for = line.ends_with("dependencies]") && line != "[dev-dependencies]";
            continue;
        }
        let Some((name, rest)) = line.split_once(" = ").filter(|_| is_asked_for) else { continue };
        let version = rest.split_once("\"=").and_then(|(_, rest)| rest.split_once('"'));
        found.push((name, version.unwrap_or_else(|| panic!("{name} has no exact version")).0));
    }
    found
}

#[test]
fn the_locked_crates_of_the_fuzzers_are_those_of_the_package() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let locked = fs::read_to_string(folder.join("fuzz/Cargo.lock")).unwrap();
    let pinned = pinned(&manifest);
    assert!(pinned.len() > 30, "{pinned:?}");
    let is_locked = |(name, version): &(&str, &str)| {
        // What comes after a plus sign says how it was built, and is no part of the version.
        let ends = ["\"\n", "+"];
        ends.iter().any(|end| locked.contains(&format!("name = \"{name}\"\nversion = \"{version}{end}")))
    };
    let missing: Vec<_> = pinned.iter().filter(|crate_of| !is_locked(crate_of)).collect();
    assert!(missing.is_empty(), "run `cargo metadata --manifest-path fuzz/Cargo.toml`: {missing:?}");
}
