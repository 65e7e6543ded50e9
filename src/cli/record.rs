//! `prof record`.

use super::request::{HELP_TEMPLATE, Stop};
use super::sampler::{DebugSourceArgs, SamplerArgs, SpanArgs};
use super::target::{self, RunningArgs};
use super::value;
use crate::base::failure::Failure;
use crate::profile::RuntimeFrames;
use crate::record::{Keep, Output, RecordOptions, Sampler};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Record where programs spend their time, running and waiting
///
/// Samples the stacks of a running process, of all processes, or of a command that is started for the recording,
/// records the stacks of waits, and saves everything with all names in one file. Programs need no preparation: no frame
/// pointers, no rebuild. With -p, -t, --name or -a, CMD only sets the length: the recording ends when CMD exits.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof record -p 4312             a running process, until Ctrl-C
  prof record -d 10s --name '^postgres$'
                                  all processes with that name, for ten seconds
  prof record ./program ARG       a command, from start to end
  prof record -a -- sleep 5       the whole machine while a command runs")]
pub(super) struct RecordArgs {
    #[command(flatten)]
    running: RunningArgs,
    /// Start this command and record it; with another target, record that target until the command exits
    #[arg(trailing_var_arg = true, value_name = "CMD", help_heading = "Target")]
    command: Vec<OsString>,

    #[command(flatten)]
    sampler: SamplerArgs,
    /// Functions of languages with a runtime (Python, Java, JavaScript, Ruby, PHP, Perl): record them and show them without
    /// the interpreter's own frames (folded) or with these (full), or leave them out (off)
    #[arg(long, value_name = "WHAT", default_value = "folded", value_parser = value::runtime_frames())]
    runtime: RuntimeFrames,
    #[command(flatten)]
    span: SpanArgs,
    /// Save here instead of prof.data (the previous prof.data is kept as prof.data.old); - is standard
    /// output; %p, %c and %t are replaced with the process id, its name and the time
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Go on in a new file after this time, for as long as it is to last: -o names a folder, with a file for each window
    #[arg(long, value_name = "TIME", value_parser = value::window, help_heading = "Output")]
    rotate: Option<Duration>,
    /// With --rotate: remove windows that are older, and the oldest when all together are larger: 24h, 2GB or 24h,2GB
    #[arg(long, value_name = "AGE,SIZE", value_parser = value::keep, requires = "rotate", help_heading = "Output")]
    keep: Option<Keep>,
    /// Replace the file of -o if it exists
    #[arg(short, long, help_heading = "Output")]
    force: bool,
    /// Store source lines of the code with most samples in the file, for prof annotate on another machine
    #[arg(long, help_heading = "Output")]
    embed_source: bool,
    #[command(flatten)]
    sources: DebugSourceArgs,
    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    quiet: bool,
    /// Print what prof does, and the messages of the BPF loader
    #[arg(short, long, help_heading = "Output")]
    verbose: bool,
    /// Accepted for perf users: stacks are always recorded
    #[arg(short, hide = true)]
    g: bool,
}

impl RecordArgs {
    /// The command, empty if there is none.
    pub(super) fn command(&self) -> &[OsString] {
        &self.command
    }

    /// `has_dashes`: `--` stood before the command, so that nothing after it was meant for this program.
    pub(super) fn into_options(self, has_dashes: bool) -> Result<RecordOptions, Stop> {
        let stray_options = if has_dashes { Vec::new() } else { target::stray_options(&self.command) };
        if self.sources.debuginfod && self.output.as_deref().is_some_and(value::is_stdout) {
            let failure = Failure::usage("--debuginfod adds names to a file, and -o - writes none");
            return Err(failure.hint("later, where the file is:  prof symbolize FILE --debuginfod").into());
        }
        if self.sampler.goroutines && self.runtime == RuntimeFrames::Off {
            let failure =
                Failure::usage("--goroutines reads the memory of targets, and --runtime off forbids that");
            return Err(failure.hint("leave out one of them").into());
        }
        let (target, timer) = self.running.into_target(self.command, "record")?;
        let output = match (self.output, self.rotate) {
            (path, Some(_)) => folder_of_windows(path, self.keep.unwrap_or_default())?,
            (None, None) => Output::Default,
            (Some(path), None) if value::is_stdout(&path) => Output::Stdout,
            (Some(path), None) => Output::File { path, force: self.force },
        };
        let options = RecordOptions {
            output,
            window: self.rotate,
            debug_folders: self.sources.folders,
            debuginfod: self.sources.debuginfod,
            quiet: self.quiet,
            verbose: self.verbose,
            embed_source: self.embed_source,
            stray_options,
            runtime: self.runtime,
            ..self.sampler.into_options(target, timer, &self.span)?
        };
        check_windows(&options)?;
        Ok(options)
    }
}

/// The folder of a recording in windows.
fn folder_of_windows(path: Option<PathBuf>, keep: Keep) -> Result<Output, Failure> {
    match path {
        Some(path) if !value::is_stdout(&path) => Ok(Output::Folder { path, keep }),
        Some(_) => Err(Failure::usage("--rotate writes many files, and -o - is standard output")
            .hint("name a folder: -o DIR/")),
        None => Err(Failure::usage("--rotate writes many files, and needs a folder for them")
            .hint("name one: -o DIR/")),
    }
}

/// Refuses what cannot be divided into windows.
fn check_windows(options: &RecordOptions) -> Result<(), Failure> {
    let has_end = |sampler: &&Sampler| {
        matches!(sampler, Sampler::Heap(_) | Sampler::GoWaits(_) | Sampler::Goroutines(_))
    };
    if options.window.is_none() {
        return Ok(());
    }
    if options.debuginfod {
        return Err(Failure::usage(
            "--debuginfod adds names to a file when it is complete, and --rotate writes many",
        )
        .hint("later, for the windows that matter:  prof symbolize FILE --debuginfod"));
    }
    match options.events.iter().find(has_end) {
        None => Ok(()),
        Some(_) => Err(Failure::usage(
            "blocks of the heap and goroutines cannot be recorded in windows: they outlive them",
        )
        .hint("leave out --rotate, or record cpu, off, faults and counters")),
    }
}
