//! Names on a page, each stored once: frames of all trees and rows of all tables refer to them by index.

use crate::base::safe_text;
use crate::profile::Reason;
use crate::report::model::label::LabelId;
use crate::report::model::label_kind::LabelKind;
use crate::report::naming::style::NameStyle;
use crate::report::query::selection::Selection;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;

/// Size of all names from which on further names are cut, so that the page still opens, bytes.
const MOST_TEXT_BYTES: usize = 16 << 20;

/// Length of a cut name, characters.
const CUT_CHARS: usize = 64;

/// Kind of a box, on which its colour depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum BoxKind {
    /// Code of the program.
    Own,
    /// Code of a shared library.
    Library,
    /// Code of the kernel.
    Kernel,
    /// Code generated at run time.
    Jit,
    /// Waiting for a lock.
    Lock,
    /// Waiting for a disk, the network, a pipe or a page.
    Io,
    /// Runnable, without a free CPU.
    NoCpu,
    /// Any other wait.
    Wait,
    /// A thread.
    Thread,
    /// The mark where a stack was cut, or a stack of which nothing is known.
    Other,
    /// The sum of boxes that the page leaves out.
    Rest,
    /// A function that an interpreter runs.
    Interpreted,
}

impl BoxKind {
    /// Names of the kinds in the page, by their number.
    pub(super) const KEYS: [&'static str; 12] = [
        "own",
        "library",
        "kernel",
        "jit",
        "lock",
        "io",
        "nocpu",
        "wait",
        "thread",
        "other",
        "rest",
        "interpreted",
    ];

    fn of(kind: LabelKind) -> Self {
        match kind {
            LabelKind::Program => BoxKind::Own,
            LabelKind::Library => BoxKind::Library,
            LabelKind::Kernel => BoxKind::Kernel,
            LabelKind::Jit => BoxKind::Jit,
            LabelKind::Interpreted => BoxKind::Interpreted,
            LabelKind::Wait(Reason::Lock | Reason::Gil) => BoxKind::Lock,
            LabelKind::Wait(Reason::Disk | Reason::Network | Reason::Pipe | Reason::Fault) => BoxKind::Io,
            LabelKind::Wait(Reason::NoCpu) => BoxKind::NoCpu,
            LabelKind::Wait(_) => BoxKind::Wait,
            LabelKind::Task => BoxKind::Thread,
            LabelKind::Cut | LabelKind::Nothing => BoxKind::Other,
        }
    }
}

/// Index of a row of [`PageLabels`].
pub(super) type PageLabel = u32;

/// Names, column by column.
#[derive(Debug, Default, Serialize)]
pub(super) struct PageLabels {
    /// Name as boxes show it.
    name: Vec<String>,
    /// Full name; empty if it is the same.
    full: Vec<String>,
    /// Index in `modules`.
    module: Vec<u32>,
    /// Index in [`BoxKind::KEYS`].
    kind: Vec<u8>,
    /// Paths of modules; the first one is the empty path.
    modules: Vec<String>,
    /// Class of a thread, where its title differs from the thread's own name.
    classes: BTreeMap<PageLabel, PageClass>,
    /// Number of names that were cut to keep the page small.
    pub(super) cut: u64,
    #[serde(skip)]
    module_ids: FxHashMap<String, u32>,
    #[serde(skip)]
    ids: FxHashMap<(String, String, u32, u8), PageLabel>,
    #[serde(skip)]
    text_bytes: usize,
}

/// A class of threads, merged as in all reports.
#[derive(Debug, Serialize)]
struct PageClass {
    /// Name of the class: `worker-#`.
    name: String,
    /// Name with the number of threads: `worker-# ×8`.
    title: String,
}

impl PageLabels {
    /// The index of a thread, or of threads with one name; `class` and `title` are the name and title of its class.
    pub(super) fn of_thread(&mut self, name: &str, class: &str, title: &str) -> PageLabel {
        let label = self.of_text(name, BoxKind::Thread);
        if title != name {
            let class = PageClass { name: self.shown(class), title: self.shown(title) };
            self.classes.entry(label).or_insert(class);
        }
        label
    }

    /// The index of a label of `selection`. Its module is foreign text, as its name is.
    pub(super) fn of_label(&mut self, selection: &Selection<'_>, id: LabelId, names: NameStyle) -> PageLabel {
        let label = selection.labels.get(id);
        let (name, full) = (label.text(names), label.text(NameStyle::Full));
        self.intern(&name, &full, &label.module, BoxKind::of(label.kind))
    }

    /// The index of something that is not code.
    pub(super) fn of_text(&mut self, text: &str, kind: BoxKind) -> PageLabel {
        self.intern(text, text, "", kind)
    }

    /// Name and module of a label, safe to show.
    pub(super) fn text(&self, label: PageLabel) -> (&str, &str) {
        let module = self.module[label as usize] as usize;
        (&self.name[label as usize], &self.modules[module])
    }

    fn intern(&mut self, name: &str, full: &str, module: &str, kind: BoxKind) -> PageLabel {
        let module = self.module(module);
        let name = self.shown(name);
        let full = self.shown(full);
        let full = if full == name { String::new() } else { full };
        let next = self.name.len() as PageLabel;
        let key = (name, full, module, kind as u8);
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let (name, full, ..) = key.clone();
        self.text_bytes += name.len() + full.len();
        self.cut += u64::from(self.text_bytes > MOST_TEXT_BYTES);
        self.name.push(name);
        self.full.push(full);
        self.module.push(module);
        self.kind.push(kind as u8);
        self.ids.insert(key, next);
        next
    }

    fn module(&mut self, path: &str) -> u32 {
        if self.modules.is_empty() {
            self.modules.push(String::new());
            self.module_ids.insert(String::new(), 0);
        }
        let path = self.shown(path);
        let next = self.modules.len() as u32;
        *self.module_ids.entry(path).or_insert_with_key(|path| {
            self.modules.push(path.clone());
            next
        })
    }

    /// Makes foreign text safe to show, and cuts it once there is too much.
    fn shown(&self, text: &str) -> String {
        let safe = safe_text::terminal(text);
        if self.text_bytes <= MOST_TEXT_BYTES {
            safe.into_owned()
        } else {
            safe.chars().take(CUT_CHARS).collect()
        }
    }
}
