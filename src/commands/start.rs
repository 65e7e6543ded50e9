//! `prof` alone in a terminal, and `prof live` and `prof top` without a target: a list of processes to choose from.
//! Joins [`crate::record`], which finds processes, and [`crate::tui`], which shows them.
//!
//! The choice becomes a command that could have been typed. It replaces this program, so that it starts with the
//! rights, the terminal and the signals that it would have then.

use crate::base::failure::{Failure, status};
use crate::base::safe_text;
use crate::record::{BusyProcess, ProcessWatch};
use crate::report::DEFAULT_FILE;
use crate::tui;
use crate::tui::start::{Choice, LastRecording, ProcessRow};
use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Base of the exit status of a process that a signal ended.
const SIGNAL_STATUS: u8 = 128;

/// Whether a list can be shown and the user can choose: both input and output are a terminal.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && tui::require_terminal().is_ok()
}

/// Lets the user choose, and becomes the chosen command. `watch` is the command line without a target, after the name
/// of the program; returns the exit status if nothing was chosen.
///
/// # Errors
///
/// Fails when the terminal cannot be used, or this program cannot be started again.
pub(crate) fn run(watch: &[OsString]) -> anyhow::Result<u8> {
    let mut processes = ProcessWatch::default();
    let choice =
        tui::start::choose(last_recording(), move || Ok(processes.look()?.into_iter().map(row).collect()))?;
    match words(choice, watch) {
        Ok(words) => Err(become_command(&words)),
        Err(status) => Ok(status),
    }
}

/// The words of the chosen command, or the exit status if none was chosen.
fn words(choice: Choice, watch: &[OsString]) -> Result<Vec<OsString>, u8> {
    let with = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let watching = |more: &[&str]| {
        let typed = if watch.is_empty() { with(&["live"]) } else { watch.to_vec() };
        typed.into_iter().chain(with(more)).collect()
    };
    match choice {
        Choice::Watch(pid) => Ok(watching(&["-p", &pid.to_string()])),
        Choice::WatchAll => Ok(watching(&["-a"])),
        Choice::Record(pid) => Ok(with(&["record", "-p", &pid.to_string()])),
        Choice::Open => Ok(with(&["tui"])),
        Choice::Leave => Err(status::OK),
        Choice::Signal(signal) => Err(SIGNAL_STATUS + signal as u8),
    }
}

/// Replaces this program by itself with other arguments; returns the error if that fails.
fn become_command(words: &[OsString]) -> anyhow::Error {
    let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let line = safe_text::shell_line(std::iter::once("prof").chain(shown.iter().map(AsRef::as_ref)));
    // The line can be read above the screen of the command, and typed the next time.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
    let name = std::env::args_os().next().unwrap_or_else(|| "prof".into());
    let error = Command::new("/proc/self/exe").arg0(name).args(words).exec();
    let failure = Failure::new(status::FAILED, format!("cannot start {line}: {error}"));
    anyhow::Error::from(failure.hint(format!("start it yourself:  {line}")))
}

fn row(BusyProcess { pid, cpu_percent, threads, command, .. }: BusyProcess) -> ProcessRow {
    ProcessRow { pid, cpu_percent, threads, command }
}

/// The recording that `prof tui` would open.
fn last_recording() -> Option<LastRecording> {
    let path = PathBuf::from(DEFAULT_FILE);
    let about = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
    let age = about.modified().ok().and_then(|time| time.elapsed().ok());
    Some(LastRecording { path, age, bytes: about.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_is_a_command_that_can_be_typed() {
        let line = |choice, watch: &[&str]| {
            let watch: Vec<OsString> = watch.iter().map(OsString::from).collect();
            words(choice, &watch).map(|words| words.join(" ".as_ref()).into_string().expect("ASCII"))
        };
        assert_eq!(line(Choice::Watch(7), &[]).as_deref(), Ok("live -p 7"));
        assert_eq!(line(Choice::Watch(7), &["top", "-F", "99"]).as_deref(), Ok("top -F 99 -p 7"));
        assert_eq!(line(Choice::WatchAll, &["live", "--off-cpu"]).as_deref(), Ok("live --off-cpu -a"));
        assert_eq!(line(Choice::Record(7), &["top"]).as_deref(), Ok("record -p 7"));
        assert_eq!(line(Choice::Open, &[]).as_deref(), Ok("tui"));
        assert_eq!(line(Choice::Leave, &[]), Err(0));
        assert_eq!(line(Choice::Signal(15), &[]), Err(143));
    }
}
