//! Every sample's stack a second time by elfutils' libdw, from a copy of its registers and memory: what `make oracle`
//! does for many programs, here for a few. The comparer is tests/oracle.

use crate::harness::machine::{skip, tool, tool_or_skip, turn};
use crate::harness::profiler::{Recording, Report, text};
use crate::harness::running::{Running, UNTIL_ENDED};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What the comparer counted.
#[derive(Debug)]
struct Comparison {
    samples: u64,
    complete: u64,
    identical: u64,
    differing: u64,
    /// Of the recording itself.
    report: Report,
    /// All that the comparer said.
    said: String,
}

impl Comparison {
    /// At least `least` samples, of which at most `incomplete` per thousand lack their root and none differs.
    fn assert_right(&self, least: u64, incomplete: u64) {
        let said = &self.said;
        assert!(self.samples >= self.report.due_of(least), "too few samples:\n{said}");
        // Copies of nearly a megabyte each may not all fit into their ring, on a crowded machine half of them.
        assert!(self.identical * 10 >= self.samples * 3, "too few stacks were compared:\n{said}");
        // One sample may hit the loader while it maps a library.
        let allowed = (self.samples * incomplete / 1000).max(1);
        assert!(self.samples - self.complete <= allowed, "incomplete stacks:\n{said}");
        assert!(self.differing <= (self.samples / 1000).max(1), "libdw finds other stacks:\n{said}");
    }
}

/// The comparer, built at most once; `None`, after saying so, without what it is built with.
fn comparer() -> Option<&'static Path> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if tool("cc").is_none() || !Path::new("/usr/include/elfutils/libdwfl.h").exists() {
        return skip("libdw and its headers are not installed (libdw-dev)");
    }
    Some(BUILT.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("walk_again");
        let sources = ["walk_again.c", "address_space.c", "copies.c"];
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).args(sources);
        compiler.args(["-ldw", "-lelf"]).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle"));
        let output = compiler.output().expect("cc can be run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }))
}

/// Records with a copy of every stack, and compares.
fn compare<S: AsRef<OsStr>>(comparer: &Path, target: impl IntoIterator<Item = S>) -> Comparison {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let copies = folder.path().join("copies");
    let mut arguments =
        vec!["-F".into(), "997".into(), "--stack-copies".into(), copies.clone().into_os_string()];
    arguments.extend(target.into_iter().map(|word| word.as_ref().to_owned()));
    let report = Recording::with(arguments).report();
    let output = Command::new(comparer).arg("-v").arg(&copies).output().expect("the comparer can be run");
    let said = text(&output);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let counts = said.lines().next().unwrap_or_default();
    let count = |name: &str| {
        let value = counts.split(' ').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {said}"))
    };
    Comparison {
        samples: count("samples"),
        complete: count("complete"),
        identical: count("identical"),
        differing: count("differing"),
        report,
        said,
    }
}

#[test]
fn libdw_finds_the_same_stacks_in_recursion() {
    let (Some(_turn), Some(comparer)) = (turn(), comparer()) else { return };
    let Some(program) = Running::fixture("depths", &[UNTIL_ENDED]) else { return };
    let pid = program.pid().to_string();
    compare(comparer, ["-p", &pid, "-d", "2s"]).assert_right(300, 1);
}

#[test]
fn libdw_finds_the_same_stacks_through_signal_handlers() {
    let (Some(_turn), Some(comparer)) = (turn(), comparer()) else { return };
    let Some(program) = Running::fixture("signal", &[UNTIL_ENDED]) else { return };
    let pid = program.pid().to_string();
    compare(comparer, ["-p", &pid, "-d", "2s"]).assert_right(300, 1);
}

/// Records one algorithm: hand-written code whose frames need every register and dereferenced addresses.
fn openssl(algorithm: &[&str], incomplete: u64) {
    let (Some(_turn), Some(comparer)) = (turn(), comparer()) else { return };
    let Some(openssl) = tool_or_skip("openssl") else { return };
    let openssl = openssl.to_string_lossy().into_owned();
    let command = [&["--", &openssl, "speed", "-seconds", "2", "-bytes", "8192"], algorithm].concat();
    compare(comparer, command).assert_right(300, incomplete);
}

#[test]
fn libdw_finds_the_same_stacks_in_openssl_rsa2048() {
    openssl(&["rsa2048"], 1);
}

#[test]
fn libdw_finds_the_same_stacks_in_openssl_chacha20_poly1305() {
    openssl(&["-evp", "chacha20-poly1305"], 1);
}

#[test]
fn libdw_finds_the_same_stacks_in_openssl_aes_256_gcm() {
    openssl(&["-evp", "aes-256-gcm"], 1);
}

#[test]
fn libdw_finds_the_same_stacks_in_openssl_ecdsap256() {
    openssl(&["ecdsap256"], 5);
}

/// The comparer can tell a difference: the same recording with one return address moved.
#[test]
fn the_comparer_sees_a_frame_that_is_not_libdw_s() {
    let (Some(_turn), Some(comparer)) = (turn(), comparer()) else { return };
    let Some(program) = Running::fixture("depths", &[UNTIL_ENDED]) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let copies = folder.path().join("copies");
    let path = copies.to_string_lossy().into_owned();
    Recording::of_pid_with(program.pid(), "1s", &["-F", "99", "--stack-copies", &path]);
    let mut bytes = std::fs::read(&copies).expect("the copies were written");
    let changed = move_second_frames(&mut bytes);
    assert!(changed > 10, "{changed} samples");
    std::fs::write(&copies, bytes).expect("a temporary file can be written");
    let said = text(&Command::new(comparer).arg(&copies).output().expect("the comparer can be run"));
    assert!(said.contains(&format!(" differing={changed} ")), "{changed} stacks were changed:\n{said}");
}

/// Adds one to the second frame of every sample with a copy; returns how many. The file's form is in
/// src/record/collect/stack_copies.rs.
fn move_second_frames(bytes: &mut [u8]) -> usize {
    const SAMPLE: u32 = 2;
    const FRAMES_AT: usize = 32 + 8 + 4 * 8 + 17 * 8;
    let number = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes are a number"))
    };
    let (mut at, mut changed) = (8, 0);
    while at + 8 <= bytes.len() {
        let (kind, size) = (number(bytes, at), number(bytes, at + 4) as usize);
        let record = &mut bytes[at + 8..at + 8 + size];
        if kind == SAMPLE && number(record, 24) > 1 && record[31] == 1 {
            record[FRAMES_AT + 8] = record[FRAMES_AT + 8].wrapping_add(1);
            changed += 1;
        }
        at += 8 + size;
    }
    changed
}
