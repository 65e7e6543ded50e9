//! A program whose allocator is in use in all ways (`tests/fixtures/heap_storm.c`) and that notices if anything is wrong.

use crate::harness::fixture;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The running program. It goes on until its input is closed.
pub(crate) struct HeapStorm {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl HeapStorm {
    /// Starts it; `None` if it cannot be built here.
    pub(crate) fn start() -> Option<Self> {
        let program = fixture::build("heap_storm")?;
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut ready = String::new();
        output.read_line(&mut ready).expect("it says that it is ready");
        Some(HeapStorm { child, input, output })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The code of the C library in it.
    pub(crate) fn code(&self) -> Vec<u8> {
        let pid = self.pid();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
        let line = maps
            .lines()
            .find(|line| line.contains("/libc.so") && line.contains(" r-xp "))
            .expect("it has one");
        let (start, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).expect("a number"));
        let mut code = vec![0; (end - start) as usize];
        let memory = File::open(format!("/proc/{pid}/mem")).expect("it can be opened");
        memory.read_exact_at(&mut code, start).expect("it can be read");
        code
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// What it has noticed, or how it has died.
    pub(crate) fn end(mut self) -> Result<(), String> {
        drop(self.input.take());
        let mut said = String::new();
        let read = self.output.read_to_string(&mut said);
        let status = self.child.wait().map_err(|error| error.to_string())?;
        match read.is_ok() && status.success() && said.starts_with("ok") {
            true => Ok(()),
            false => Err(format!("it ended with {status} and said `{}`", said.trim())),
        }
    }
}
