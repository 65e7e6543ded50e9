//! Which lock a wait was for, and what it is called: by the labels of the wait.

use crate::profile::{
    FUTEX_LABEL, FrameId, GOROUTINE_LOCK, LOCK_ALLOCATION_LABEL, LOCK_LABEL, LOCK_OBJECT_LABEL, LabelSetId,
    MEMORY_LABEL, Profile, SHARED_MEMORY, Sample, StringId, TaskId,
};
use crate::report::naming::name::module_file;
use rustc_hash::{FxHashMap, FxHashSet};

/// What tells locks apart. Addresses mean the same in one process, and in memory that processes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LockKey {
    /// Process id; `None` for a lock in shared memory.
    pub(crate) pid: Option<u32>,
    /// Name of the process.
    pub(crate) process: StringId,
    /// Process address; `None` where it is not known.
    pub(crate) address: Option<u64>,
}

/// Labels of a set that are about a lock. Foreign text.
#[derive(Debug, Clone, Copy, Default)]
struct LockLabels<'p> {
    address: Option<u64>,
    memory: Option<&'p str>,
    object: Option<&'p str>,
    allocation: Option<&'p str>,
    is_lock: bool,
    /// Of goroutines, which are in no futex.
    is_of_goroutines: bool,
}

impl<'p> LockLabels<'p> {
    fn of(profile: &'p Profile, set: LabelSetId) -> Self {
        let mut labels = LockLabels::default();
        for (key, value) in profile.tables.labels(set) {
            match key {
                LOCK_LABEL => labels.address = hexadecimal(value),
                FUTEX_LABEL => (labels.is_lock, labels.is_of_goroutines) = (true, value == GOROUTINE_LOCK),
                MEMORY_LABEL => labels.memory = Some(value),
                LOCK_OBJECT_LABEL => labels.object = Some(value),
                LOCK_ALLOCATION_LABEL => labels.allocation = Some(value),
                _ => {}
            }
        }
        labels
    }
}

impl<'p> LockLabels<'p> {
    /// The places that allocated the lock's block, innermost first.
    fn allocators(&self) -> impl Iterator<Item = &'p str> + use<'p> {
        self.allocation.into_iter().flat_map(str::lines)
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Name of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LockName {
    /// Variable that the lock is, or is in. Foreign text.
    pub(crate) variable: Option<String>,
    /// Path of the module that the lock is in. Foreign text.
    pub(crate) module: Option<String>,
    /// Address in the module.
    pub(crate) module_address: Option<u64>,
    /// Kind of memory that the lock is in. Foreign text.
    pub(crate) memory: Option<String>,
    /// Function that allocated the block of memory that the lock is in. Foreign text.
    pub(crate) allocated_by: Option<String>,
    /// Whether it is one of goroutines, whose runtime does not say which.
    pub(crate) is_of_goroutines: bool,
}

impl LockName {
    /// Returns the name for people: `pool_lock`, `app+0x4060`, `lock 0x7f00c0de in heap`. Foreign text.
    pub(crate) fn text(&self, address: Option<u64>) -> String {
        if self.is_of_goroutines {
            return "[locks of goroutines]".to_owned();
        }
        match (&self.variable, &self.module, self.module_address, address) {
            (Some(variable), ..) => variable.clone(),
            (None, Some(module), Some(at), _) => format!("{}+{at:#x}", module_file(module)),
            (_, _, _, Some(address)) => {
                let place = match (&self.allocated_by, &self.memory) {
                    (Some(function), _) => format!(" in a block of {function}"),
                    (None, Some(memory)) => format!(" in {memory}"),
                    (None, None) => String::new(),
                };
                format!("lock {address:#x}{place}")
            }
            _ => "[address not known]".to_owned(),
        }
    }
}

/// The locks of a profile.
#[derive(Debug)]
pub(crate) struct Locks<'p> {
    profile: &'p Profile,
    /// By set of labels; sets without a lock are `None`.
    of_set: Vec<Option<LockLabels<'p>>>,
    /// Frames that stand for places in the data of modules.
    frames: FxHashMap<(&'p str, u64), FrameId>,
}

impl<'p> Locks<'p> {
    /// Finds the locks of `profile`.
    pub(crate) fn of(profile: &'p Profile) -> Self {
        let sets = 0..profile.tables.label_sets().len();
        let labels = sets.map(|index| LockLabels::of(profile, LabelSetId(index as u32)));
        let of_set: Vec<_> = labels.map(|labels| labels.is_lock.then_some(labels)).collect();
        let places =
            of_set.iter().flatten().flat_map(|labels| labels.object.into_iter().chain(labels.allocators()));
        let objects: FxHashSet<(&str, u64)> = places.filter_map(split_object).collect();
        let mut frames = FxHashMap::default();
        for (index, frame) in profile.tables.frames().iter().enumerate().filter(|_| !objects.is_empty()) {
            let path = profile.tables.string(profile.tables.module(frame.module).path);
            if let Some(object) = objects.get(&(path, frame.address)) {
                let id = FrameId(index as u32);
                // Two files may have had one path: the one with a name is as good.
                if !frames.contains_key(object) || !profile.symbols.locations(id).is_empty() {
                    frames.insert(*object, id);
                }
            }
        }
        Locks { profile, of_set, frames }
    }

    /// Whether any wait says in which futex it was.
    pub(crate) fn is_empty(&self) -> bool {
        self.of_set.iter().all(Option::is_none)
    }

    /// Whether these labels are of a wait in a futex.
    pub(crate) fn has(&self, labels: Option<LabelSetId>) -> bool {
        self.labels(labels).is_some()
    }

    fn labels(&self, labels: Option<LabelSetId>) -> Option<LockLabels<'p>> {
        *self.of_set.get(labels?.index())?
    }

    /// Whether a wait is for a lock of goroutines.
    pub(crate) fn is_of_goroutines(&self, sample: &Sample) -> bool {
        self.labels(sample.labels).is_some_and(|labels| labels.is_of_goroutines)
    }

    /// The lock of a wait with these labels, of a thread.
    pub(crate) fn key(&self, labels: Option<LabelSetId>, task: TaskId) -> Option<LockKey> {
        let labels = self.labels(labels)?;
        let task = self.profile.tables.task(task);
        let pid = (labels.memory != Some(SHARED_MEMORY)).then_some(task.pid);
        Some(LockKey { pid, process: task.process, address: labels.address })
    }

    /// Name of what is at a place in a module. Foreign text.
    fn name_at(&self, place: (&str, u64)) -> Option<String> {
        // The innermost of functions that are inlined into each other.
        let location = self.profile.symbols.locations(*self.frames.get(&place)?).first()?;
        let function = self.profile.symbols.function(location.function);
        let name = self.profile.tables.string(function.name);
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// The name of the lock of these labels.
    pub(crate) fn name(&self, labels: Option<LabelSetId>) -> LockName {
        let Some(labels) = self.labels(labels) else { return LockName::default() };
        let object = labels.object.and_then(split_object);
        let mut allocators = labels.allocators().filter_map(split_object);
        LockName {
            variable: object.and_then(|object| self.name_at(object)),
            allocated_by: allocators.find_map(|place| self.name_at(place)),
            module: object.map(|(module, _)| module.to_owned()),
            module_address: object.map(|(_, address)| address),
            memory: labels.memory.map(str::to_owned),
            is_of_goroutines: labels.is_of_goroutines,
        }
    }
}

/// Path and address of `/usr/bin/app+0x4060`.
fn split_object(object: &str) -> Option<(&str, u64)> {
    let (path, address) = object.rsplit_once('+')?;
    Some((path, hexadecimal(address)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_called_by_what_is_known() {
        let name = LockName { memory: Some("heap".to_owned()), ..LockName::default() };
        assert_eq!(name.text(Some(0x7f00)), "lock 0x7f00 in heap");
        let in_block = LockName { allocated_by: Some("make_table".to_owned()), ..name };
        assert_eq!(in_block.text(Some(0x7f00)), "lock 0x7f00 in a block of make_table");
        assert_eq!(LockName::default().text(Some(0x7f00)), "lock 0x7f00");
        assert_eq!(LockName::default().text(None), "[address not known]");
        let object = split_object("/usr/bin/a+b+0x4060");
        assert_eq!(object, Some(("/usr/bin/a+b", 0x4060)));
        let (module, at) = object.unwrap();
        let name =
            LockName { module: Some(module.to_owned()), module_address: Some(at), ..LockName::default() };
        assert_eq!(name.text(Some(0x55d0)), "a+b+0x4060");
        let named = LockName { variable: Some("pool_lock".to_owned()), ..name };
        assert_eq!(named.text(Some(0x55d0)), "pool_lock");
    }
}
