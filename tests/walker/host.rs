//! The walker as a program of the host.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;

use prof::internals::bpf::{FRAME_ADDRESS, FRAME_BY_FP, FRAME_RETURN};
use prof::internals::unwind::Architecture;

use crate::case::{Case, IN_MORE_TABLES};

/// What clang is told besides what to build. Addresses need not be aligned: the stack pointer of a broken
/// frame is not, and processors do not care.
const FLAGS: [&str; 10] = [
    "-g",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    "-Wno-unused-function",
    "-Isrc/bpf/c",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
];

/// Compiles `tests/walker/host/NAME.c` with sanitizers, for the registers and rules of a processor.
pub(crate) fn build(name: &str, architecture: Architecture, sanitizers: &str) -> PathBuf {
    let (suffix, macros) = match architecture {
        Architecture::X86_64 => ("", "-D__TARGET_ARCH_x86"),
        Architecture::Aarch64 => ("-arm64", "-D__TARGET_ARCH_arm64"),
    };
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("walker-{name}{suffix}"));
    let output = Command::new("clang")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(FLAGS)
        .arg(macros)
        .arg(format!("-fsanitize={sanitizers}"))
        .arg("-fno-sanitize=alignment")
        .arg(format!("tests/walker/host/{name}.c"))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// One frame as the walker stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostFrame {
    pub(crate) address: u64,
    pub(crate) is_return: bool,
    pub(crate) is_by_frame_pointer: bool,
}

/// What the walker makes of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostStack {
    /// `enum prof_outcome`.
    pub(crate) outcome: u32,
    /// Leaf first.
    pub(crate) frames: Vec<HostFrame>,
}

/// The running program.
pub(crate) struct Replay {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
}

/// Compiled once for all tests.
static REPLAY: LazyLock<PathBuf> =
    LazyLock::new(|| build("replay", Architecture::X86_64, "address,undefined"));
static REPLAY_AARCH64: LazyLock<PathBuf> =
    LazyLock::new(|| build("replay", Architecture::Aarch64, "address,undefined"));

impl Replay {
    /// For cases of x86-64.
    pub(crate) fn start() -> Self {
        Self::start_for(Architecture::X86_64)
    }

    /// For cases of a processor.
    pub(crate) fn start_for(architecture: Architecture) -> Self {
        let program = match architecture {
            Architecture::X86_64 => &*REPLAY,
            Architecture::Aarch64 => &*REPLAY_AARCH64,
        };
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Walks a case, with its tables where those of the start are and where later ones are: there is no difference.
    pub(crate) fn walk(&mut self, case: &Case) -> HostStack {
        let mut bytes = case.encode();
        let stack = self.walk_bytes(&bytes);
        bytes[0] |= IN_MORE_TABLES;
        assert_eq!(self.walk_bytes(&bytes), stack, "tables in another room");
        stack
    }

    fn walk_bytes(&mut self, bytes: &[u8]) -> HostStack {
        let input = self.input.as_mut().unwrap();
        input.write_all(&(bytes.len() as u32).to_ne_bytes()).unwrap();
        input.write_all(bytes).unwrap();
        let outcome = self.number();
        let count = self.number();
        let mut frames = vec![0; count as usize * 8];
        self.output.read_exact(&mut frames).unwrap();
        let frames = frames.as_chunks().0.iter().map(|bytes| {
            let frame = u64::from_ne_bytes(*bytes);
            HostFrame {
                address: frame & FRAME_ADDRESS,
                is_return: frame & FRAME_RETURN != 0,
                is_by_frame_pointer: frame & FRAME_BY_FP != 0,
            }
        });
        HostStack { outcome, frames: frames.collect() }
    }

    fn number(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.output.read_exact(&mut bytes).expect("the walker ends early: a sanitizer has said why above");
        u32::from_ne_bytes(bytes)
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
