//! All processes that were seen, by their numbers, which are used again.

use super::mappings::{Process, read_mappings};
use super::proc_fs;
use crate::bpf::EXEC_PENDING;
use crate::record::modules::{FileId, ModuleFiles};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// All processes that were seen, by process id.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    by_pid: FxHashMap<u32, Process>,
    /// Processes whose number was taken by another, with the time when that was, ns. Samples of theirs may still come.
    former: Vec<(u32, Process, u64)>,
    generations: FxHashMap<u32, u32>,
    /// Processes that have ended and still have their code, by number and generation, with the time when it was noticed,
    /// ns.
    ended: VecDeque<(u64, u32, u32)>,
    /// Processes that may have changed since they were published last: all that was asked for in order to change
    /// them.
    touched: FxHashSet<u32>,
    /// Every process that runs is recorded.
    pub(crate) is_system_wide: bool,
}

impl Processes {
    /// The process, if it was seen.
    pub(crate) fn get(&self, pid: u32) -> Option<&Process> {
        self.by_pid.get(&pid)
    }

    /// Paths of the files that a process runs code from.
    pub(crate) fn code_files<'f>(&self, pid: u32, files: &'f ModuleFiles) -> Vec<&'f str> {
        let mappings = self.get(pid).map(|process| process.mappings()).unwrap_or_default();
        mappings.iter().map(|mapping| files.get(mapping.file).path.as_str()).collect()
    }

    /// The process, if it was seen.
    pub(crate) fn get_mut(&mut self, pid: u32) -> Option<&mut Process> {
        self.by_pid.get_mut(&pid).map(|process| touch(&mut self.touched, pid, process))
    }

    /// All processes that have not ended.
    pub(crate) fn living_mut(&mut self) -> impl Iterator<Item = (u32, &mut Process)> {
        let touched = &mut self.touched;
        let living = self.by_pid.iter_mut().filter(|(_, process)| !process.has_ended);
        living.map(|(&pid, process)| (pid, touch(touched, pid, process)))
    }

    /// The process is to be looked at before anything is published to the kernel side.
    pub(crate) fn touch(&mut self, pid: u32) {
        let _ = self.get_mut(pid);
    }

    /// Has `look` called with each target that may have changed since it was published last.
    pub(crate) fn look_at_changed(&mut self, mut look: impl FnMut(u32, &mut Process)) {
        for pid in &self.touched {
            if let Some(process) = self.by_pid.get_mut(pid).filter(|process| process.is_target) {
                look(*pid, process);
            }
        }
    }

    /// Has `send` publish each target that has changed since it was published last. One that is still dirty
    /// after that comes again the next time. Returns those that were refused, and why, each once until it is taken.
    pub(crate) fn send_changed(
        &mut self,
        mut send: impl FnMut(u32, &mut Process) -> anyhow::Result<()>,
    ) -> Vec<(u32, anyhow::Error)> {
        let mut refused = Vec::new();
        let mut is_full = false;
        for pid in std::mem::take(&mut self.touched) {
            let Some(process) = self.by_pid.get_mut(&pid) else { continue };
            process.is_touched = false;
            if !process.is_dirty || !process.is_target {
                continue;
            }
            // Where there is no room for one there is none for those that have waited for it.
            if !(is_full && process.is_refused) {
                let sent = send(pid, process);
                is_full |= sent.is_err();
                let was_refused = std::mem::replace(&mut process.is_refused, sent.is_err());
                refused.extend(sent.err().filter(|_| !was_refused).map(|error| (pid, error)));
            }
            if process.is_dirty {
                touch(&mut self.touched, pid, process);
            }
        }
        refused
    }

    /// The process that had the number at `time_ns`, if it was seen.
    pub(crate) fn at(&self, pid: u32, time_ns: u64) -> Option<&Process> {
        self.former_index(pid, time_ns).map(|index| &self.former[index].1).or_else(|| self.by_pid.get(&pid))
    }

    /// Returns the process of [`Processes::at`], to change what is not published to the kernel side.
    pub(crate) fn at_mut(&mut self, pid: u32, time_ns: u64) -> Option<&mut Process> {
        match self.former_index(pid, time_ns) {
            Some(index) => Some(&mut self.former[index].1),
            None => self.by_pid.get_mut(&pid),
        }
    }

    /// The process that had the number at `time_ns`; read from /proc when it is new.
    pub(crate) fn at_or_read(&mut self, pid: u32, time_ns: u64, files: &mut ModuleFiles) -> &mut Process {
        match self.former_index(pid, time_ns) {
            Some(index) => &mut self.former[index].1,
            None => self.get_or_read(pid, files),
        }
    }

    /// The first of the former holders of a number that still had it at `time_ns`.
    fn former_index(&self, pid: u32, time_ns: u64) -> Option<usize> {
        self.former.iter().position(|(former, _, until_ns)| *former == pid && time_ns < *until_ns)
    }

    /// Forgets former processes of which no sample can come any more, and the code of those that ended before
    /// `time_ns`.
    pub(crate) fn forget_before(&mut self, time_ns: u64) {
        self.former.retain(|(_, _, until_ns)| *until_ns >= time_ns);
        let is_over = |&&(ended_ns, ..): &&(u64, u32, u32)| ended_ns < time_ns;
        while let Some(&(_, pid, generation)) = self.ended.front().filter(is_over) {
            self.ended.pop_front();
            let process = self.by_pid.get_mut(&pid).filter(|process| process.generation == generation);
            if let Some(process) = process {
                process.forget_code();
            }
        }
    }

    /// The process; read from /proc when it is new.
    pub(crate) fn get_or_read(&mut self, pid: u32, files: &mut ModuleFiles) -> &mut Process {
        let generation = self.generations.get(&pid).copied().unwrap_or(0);
        let process = self.by_pid.entry(pid).or_insert_with(|| {
            let comm = proc_fs::comm(pid).unwrap_or_default();
            let mut process = Process::target(comm, generation, 0);
            read_mappings(pid, &mut process, 0, files);
            process
        });
        touch(&mut self.touched, pid, process)
    }

    /// Adds a process of which nothing is mapped yet: one that is about to call exec.
    pub(crate) fn add_empty(&mut self, pid: u32) {
        self.insert(pid, Process::target(String::new(), 0, EXEC_PENDING));
    }

    fn insert(&mut self, pid: u32, mut process: Process) {
        touch(&mut self.touched, pid, &mut process);
        self.by_pid.insert(pid, process);
    }

    /// A child has what its parent had, and is a target if that is one and children are followed. Of others nothing is
    /// kept: a machine makes many.
    pub(crate) fn fork(&mut self, parent_pid: u32, pid: u32, time_ns: u64, follows: bool) {
        if let Some(old) = self.by_pid.remove(&pid) {
            self.generations.insert(pid, old.generation + 1);
            self.former.push((pid, old, time_ns));
        } else if let Some(generation) = self.generations.get_mut(&pid) {
            *generation += 1;
        }
        let Some(parent) = self.by_pid.get(&parent_pid).filter(|parent| parent.is_target && follows) else {
            return;
        };
        let generation = self.generations.get(&pid).copied().unwrap_or(0);
        self.insert(pid, parent.forked(generation, time_ns));
    }

    /// All files that a process has mapped, or had when a sample was taken that may still come.
    pub(crate) fn mapped_files(&self) -> FxHashSet<FileId> {
        let processes = self.by_pid.values().chain(self.former.iter().map(|(_, process, _)| process));
        processes.flat_map(Process::files).collect()
    }

    /// Forgets what depends on rows of the profile that are numbered again, and processes that have ended.
    pub(crate) fn forget_rows(&mut self) {
        let generations = &mut self.generations;
        // Samples of those that have ended just now may still wait for something.
        let late: FxHashSet<u32> = self.ended.iter().map(|(_, pid, _)| *pid).collect();
        self.by_pid.retain(|pid, process| {
            if late.contains(pid) {
                return true;
            }
            if process.has_ended {
                generations.insert(*pid, process.generation);
            }
            !process.has_ended
        });
        self.by_pid.values_mut().for_each(Process::forget_frames);
        self.former.iter_mut().for_each(|(_, process, _)| process.forget_frames());
    }

    /// Rows of before are in another file: numbers of processes that are gone count from 0 again.
    pub(crate) fn begin_window(&mut self) {
        let former: FxHashSet<u32> = self.former.iter().map(|(pid, ..)| *pid).collect();
        self.generations.retain(|pid, _| former.contains(pid) || self.by_pid.contains_key(pid));
    }

    /// Forgets what is known of functions of runtimes, which get new numbers.
    pub(crate) fn forget_functions(&mut self) {
        let former = self.former.iter_mut().map(|(_, process, _)| process);
        for process in self.by_pid.values_mut().chain(former) {
            process.interpreter_mut().forget_functions();
            process.managed_mut().forget_functions();
        }
    }

    /// The process has ended, as was noticed at `time_ns`. Its name stays known until its number is reused, its code as long
    /// as late samples may need it.
    pub(crate) fn exit(&mut self, pid: u32, time_ns: u64) {
        let Some(process) = self.by_pid.get_mut(&pid).filter(|process| !process.has_ended) else { return };
        process.is_target = false;
        process.has_ended = true;
        self.ended.push_back((time_ns, pid, process.generation));
    }
}

/// The process, which is about to be changed.
fn touch<'a>(touched: &mut FxHashSet<u32>, pid: u32, process: &'a mut Process) -> &'a mut Process {
    if !process.is_touched {
        process.is_touched = true;
        touched.insert(pid);
    }
    process
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::process::mappings::Mapped;

    const CODE: Mapped = Mapped { start: 0x1000, end: 0x2000, bias: 0, file: FileId(1), since_ns: 0 };

    /// Processes of which the kernel side knows all; the first is a target.
    fn with_target(pid: u32) -> Processes {
        let mut processes = Processes::default();
        let mut process = Process::target("a".to_owned(), 0, 0);
        process.map(CODE);
        processes.insert(pid, process);
        sent(&mut processes);
        processes
    }

    /// The processes that would be published to the kernel side now, in ascending order.
    fn sent(processes: &mut Processes) -> Vec<u32> {
        let mut pids = Vec::new();
        let refused = processes.send_changed(|pid, process| {
            pids.push(pid);
            process.published(1);
            Ok(())
        });
        assert!(refused.is_empty());
        pids.sort_unstable();
        pids
    }

    #[test]
    fn children_are_known_if_they_are_recorded_and_only_then() {
        let mut processes = with_target(7);
        processes.fork(7, 8, 10, false);
        assert!(processes.get(8).is_none(), "children are not followed");
        processes.fork(7, 9, 10, true);
        let child = processes.get(9).expect("a target's child");
        assert!(child.is_target && child.find(0x1800, 10).is_some());
        processes.get_mut(9).expect("it is known").is_target = false;
        processes.fork(9, 10, 20, true);
        assert!(processes.get(10).is_none(), "its parent has woken a target, no more");
        processes.fork(1, 11, 20, true);
        assert!(processes.get(11).is_none() && processes.generations.is_empty());
    }

    #[test]
    fn a_number_that_is_used_again_has_another_generation_also_when_nobody_looked() {
        let mut processes = with_target(7);
        processes.exit(7, 100);
        processes.fork(1, 7, 200, true);
        assert!(processes.get(7).is_none());
        assert_eq!(processes.at(7, 199).map(|process| process.generation), Some(0));
        processes.fork(1, 7, 300, true);
        assert_eq!(processes.get_or_read(7, &mut ModuleFiles::new(false)).generation, 2);
    }

    #[test]
    fn an_ended_process_keeps_its_code_for_a_while_and_its_name_for_good() {
        let mut processes = with_target(7);
        let frame = (crate::profile::FrameId(1), FileId(1));
        processes.get_mut(7).expect("it is known").frames.insert(0x1800, frame);
        processes.exit(7, 100);
        processes.exit(7, 150);
        processes.forget_before(100);
        assert!(processes.get(7).is_some_and(|process| process.find(0x1800, 50).is_some()));
        processes.forget_before(101);
        let process = processes.get(7).expect("its name is wanted at the end");
        assert_eq!((&*process.comm, process.has_ended), ("a", true));
        assert!(process.find(0x1800, 50).is_none() && process.frames.is_empty());
    }

    #[test]
    fn windows_forget_how_often_numbers_were_used_that_no_sample_has_any_more() {
        let mut processes = with_target(7);
        for pid in 10..20 {
            processes.fork(7, pid, 10, true);
            processes.exit(pid, 100);
            // The next holder is no target.
            processes.fork(1, pid, 200, true);
        }
        assert_eq!(processes.generations.len(), 10);
        processes.begin_window();
        assert_eq!(processes.generations.len(), 10, "late samples may be of the first");
        processes.forget_before(300);
        processes.begin_window();
        assert!(processes.generations.is_empty());
    }

    #[test]
    fn the_code_of_a_number_s_next_holder_stays() {
        let mut processes = with_target(7);
        processes.fork(7, 8, 10, true);
        processes.exit(8, 100);
        processes.fork(7, 8, 200, true);
        processes.forget_before(150);
        assert!(processes.get(8).is_some_and(|process| process.find(0x1800, 200).is_some()));
    }

    #[test]
    fn only_processes_that_have_changed_are_looked_at() {
        let mut processes = with_target(7);
        processes.fork(7, 8, 10, true);
        processes.fork(7, 9, 10, true);
        assert_eq!(sent(&mut processes), [8, 9]);
        assert!(sent(&mut processes).is_empty());
        processes.exit(9, 20);
        processes.get_mut(7).expect("it is known").map(Mapped { start: 0x5000, end: 0x6000, ..CODE });
        assert_eq!(processes.touched.len(), 1);
        assert_eq!(sent(&mut processes), [7]);
        assert_eq!(processes.living_mut().map(|(pid, _)| pid).max(), Some(8), "9 has ended");
        assert!(sent(&mut processes).is_empty(), "nothing was changed");
    }

    #[test]
    fn a_process_that_is_refused_is_counted_once_and_told_of_when_there_is_room() {
        let mut processes = with_target(7);
        for pid in 10..15 {
            processes.fork(7, pid, 10, true);
        }
        let mut tried = 0;
        let mut refuse = |processes: &mut Processes| {
            let refused = processes.send_changed(|_, _| {
                tried += 1;
                anyhow::bail!("no room")
            });
            (std::mem::take(&mut tried), refused.len())
        };
        assert_eq!(refuse(&mut processes), (5, 5));
        assert_eq!(refuse(&mut processes), (1, 0), "the others would not fit either");
        assert!(processes.get(10).is_some_and(|process| process.is_refused));
        assert_eq!(sent(&mut processes), [10, 11, 12, 13, 14]);
        assert!(processes.get(10).is_some_and(|process| !process.is_refused));
        assert!(sent(&mut processes).is_empty());
    }
}
