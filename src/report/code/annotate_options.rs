//! Options of `prof annotate`.

use super::disassembly::AsmSyntax;
use crate::report::options::{ColorWhen, CommonOptions, Format};
use std::path::PathBuf;

/// Parts of a function that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AnnotationView {
    /// Source lines, with the instructions under each.
    #[default]
    Both,
    /// Source lines.
    Source,
    /// Instructions in the order of their addresses.
    Asm,
}

/// Options of `prof annotate`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AnnotateOptions {
    /// Which samples of which profile.
    pub(crate) common: CommonOptions,
    /// The function: its name, a pattern, or `MODULE+0xADDRESS`.
    pub(crate) function: String,
    /// Folders in which sources are looked for.
    pub(crate) source_dirs: Vec<PathBuf>,
    /// Parts of the function that are shown.
    pub(crate) view: AnnotationView,
    /// Syntax of instructions.
    pub(crate) syntax: AsmSyntax,
    /// Lines and instructions around those with samples that are shown.
    pub(crate) context: usize,
    /// Everything is shown.
    pub(crate) all: bool,
    /// The language.
    pub(crate) format: Format,
    /// Condition under which text is coloured.
    pub(crate) color: ColorWhen,
    /// Whether text that does not fit the terminal goes through a pager.
    pub(crate) pager: bool,
}

impl AnnotateOptions {
    /// Lines and instructions around those with samples, when nothing else is asked for.
    pub(crate) const DEFAULT_CONTEXT: usize = 2;
}
