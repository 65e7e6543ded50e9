//! Rows of one profile in another: each is added there when something first refers to it, and has an id of its own.

use crate::profile::contents::Profile;
use crate::profile::event::Sample;
use crate::profile::rows::{Frame, FrameId, LabelSetId, Module, ModuleId, StackId, StringId, Task, TaskId};
use crate::profile::symbols::{Function, FunctionId, Location};
use crate::profile::wait::{Wait, Waker};

/// The ids that rows of `old` have in another profile, as far as they are there.
#[derive(Debug)]
pub(crate) struct TakenRows<'p> {
    old: &'p Profile,
    texts: Vec<&'p str>,
    strings: Vec<Option<StringId>>,
    modules: Vec<Option<ModuleId>>,
    tasks: Vec<Option<TaskId>>,
    frames: Vec<Option<FrameId>>,
    stacks: Vec<Option<StackId>>,
    labels: Vec<Option<LabelSetId>>,
    /// Added to the instance of a module whose code has other names in the other profile already; 0: names are not compared.
    stranger: u32,
}

impl<'p> TakenRows<'p> {
    /// No row of `old` is taken so far. `stranger` tells modules of `old` from those of the same name in the other profile whose code has
    /// other names; with 0 the other profile has no code of others.
    pub(crate) fn new(old: &'p Profile, stranger: u32) -> Self {
        let tables = &old.tables;
        TakenRows {
            old,
            texts: tables.strings().collect(),
            strings: vec![None; tables.strings().len()],
            modules: vec![None; tables.modules().len()],
            tasks: vec![None; tables.tasks().len()],
            frames: vec![None; tables.frames().len()],
            stacks: vec![None; tables.stacks().len()],
            labels: vec![None; tables.label_sets().len()],
            stranger,
        }
    }

    /// The ids that frames have in the other profile; `None` for those that are not there.
    pub(crate) fn into_frames(self) -> Vec<Option<FrameId>> {
        self.frames
    }

    pub(crate) fn string(&mut self, id: StringId, into: &mut Profile) -> StringId {
        let (known, text) = (&mut self.strings[id.index()], self.texts[id.index()]);
        *known.get_or_insert_with(|| into.tables.intern_string(text))
    }

    pub(crate) fn module(&mut self, id: ModuleId, into: &mut Profile) -> ModuleId {
        if let Some(new) = self.modules[id.index()] {
            return new;
        }
        let row = self.old.tables.module(id).clone();
        let path = self.string(row.path, into);
        let new = into.tables.intern_module(Module { path, ..row });
        self.modules[id.index()] = Some(new);
        new
    }

    pub(crate) fn task(&mut self, id: TaskId, into: &mut Profile) -> TaskId {
        if let Some(new) = self.tasks[id.index()] {
            return new;
        }
        let row = *self.old.tables.task(id);
        let (comm, process) = (self.string(row.comm, into), self.string(row.process, into));
        let new = into.tables.intern_task(Task { comm, process, ..row });
        self.tasks[id.index()] = Some(new);
        new
    }

    pub(crate) fn label_set(&mut self, id: LabelSetId, into: &mut Profile) -> LabelSetId {
        let labels: Vec<_> = match self.labels[id.index()] {
            Some(new) => return new,
            None => self.old.tables.labels(id).collect(),
        };
        let new = into.tables.intern_labels(&labels);
        self.labels[id.index()] = Some(new);
        new
    }

    pub(crate) fn stack(&mut self, id: StackId, into: &mut Profile) -> StackId {
        // Go from the leaf to the first caller that is there already, and back.
        let mut missing = Vec::new();
        let mut at = Some(id);
        let mut parent = None;
        while let Some(id) = at {
            if let Some(new) = self.stacks[id.index()] {
                parent = Some(new);
                break;
            }
            missing.push(id);
            at = self.old.tables.stack(id).parent;
        }
        for id in missing.into_iter().rev() {
            let frame = self.frame(self.old.tables.stack(id).frame, into);
            let new = into.tables.intern_stack(parent, frame);
            self.stacks[id.index()] = Some(new);
            parent = Some(new);
        }
        // There is always one: the stack either was there or has been added.
        parent.unwrap_or_default()
    }

    /// Takes all frames: some stand for places in the data of modules, and are in no stack.
    pub(crate) fn all_frames(&mut self, into: &mut Profile) {
        for (id, _) in (0..).map(FrameId).zip(self.old.tables.frames()) {
            self.frame(id, into);
        }
    }

    fn frame(&mut self, id: FrameId, into: &mut Profile) -> FrameId {
        if let Some(new) = self.frames[id.index()] {
            return new;
        }
        let row = *self.old.tables.frame(id);
        let locations: Vec<Location> = (self.old.symbols.locations(id).iter())
            .map(|location| Location {
                function: self.function(location.function, into),
                file: self.string(location.file, into),
                ..*location
            })
            .collect();
        let module = self.module(row.module, into);
        let mut new = into.tables.intern_frame(Frame { module, ..row });
        let known = into.symbols.locations(new);
        if self.stranger > 0 && !known.is_empty() && !locations.is_empty() && known != locations {
            // Other code was at this address of a module of this name.
            let row_of_module = into.tables.module(module).clone();
            let instance = row_of_module.instance.wrapping_add(self.stranger);
            let module = into.tables.intern_module(Module { instance, ..row_of_module });
            new = into.tables.intern_frame(Frame { module, ..row });
        }
        self.frames[id.index()] = Some(new);
        if !locations.is_empty() {
            into.symbols.set_locations(new, locations);
        }
        new
    }

    pub(crate) fn function(&mut self, id: FunctionId, into: &mut Profile) -> FunctionId {
        let row = self.old.symbols.function(id);
        let (name, raw_name) = (self.string(row.name, into), self.string(row.raw_name, into));
        into.symbols.intern_function(Function { name, raw_name })
    }

    /// A sample with the ids of the other profile.
    pub(crate) fn sample(&mut self, sample: Sample, into: &mut Profile) -> Sample {
        let wait = sample.wait.map(|wait| {
            let task = wait.waker.task.map(|task| self.task(task, into));
            let stack = wait.waker.stack.map(|stack| self.stack(stack, into));
            Wait { waker: Waker { task, stack, ..wait.waker }, ..wait }
        });
        Sample {
            task: self.task(sample.task, into),
            stack: sample.stack.map(|stack| self.stack(stack, into)),
            wait,
            labels: sample.labels.map(|set| self.label_set(set, into)),
            ..sample
        }
    }
}
