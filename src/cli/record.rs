//! `prof record`.

use super::{HELP_TEMPLATE, Stop, value};
use crate::failure::Failure;
use crate::record::{CallGraph, Output, Rate, RecordOptions, Target};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Record where programs spend their CPU time
///
/// Samples the stacks of a running process, of all processes, or of a command that is started for the
/// recording, and saves them with all names in one file. Programs need no preparation: no frame pointers,
/// no rebuild. With -p, -t, --name or -a, a CMD only runs beside the recording and ends it.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof record -p 4312             a running process, until Ctrl-C
  prof record -d 10s --name '^postgres$'
                                  all processes of that name, for ten seconds
  prof record ./program ARG       a command, from start to end
  prof record -a -- sleep 5       the whole machine while a command runs")]
pub(super) struct RecordArgs {
    /// Record these processes with all their threads
    #[arg(short, long, value_name = "PID,…", value_delimiter = ',', group = "running", help_heading = "Target",
        value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// Record just these threads
    #[arg(short, long, value_name = "TID,…", value_delimiter = ',', group = "running", help_heading = "Target",
        value_parser = clap::value_parser!(u32).range(1..))]
    tid: Vec<u32>,
    /// Record all processes whose name matches
    #[arg(long, value_name = "REGEX", group = "running", help_heading = "Target", value_parser = value::pattern)]
    name: Option<String>,
    /// Record every process of the machine
    #[arg(short, long, group = "running", help_heading = "Target")]
    all: bool,
    /// Start this command and record it; with another target, record until it ends
    #[arg(trailing_var_arg = true, value_name = "CMD", help_heading = "Target")]
    command: Vec<OsString>,

    /// What to record: cpu, the time that programs run
    #[arg(short, long, value_name = "EVENT,…", value_delimiter = ',', default_value = "cpu",
        hide_possible_values = true, value_parser = value::event)]
    event: Vec<String>,
    /// Samples per second and CPU, or max for the kernel's limit
    #[arg(short = 'F', long, value_name = "HZ|max", value_parser = value::rate, long_help = rate_help())]
    frequency: Option<Rate>,
    /// Stop after this long
    #[arg(short, long, value_name = "TIME", value_parser = value::positive_duration)]
    duration: Option<Duration>,
    /// Start sampling this long after everything is set up
    #[arg(short = 'D', long, value_name = "TIME", value_parser = value::duration)]
    delay: Option<Duration>,
    /// How user stacks are walked: by unwind tables and frame pointers where there are none (auto), by
    /// unwind tables only (dwarf), by frame pointers only (fp)
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = value::call_graph())]
    call_graph: CallGraph,
    /// Leave out the kernel: no samples in it and no kernel frames
    #[arg(long)]
    user_only: bool,
    /// Do not record processes that a recorded process starts
    #[arg(long)]
    no_children: bool,
    /// Most memory that unwind tables may take
    #[arg(long, value_name = "SIZE", value_parser = value::budget_bytes, help = budget_help())]
    table_budget: Option<u64>,
    /// Save here instead of prof.data (whose predecessor is kept as prof.data.old); - is standard
    /// output; %p, %c and %t stand for the process id, its name and the time
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Replace the file of -o if it exists
    #[arg(short, long, help_heading = "Output")]
    force: bool,
    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    quiet: bool,
    /// Say what is done, and pass on the loaders' own messages
    #[arg(short, long, help_heading = "Output")]
    verbose: bool,
    /// Save a copy of every sample's registers and stack, which another unwinder can walk (`make oracle`)
    #[arg(long, value_name = "FILE", hide = true)]
    stack_copies: Option<PathBuf>,
    /// Accepted for those used to perf: stacks are always recorded
    #[arg(short, hide = true)]
    g: bool,
}

fn rate_help() -> String {
    format!(
        "Samples per second and CPU, or max for the kernel's limit (kernel.perf_event_max_sample_rate), \
         to which a higher rate is lowered [default: {} for processes, threads and commands, {} for -a]",
        Target::Pids(Vec::new()).default_hz(),
        Target::System.default_hz()
    )
}

fn budget_help() -> String {
    let default = value::budget_text(RecordOptions::default().table_budget_bytes);
    format!("Most memory that unwind tables may take [default: {default}]")
}

impl RecordArgs {
    pub(super) fn into_options(self) -> Result<RecordOptions, Stop> {
        let command = (!self.command.is_empty()).then_some(self.command);
        let running = match (self.name, self.all) {
            _ if !self.pid.is_empty() => Some(Target::Pids(self.pid)),
            _ if !self.tid.is_empty() => Some(Target::Tids(self.tid)),
            (Some(name), _) => Some(Target::Name(name)),
            (None, true) => Some(Target::System),
            (None, false) => None,
        };
        let (target, timer) = match (running, command) {
            (Some(target), timer) => (target, timer),
            (None, Some(command)) => (Target::Launch(command), None),
            (None, None) => return Err(no_target().into()),
        };
        let output = match self.output {
            None => Output::Default,
            Some(path) if path.as_os_str() == "-" => Output::Stdout,
            Some(path) => Output::File { path, force: self.force },
        };
        Ok(RecordOptions {
            target,
            timer,
            rate: self.frequency.unwrap_or(Rate::Default),
            duration: self.duration,
            delay: self.delay,
            call_graph: self.call_graph,
            user_only: self.user_only,
            follow_children: !self.no_children,
            output,
            quiet: self.quiet,
            verbose: self.verbose,
            table_budget_bytes: self.table_budget.unwrap_or(RecordOptions::default().table_budget_bytes),
            stack_copies: self.stack_copies,
        })
    }
}

fn no_target() -> Failure {
    Failure::usage("nothing to record")
        .hint("a running process:  prof record -p PID")
        .hint("a command:          prof record CMD ARG")
        .hint("the whole machine:  prof record -a -d 10s")
}
