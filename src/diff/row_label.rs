//! What makes functions of two builds the same row: name and module, without what differs from build to build.

use crate::report::{Label, LabelKind, NameStyle, SourceLine, module_file, short};
use std::borrow::Cow;

/// A row of a comparison by its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DiffRowKey {
    /// Name in full. Foreign text.
    pub(crate) name: String,
    /// File name of the module, wherever it was: builds to be compared are in different folders. Foreign text.
    pub(crate) module: String,
    /// Line, for rows of lines, in a file that is known by its name.
    pub(crate) line: Option<SourceLine>,
}

/// What a row is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowLabel {
    /// What it is known by on both sides.
    pub(crate) key: DiffRowKey,
    /// Name in the symbol table. Foreign text.
    pub(crate) raw_name: String,
}

impl RowLabel {
    /// The row of a label.
    ///
    /// Addresses differ from build to build: all code without a name of a module is one row. So are threads of one name, whose
    /// numbers differ from run to run.
    pub(crate) fn of(label: &Label) -> Self {
        let module = module_file(&label.module).to_owned();
        let name = match label.kind {
            _ if label.address.is_some() => format!("[no names] {module}"),
            LabelKind::Task => without_number(&label.name).to_owned(),
            LabelKind::Cut => without_address(&label.name).into_owned(),
            _ => without_unit(&label.name).to_owned(),
        };
        let raw_name = if label.raw_name == label.name { name.clone() } else { label.raw_name.clone() };
        let line = label
            .line
            .as_ref()
            .map(|source| SourceLine { file: module_file(&source.file).to_owned(), line: source.line });
        RowLabel { key: DiffRowKey { name, module, line }, raw_name }
    }

    /// A row that is no function of a module.
    pub(crate) fn bare(name: String) -> Self {
        let key = DiffRowKey { name: name.clone(), module: String::new(), line: None };
        RowLabel { key, raw_name: name }
    }

    /// The name in the given style, without a source line. Foreign text.
    pub(crate) fn name_in(&self, style: NameStyle) -> String {
        match style {
            NameStyle::Raw => self.raw_name.clone(),
            NameStyle::Short => short(&self.key.name),
            NameStyle::Full => self.key.name.clone(),
        }
    }

    /// The name in the given style, with its source line where it is that of one. Foreign text.
    pub(crate) fn text(&self, style: NameStyle) -> String {
        let name = self.name_in(style);
        match &self.key.line {
            Some(source) => format!("{name} {}", source.text(style)),
            None => name,
        }
    }

    /// Whether `pattern` matches the name, in full or raw.
    pub(crate) fn matches(&self, pattern: &regex::Regex) -> bool {
        pattern.is_match(&self.key.name)
            || (self.raw_name != self.key.name && pattern.is_match(&self.raw_name))
    }
}

/// `worker` of `worker (tid 4313)`.
fn without_number(name: &str) -> &str {
    let end = name.rfind(" (tid ").or_else(|| name.rfind(" (pid "));
    end.filter(|_| name.ends_with(')')).map_or(name, |end| &name[..end])
}

/// `[truncated: no unwind info in libfoo.so]` of the same with an address.
fn without_address(name: &str) -> Cow<'_, str> {
    match name.rfind("+0x") {
        Some(at) if name.ends_with(']') => Cow::Owned(format!("{}]", &name[..at])),
        _ => Cow::Borrowed(name),
    }
}

/// `parse` of `parse.llvm.1234567`: the number is a hash of the unit that was compiled.
fn without_unit(name: &str) -> &str {
    match name.rsplit_once(".llvm.") {
        Some((start, number))
            if !start.is_empty()
                && !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            start
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_build_to_build_is_left_out() {
        assert_eq!(without_unit("parse.llvm.1234567"), "parse");
        assert_eq!(without_unit("parse.llvm.x1"), "parse.llvm.x1");
        assert_eq!(without_unit(".llvm.7"), ".llvm.7");
        assert_eq!(without_number("worker (tid 4313)"), "worker");
        assert_eq!(without_number("odd (tid 1) name"), "odd (tid 1) name");
        assert_eq!(
            without_address("[truncated: no unwind info in libfoo.so+0x12]"),
            "[truncated: no unwind info in libfoo.so]"
        );
        assert_eq!(without_address("[truncated: cut]"), "[truncated: cut]");
    }
}
