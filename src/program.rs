//! The program: parses the command line, runs the command, prints one error chain, and chooses the exit status.

use crate::base::failure::status;
use crate::base::{privilege, safe_text};
use crate::cli::{self, Choose, Instead, Request};
use crate::commands::doctor::DoctorOptions;
use crate::commands::import::OwnKernel;
use crate::commands::reading::{self, CommandFiles};
use crate::commands::{agent, bench, doctor, import, live, record, start, symbolize};
use crate::diff;
use crate::push::verb::{self, PushOptions};
use crate::record::end_workers;
use crate::{report, tui};
use anyhow::Context;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs `prof` with its command line; returns the exit status.
pub fn main() -> ExitCode {
    let finished = privilege::begin().map_err(anyhow::Error::from).and_then(|()| {
        survive_file_size_limit();
        match cli::parse(std::env::args_os()) {
            Ok(request) => run(&request),
            Err(stop) => Ok(stop.show()?),
        }
    });
    end_workers();
    ExitCode::from(finished.unwrap_or_else(|error| reading::say(&error)))
}

/// Runs the request; returns the exit status.
fn run(request: &Request) -> anyhow::Result<u8> {
    let kernel = matches!(request, Request::Import(_)).then(OwnKernel::look).unwrap_or_default();
    match request {
        Request::Record(_) | Request::Live(_) | Request::Doctor(_) => privilege::for_recording(),
        Request::Tui(_)
        | Request::Export(_)
        | Request::Import(_)
        | Request::Symbolize(_)
        | Request::Diff(_) => {
            privilege::for_reading(true)?;
        }
        // The recorders of `bench` have rights of their own, and `bench` gives up its own before it reads. A command
        // chosen from the list gets its rights when it starts.
        Request::Bench(_) | Request::Choose(_) | Request::Agent(_) => {}
        Request::Report(_)
        | Request::Annotate(_)
        | Request::Info(_)
        | Request::Push(_)
        | Request::Completions(_) => privilege::for_reading(false)?,
    }
    match request {
        Request::Choose(choose) => return ask(choose),
        Request::Record(options) => return record::run(options, command_line()),
        Request::Report(options) => {
            return CommandFiles::of_input(&options.common.input).read(|| done(report::report(options)));
        }
        Request::Annotate(options) => {
            return CommandFiles::of_input(&options.common.input).read(|| done(report::annotate(options)));
        }
        Request::Tui(options) => {
            let inputs = std::iter::once(&options.common.input).chain(&options.base);
            let files = inputs.fold(CommandFiles::default(), CommandFiles::and_input);
            return files.and_made_from(tui::EXPORT_STEM).read(|| tui::run(options));
        }
        Request::Live(options) => return live::run(options, command_line()),
        Request::Export(request) => {
            let files = CommandFiles::of_input(&request.options.common.input).to(&request.destination);
            return files.read(|| done(report::export(request)));
        }
        Request::Import(request) => {
            let files = CommandFiles::of_input(&request.input).to(&request.destination);
            return files.and_servers(request.debuginfod).read(|| done(import::run(request, kernel)));
        }
        Request::Push(options) => return push(options),
        Request::Agent(options) => return agent::run(options, command_line()),
        Request::Diff(options) => return reading::compare(&diff::with_files(options)?),
        Request::Bench(options) => return bench::run(options),
        Request::Info(options) => {
            return CommandFiles::of_input(&options.input).read(|| done(report::info(options)));
        }
        Request::Symbolize(options) => {
            let files = CommandFiles::of_replaced(&options.file).and_servers(options.debuginfod);
            return files.read(|| done(print(&symbolize::run(options)?)));
        }
        Request::Doctor(options) => return doctor(options),
        Request::Completions(script) => print(script)?,
    }
    Ok(status::OK)
}

/// The exit status of what came to its end.
fn done(outcome: anyhow::Result<()>) -> anyhow::Result<u8> {
    outcome.map(|()| status::OK)
}

fn push(options: &PushOptions) -> anyhow::Result<u8> {
    let ready = verb::prepare(options)?;
    let files = CommandFiles::of_inputs(&ready.files).and_network(!options.is_dry_run);
    files.read(|| verb::run(options, ready))
}

/// Without a target or command: asks in a terminal.
fn ask(choose: &Choose) -> anyhow::Result<u8> {
    if start::can_ask() {
        return start::run(&choose.typed);
    }
    privilege::for_reading(false)?;
    match &choose.instead {
        Instead::Print(text) => print(text)?,
        Instead::Refuse(failure) => return Err(failure.clone().into()),
    }
    Ok(status::OK)
}

/// The command line as typed.
fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

fn doctor(options: &DoctorOptions) -> anyhow::Result<u8> {
    let width = report::Screen::new(report::ColorWhen::Never, false).page(None).width;
    let (text, status) = doctor::render(&doctor::examine(options)?, options.json, width)?;
    let is_terminal = io::stdout().is_terminal();
    print(&if options.json { text.into() } else { safe_text::for_locale(&text, is_terminal) })?;
    Ok(status)
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    (stdout.write_all(text.as_bytes()))
        .and_then(|()| stdout.flush())
        .context("cannot write to standard output")
}

/// Makes a write beyond the limit on file sizes return an error instead of ending the process. A handler that only sets
/// a flag is enough; unlike an ignored signal it is not inherited by the commands that are run.
fn survive_file_size_limit() {
    let noted = Arc::new(AtomicBool::new(false));
    // If this is refused, only the message at the limit is lost.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noted);
}
