//! Identity of a row across builds: function name and module, without what differs from build to build.

use crate::report::{Label, LabelKind, NameStyle, SourceLine, module_file, short};
use std::borrow::Cow;

/// Identity of a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DiffRowKey {
    /// Full name. Foreign text.
    pub(crate) name: String,
    /// File name of the module without its folder, since builds to compare are in different folders. Foreign text.
    pub(crate) module: String,
    /// Source line, in rows by line; the file without its folder.
    pub(crate) line: Option<SourceLine>,
}

/// Label of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowLabel {
    /// Identity on both sides.
    pub(crate) key: DiffRowKey,
    /// Name in the symbol table. Foreign text.
    pub(crate) raw_name: String,
}

impl RowLabel {
    /// The row label for a label of a recording.
    ///
    /// Addresses differ from build to build, so all code of a module without names is one row. So are threads with one
    /// name, whose ids differ from run to run.
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

    /// Label of a row that is not a function of a module.
    pub(crate) fn bare(name: String) -> Self {
        let key = DiffRowKey { name: name.clone(), module: String::new(), line: None };
        RowLabel { key, raw_name: name }
    }

    /// Name in the given style, without a source line. Foreign text.
    pub(crate) fn name_in(&self, style: NameStyle) -> String {
        match style {
            NameStyle::Raw => self.raw_name.clone(),
            NameStyle::Short => short(&self.key.name),
            NameStyle::Full => self.key.name.clone(),
        }
    }

    /// Name in the given style, with its source line if it has one. Foreign text.
    pub(crate) fn text(&self, style: NameStyle) -> String {
        let name = self.name_in(style);
        match &self.key.line {
            Some(source) => format!("{name} {}", source.text(style)),
            None => name,
        }
    }

    /// Whether `pattern` matches the name in one of its styles.
    pub(crate) fn matches(&self, pattern: &regex::Regex) -> bool {
        pattern.is_match(&self.key.name)
            || (self.raw_name != self.key.name && pattern.is_match(&self.raw_name))
            || pattern.is_match(&self.name_in(NameStyle::Short))
    }
}

/// `worker` for `worker (tid 4313)`.
fn without_number(name: &str) -> &str {
    let end = name.rfind(" (tid ").or_else(|| name.rfind(" (pid "));
    end.filter(|_| name.ends_with(')')).map_or(name, |end| &name[..end])
}

/// `[truncated: no unwind info in libfoo.so]` for the same with an address.
fn without_address(name: &str) -> Cow<'_, str> {
    match name.rfind("+0x") {
        Some(at) if name.ends_with(']') => Cow::Owned(format!("{}]", &name[..at])),
        _ => Cow::Borrowed(name),
    }
}

/// `parse` for `parse.llvm.1234567`: the number is a hash of the compilation unit.
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
