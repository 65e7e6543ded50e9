//! How far the programs are from what the kernel's verifier looks at before it gives up.

use crate::base::units;
use libbpf_rs::{Object, libbpf_sys};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// `BPF_COMPLEXITY_LIMIT_INSNS`: programs that take more are refused.
const MOST_INSTRUCTIONS: u32 = 1_000_000;

/// A program, and how many instructions the verifier looked at, on all paths through it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verified {
    /// Name of the program.
    pub(crate) program: String,
    /// Number of instructions.
    pub(crate) instructions: u32,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [number, most] = [self.instructions, MOST_INSTRUCTIONS].map(|number| units::count(number.into()));
        write!(f, "the verifier looked at {number} instructions of `{}`, of {most} at most", self.program)
    }
}

/// The loaded program that took the verifier most. `None` before Linux 5.16, which does not tell.
pub(crate) fn most_verified(object: &Object) -> Option<Verified> {
    let of = |program: libbpf_rs::Program<'_>| {
        let instructions = verified_instructions(program.as_fd()).filter(|number| *number > 0)?;
        Some(Verified { program: program.name().to_string_lossy().into_owned(), instructions })
    };
    object.progs().filter_map(of).max_by_key(|verified| verified.instructions)
}

fn verified_instructions(program: BorrowedFd<'_>) -> Option<u32> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: `info` is a structure of `bytes` bytes, which the kernel fills with as many at most. All of its pointers and
    // counts are zero, so the kernel writes nowhere else.
    let failed =
        unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut bytes) };
    (failed == 0).then_some(info.verified_insns)
}
