//! The interpreters that this machine has, and programs that run in all of them at a time.

use crate::harness::fixture;
use crate::harness::machine::skip;
use crate::harness::profiler::Recording;
use crate::harness::running::Running;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The distribution's, without symbols other than those it exports.
const OF_DISTRIBUTION: &str = "/usr/bin/python3.11";

/// Minor versions that are looked for under pyenv's folder.
const MINOR_VERSIONS: [u32; 6] = [8, 9, 10, 11, 12, 13];

/// CPython of some version.
#[derive(Debug, Clone)]
pub(crate) struct Python {
    /// Such as `3.11`, or `3.11 of the distribution`.
    pub(crate) version: String,
    /// Its program.
    pub(crate) program: PathBuf,
    /// Functions that it does not export have names, too.
    pub(crate) has_symbols: bool,
}

/// All that are here; says of each that is not.
pub(crate) fn pythons() -> Vec<Python> {
    let mut found: Vec<Python> = of_distribution().into_iter().collect();
    found.extend(MINOR_VERSIONS.into_iter().filter_map(of_pyenv));
    found
}

/// The distribution's; says so if there is none.
pub(crate) fn of_distribution() -> Option<Python> {
    if !Path::new(OF_DISTRIBUTION).exists() {
        return skip(&format!("{OF_DISTRIBUTION} is not installed"));
    }
    let version = "3.11 of the distribution".to_owned();
    Some(Python { version, program: OF_DISTRIBUTION.into(), has_symbols: false })
}

/// The newest 3.`minor` under pyenv's folder; says so if there is none.
pub(crate) fn of_pyenv(minor: u32) -> Option<Python> {
    let home = || Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".pyenv");
    let folder = std::env::var_os("PYENV_ROOT").map_or_else(home, PathBuf::from).join("versions");
    let prefix = format!("3.{minor}.");
    let patch = |path: &Path| path.file_name()?.to_str()?.strip_prefix(&prefix)?.parse::<u32>().ok();
    let versions = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let newest = versions.filter_map(|path| Some((patch(&path)?, path))).max();
    let program = newest.map(|(_, path)| path.join("bin/python3")).filter(|program| program.exists());
    match program {
        Some(program) => Some(Python { version: format!("3.{minor}"), program, has_symbols: true }),
        None => skip(&format!("python 3.{minor} is not in {}", folder.display())),
    }
}

/// The source of a program.
pub(crate) fn script(name: &str) -> PathBuf {
    fixture::sources().join("python").join(name)
}

/// A program that was recorded, in one version.
pub(crate) struct Target {
    pub(crate) python: Python,
    pub(crate) pid: u32,
    /// What it printed after `ready`.
    pub(crate) printed: String,
}

impl Target {
    /// The line of JSON that it printed.
    pub(crate) fn said(&self) -> Value {
        serde_json::from_str(&self.printed).unwrap_or_else(|error| {
            panic!("{} printed no JSON ({error}): {}", self.python.version, self.printed)
        })
    }
}

/// One recording of one program in all versions that are here; `None` if none is.
pub(crate) fn recorded_in_all(
    name: &str,
    seconds: &str,
    options: &[&str],
) -> Option<(Recording, Vec<Target>)> {
    recorded_by(name, |pids| Some(Recording::of_pids_with(pids, seconds, options)))
}

/// The same by some other recording of these processes.
pub(crate) fn recorded_by(
    name: &str,
    record: impl FnOnce(&[u32]) -> Option<Recording>,
) -> Option<(Recording, Vec<Target>)> {
    let running: Vec<(Python, Running)> = (pythons().into_iter())
        .map(|python| {
            let running = Running::start_ready(Command::new(&python.program).arg(script(name)));
            // The others start sooner without it.
            running.signal(Signal::STOP);
            running.lower_priority();
            (python, running)
        })
        .collect();
    if running.is_empty() {
        return None;
    }
    let pids: Vec<u32> = running.iter().map(|(_, running)| running.pid()).collect();
    running.iter().for_each(|(_, running)| running.signal(Signal::CONT));
    let recording = record(&pids)?;
    recording.complete_names();
    let target = |(python, running): (Python, Running)| {
        assert!(running.is_alive(), "{}: {name} has ended: {:?}", python.version, running.end());
        Target { pid: running.pid(), printed: running.finish(), python }
    };
    Some((recording, running.into_iter().map(target).collect()))
}
