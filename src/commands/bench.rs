//! `prof bench`: records two commands in turn and compares them. Joins `record`, with each run a separate process that
//! has the rights it needs, and [`crate::diff`].

use super::reading;
use crate::base::failure::{Failure, io_words, status};
use crate::base::units::duration;
use crate::base::{privilege, safe_text};
use crate::diff::{DiffOptions, Sides};
use crate::report::check;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Interval at which it is checked whether a run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Most lines quoted from the output of a command that failed, and most bytes of the output that are read.
const QUOTED_LINES: usize = 5;
const QUOTED_BYTES: usize = 64 << 10;

/// Names of the two sides, as used in file names.
const NAMES: [&str; 2] = ["base", "new"];

/// Options of `prof bench`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BenchOptions {
    /// The words of the two commands, base and new.
    pub(crate) commands: [Vec<OsString>; 2],
    /// Number of recordings of each command.
    pub(crate) runs: u32,
    /// Number of runs of each command before that.
    pub(crate) warm_ups: u32,
    /// Folder where the recordings stay; `None` if they are removed.
    pub(crate) keep: Option<PathBuf>,
    /// Whether the output of the commands is discarded.
    pub(crate) discards_output: bool,
    /// Whether a command may fail.
    pub(crate) ignores_failure: bool,
    /// Events to record, as for `-e` of `prof record`.
    pub(crate) event: String,
    /// Sampling frequency, as for `-F` of `prof record`.
    pub(crate) frequency: Option<String>,
    /// The user that the commands run as, as for `--run-as` of `prof record`.
    pub(crate) run_as: Option<String>,
    /// Options of the comparison of the recordings.
    pub(crate) diff: DiffOptions,
}

/// Records and compares; returns the exit status of the comparison.
///
/// # Errors
///
/// Fails when a command cannot be recorded or fails, and as `prof diff` does.
pub(crate) fn run(options: &BenchOptions) -> anyhow::Result<u8> {
    // Check this first, rather than after minutes of recording.
    privilege::as_user(|| check(&options.diff.destination))?;
    let folder = privilege::as_user(|| Folder::make(options.keep.as_deref()))?;
    let files = Bench { options, folder: &folder, asked_to_end: watch_signals()? }.record()?;
    privilege::for_reading(true)?;
    reading::compare(&DiffOptions { sides: Sides::Files(files), ..options.diff.clone() })
}

/// Sets a flag when this process is asked to end; the current run gets the signal, too, and ends first.
fn watch_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// The folder with the recordings.
struct Folder {
    path: PathBuf,
    is_kept: bool,
}

impl Folder {
    /// Makes the folder to keep, or one that is removed at the end. Only the user may read it.
    fn make(keep: Option<&Path>) -> Result<Self, Failure> {
        let cannot = |path: &Path, error: &io::Error| {
            let message = format!("cannot make the folder `{}`: {}", path.display(), io_words(error));
            Failure::new(status::FAILED, message)
        };
        let make = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        if let Some(path) = keep {
            match make(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => refuse_recordings(path)?,
                made => made.map_err(|error| cannot(path, &error))?,
            }
            return Ok(Folder { path: absolute(path)?, is_kept: true });
        }
        let temporary = std::env::temp_dir();
        for attempt in 0..100 {
            let path = temporary.join(format!("prof-bench-{}-{attempt}", std::process::id()));
            match make(&path) {
                Ok(()) => return Ok(Folder { path: absolute(&path)?, is_kept: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot(&path, &error).hint("name another one:  --keep DIR")),
            }
        }
        let message = format!("`{}` is full of unfinished comparisons", temporary.display());
        Err(Failure::new(status::FAILED, message).hint("name a folder:  --keep DIR"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_kept {
            // Ignore errors: a leftover in the folder for temporary files is removed with it.
            let _ = privilege::as_user(|| std::fs::remove_dir_all(&self.path));
        }
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::new(status::FAILED, io_words(&error)))
}

/// Refuses a folder with recordings of another comparison, which would be taken for some of this one.
fn refuse_recordings(folder: &Path) -> Result<(), Failure> {
    let shown = folder.display();
    let entries = std::fs::read_dir(folder).map_err(|error| {
        Failure::new(status::FAILED, format!("cannot use `{shown}`: {}", io_words(&error)))
    })?;
    let has_recordings =
        entries.flatten().any(|entry| entry.path().extension().is_some_and(|end| end == "data"));
    if has_recordings {
        return Err(Failure::new(status::FAILED, format!("the folder `{shown}` has recordings already"))
            .hint("name another one:  --keep DIR"));
    }
    Ok(())
}

/// A comparison whose runs are being recorded.
struct Bench<'b> {
    options: &'b BenchOptions,
    folder: &'b Folder,
    asked_to_end: Arc<AtomicBool>,
}

impl Bench<'_> {
    /// Records all runs; returns their files.
    fn record(&self) -> anyhow::Result<[Vec<PathBuf>; 2]> {
        let runs = self.options.runs;
        let mut files = [Vec::new(), Vec::new()];
        let mut lengths = [Duration::ZERO; 2];
        for _ in 0..self.options.warm_ups {
            for (side, length) in lengths.iter_mut().enumerate() {
                let begun = Instant::now();
                self.run(side, &self.folder.file("warm-up.data"), "the warm-up")?;
                *length = begun.elapsed();
            }
        }
        // The warm-up is not one of the runs.
        let _ = privilege::as_user(|| std::fs::remove_file(self.folder.file("warm-up.data")));
        if self.options.warm_ups > 0 {
            self.say_length(lengths);
        }
        for number in 1..=runs {
            for (side, name) in NAMES.into_iter().enumerate() {
                let file = self.folder.file(&format!("{name}-{number:02}.data"));
                self.say_progress(2 * (number - 1) + side as u32);
                let begun = Instant::now();
                self.run(side, &file, &format!("run {number}"))?;
                lengths[side] = begun.elapsed();
                files[side].push(file);
            }
            if number == 1 && self.options.warm_ups == 0 && runs > 1 {
                self.say_length(lengths);
            }
        }
        self.end_progress();
        let _ = privilege::as_user(|| std::fs::remove_file(self.messages()));
        if self.folder.is_kept {
            let pattern = |name| self.folder.file(&format!("{name}-*.data")).display().to_string();
            let patterns = NAMES.map(pattern);
            let words = safe_text::shell_line(patterns.iter().map(String::as_str));
            info(&format!("kept: prof diff {words} compares them again"));
        }
        Ok(files)
    }

    /// Runs a command once, recorded to `file`.
    fn run(&self, side: usize, file: &Path, which: &str) -> anyhow::Result<()> {
        let mut recorder = Command::new("/proc/self/exe");
        recorder.arg0("prof").args(["record", "-q", "-f", "-e", &self.options.event]);
        if let Some(frequency) = &self.options.frequency {
            recorder.args(["-F", frequency]);
        }
        if let Some(user) = &self.options.run_as {
            recorder.args(["--run-as", user]);
        }
        recorder.arg("-o").arg(file).arg("--").args(&self.options.commands[side]).stdin(Stdio::null());
        if self.options.discards_output {
            // The recorder's messages are in the same file as the command's output, and are needed if it fails.
            let messages = privilege::as_user(|| File::create(self.messages()))?;
            recorder.stdout(Stdio::null()).stderr(messages);
        } else {
            // Standard output is for the comparison only.
            recorder.stdout(io::stderr().as_fd().try_clone_to_owned()?);
        }
        let ended = self.wait_for(&mut recorder)?;
        if self.asked_to_end.load(Ordering::Relaxed) {
            let signal = 128 + signal_hook::consts::SIGINT as u8;
            return Err(Failure::new(signal, "interrupted: there is nothing to compare yet").into());
        }
        if ended.success() {
            return Ok(());
        }
        self.failed(side, which, ended)
    }

    fn wait_for(&self, recorder: &mut Command) -> anyhow::Result<ExitStatus> {
        let mut child = recorder.spawn().map_err(|error| {
            Failure::new(status::FAILED, format!("cannot start prof record: {}", io_words(&error)))
        })?;
        let mut is_passed_on = false;
        loop {
            if let Some(ended) = child.try_wait()? {
                return Ok(ended);
            }
            if self.asked_to_end.load(Ordering::Relaxed) && !std::mem::replace(&mut is_passed_on, true) {
                // The run may have ended meanwhile.
                let _ = kill_process(Pid::from_child(&child), Signal::TERM);
            }
            sleep(LOOK_EVERY);
        }
    }

    /// The error for a run that failed, unless failures are ignored.
    fn failed(&self, side: usize, which: &str, ended: ExitStatus) -> anyhow::Result<()> {
        let words: Vec<String> =
            self.options.commands[side].iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let command = safe_text::shell_line(words.iter().map(String::as_str));
        let name = NAMES[side];
        let not_run = [status::NOT_STARTED, status::CANNOT_EXECUTE, status::NOT_FOUND].map(i32::from);
        let code = ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0));
        let failure = match code {
            code if not_run.contains(&code) => {
                let message = format!("{name}: `{command}` could not be recorded in {which}");
                Failure::new(status::FAILED, message).hint(format!("try it:  prof record -- {command}"))
            }
            _ if self.options.ignores_failure => return Ok(()),
            code => {
                let message = format!("{name}: `{command}` ended with status {code} in {which}");
                Failure::new(status::FAILED, message).hint("to go on all the same:  -i")
            }
        };
        Err(self.quoted().into_iter().fold(failure, Failure::hint).into())
    }

    /// The last lines of the command's output, if it was not shown.
    fn quoted(&self) -> Vec<String> {
        if !self.options.discards_output {
            return Vec::new();
        }
        let text = privilege::as_user(|| std::fs::read(self.messages())).unwrap_or_default();
        let text = safe_text::from_bytes(&text[text.len().saturating_sub(QUOTED_BYTES)..]);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(QUOTED_LINES)..]
            .iter()
            .map(|line| format!("it said: {line}"))
            .collect()
    }

    fn messages(&self) -> PathBuf {
        self.folder.file("messages")
    }

    /// Prints how long all runs will take, from the duration of one run of each.
    fn say_length(&self, [base, new]: [Duration; 2]) {
        let runs = self.options.runs;
        let left = (base + new) * (runs - u32::from(self.options.warm_ups == 0));
        let [base, new, left] =
            [base, new, left].map(|time| duration(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
        info(&format!("{runs} runs of base ({base}) and new ({new}) by turns: about {left}"));
    }

    /// Shows which run comes next, if the commands do not write to the terminal.
    fn say_progress(&self, done: u32) {
        if self.options.discards_output && io::stderr().is_terminal() {
            let _ = write!(io::stderr().lock(), "\rrun {} of {}", done + 1, 2 * self.options.runs);
        }
    }

    fn end_progress(&self) {
        if self.options.discards_output && io::stderr().is_terminal() {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// Prints a line about the progress on standard error.
fn info(line: &str) {
    // If standard error is closed, the line is lost.
    let _ = writeln!(io::stderr().lock(), "bench: {}", safe_text::message(line));
}
