//! Kernels that lack something: this one, with other type information in place of its own, or with programs that call what no
//! kernel has.

use crate::harness::machine::skip;
use crate::harness::profiler::{HANGS_AFTER, binary};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Whether a file can be put in another's place for one program.
pub(crate) fn can_mount() -> bool {
    let made = Command::new("unshare").args(["--mount", "true"]).output();
    made.is_ok_and(|output| output.status.success())
        || skip::<()>("a mount namespace cannot be made here (unshare --mount)").is_some()
}

/// A copy of the kernel's types in which the name `old` is missing.
pub(crate) fn types_without(old: &str, folder: &Path) -> PathBuf {
    let mut types = std::fs::read(KERNEL_TYPES).expect("the kernel's types can be read");
    let name = [b"\0", old.as_bytes(), b"\0"].concat();
    let found: Vec<usize> =
        types.windows(name.len()).enumerate().filter(|(_, bytes)| *bytes == name).map(|(at, _)| at).collect();
    let [at] = found[..] else { panic!("{old} occurs {} times", found.len()) };
    types[at + 1] = b'?';
    let path = folder.join(old);
    std::fs::write(&path, types).expect("a temporary file can be written");
    path
}

/// Runs `prof` where the kernel's types are those in `types`.
pub(crate) fn prof_with(types: &Path, arguments: &[&str]) -> Output {
    command_with(types).args(arguments).output().expect("`timeout` can be run")
}

/// A command that runs `prof` where the kernel's types are those in `types`.
pub(crate) fn command_with(types: &Path) -> Command {
    let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    let mut command = Command::new("timeout");
    command.args(["--foreground", HANGS_AFTER, "unshare", "--mount", "sh", "-ec", script, "sh"]);
    command.arg(types).arg(KERNEL_TYPES).arg(binary()).env("PROF_NO_CACHE", "1");
    command
}

/// A number that no kernel has a helper of.
const NO_HELPER: u32 = 0x00ff_fff0;

/// A copy of `prof` whose programs call a helper that no kernel has where they call the one of this number (`bpf_func_id` of
/// linux/bpf.h): to the kernel they are those of a later one.
pub(crate) fn prof_without_helper(number: u32, folder: &Path) -> PathBuf {
    let mut program = std::fs::read(binary()).expect("the binary under test can be read");
    let mut calls = 0;
    for object in bpf_objects(&program) {
        for instruction in program[object].as_chunks_mut::<8>().0 {
            if *instruction == call(number) {
                *instruction = call(NO_HELPER);
                calls += 1;
            }
        }
    }
    assert!(calls > 0, "no program calls the helper {number}");
    let (written, copy) = (folder.join("written"), folder.join(format!("prof-without-{number}")));
    std::fs::write(&written, program).expect("a temporary file can be written");
    // What this process has written, a child of another test may still have open for writing, and then it cannot be executed.
    let copied = Command::new("cp").arg(&written).arg(&copy).status();
    assert!(copied.is_ok_and(|status| status.success()), "cp failed");
    let executable = Command::new("chmod").arg("+x").arg(&copy).status();
    assert!(executable.is_ok_and(|status| status.success()), "chmod failed");
    std::fs::remove_file(&written).expect("own file");
    copy
}

/// The instruction that calls a helper.
fn call(number: u32) -> [u8; 8] {
    let [a, b, c, d] = number.to_le_bytes();
    [0x85, 0, 0, 0, a, b, c, d]
}

/// Where the ELF files of BPF programs lie that are part of `program`: each ends with its table of sections.
fn bpf_objects(program: &[u8]) -> Vec<Range<usize>> {
    const MAGIC: &[u8] = b"\x7fELF\x02\x01\x01";
    const OF_BPF: [u8; 2] = 247u16.to_le_bytes();
    let starts = program.windows(20).enumerate();
    let starts = starts.filter(|(_, header)| header.starts_with(MAGIC) && header[18..] == OF_BPF);
    let objects = starts.map(|(start, _)| {
        let number = |at: usize, size: usize| {
            let bytes = &program[start + at..][..size];
            bytes.iter().rev().fold(0usize, |value, byte| value << 8 | usize::from(*byte))
        };
        let (sections_at, size, count) = (number(0x28, 8), number(0x3a, 2), number(0x3c, 2));
        start..start + sections_at + size * count
    });
    objects.collect()
}
