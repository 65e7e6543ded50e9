//! What /proc has of a process that says who it is, as bytes.

use super::super::rules::LabelMap;
use super::cgroup::{self, CgroupPlace};
use super::environ;
use super::program::MOST_COMMAND_BYTES;
use std::io::{self, Read};

/// Most bytes of the path of an executable that are kept: the kernel's limit.
const MOST_PATH_BYTES: usize = 4096;

/// What is known of one process. All of it was chosen by the one who started the process, or by the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessFacts {
    /// `/proc/PID/environ`: `NAME=value`, each ended by a NUL.
    pub(crate) environment: Vec<u8>,
    /// `/proc/PID/cgroup`.
    pub(crate) cgroup: Vec<u8>,
    /// `/proc/PID/cmdline`: words, each ended by a NUL.
    pub(crate) command_line: Vec<u8>,
    /// Path of the executable, as the link `/proc/PID/exe` has it; empty for threads of the kernel.
    pub(crate) exe: Vec<u8>,
    /// `/proc/PID/comm`, without the line break.
    pub(crate) comm: Vec<u8>,
    /// Whether this is a thread of the kernel.
    pub(crate) is_kernel: bool,
}

impl ProcessFacts {
    /// Reads the files of a process, each within limits. `open` opens one by its name below `/proc/PID`; `exe` is the target of that
    /// link, which is no file to read, and `is_kernel` what the flags of the process say. What cannot be read is empty: processes end
    /// at any time, and some may not be looked at.
    pub(crate) fn read<F: Read>(
        mut open: impl FnMut(&str) -> io::Result<F>,
        exe: Option<Vec<u8>>,
        is_kernel: bool,
    ) -> Self {
        let mut bytes = |name: &str, most: usize| {
            let mut bytes = Vec::new();
            let read = open(name).and_then(|file| file.take(most as u64).read_to_end(&mut bytes));
            if read.is_ok() { bytes } else { Vec::new() }
        };
        let mut environment = bytes("environ", environ::MOST_BYTES);
        if environment.len() == environ::MOST_BYTES {
            // The last one may be a part of itself.
            let end = environment.iter().rposition(|byte| *byte == 0).unwrap_or(0);
            environment.truncate(end);
        }
        let cgroup = bytes("cgroup", cgroup::MOST_BYTES);
        let command_line = bytes("cmdline", MOST_COMMAND_BYTES);
        let mut comm = bytes("comm", 64);
        if comm.last() == Some(&b'\n') {
            comm.pop();
        }
        let mut exe = exe.unwrap_or_default();
        exe.truncate(MOST_PATH_BYTES);
        ProcessFacts { environment, cgroup, command_line, exe, comm, is_kernel }
    }

    /// Adds what a recording knows of a program that runs, or has run, user code, where nothing could be read of it.
    pub(crate) fn add_program(&mut self, comm: &str, path: &str) {
        if self.comm.is_empty() {
            self.comm = comm.as_bytes().to_vec();
        }
        if self.exe.is_empty() && !self.is_kernel {
            self.exe = path.as_bytes()[..path.len().min(MOST_PATH_BYTES)].to_vec();
        }
    }

    /// Whether nothing says where the process runs: it had ended before it was looked at, or may not be looked at.
    pub(super) fn lacks_place(&self) -> bool {
        self.cgroup.is_empty() && !self.is_kernel
    }

    /// The facts as labels for rules, with the variables that the rules name.
    pub(crate) fn labels<'v>(
        &self,
        place: &CgroupPlace,
        variables: impl Iterator<Item = &'v str>,
    ) -> LabelMap {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let exe = self.exe.strip_suffix(b" (deleted)").unwrap_or(&self.exe);
        let words = self.command_line.strip_suffix(b"\0").unwrap_or(&self.command_line);
        let mut labels = LabelMap::from([
            ("__exe".to_owned(), text(exe)),
            ("__comm".to_owned(), text(&self.comm)),
            ("__cmdline".to_owned(), text(words).replace('\0', " ")),
            ("__cgroup".to_owned(), place.path.clone()),
        ]);
        let known =
            [("__unit", &place.unit), ("__container_id", &place.container_id), ("__pod_uid", &place.pod_uid)];
        labels.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))));
        for name in variables {
            if let Some(value) = environ::variable(&self.environment, name) {
                labels.insert(format!("__env_{name}"), text(value));
            }
        }
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_within_limits() {
        let big = format!("A={}\0B=1\0", "x".repeat(environ::MOST_BYTES - 5));
        let open = |name: &str| match name {
            "environ" => Ok(big.as_bytes()),
            "comm" => Ok(b"java\n".as_slice()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        let facts = ProcessFacts::read(open, Some(b"/bin/java".to_vec()), false);
        assert_eq!(environ::variable(&facts.environment, "B"), None);
        assert_eq!(
            environ::variable(&facts.environment, "A").map(<[u8]>::len),
            Some(environ::MOST_BYTES - 5)
        );
        assert_eq!((facts.comm.as_slice(), facts.is_kernel), (b"java".as_slice(), false));
    }

    #[test]
    fn this_process_has_facts() {
        let exe = std::fs::read_link("/proc/self/exe").unwrap();
        let open = |name: &str| std::fs::File::open(format!("/proc/self/{name}"));
        let facts = ProcessFacts::read(open, Some(exe.to_string_lossy().into_owned().into_bytes()), false);
        assert!(!facts.comm.is_empty() && !facts.cgroup.is_empty() && !facts.is_kernel);
        let labels = facts.labels(&CgroupPlace::default(), ["PATH"].into_iter());
        assert_eq!(labels.get("__env_PATH"), std::env::var("PATH").ok().as_ref());
        assert!(!labels.contains_key("__env_HOME"));
    }
}
