//! Which threads are one, and what they are called: threads of a pool have names that differ in a number only.

use crate::profile::{StringId, Tables, Task};
use crate::report::options::ThreadSplit;
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::hash::Hash;

/// The name of a thread without its numbers: `worker-#` of `worker-7`, `pool-#-thread-#`. A number that tells kinds of
/// threads apart stays: `C1 CompilerThread`, `G1 Conc`. Foreign text.
pub(crate) fn thread_class(name: &str) -> Cow<'_, str> {
    if !name.bytes().any(|byte| byte.is_ascii_digit()) {
        return Cow::Borrowed(name);
    }
    let kind = kind_prefix(name);
    let mut class = name[..kind].to_owned();
    for c in name[kind..].chars() {
        match c {
            '0'..='9' if class.ends_with('#') => {}
            '0'..='9' => class.push('#'),
            c => class.push(c),
        }
    }
    Cow::Owned(class)
}

/// Bytes of a kind of threads at the start of a name: one capital letter, a number and a blank.
fn kind_prefix(name: &str) -> usize {
    let bytes = name.as_bytes();
    if !bytes.first().is_some_and(u8::is_ascii_uppercase) {
        return 0;
    }
    let digits = bytes[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_kind = digits > 0 && bytes.get(1 + digits) == Some(&b' ');
    if is_kind { 1 + digits } else { 0 }
}

/// The name of a thread, with its id where threads of one name are distinguished. Foreign text.
pub(crate) fn thread_name(name: &str, tid: Option<u32>) -> String {
    tid.map_or_else(|| name.to_owned(), |tid| format!("{name} (tid {tid})"))
}

/// Numbers distinct keys in the order in which they occur first; returns the number of each of `keys`, and the distinct ones.
pub(crate) fn numbered<K: Copy + Eq + Hash>(keys: impl IntoIterator<Item = K>) -> (Vec<usize>, Vec<K>) {
    let mut known: FxHashMap<K, usize> = FxHashMap::default();
    let mut distinct = Vec::new();
    let number = |key| {
        *known.entry(key).or_insert_with(|| {
            distinct.push(key);
            distinct.len() - 1
        })
    };
    (keys.into_iter().map(number).collect(), distinct)
}

/// Threads that are one have equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ThreadClassKey {
    /// Number of the name.
    name: u32,
    /// The thread, or the process of which all threads are one.
    pub(crate) id: Option<u32>,
}

/// The threads of a profile, divided as asked for.
#[derive(Debug)]
pub(crate) struct ThreadClasses {
    split: ThreadSplit,
    names: Vec<String>,
    /// Number of the name of each thread's own name.
    of_comm: FxHashMap<StringId, u32>,
    /// Number of threads with each of the names.
    threads: Vec<u64>,
    /// Names that represent several others.
    is_merged: Vec<bool>,
}

impl ThreadClasses {
    /// Divides the threads of `tables`. A class of which all threads have one name is called by that name.
    pub(crate) fn of(tables: &Tables, split: ThreadSplit) -> Self {
        let mut comms: Vec<StringId> = tables.tasks().iter().map(|task| task.comm).collect();
        comms.sort_unstable();
        comms.dedup();
        let class = |comm: &StringId| match split {
            ThreadSplit::Class => thread_class(tables.string(*comm)),
            _ => Cow::Borrowed(tables.string(*comm)),
        };
        let mut members: FxHashMap<Cow<'_, str>, Vec<StringId>> = FxHashMap::default();
        comms.iter().for_each(|comm| members.entry(class(comm)).or_default().push(*comm));
        let mut classes = ThreadClasses {
            split,
            names: Vec::new(),
            of_comm: FxHashMap::default(),
            threads: Vec::new(),
            is_merged: Vec::new(),
        };
        let mut members: Vec<(Cow<'_, str>, Vec<StringId>)> = members.into_iter().collect();
        members.sort_unstable();
        for (class, comms) in members {
            let number = classes.names.len() as u32;
            let first = tables.string(comms[0]);
            let is_merged = comms.iter().any(|comm| tables.string(*comm) != first);
            classes.names.push(if is_merged { class.into_owned() } else { first.to_owned() });
            classes.is_merged.push(is_merged);
            classes.of_comm.extend(comms.into_iter().map(|comm| (comm, number)));
        }
        classes.count_threads(tables);
        classes
    }

    fn count_threads(&mut self, tables: &Tables) {
        let mut seen: FxHashSet<(u32, u32)> = FxHashSet::default();
        self.threads = vec![0; self.names.len()];
        for task in tables.tasks() {
            if let (Some(&number), true) =
                (self.of_comm.get(&task.comm), seen.insert((task.tid, task.generation)))
            {
                self.threads[number as usize] += 1;
            }
        }
    }

    /// Whether each thread is for itself.
    pub(crate) fn is_by_thread(&self) -> bool {
        self.split == ThreadSplit::Each
    }

    /// Whether all threads of a process are one.
    pub(crate) fn is_by_process(&self) -> bool {
        self.split == ThreadSplit::None
    }

    /// Key of a thread, equal for all threads that are shown as one.
    pub(crate) fn key(&self, tid: u32, pid: u32, comm: StringId) -> ThreadClassKey {
        let name = self.of_comm.get(&comm).copied().unwrap_or(u32::MAX);
        match self.split {
            ThreadSplit::Class | ThreadSplit::Name => ThreadClassKey { name, id: None },
            ThreadSplit::Each => ThreadClassKey { name, id: Some(tid) },
            ThreadSplit::None => ThreadClassKey { name: u32::MAX, id: Some(pid) },
        }
    }

    /// The same of a task.
    pub(crate) fn key_of(&self, task: &Task) -> ThreadClassKey {
        self.key(task.tid, task.pid, task.comm)
    }

    /// The name that threads with this key have in common; empty where they need not have one. Foreign text.
    pub(crate) fn name(&self, key: ThreadClassKey) -> &str {
        self.names.get(key.name as usize).map_or("", String::as_str)
    }

    /// The name of each task in front of its stacks in an export, with the id of a thread that is for itself; none where all
    /// threads of a process are one. Foreign text.
    pub(crate) fn names_of_tasks(&self, tables: &Tables) -> Vec<String> {
        if self.is_by_process() {
            return Vec::new();
        }
        tables.tasks().iter().map(|task| self.plain_title(self.key_of(task))).collect()
    }

    /// The name of threads with this key, with the id of a thread that is for itself: the same however many they become.
    pub(crate) fn plain_title(&self, key: ThreadClassKey) -> String {
        thread_name(self.name(key), key.id)
    }

    /// Title of threads with this key in a box in front of stacks: with the thread's id, or the number of threads whose
    /// names are merged.
    pub(crate) fn title(&self, key: ThreadClassKey) -> String {
        let name = self.plain_title(key);
        let number = key.name as usize;
        match key.id {
            None if self.is_merged.get(number).copied().unwrap_or(false) => {
                format!("{name} ×{}", self.threads[number])
            }
            _ => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_folded_and_kinds_are_not() {
        for (name, class) in [
            ("worker", "worker"),
            ("worker-7", "worker-#"),
            ("pool-12-thread-3", "pool-#-thread-#"),
            ("Thread-12", "Thread-#"),
            ("indexer_0001", "indexer_#"),
            ("kworker/u8:3-ev", "kworker/u#:#-ev"),
            ("42", "#"),
            ("C1 CompilerThre", "C1 CompilerThre"),
            ("C2 CompilerThre", "C2 CompilerThre"),
            ("G1 Conc#0", "G1 Conc#"),
            ("GC Thread#3", "GC Thread#"),
            ("größe7", "größe#"),
            ("", ""),
        ] {
            assert_eq!(thread_class(name), class, "{name}");
        }
    }

    #[test]
    fn a_class_of_one_name_keeps_it() {
        let mut tables = Tables::default();
        let mut task = |tid, name: &str| {
            let comm = tables.intern_string(name);
            tables.intern_task(Task { pid: 1, tid, generation: 0, comm, process: comm });
            comm
        };
        let [one, two, main, other] =
            [task(2, "worker-1"), task(3, "worker-2"), task(1, "main"), task(4, "timer-9")];
        let classes = ThreadClasses::of(&tables, ThreadSplit::Class);
        let title = |tid, comm| classes.title(classes.key(tid, 1, comm));
        assert_eq!([title(2, one), title(3, two)], ["worker-# ×2"; 2].map(str::to_owned));
        assert_eq!([title(1, main), title(4, other)], ["main", "timer-9"].map(str::to_owned));
        let each = ThreadClasses::of(&tables, ThreadSplit::Each);
        assert_eq!(each.title(each.key(2, 1, one)), "worker-1 (tid 2)");
        let none = ThreadClasses::of(&tables, ThreadSplit::None);
        assert_eq!(none.key(2, 1, one), none.key(4, 1, other));
    }
}
