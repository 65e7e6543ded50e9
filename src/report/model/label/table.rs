//! The labels of a report: every name once, and which steps a machine frame turns into.
//!
//! A machine frame becomes one step for each function inlined at its address and one for the function
//! that owns the code.

use super::entry::{Label, LabelId, Place, PlaceId, Step, bare_label};
use crate::profile::{
    FRAMES_LEFT_OUT, FrameId, FrameSpace, ModuleKind, Outcome, Profile, Reason, StringId, Task, UNNAMED_CODE,
};
use crate::report::code::code_map::CodeMap;
use crate::report::model::label_key::{CodePlace, SourceLine, address_text};
use crate::report::model::label_kind::LabelKind;
use crate::report::naming::short_names::FullName;
use crate::report::naming::style::NameStyle;
use crate::report::naming::thread_class::ThreadClassKey;
use crate::report::naming::{name, short_names};
use crate::report::options::Grouping;
use rustc_hash::FxHashMap;

/// From this many bytes of text on, labels are shortened: names that differ in length only by malice would take any memory.
const MOST_TEXT_BYTES: usize = 512 << 20;

/// Key that steps with the same label share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum SharedKey {
    Function { name: StringId, module: StringId },
    Line { name: StringId, module: StringId, file: StringId, line: u32 },
    Code { name: StringId, at: CodePlace },
    Address { module: StringId, address: u64 },
    UnnamedCode { module: StringId },
    Module { module: StringId },
    Task { pid: u32, tid: u32, generation: u32, name: StringId },
    Value { value: Option<StringId> },
    Cut { outcome: Outcome, place: Option<(StringId, Option<u64>)> },
    Nothing { is_hidden: bool },
    Wait { reason: Reason },
    ShortWaits,
    ThreadClass { class: ThreadClassKey },
    Thread { pid: u32, tid: u32, generation: u32, name: StringId },
    Merged { filter: usize },
    LighterThreads,
}

/// All labels of a profile under one grouping, and the steps of its frames.
#[derive(Debug, Clone)]
pub(crate) struct Labels {
    labels: Vec<Label>,
    by_key: FxHashMap<SharedKey, LabelId>,
    places: Vec<Place>,
    by_place: FxHashMap<Place, PlaceId>,
    grouping: Grouping,
    inline: bool,
    /// Which instruction an address is in, where labels are of addresses.
    code: CodeMap,
    /// Steps of all resolved frames, root first, one frame after the other.
    steps: Vec<Step>,
    /// Bytes of the text of all labels, before some were shortened.
    text_bytes: usize,
    /// Range of `steps` of each frame; empty when the frame was not asked for yet.
    of_frame: Vec<(u32, u32)>,
}

impl Labels {
    /// No labels yet.
    pub(crate) fn new(profile: &Profile, grouping: Grouping, inline: bool) -> Self {
        Labels {
            labels: Vec::new(),
            by_key: FxHashMap::default(),
            places: Vec::new(),
            by_place: FxHashMap::default(),
            grouping,
            inline,
            code: if grouping == Grouping::Address { CodeMap::of(profile) } else { CodeMap::default() },
            steps: Vec::new(),
            text_bytes: 0,
            of_frame: vec![(0, 0); profile.tables.frames().len()],
        }
    }

    /// Kind of thing that one label is.
    pub(crate) fn grouping(&self) -> Grouping {
        self.grouping
    }

    /// All labels, by id.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Label> {
        self.labels.iter()
    }

    /// All ids, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = LabelId> + use<> {
        (0..self.labels.len() as u32).map(LabelId)
    }

    /// Number of labels.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// The label `id`, which must come from these labels.
    pub(crate) fn get(&self, id: LabelId) -> &Label {
        &self.labels[id.index()]
    }

    /// The steps of `frame`, root first; none before [`Labels::resolve`] was called for it.
    pub(crate) fn steps(&self, frame: FrameId) -> &[Step] {
        let (start, end) = self.of_frame[frame.index()];
        &self.steps[start as usize..end as usize]
    }

    /// Finds the steps of `frame`.
    pub(crate) fn resolve(&mut self, profile: &Profile, frame: FrameId) {
        if self.of_frame[frame.index()] != (0, 0) {
            return;
        }
        let start = self.steps.len() as u32;
        let mut locations = profile.symbols.locations(frame);
        let row = profile.tables.frame(frame);
        // What is inlined into an interpreter's loop comes after the functions that it runs, which are frames.
        let shows_inlined = self.inline && !row.flags.is_interpreter;
        if !shows_inlined && !locations.is_empty() {
            locations = &locations[locations.len() - 1..];
        }
        let is_kernel = row.flags.space == FrameSpace::Kernel;
        if self.grouping == Grouping::Module || locations.is_empty() {
            let label = self.code_label(profile, frame, None);
            let step = self.plain_step(label);
            self.steps.push(Step { is_kernel, frame: Some(frame), ..step });
        } else {
            for location in locations.iter().rev() {
                let label = self.code_label(profile, frame, Some(location));
                let place = self.intern_place(Place { label, file: location.file, line: location.line });
                self.steps.push(Step {
                    label,
                    is_inlined: location.is_inlined,
                    is_kernel,
                    place,
                    frame: Some(frame),
                });
            }
        }
        self.of_frame[frame.index()] = (start, self.steps.len() as u32);
    }

    fn code_label(
        &mut self,
        profile: &Profile,
        frame: FrameId,
        location: Option<&crate::profile::Location>,
    ) -> LabelId {
        let row = *profile.tables.frame(frame);
        let module = profile.tables.module(row.module);
        let function = location.map(|location| profile.symbols.function(location.function));
        let function = function.filter(|function| function.name != StringId(0));
        let at = self.place_in_code(&row, location);
        let key = match (self.grouping, function, location) {
            (Grouping::Module, ..) => SharedKey::Module { module: module.path },
            (Grouping::Line, Some(function), Some(location)) => SharedKey::Line {
                name: function.name,
                module: module.path,
                file: location.file,
                line: location.line,
            },
            (_, Some(function), _) => match at {
                Some(at) => SharedKey::Code { name: function.name, at },
                None => SharedKey::Function { name: function.name, module: module.path },
            },
            (_, None, _) if module.kind == ModuleKind::Jit => SharedKey::UnnamedCode { module: module.path },
            (_, None, _) => SharedKey::Address { module: module.path, address: row.lookup_address() },
        };
        self.intern(key, || {
            let text = |id| profile.tables.string(id).to_owned();
            let path = module_text(profile, module.path, module.kind);
            let (name, raw_name) = match (&key, function) {
                (SharedKey::Module { .. }, _) | (_, None) => {
                    let name = match key {
                        SharedKey::Address { address, .. } => address_text(&path, address),
                        SharedKey::UnnamedCode { .. } => UNNAMED_CODE.to_owned(),
                        _ => name::module_file(&path).to_owned(),
                    };
                    (name.clone(), name)
                }
                (_, Some(function)) => {
                    let raw = text(function.raw_name);
                    let name = text(function.name);
                    (name.clone(), if raw.is_empty() { name } else { raw })
                }
            };
            let line = match key {
                SharedKey::Line { file, line, .. } if file != StringId(0) => {
                    Some(SourceLine { file: text(file), line })
                }
                _ => None,
            };
            let address = match key {
                SharedKey::Address { address, .. } => Some(address),
                _ => None,
            };
            let kind = code_kind(module.kind, &path, row.flags.space);
            // The frame in place of others is in no module.
            let module = if name == FRAMES_LEFT_OUT { String::new() } else { path };
            Label { name, raw_name, common: None, module, line, address, at, kind, short: String::new() }
        })
    }

    /// Returns the place in the code of a frame, or of a function inlined there, where labels are of addresses.
    fn place_in_code(
        &self,
        row: &crate::profile::Frame,
        location: Option<&crate::profile::Location>,
    ) -> Option<CodePlace> {
        let looked_up = row.lookup_address();
        (self.grouping == Grouping::Address).then(|| {
            let known = self.code.find(row.module, looked_up);
            CodePlace {
                module: row.module,
                address: known.map_or(looked_up, |(address, _)| address),
                start: known.map(|(_, start)| start),
                is_inlined: location.is_some_and(|location| location.is_inlined),
            }
        })
    }

    /// The step in place of everything above the outermost frame of a stack whose walk ended with
    /// `outcome` at `outermost`.
    pub(crate) fn cut_step(
        &mut self,
        profile: &Profile,
        outcome: Outcome,
        outermost: Option<FrameId>,
    ) -> Step {
        let place = outermost.map(|frame| {
            let row = profile.tables.frame(frame);
            let module = profile.tables.module(row.module);
            // Addresses of generated code mean nothing to a reader and would never be shared.
            let has_address = !matches!(module.kind, ModuleKind::Jit | ModuleKind::Unknown);
            (module, has_address.then(|| row.lookup_address()))
        });
        let key = SharedKey::Cut { outcome, place: place.map(|(module, address)| (module.path, address)) };
        let label = self.intern(key, || {
            let Some((module, address)) = place else {
                return bare_label(format!("[truncated: {}]", outcome.label()), LabelKind::Cut);
            };
            let path = module_text(profile, module.path, module.kind);
            let name =
                |address| format!("[truncated: {} in {}]", outcome.label(), place_text(&path, address));
            Label { common: address.map(|_| name(None)), ..bare_label(name(address), LabelKind::Cut) }
        });
        self.plain_step(label)
    }

    /// The step in place of a whole stack when rows are threads or processes.
    pub(crate) fn task_step(&mut self, profile: &Profile, task: &Task) -> Step {
        let is_thread = self.grouping == Grouping::Thread;
        let key = SharedKey::Task {
            pid: task.pid,
            tid: if is_thread { task.tid } else { 0 },
            generation: if is_thread { task.generation } else { 0 },
            name: if is_thread { task.comm } else { task.process },
        };
        let label = self.intern(key, || {
            let (name, id) = if is_thread {
                (profile.tables.string(task.comm), format!("tid {}", task.tid))
            } else {
                (profile.tables.string(task.process), format!("pid {}", task.pid))
            };
            let module =
                if is_thread { profile.tables.string(task.process).to_owned() } else { String::new() };
            let common = Some(name.to_owned());
            Label { common, module, ..bare_label(format!("{name} ({id})"), LabelKind::Task) }
        });
        self.plain_step(label)
    }

    /// The step in place of a whole stack when rows are values of the labels of `key`.
    pub(crate) fn value_step(&mut self, profile: &Profile, key: &str, value: Option<StringId>) -> Step {
        let label = self.intern(SharedKey::Value { value }, || match value {
            Some(value) => bare_label(format!("{key}={}", profile.tables.string(value)), LabelKind::Task),
            None => bare_label(format!("[no {key}]"), LabelKind::Nothing),
        });
        self.plain_step(label)
    }

    /// The step in place of a stack without any frame to show.
    pub(crate) fn nothing_step(&mut self, is_hidden: bool) -> Step {
        let label = self.intern(SharedKey::Nothing { is_hidden }, || {
            let name = if is_hidden { "[hidden]" } else { "[no stack]" };
            bare_label(name.to_owned(), LabelKind::Nothing)
        });
        self.plain_step(label)
    }

    /// The step that stands after the frames of a wait: `[lock]`.
    pub(crate) fn wait_step(&mut self, reason: Reason) -> Step {
        let label = self.intern(SharedKey::Wait { reason }, || {
            bare_label(format!("[{}]", reason.label()), LabelKind::Wait(reason))
        });
        self.plain_step(label)
    }

    /// The step in place of the stacks of waits that were too short to have some; `name` says so.
    pub(crate) fn short_waits_step(&mut self, name: &str) -> Step {
        let label =
            self.intern(SharedKey::ShortWaits, || bare_label(format!("[{name}]"), LabelKind::Nothing));
        self.plain_step(label)
    }

    /// The step of a thread in front of its stacks: one for each of the `classes`, with a title and the name that its threads
    /// have in common.
    pub(crate) fn thread_step(
        &mut self,
        task: &Task,
        class: ThreadClassKey,
        names: impl FnOnce() -> (String, String),
    ) -> Step {
        let key = match class.id {
            Some(_) => SharedKey::Thread {
                pid: task.pid,
                tid: task.tid,
                generation: task.generation,
                name: task.comm,
            },
            None => SharedKey::ThreadClass { class },
        };
        let label = self.intern(key, || {
            let (title, common) = names();
            // How many threads are in a class is part of its name.
            let common = class.id.map(|_| common);
            Label { common, ..bare_label(title, LabelKind::Task) }
        });
        self.plain_step(label)
    }

    /// The step of many threads in front of their stacks.
    pub(crate) fn lighter_threads_step(&mut self) -> Step {
        let label = self.intern(SharedKey::LighterThreads, || {
            bare_label("[lighter threads]".to_owned(), LabelKind::Task)
        });
        self.plain_step(label)
    }

    /// The step in place of all frames of a module that the stack filter of number `filter` collapses.
    pub(crate) fn collapsed_step(&mut self, filter: usize, module: &str) -> Option<Step> {
        let like = self.labels.iter().find(|label| label.module == module)?;
        let label = Label {
            module: module.to_owned(),
            ..bare_label(name::module_file(module).to_owned(), like.kind)
        };
        let is_kernel = label.kind == LabelKind::Kernel;
        let label = self.intern(SharedKey::Merged { filter }, || label);
        Some(Step { is_kernel, ..self.plain_step(label) })
    }

    /// Gives all labels so far short names, each its own as far as their full names are.
    pub(crate) fn settle_names(&mut self) {
        fn full_name(label: &Label) -> FullName<'_> {
            FullName { kind: label.kind, name: &label.name, is_address: label.address.is_some() }
        }
        let shorts = short_names::of(&self.labels.iter().map(full_name).collect::<Vec<_>>());
        self.labels.iter_mut().zip(shorts).for_each(|(label, short)| label.short = short);
    }

    /// The short names of code. Foreign text.
    pub(crate) fn names_of_code(&self) -> impl Iterator<Item = &str> {
        let of_code = self.labels.iter().filter(|label| label.kind.is_code());
        of_code.map(|label| label.name_in(NameStyle::Short))
    }

    /// Whether some label is of generated code that has no names.
    pub(crate) fn has_unnamed_code(&self) -> bool {
        self.labels.iter().any(|label| label.kind == LabelKind::Jit && label.name == UNNAMED_CODE)
    }

    /// Whether a step is in generated code without names.
    pub(crate) fn is_unnamed_code(&self, step: &Step) -> bool {
        let label = self.get(step.label);
        label.kind == LabelKind::Jit && label.name == UNNAMED_CODE
    }

    /// All places, by id.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    fn intern_place(&mut self, place: Place) -> PlaceId {
        *self.by_place.entry(place).or_insert_with(|| {
            self.places.push(place);
            PlaceId(self.places.len() as u32 - 1)
        })
    }

    /// A step that has no place in the source.
    fn plain_step(&mut self, label: LabelId) -> Step {
        let place = self.intern_place(Place { label, file: StringId(0), line: 0 });
        Step { label, is_inlined: false, is_kernel: false, place, frame: None }
    }

    fn intern(&mut self, key: SharedKey, label: impl FnOnce() -> Label) -> LabelId {
        *self.by_key.entry(key).or_insert_with(|| {
            let mut label = label();
            self.text_bytes += label.text_bytes();
            if self.text_bytes > MOST_TEXT_BYTES {
                label.shorten();
            }
            self.labels.push(label);
            LabelId(self.labels.len() as u32 - 1)
        })
    }
}

/// The kind of code in a module, `path` as [`module_text`] writes it.
pub(crate) fn code_kind(module: ModuleKind, path: &str, space: FrameSpace) -> LabelKind {
    match module {
        ModuleKind::Kernel | ModuleKind::KernelModule => LabelKind::Kernel,
        ModuleKind::Jit => LabelKind::Jit,
        ModuleKind::Runtime => LabelKind::Interpreted,
        ModuleKind::Thread => LabelKind::Task,
        _ if space == FrameSpace::Kernel => LabelKind::Kernel,
        _ if name::module_file(path).contains(".so") || module == ModuleKind::Vdso => LabelKind::Library,
        _ => LabelKind::Program,
    }
}

/// The path of a module; a kernel module is bracketed like the kernel itself.
pub(crate) fn module_text(profile: &Profile, path: StringId, kind: ModuleKind) -> String {
    let path = profile.tables.string(path);
    match kind {
        ModuleKind::KernelModule if !path.starts_with('[') => {
            format!("[{}]", name::module_file(path).trim_end_matches(".ko"))
        }
        _ if path.is_empty() => "[unknown]".to_owned(),
        _ => path.to_owned(),
    }
}

fn place_text(path: &str, address: Option<u64>) -> String {
    match address {
        Some(address) => address_text(path, address),
        None => name::module_file(path).to_owned(),
    }
}
