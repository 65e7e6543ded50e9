//! The walker as a program of the host.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;

use prof::bpf::{FRAME_ADDRESS, FRAME_BY_FP, FRAME_RETURN};

use crate::case::Case;

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
    "-Isrc/bpf",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
];

/// Compiles `tests/walker/NAME.c` with sanitizers.
pub(crate) fn build(name: &str, sanitizers: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("walker-{name}"));
    let output = Command::new("clang")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(FLAGS)
        .arg(format!("-fsanitize={sanitizers}"))
        .arg("-fno-sanitize=alignment")
        .arg(format!("tests/walker/{name}.c"))
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
static REPLAY: LazyLock<PathBuf> = LazyLock::new(|| build("replay", "address,undefined"));

impl Replay {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(&*REPLAY).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, input, output }
    }

    pub(crate) fn walk(&mut self, case: &Case) -> HostStack {
        let bytes = case.encode();
        let input = self.input.as_mut().unwrap();
        input.write_all(&(bytes.len() as u32).to_ne_bytes()).unwrap();
        input.write_all(&bytes).unwrap();
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
