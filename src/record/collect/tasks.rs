//! Threads as rows of the profile, and what they are called.

use crate::base::safe_text;
use crate::profile::{OUTSIDE, Tables, Task, TaskId};
use crate::record::process::table::Processes;
use crate::record::process::title;
use rustc_hash::FxHashMap;

/// Names of threads outside of the PID namespace that are distinguished.
const MOST_OUTSIDE: usize = 4096;

/// The threads that were seen.
#[derive(Debug, Default)]
pub(crate) struct KnownTasks {
    /// Rows by process, thread, generation and name.
    rows: FxHashMap<(u32, u32, u32, Vec<u8>), TaskId>,
    /// Generations of threads that the PID namespace of this process does not have, by name.
    outside: FxHashMap<Vec<u8>, u32>,
    /// Titles of processes, by number and generation.
    titles: FxHashMap<(u32, u32), Option<String>>,
}

impl KnownTasks {
    /// A thread that the PID namespace of this process does not have. It has no numbers here: those of one name are one,
    /// and are distinguished from others by their generation.
    pub(super) fn outside(&mut self, tables: &mut Tables, comm: &[u8]) -> TaskId {
        let is_new = !self.outside.contains_key(comm);
        let comm = if is_new && self.outside.len() >= MOST_OUTSIDE { &b"others"[..] } else { comm };
        let next = self.outside.len() as u32;
        let generation = *self.outside.entry(comm.to_vec()).or_insert(next);
        let comm = tables.intern_string(&safe_text::from_bytes(comm));
        let process = tables.intern_string(OUTSIDE);
        tables.intern_task(Task { comm, process, generation, ..Task::default() })
    }

    /// Looks at the title of a process again: many set it only once they have begun. The next row of its first thread, called
    /// `comm`, has it.
    pub(super) fn renew_title(&mut self, processes: &Processes, time_ns: u64, tgid: u32, comm: &[u8]) {
        let generation = processes.at(tgid, time_ns).map_or(0, |process| process.generation);
        let title = title::of(tgid, &safe_text::from_bytes(comm));
        let known = self.titles.entry((tgid, generation)).or_default();
        if title.is_some() && *known != title {
            *known = title;
            self.rows.remove(&(tgid, tgid, generation, comm.to_vec()));
        }
    }

    /// The thread that had these numbers and this name at `time_ns`.
    pub(super) fn at(
        &mut self,
        tables: &mut Tables,
        processes: &Processes,
        time_ns: u64,
        (tgid, tid): (u32, u32),
        comm: &[u8],
    ) -> TaskId {
        let process = processes.at(tgid, time_ns);
        let generation = process.map_or(0, |process| process.generation);
        let key = (tgid, tid, generation, comm.to_vec());
        if let Some(&task) = self.rows.get(&key) {
            return task;
        }
        let has_ended = process.is_some_and(|process| process.has_ended);
        let comm = safe_text::from_bytes(comm);
        let process_name = match process {
            Some(process) if tid != tgid && !process.comm.is_empty() => process.comm.clone(),
            _ => comm.clone(),
        };
        let find_title = || if has_ended { None } else { title::of(tgid, &process_name) };
        let title = self.titles.entry((tgid, generation)).or_insert_with(find_title);
        let process_name = title.clone().unwrap_or(process_name);
        let comm = tables.intern_string(&comm);
        let process = tables.intern_string(&process_name);
        let task = tables.intern_task(Task { pid: tgid, tid, generation, comm, process });
        self.rows.insert(key, task);
        task
    }

    /// The rows of the profile are numbered again.
    pub(super) fn forget_rows(&mut self) {
        self.rows.clear();
        // Of processes that have ended, too; those of others are looked at again.
        self.titles.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_outside_of_the_namespace_are_told_apart_by_name_and_bounded() {
        let (mut tasks, mut tables) = (KnownTasks::default(), Tables::default());
        let mut generation = |name: String| {
            let task = tasks.outside(&mut tables, name.as_bytes());
            let row = *tables.task(task);
            assert_eq!((row.pid, row.tid), (0, 0));
            row.generation
        };
        assert_eq!(["sshd", "bash", "sshd"].map(|name| generation(name.to_owned())), [0, 1, 0]);
        let most = (0..2 * MOST_OUTSIDE).map(|number| generation(format!("worker/{number}"))).max();
        assert_eq!(most, Some(MOST_OUTSIDE as u32), "the last one is all others");
        assert_eq!(generation("bash".to_owned()), 1);
    }
}
