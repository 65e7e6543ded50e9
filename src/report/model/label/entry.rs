//! A label: what a row, a box or a tree node is called. It holds foreign text as it is; every output makes it safe itself.

use crate::profile::{FrameId, StringId};
use crate::report::model::label_key::{CodePlace, LabelKey, SourceLine};
use crate::report::model::label_kind::LabelKind;
use crate::report::naming::style::NameStyle;

/// Longest text, in bytes, of a label that was shortened.
const SHORT_TEXT_BYTES: usize = 256;

/// Index of a [`Label`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LabelId(pub(super) u32);

impl LabelId {
    /// Position among the labels.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A name for a group of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    /// Name for people, in full.
    pub(crate) name: String,
    /// Name in the symbol table, where there is one; else as `name`.
    pub(crate) raw_name: String,
    /// The name without what differs from one recording to the next, if it has such a part: the id of a thread or process, the
    /// address where a stack is cut.
    pub(super) common: Option<String>,
    /// Path of the module, or `[kernel]` and the like; empty for threads and cut stacks.
    pub(crate) module: String,
    /// Source line, for labels of lines.
    pub(crate) line: Option<SourceLine>,
    /// Address of code without a name, relative to its module.
    pub(crate) address: Option<u64>,
    /// Place in the code, for labels of addresses.
    pub(crate) at: Option<CodePlace>,
    /// Kind of what is named.
    pub(crate) kind: LabelKind,
    /// Short name, as long as no other label has the same; empty before
    /// [`Labels::settle_names`](super::Labels::settle_names).
    pub(super) short: String,
}

impl Label {
    /// Returns the key of the label, by which other selections know it.
    pub(crate) fn key(&self) -> LabelKey {
        let module = self.module.clone();
        match self.address {
            Some(address) => LabelKey::Address { module, address },
            None => LabelKey::Named { name: self.placed(&self.name), module, line: self.line.clone() },
        }
    }

    /// `name`, and where in its code, for labels of addresses. What has no name has its address in `name`.
    fn placed(&self, name: &str) -> String {
        let place = self.at.filter(|_| self.address.is_none());
        place.map_or_else(|| name.to_owned(), |at| format!("{name}{}", at.text()))
    }

    /// Name that the same thing has in other recordings. Foreign text.
    pub(crate) fn common_name(&self) -> &str {
        self.common.as_deref().unwrap_or(&self.name)
    }

    /// Whether `key` means this label.
    pub(crate) fn is(&self, key: &LabelKey) -> bool {
        match key {
            LabelKey::Named { name, module, line } => {
                self.address.is_none()
                    && self.module == *module
                    && self.line == *line
                    // A label of an address is of its function, too.
                    && (self.name == *name || (self.at.is_some() && self.placed(&self.name) == *name))
            }
            LabelKey::Address { module, address } => self.address == Some(*address) && self.module == *module,
        }
    }

    /// Whether `pattern` matches the name in one of its styles.
    pub(crate) fn matches(&self, pattern: &regex::Regex) -> bool {
        let short = self.name_in(NameStyle::Short);
        pattern.is_match(&self.name)
            || (self.raw_name != self.name && pattern.is_match(&self.raw_name))
            || (short != self.name && pattern.is_match(short))
    }

    /// The name in the given style. Foreign text.
    pub(crate) fn name_in(&self, style: NameStyle) -> &str {
        match style {
            NameStyle::Raw => &self.raw_name,
            NameStyle::Short if !self.short.is_empty() => &self.short,
            _ => &self.name,
        }
    }

    /// The name in the given style, with its source line or its place in the code where it is that of one. Foreign text.
    pub(crate) fn text(&self, style: NameStyle) -> String {
        let name = self.name_in(style);
        match &self.line {
            Some(source) => format!("{name} {}", source.text(style)),
            None => self.placed(name),
        }
    }

    pub(super) fn text_bytes(&self) -> usize {
        self.name.len() + self.raw_name.len() + self.module.len()
    }

    /// Cuts names that a program would hardly have.
    pub(super) fn shorten(&mut self) {
        let common = self.common.iter_mut();
        for text in [&mut self.name, &mut self.raw_name, &mut self.module].into_iter().chain(common) {
            let most = text.len().min(SHORT_TEXT_BYTES);
            let end = (0..=most).rev().find(|&end| text.is_char_boundary(end));
            text.truncate(end.unwrap_or(0));
            text.shrink_to_fit();
        }
    }

    /// Orders labels of equal weight in the same way whatever the order of the samples was.
    pub(crate) fn order_key(&self) -> (&str, &str, Option<(&str, u32)>, Option<CodePlace>) {
        let line = self.line.as_ref().map(|source| (source.file.as_str(), source.line));
        (&self.name, &self.module, line, self.at)
    }

    /// A label of that name.
    #[cfg(test)]
    pub(crate) fn for_tests(name: &str, kind: LabelKind) -> Self {
        Label { kind, ..bare_label(name.to_owned(), kind) }
    }
}

/// One element of a shown stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Label of the element.
    pub(crate) label: LabelId,
    /// The function has no frame of its own: it was inlined into the step before.
    pub(crate) is_inlined: bool,
    /// Kernel code.
    pub(crate) is_kernel: bool,
    /// Place in the source.
    pub(crate) place: PlaceId,
    /// The machine frame that it is a part of; `None` for what is no code.
    pub(crate) frame: Option<FrameId>,
}

/// Index of a [`Place`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PlaceId(pub(super) u32);

impl PlaceId {
    /// Position among the places.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A place in the source at which steps of a label are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// Whose place it is.
    pub(crate) label: LabelId,
    /// Source file; the empty string when unknown.
    pub(crate) file: StringId,
    /// Line in `file`, 0 when unknown.
    pub(crate) line: u32,
}

/// A label of something that is no code.
pub(super) fn bare_label(name: String, kind: LabelKind) -> Label {
    Label {
        raw_name: name.clone(),
        name,
        common: None,
        module: String::new(),
        line: None,
        address: None,
        at: None,
        kind,
        short: String::new(),
    }
}
