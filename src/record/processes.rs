//! All processes that were seen, by their numbers, which are used again.

use super::modules::ModuleFiles;
use super::proc_fs;
use super::process::{Process, read_mappings};
use crate::bpf::EXEC_PENDING;
use crate::profile::Tables;
use rustc_hash::FxHashMap;

/// All processes that were seen, by process id.
#[derive(Debug, Default)]
pub struct Processes {
    by_pid: FxHashMap<u32, Process>,
    /// Processes whose number was taken by another, with the time when that was, ns. Samples of theirs may still come.
    former: Vec<(u32, Process, u64)>,
    generations: FxHashMap<u32, u32>,
}

impl Processes {
    /// The process, if it was seen.
    pub fn get(&self, pid: u32) -> Option<&Process> {
        self.by_pid.get(&pid)
    }

    /// The process, if it was seen.
    pub fn get_mut(&mut self, pid: u32) -> Option<&mut Process> {
        self.by_pid.get_mut(&pid)
    }

    /// All processes.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Process)> {
        self.by_pid.iter_mut().map(|(&pid, process)| (pid, process))
    }

    /// The process that had the number at `time_ns`, if it was seen.
    pub(super) fn at(&self, pid: u32, time_ns: u64) -> Option<&Process> {
        self.former_index(pid, time_ns).map(|index| &self.former[index].1).or_else(|| self.by_pid.get(&pid))
    }

    /// The process that had the number at `time_ns`; read from /proc when it is new.
    pub(super) fn at_or_read(
        &mut self,
        pid: u32,
        time_ns: u64,
        files: &mut ModuleFiles,
        tables: &mut Tables,
    ) -> &mut Process {
        match self.former_index(pid, time_ns) {
            Some(index) => &mut self.former[index].1,
            None => self.get_or_read(pid, files, tables),
        }
    }

    /// The first of the former holders of a number that still had it at `time_ns`.
    fn former_index(&self, pid: u32, time_ns: u64) -> Option<usize> {
        self.former.iter().position(|(former, _, until_ns)| *former == pid && time_ns < *until_ns)
    }

    /// Forgets former processes of which no sample can come any more.
    pub(super) fn forget_before(&mut self, time_ns: u64) {
        self.former.retain(|(_, _, until_ns)| *until_ns >= time_ns);
    }

    /// The process; read from /proc when it is new.
    pub fn get_or_read(&mut self, pid: u32, files: &mut ModuleFiles, tables: &mut Tables) -> &mut Process {
        let generation = self.generations.get(&pid).copied().unwrap_or(0);
        self.by_pid.entry(pid).or_insert_with(|| {
            let comm = proc_fs::comm(pid).unwrap_or_default();
            let mut process = Process::target(comm, generation, 0);
            read_mappings(pid, &mut process, 0, files, tables);
            process
        })
    }

    /// Adds a process of which nothing is mapped yet: one that is about to call exec.
    pub fn add_empty(&mut self, pid: u32) {
        self.by_pid.insert(pid, Process::target(String::new(), 0, EXEC_PENDING));
    }

    /// A child has what its parent had; it is a target too if children are followed.
    pub(super) fn fork(&mut self, parent_pid: u32, pid: u32, time_ns: u64, follows: bool) {
        let generation = match self.by_pid.remove(&pid) {
            Some(old) => {
                let generation = old.generation + 1;
                self.former.push((pid, old, time_ns));
                generation
            }
            None => self.generations.get(&pid).map_or(0, |generation| generation + 1),
        };
        self.generations.insert(pid, generation);
        let Some(parent) = self.by_pid.get(&parent_pid) else { return };
        let child = parent.forked(generation, time_ns, follows);
        self.by_pid.insert(pid, child);
    }

    /// Forgets what depends on rows of the profile that are numbered anew, and processes that have ended.
    pub(super) fn forget_rows(&mut self) {
        let generations = &mut self.generations;
        self.by_pid.retain(|pid, process| {
            if process.has_ended {
                generations.insert(*pid, process.generation);
            }
            !process.has_ended
        });
        self.by_pid.values_mut().for_each(|process| process.frames = FxHashMap::default());
        self.former.iter_mut().for_each(|(_, process, _)| process.frames = FxHashMap::default());
    }

    /// The process has ended. It stays known until its number is reused: late samples need it.
    pub fn exit(&mut self, pid: u32) {
        if let Some(process) = self.by_pid.get_mut(&pid) {
            process.is_target = false;
            process.has_ended = true;
        }
    }
}
