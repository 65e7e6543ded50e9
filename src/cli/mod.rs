//! The command line: what can be typed, and its translation into plain options.
//!
//! Nothing else in the crate knows the argument parser; man pages and completions are generated from
//! [`command`].

mod annotate;
mod diff;
mod event;
mod explain;
mod fleet;
mod foreign;
mod import;
mod read;
mod record;
pub(crate) mod request;
mod sampler;
mod target;
mod testing;
mod tui;
mod value;

use crate::commands::doctor::DoctorOptions;
use crate::tui::app::action::Tab;
use clap::{Args, CommandFactory, Parser, Subcommand};
use request::HELP_TEMPLATE;
pub(crate) use request::{Choose, Instead, Request, Stop};
use std::ffi::OsString;

/// Text that `prof` alone prints where there is no terminal.
const OVERVIEW: &str = "\
prof: where did this program's time go?

  prof record -p PID          record a running program until Ctrl-C
  prof record ./program ARG   record a program from start to end
  prof report                 who used the CPU, and how far to trust it
  prof tui                    the same as a flame graph in the terminal
  prof export -o flame.svg    a flame graph for a browser
  prof diff OLD NEW           what changed, and whether that is more than chance

record and report need no preparation of the program: no rebuild, no frame pointers.
also   prof annotate, prof bench, prof live, prof top, prof info, prof symbolize, prof import,
       prof push, prof agent, prof doctor, prof completions
help   prof help, prof help record, man prof
";

#[derive(Debug, Parser)]
#[command(
    name = "prof",
    version,
    about = "Where did this program's time go? A profiler for Linux in the terminal",
    help_template = HELP_TEMPLATE,
    before_help = "Examples:
  prof record -p 4312             record a running program until Ctrl-C
  prof record ./program ARG       record a program from start to end
  prof report                     who used the CPU, and how far to trust it
  prof tui                        the same as a flame graph in the terminal
  prof export -o flame.svg        a flame graph for a browser",
    disable_help_subcommand = false,
    infer_subcommands = false,
    args_override_self = false
)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Record(Box<record::RecordArgs>),
    Report(Box<read::ReportArgs>),
    Annotate(Box<annotate::AnnotateArgs>),
    Tui(Box<tui::TuiArgs>),
    Live(Box<tui::LiveArgs>),
    /// Show the hottest functions of a program while it runs: prof live, starting with the function table
    Top(Box<tui::LiveArgs>),
    Export(Box<read::ExportArgs>),
    Import(Box<import::ImportArgs>),
    Push(Box<fleet::push::PushArgs>),
    Agent(fleet::agent::AgentArgs),
    Diff(Box<diff::DiffArgs>),
    Bench(Box<diff::BenchArgs>),
    Info(read::InfoArgs),
    Symbolize(read::SymbolizeArgs),
    Doctor(DoctorArgs),
    Completions(CompletionArgs),
}

/// Check what this machine allows prof to do, and print how to fix the rest
///
/// Loads every BPF program for real and walks test stacks instead of guessing from settings. Exits with
/// status 5 if something keeps prof from working.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof doctor                     can this user record here?
  prof doctor -p 4312             can it walk the stacks of that process?")]
struct DoctorArgs {
    /// Also walk stacks of this process
    #[arg(short, long, value_name = "PID", value_parser = value::one_pid, allow_negative_numbers = true)]
    pid: Option<u32>,
    /// Print `prof.doctor/1` as JSON
    #[arg(long)]
    json: bool,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof completions bash > /etc/bash_completion.d/prof
  prof completions zsh > \"${fpath[1]}/_prof\"
  prof completions fish > ~/.config/fish/completions/prof.fish")]
struct CompletionArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_parser = value::shell())]
    shell: clap_complete::Shell,
}

/// The whole command line, for man pages and completions.
pub fn command() -> clap::Command {
    Cli::command()
}

/// The completion script of `shell`.
pub(crate) fn completions(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "prof", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Reads `arguments`, the first of which is the name of the program.
///
/// # Errors
///
/// When there is nothing to do: help was asked for, or the arguments are wrong.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Request, Stop> {
    let arguments = foreign::with_joined_threads(arguments.into_iter().collect());
    if let Some(failure) = foreign::mistaken(&arguments) {
        return Err(Stop::Failed(failure));
    }
    let cli =
        Cli::try_parse_from(&arguments).map_err(|error| match explain::explain(&arguments, &error) {
            Some(failure) => Stop::Failed(failure),
            None => Stop::Shown(error),
        })?;
    let has_dashes = |command: &[OsString]| {
        let before = arguments.len().checked_sub(command.len() + 1).and_then(|at| arguments.get(at));
        before.is_some_and(|word| word == "--")
    };
    Ok(match cli.verb {
        None => Request::Choose(Choose { typed: Vec::new(), instead: Instead::Print(OVERVIEW) }),
        Some(Verb::Record(args)) => {
            let is_marked = has_dashes(args.command());
            Request::Record(args.into_options(is_marked)?)
        }
        Some(Verb::Report(args)) => Request::Report(args.into_options()?),
        Some(Verb::Annotate(args)) => Request::Annotate(args.into_options()?),
        Some(Verb::Tui(args)) => args.into_request()?,
        Some(Verb::Live(args)) => args.into_request(Tab::Flame, "live", &arguments)?,
        Some(Verb::Top(args)) => args.into_request(Tab::Top, "top", &arguments)?,
        Some(Verb::Export(args)) => Request::Export(args.into_request()?),
        Some(Verb::Import(args)) => Request::Import(args.into_request()?),
        Some(Verb::Push(args)) => Request::Push(Box::new(args.into_options()?)),
        Some(Verb::Agent(args)) => Request::Agent(args.into_options()),
        Some(Verb::Diff(args)) => Request::Diff(Box::new(args.into_options()?)),
        Some(Verb::Bench(args)) => Request::Bench(Box::new(args.into_options()?)),
        Some(Verb::Info(args)) => Request::Info(args.into_options()),
        Some(Verb::Symbolize(args)) => Request::Symbolize(args.into_options()),
        Some(Verb::Doctor(args)) => Request::Doctor(DoctorOptions { pid: args.pid, json: args.json }),
        Some(Verb::Completions(args)) => Request::Completions(completions(args.shell)),
    })
}

#[cfg(test)]
mod tests;
