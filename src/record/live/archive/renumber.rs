//! A profile without unused rows.

use crate::profile::{
    Event, Frame, FrameId, FunctionId, Location, Module, ModuleId, Profile, Sample, StackId, StringId,
    Symbols, Tables, Task, TaskId, ThreadTime, Waker,
};
use std::collections::BTreeMap;

/// A profile whose rows have new numbers.
#[derive(Debug)]
pub(crate) struct Renumbered {
    pub(crate) profile: Profile,
    /// New ids of the old frames; `None` for those that are gone.
    pub(crate) frames: Vec<Option<FrameId>>,
}

/// `profile` with only the rows that its samples and threads refer to, and all modules and sets of labels, of which there
/// are few.
pub(crate) fn renumbered(profile: &Profile) -> Renumbered {
    let old = &profile.tables;
    let mut rows = RenumberedRows {
        old,
        symbols: &profile.symbols,
        tables: Tables::default(),
        new_symbols: Symbols::default(),
        strings: vec![None; old.strings().len()],
        tasks: vec![None; old.tasks().len()],
        frames: vec![None; old.frames().len()],
        stacks: vec![None; old.stacks().len()],
        texts: old.strings().collect(),
    };
    let modules = rows.modules();
    let label_sets = rows.tables.intern_label_sets_of(old);
    let mut events: Vec<Event> = Vec::new();
    for event in &profile.events {
        let mut new = Event::new(event.info().clone());
        for sample in event.samples() {
            let wait = sample.wait.map(|wait| {
                let waker = Waker {
                    task: wait.waker.task.map(|task| rows.task(task)),
                    stack: wait.waker.stack.map(|stack| rows.stack(stack, &modules)),
                    ..wait.waker
                };
                crate::profile::Wait { waker, ..wait }
            });
            new.push(Sample {
                task: rows.task(sample.task),
                stack: sample.stack.map(|stack| rows.stack(stack, &modules)),
                wait,
                labels: sample.labels.map(|set| label_sets[set.index()]),
                ..sample
            });
        }
        events.push(new);
    }
    let renumbered_time = |time: &ThreadTime| ThreadTime { task: rows.task(time.task), ..time.clone() };
    let thread_times = profile.thread_times.iter().map(renumbered_time).collect();
    let RenumberedRows { tables, new_symbols: symbols, frames, .. } = rows;
    let profile = Profile {
        meta: profile.meta.clone(),
        tables,
        events,
        thread_times,
        symbols,
        code: Vec::new(),
        sources: Vec::new(),
        // A live view keeps no notes of where names are from.
        module_notes: BTreeMap::new(),
        counters: profile.counters.clone(),
        end: profile.end.clone(),
    };
    Renumbered { profile, frames }
}

/// Old rows, new ones, and the new ids of the rows needed so far.
struct RenumberedRows<'p> {
    old: &'p Tables,
    symbols: &'p Symbols,
    tables: Tables,
    new_symbols: Symbols,
    strings: Vec<Option<StringId>>,
    tasks: Vec<Option<TaskId>>,
    frames: Vec<Option<FrameId>>,
    stacks: Vec<Option<StackId>>,
    texts: Vec<&'p str>,
}

impl RenumberedRows<'_> {
    /// Takes over all modules; returns their new ids.
    fn modules(&mut self) -> Vec<ModuleId> {
        let modules = self.old.modules().iter();
        let take = |module: &Module| {
            let path = self.string(module.path);
            self.tables.intern_module(Module { path, ..module.clone() })
        };
        modules.map(take).collect()
    }

    fn string(&mut self, id: StringId) -> StringId {
        if let Some(new) = self.strings[id.index()] {
            return new;
        }
        let new = self.tables.intern_string(self.texts[id.index()]);
        self.strings[id.index()] = Some(new);
        new
    }

    fn task(&mut self, id: TaskId) -> TaskId {
        if let Some(new) = self.tasks[id.index()] {
            return new;
        }
        let row = *self.old.task(id);
        let (comm, process) = (self.string(row.comm), self.string(row.process));
        let new = self.tables.intern_task(Task { comm, process, ..row });
        self.tasks[id.index()] = Some(new);
        new
    }

    fn stack(&mut self, id: StackId, modules: &[ModuleId]) -> StackId {
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
            at = self.old.stack(id).parent;
        }
        for id in missing.into_iter().rev() {
            let frame = self.frame(self.old.stack(id).frame, modules);
            let new = self.tables.intern_stack(parent, frame);
            self.stacks[id.index()] = Some(new);
            parent = Some(new);
        }
        // There is always one: the stack either was there or has been added.
        parent.unwrap_or_default()
    }

    fn frame(&mut self, id: FrameId, modules: &[ModuleId]) -> FrameId {
        if let Some(new) = self.frames[id.index()] {
            return new;
        }
        let row = *self.old.frame(id);
        let new = self.tables.intern_frame(Frame { module: modules[row.module.index()], ..row });
        self.frames[id.index()] = Some(new);
        let locations: Vec<Location> = (self.symbols.locations(id).iter())
            .map(|location| Location {
                function: self.function(location.function),
                file: self.string(location.file),
                ..*location
            })
            .collect();
        self.new_symbols.set_locations(new, locations);
        new
    }

    fn function(&mut self, id: FunctionId) -> FunctionId {
        let row = self.symbols.function(id);
        let (name, raw_name) = (self.string(row.name), self.string(row.raw_name));
        self.new_symbols.intern_function(crate::profile::Function { name, raw_name })
    }
}
