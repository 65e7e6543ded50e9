//! Identity of a row across builds: function name and module, without what differs from build to build.

use crate::report::{Label, LabelKind, NameStyle, SourceLine, module_file, short};

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
            LabelKind::Task | LabelKind::Cut => label.common_name().to_owned(),
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
    use crate::profile::Outcome;
    use crate::report::tests::fixture::Build;
    use crate::report::{CommonOptions, Grouping};

    #[test]
    fn threads_and_cut_stacks_have_the_same_names_in_all_runs() {
        let names = |tid, grouping| {
            let mut build = Build::new();
            let task = build.task(7, tid, "worker (tid 1)", "app");
            build.add_ended(task, 1, &["/usr/lib/libfoo.so:inner"], Outcome::NoUnwindInfo);
            let recording = build.finish();
            let options = CommonOptions { grouping, ..CommonOptions::default() };
            let selection = recording.select(&options).unwrap();
            let texts: Vec<String> = selection.labels.iter().map(|label| label.name.clone()).collect();
            let keys: Vec<String> =
                selection.labels.iter().map(|label| RowLabel::of(label).key.name).collect();
            (texts, keys)
        };
        let (texts, keys) = names(8, Grouping::Thread);
        assert_eq!(
            (texts, keys),
            (vec!["worker (tid 1) (tid 8)".to_owned()], vec!["worker (tid 1)".to_owned()])
        );
        let (texts, keys) = names(8, Grouping::Function);
        let cut = |names: &[String]| names.iter().find(|name| name.starts_with('[')).cloned().unwrap();
        assert!(cut(&texts).contains("libfoo.so+0x"), "{texts:?}");
        assert!(cut(&keys).ends_with("in libfoo.so]"), "{keys:?}");
    }

    #[test]
    fn what_differs_from_build_to_build_is_left_out() {
        assert_eq!(without_unit("parse.llvm.1234567"), "parse");
        assert_eq!(without_unit("parse.llvm.x1"), "parse.llvm.x1");
        assert_eq!(without_unit(".llvm.7"), ".llvm.7");
    }
}
