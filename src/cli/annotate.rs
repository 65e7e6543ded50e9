//! `prof annotate`.

use super::event::EventArgs;
use super::read::{CommonArgs, InputArgs, TimeArgs};
use super::request::{HELP_TEMPLATE, Stop};
use super::value;
use crate::base::failure::Failure;
use crate::report::{AnnotateOptions, AnnotationView, AsmSyntax, ColorWhen, Format, Grouping};
use clap::Args;
use std::path::PathBuf;

/// Show the cost of each line and each instruction of a function
///
/// SELF is the time in the function itself, TOTAL adds what it calls. Inlined functions are shown below the line that calls them,
/// with their own lines. Code and line numbers come from the recording, which may be from another machine. Source text comes from
/// the recording, too (prof record --embed-source), else from the path that the compiler recorded.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, mut_arg("by", |by| by.hide(true)), before_help = "Examples:
  prof annotate parse_number      lines of a function, with the code of each
  prof annotate '^parse' --asm    the one function that matches, by address
  prof annotate libc.so.6+0x9d8f0 the function around an address
  prof annotate handle --off-cpu  the lines in which it waited
  prof annotate f old.data --source-dir ~/src/project")]
pub(super) struct AnnotateArgs {
    /// The function: its name, a regular expression that matches one name, or MODULE+0xADDRESS
    #[arg(value_name = "FUNCTION")]
    function: String,
    #[command(flatten)]
    input: InputArgs,
    /// Look for source files in this folder first, by the ends of their paths; may be given several times
    #[arg(long, value_name = "DIR", help_heading = "View")]
    source_dir: Vec<PathBuf>,
    /// Show only source lines, without instructions
    #[arg(long, group = "view", help_heading = "View")]
    source: bool,
    /// Show only instructions, by address
    #[arg(long, group = "view", help_heading = "View")]
    asm: bool,
    /// Instructions in AT&T syntax, as the GNU assembler writes them
    #[arg(long, group = "syntax", help_heading = "View")]
    att: bool,
    /// Instructions in Intel syntax (the default)
    #[arg(long, group = "syntax", help_heading = "View")]
    intel: bool,
    /// Number of lines and instructions to show around those with samples
    #[arg(long, value_name = "N", default_value_t = AnnotateOptions::DEFAULT_CONTEXT, help_heading = "View",
        conflicts_with = "all")]
    context: usize,
    /// Show all lines and instructions of the function
    #[arg(long, help_heading = "View")]
    all: bool,
    #[command(flatten)]
    event: EventArgs,
    #[command(flatten)]
    time: TimeArgs,
    #[command(flatten)]
    common: CommonArgs,
    /// Accepted for users of perf: the output is text anyway
    #[arg(long, alias = "stdio2", hide = true)]
    stdio: bool,
    /// Print `prof.annotate/1` as JSON
    #[arg(long, group = "machine", help_heading = "Output")]
    json: bool,
    /// Print a tab-separated table
    #[arg(long, group = "machine", help_heading = "Output")]
    tsv: bool,
    /// Colour
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output", value_parser = value::color_when())]
    color: ColorWhen,
    /// Do not use a pager ($PROF_PAGER, $PAGER or less)
    #[arg(long, help_heading = "Output")]
    no_pager: bool,
}

impl AnnotateArgs {
    pub(super) fn into_options(self) -> Result<AnnotateOptions, Stop> {
        let common = self.event.apply(self.common.into_options(self.input.into_input(), self.time));
        if common.grouping != Grouping::Function {
            return Err(Failure::usage("--by is for tables: prof annotate shows lines and addresses")
                .hint(format!("for a table:  prof report --by {}", common.grouping.noun()))
                .into());
        }
        Ok(AnnotateOptions {
            common,
            function: self.function,
            source_dirs: self.source_dir,
            view: match (self.source, self.asm) {
                (true, _) => AnnotationView::Source,
                (_, true) => AnnotationView::Asm,
                _ => AnnotationView::Both,
            },
            syntax: if self.att { AsmSyntax::Att } else { AsmSyntax::Intel },
            context: self.context,
            all: self.all,
            format: match (self.json, self.tsv) {
                (true, _) => Format::Json,
                (_, true) => Format::Tsv,
                _ => Format::Text,
            },
            color: self.color,
            pager: !self.no_pager,
        })
    }
}
