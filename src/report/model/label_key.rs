//! What makes two rows the same: name, kind, module, and the line where rows are lines.

use crate::profile::ModuleId;
use crate::report::naming::name;
use crate::report::naming::style::NameStyle;
use std::borrow::Cow;

/// Key of a label outside of its [`Labels`](super::label::Labels): the same in every selection of every snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum LabelKey {
    /// Code or a place with a name.
    Named {
        /// Name in full. Foreign text.
        name: String,
        /// Path of the module. Foreign text.
        module: String,
        /// Source line, for labels of lines.
        line: Option<SourceLine>,
    },
    /// Code that had no name. It is found by its address whatever name it gets later: see
    /// [`NamedSince`](crate::report::query::named_since::NamedSince).
    Address {
        /// Path of the module. Foreign text.
        module: String,
        /// Address by which it is looked up in the module.
        address: u64,
    },
}

impl LabelKey {
    /// A function of that name.
    #[cfg(test)]
    pub(crate) fn function(name: &str, module: &str) -> Self {
        LabelKey::Named { name: name.to_owned(), module: module.to_owned(), line: None }
    }

    /// Name, or module and address. Foreign text.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        match self {
            LabelKey::Named { name, .. } => Cow::Borrowed(name),
            LabelKey::Address { module, address } => Cow::Owned(address_text(module, *address)),
        }
    }
}

/// Text in place of a name for code that has none: `libc.so.6+0x29d90`. Foreign text.
pub(crate) fn address_text(module: &str, address: u64) -> String {
    format!("{}+{address:#x}", name::module_file(module))
}

/// A place in the code of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CodePlace {
    /// The module.
    pub(crate) module: ModuleId,
    /// The module's own address of an instruction: where it begins, if the code is in the recording, else any byte of it.
    pub(crate) address: u64,
    /// Start address of the function that owns the code, if the recording contains its code.
    pub(crate) start: Option<u64>,
    /// The function is inlined into the owner of the code.
    pub(crate) is_inlined: bool,
}

impl CodePlace {
    /// Text after the name of the function: `+0x12`, or ` at 0x401012` where the function has no start of its own.
    pub(crate) fn text(self) -> String {
        match self.start.filter(|_| !self.is_inlined) {
            Some(start) => format!("+{:#x}", self.address.wrapping_sub(start)),
            None => format!(" at {:#x}", self.address),
        }
    }
}

/// A place in the source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SourceLine {
    /// Path of the file as the compiler recorded it.
    pub(crate) file: String,
    /// Line, 0 when unknown.
    pub(crate) line: u32,
}

impl SourceLine {
    /// `file.c:12`; with the whole path unless the style is short. Foreign text.
    pub(crate) fn text(&self, style: NameStyle) -> String {
        let file = if style == NameStyle::Short { name::module_file(&self.file) } else { &self.file };
        if self.line == 0 { file.to_owned() } else { format!("{file}:{}", self.line) }
    }
}
