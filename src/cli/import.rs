//! `prof import`: what can be typed.

use super::request::{HELP_TEMPLATE, Stop};
use super::sampler::DebugSourceArgs;
use super::value;
use crate::base::failure::Failure;
use crate::commands::import::ImportRequest;
use crate::import::{FirstElement, FoldedUnit, ImportFormat, ImportOptions};
use crate::report::{DEFAULT_FILE, Input, ReportDestination};
use clap::Args;
use std::path::PathBuf;

/// Read a recording of another profiler: perf.data, perf script, folded stacks, pprof
///
/// The result is a profile like any other, for report, tui, diff, annotate and export. The format is recognised by the contents.
/// Facts that the source lacks stay unknown: whether stacks are complete, how long threads waited. Frames without names get
/// names from files on this machine with the same build ID, as with prof symbolize.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof import perf.data -o perf.prof
                                  then prof report perf.prof
  perf script | prof import - -o script.prof
  prof import cpu.pb.gz -f        the CPU profile of a Go program, replacing prof.data
  prof import stacks.folded --unit us -o stacks.prof
                                  folded stacks whose weights are microseconds")]
pub(super) struct ImportArgs {
    /// The recording; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output file; - is standard output
    #[arg(short, long, value_name = "OUT", default_value = DEFAULT_FILE, help_heading = "Output")]
    output: PathBuf,
    /// Replace OUT if it exists
    #[arg(short, long, help_heading = "Output")]
    force: bool,
    /// Do not print what was imported
    #[arg(short, long, help_heading = "Output")]
    quiet: bool,
    /// The format, instead of the one recognised by the contents
    #[arg(long, value_name = "FORMAT", help_heading = "Format", value_parser = value::import_format())]
    format: Option<ImportFormat>,
    /// Folded stacks: unit of the weights: samples, running time (ns, us, ms, s) or bytes
    #[arg(long, value_name = "UNIT", default_value = "samples", help_heading = "Format",
        value_parser = value::folded_unit())]
    unit: FoldedUnit,
    /// Folded stacks: whether the first element is the name of the thread or a function
    #[arg(long, value_name = "WHAT", default_value = "thread", help_heading = "Format",
        value_parser = value::first_element())]
    first: FirstElement,
    #[command(flatten)]
    sources: DebugSourceArgs,
}

impl ImportArgs {
    pub(super) fn into_request(self) -> Result<ImportRequest, Stop> {
        let is_stdout = value::is_stdout(&self.output);
        let destination = match is_stdout {
            true => ReportDestination::Stdout,
            false => ReportDestination::File { path: self.output, force: self.force },
        };
        let input = if self.file.as_os_str() == "-" { Input::Stdin } else { Input::File(self.file) };
        let options = ImportOptions { unit: self.unit, first: self.first };
        let is_other = self.format.is_some_and(|format| format.name() != "folded");
        if is_other && options != ImportOptions::default() {
            let message = "--unit and --first are for folded stacks, and --format names another format";
            return Err(Failure::usage(message).hint("leave them out, or use --format folded").into());
        }
        let DebugSourceArgs { folders, debuginfod } = self.sources;
        Ok(ImportRequest {
            input,
            destination,
            format: self.format,
            options,
            folders,
            debuginfod,
            quiet: self.quiet,
        })
    }
}
