//! The tables of a profile: strings, modules, tasks, frames, stacks and sets of labels.
//!
//! They are append-only and their rows are compared by equality, so that the writer can append "all rows since the
//! last flush".

use super::interned::{InternSet, StackSet};
use super::rows::{
    Frame, FrameId, FrameSpace, LabelSet, LabelSetId, Module, ModuleId, Stack, StackId, StringId, Task,
    TaskId,
};
use std::sync::Arc;

/// All interned rows of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Tables {
    strings: InternSet<Arc<str>>,
    modules: InternSet<Module>,
    tasks: InternSet<Task>,
    frames: InternSet<Frame>,
    stacks: StackSet,
    label_sets: InternSet<LabelSet>,
}

impl Default for Tables {
    fn default() -> Self {
        let mut strings = InternSet::default();
        strings.intern("".into());
        Tables {
            strings,
            modules: InternSet::default(),
            tasks: InternSet::default(),
            frames: InternSet::default(),
            stacks: StackSet::default(),
            label_sets: InternSet::default(),
        }
    }
}

impl Tables {
    /// The id of `text`, added when new.
    pub fn intern_string(&mut self, text: &str) -> StringId {
        match self.strings.get_id(text) {
            Some(id) => StringId(id),
            None => StringId(self.strings.intern(text.into())),
        }
    }

    /// The id of `module`, added when new.
    pub fn intern_module(&mut self, module: Module) -> ModuleId {
        debug_assert!(module.path.index() < self.strings.len());
        ModuleId(self.modules.intern(module))
    }

    /// The id of `task`, added when new.
    pub fn intern_task(&mut self, task: Task) -> TaskId {
        debug_assert!(task.comm.index() < self.strings.len());
        TaskId(self.tasks.intern(task))
    }

    /// The id of `frame`, added when new.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        debug_assert!(frame.module.index() < self.modules.len());
        FrameId(self.frames.intern(frame))
    }

    /// The id of the stack whose leaf is `frame`, called from `parent`; added when new.
    pub(crate) fn intern_stack(&mut self, parent: Option<StackId>, frame: FrameId) -> StackId {
        debug_assert!(frame.index() < self.frames.len());
        debug_assert!(parent.is_none_or(|parent| parent.index() < self.stacks.as_slice().len()));
        self.stacks.intern(Stack { parent, frame })
    }

    /// The id of a set of labels, added when new; its strings must exist.
    pub(crate) fn intern_label_set(&mut self, set: LabelSet) -> LabelSetId {
        debug_assert!(set.iter().all(|(key, value)| key.max(value).index() < self.strings.len()));
        LabelSetId(self.label_sets.intern(set))
    }

    /// Appends a string as the next id. The reader's way in: an equal one is not looked for.
    pub(super) fn push_string(&mut self, text: Box<str>) {
        self.strings.push(text.into());
    }

    /// Appends a module as the next id; its strings must exist.
    pub(super) fn push_module(&mut self, module: Module) {
        self.modules.push(module);
    }

    /// Appends a task as the next id; its strings must exist.
    pub(super) fn push_task(&mut self, task: Task) {
        self.tasks.push(task);
    }

    /// Appends a frame as the next id; its module must exist.
    pub(super) fn push_frame(&mut self, frame: Frame) {
        self.frames.push(frame);
    }

    /// Appends a stack as the next id; its frame and parent must exist.
    pub(super) fn push_stack(&mut self, stack: Stack) {
        self.stacks.push(stack);
    }

    /// Appends a set of labels as the next id; its strings must exist.
    pub(super) fn push_label_set(&mut self, set: LabelSet) {
        self.label_sets.push(set);
    }

    /// Text of a string.
    pub fn string(&self, id: StringId) -> &str {
        &self.strings[id.index()]
    }

    /// Row of a module.
    pub fn module(&self, id: ModuleId) -> &Module {
        &self.modules[id.index()]
    }

    /// Row of a task.
    pub fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.index()]
    }

    /// Gives a task other names, which must exist. For readers: the table may have equal rows then.
    pub(crate) fn rename_task(&mut self, id: TaskId, comm: StringId, process: StringId) {
        debug_assert!(comm.index().max(process.index()) < self.strings.len());
        let task = Task { comm, process, ..self.tasks[id.index()] };
        self.tasks.replace(id.index(), task);
    }

    /// Row of a frame.
    pub(crate) fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.index()]
    }

    /// Row of a stack.
    pub(crate) fn stack(&self, id: StackId) -> Stack {
        self.stacks[id]
    }

    /// All strings, by id.
    pub(crate) fn strings(&self) -> impl ExactSizeIterator<Item = &str> {
        self.strings.iter().map(|text| &**text)
    }

    /// All modules, by id.
    pub(crate) fn modules(&self) -> &[Module] {
        self.modules.as_slice()
    }

    /// All tasks, by id.
    pub fn tasks(&self) -> &[Task] {
        self.tasks.as_slice()
    }

    /// All frames, by id.
    pub fn frames(&self) -> &[Frame] {
        self.frames.as_slice()
    }

    /// All stacks, by id; parents come before children.
    pub fn stacks(&self) -> &[Stack] {
        self.stacks.as_slice()
    }

    /// All sets of labels, by id.
    pub(crate) fn label_sets(&self) -> &[LabelSet] {
        self.label_sets.as_slice()
    }

    /// The frames of a stack, leaf first.
    pub fn stack_frames(&self, id: StackId) -> impl Iterator<Item = FrameId> + '_ {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let stack = self.stack(next?);
            next = stack.parent;
            Some(stack.frame)
        })
    }

    /// The stack without the kernel's frames at its leaf end; `None` when it has no others.
    pub(crate) fn user_part(&self, id: StackId) -> Option<StackId> {
        let mut left = Some(id);
        while let Some(stack) = left.map(|id| self.stack(id)) {
            if self.frame(stack.frame).flags.space == FrameSpace::User {
                break;
            }
            left = stack.parent;
        }
        left
    }

    /// Interns a stack given its frames, root first. `None` when there are none.
    pub fn intern_stack_of(&mut self, root_first: impl IntoIterator<Item = FrameId>) -> Option<StackId> {
        root_first.into_iter().fold(None, |parent, frame| Some(self.intern_stack(parent, frame)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_share_an_id_and_parents_come_first() {
        let mut tables = Tables::default();
        let path = tables.intern_string("/bin/x");
        assert_eq!(tables.intern_string("/bin/x"), path);
        let module = tables.intern_module(Module { path, ..Module::default() });
        let frames: Vec<FrameId> = (0..3)
            .map(|address| tables.intern_frame(Frame { module, address, ..Frame::default() }))
            .collect();
        let stack = tables.intern_stack_of(frames.iter().copied());
        assert_eq!(tables.intern_stack_of(frames.iter().copied()), stack);
        let leaf_first: Vec<FrameId> = tables.stack_frames(stack.expect("three frames")).collect();
        assert_eq!(leaf_first, [frames[2], frames[1], frames[0]]);
        for (id, stack) in tables.stacks().iter().enumerate() {
            assert!(stack.parent.is_none_or(|parent| parent.index() < id));
        }
    }

    #[test]
    fn rows_that_were_appended_are_found_again() {
        let mut tables = Tables::default();
        tables.intern_string("a");
        tables.push_string("b".into());
        tables.push_string("b".into());
        tables.push_string("c".into());
        assert_eq!(tables.intern_string("c"), StringId(4));
        assert_eq!(tables.intern_string("b"), StringId(2));
        assert_eq!(tables.intern_string("a"), StringId(1));
        assert_eq!(tables.intern_string("d"), StringId(5));
    }

    #[test]
    fn a_task_that_was_renamed_is_found_by_its_new_name() {
        let mut tables = Tables::default();
        let [old, new] = ["old", "new"].map(|name| tables.intern_string(name));
        let task = |comm| Task { pid: 1, tid: 1, generation: 0, comm, process: comm };
        let id = tables.intern_task(task(old));
        tables.rename_task(id, new, new);
        assert_eq!(*tables.task(id), task(new));
        assert_eq!(tables.intern_task(task(new)), id);
        assert_ne!(tables.intern_task(task(old)), id);
    }
}
