//! What makes two rows the same: name, kind, module, and the line where rows are lines.

use crate::report::naming::name;
use crate::report::naming::style::NameStyle;

/// What a label is known by outside of its [`Labels`](super::label::Labels): the same in every selection of every snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelKey {
    /// Name in full. Foreign text.
    pub name: String,
    /// Path of the module. Foreign text.
    pub module: String,
    /// Source line, for labels that stand for one.
    pub line: Option<Source>,
}

/// A place in the source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// Path of the file as the compiler recorded it.
    pub file: String,
    /// Line, 0 when unknown.
    pub line: u32,
}

impl Source {
    /// `file.c:12`; with the whole path unless the style is short. Foreign text.
    pub fn text(&self, style: NameStyle) -> String {
        let file = if style == NameStyle::Short { name::module_file(&self.file) } else { &self.file };
        if self.line == 0 { file.to_owned() } else { format!("{file}:{}", self.line) }
    }
}
