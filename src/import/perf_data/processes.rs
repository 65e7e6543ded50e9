//! State of processes and threads from the records: names and mappings.

use super::record::MmapRecord;
use crate::base::safe_text;
use crate::import::intake::Intake;
use crate::profile::{FoundBy, FrameId, StackId, TaskId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Most mappings that are kept, over all processes.
const MAX_MAPPINGS: usize = 4 << 20;

/// A mapping of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PerfMapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) file_offset: u64,
    /// Index of the mapped file.
    pub(super) file: u32,
}

/// An address space.
#[derive(Debug, Default)]
pub(super) struct AddressSpace {
    /// Mappings by start. A child shares its parent's mappings until either changes.
    mappings: Rc<BTreeMap<u64, PerfMapping>>,
    /// Frames of addresses; the flag is that of return addresses.
    pub(super) frames: FxHashMap<(u64, bool, FoundBy), FrameId>,
    pub(super) stacks: FxHashMap<Box<[u64]>, Option<StackId>>,
    /// Name of the process, and how often it has changed.
    comm: String,
    version: u32,
}

impl AddressSpace {
    /// The mapping that contains an address.
    pub(super) fn mapping(&self, address: u64) -> Option<PerfMapping> {
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        (address < mapping.end).then_some(*mapping)
    }

    /// Files that it has mapped, by their numbers.
    pub(super) fn files(&self) -> impl Iterator<Item = u32> {
        self.mappings.values().map(|mapping| mapping.file)
    }

    fn forget(&mut self) {
        self.frames.clear();
        self.stacks.clear();
    }

    /// Adds a mapping and removes what it covers from others. Returns the change in the number of mappings.
    fn map(&mut self, mapping: PerfMapping) -> isize {
        self.forget();
        let mappings = Rc::make_mut(&mut self.mappings);
        let before = mappings.len();
        let from = mappings.range(..mapping.start).next_back().map_or(mapping.start, |(start, _)| *start);
        let covered: Vec<PerfMapping> = mappings
            .range(from..mapping.end)
            .map(|(_, old)| *old)
            .filter(|old| old.end > mapping.start)
            .collect();
        for old in covered {
            mappings.remove(&old.start);
            if old.start < mapping.start {
                mappings.insert(old.start, PerfMapping { end: mapping.start, ..old });
            }
            if old.end > mapping.end {
                let file_offset = old.file_offset.wrapping_add(mapping.end - old.start);
                mappings.insert(mapping.end, PerfMapping { start: mapping.end, file_offset, ..old });
            }
        }
        mappings.insert(mapping.start, mapping);
        mappings.len() as isize - before as isize
    }
}

/// A thread.
#[derive(Debug, Default)]
struct PerfThread {
    comm: String,
    generation: u32,
    has_exited: bool,
    /// Task, with the pid and the version of the process name that it was created for.
    task: Option<(TaskId, u32, u32)>,
}

/// All processes and threads.
#[derive(Debug, Default)]
pub(super) struct PerfProcesses {
    spaces: FxHashMap<u32, AddressSpace>,
    threads: FxHashMap<u32, PerfThread>,
    mappings: usize,
    /// Number of mappings that were not kept.
    pub(super) dropped: u64,
}

impl PerfProcesses {
    /// The address space of a process.
    pub(super) fn space(&mut self, pid: u32) -> &mut AddressSpace {
        self.spaces.entry(pid).or_default()
    }

    /// Drops the remembered stacks of all processes, to bound memory.
    pub(super) fn forget_stacks(&mut self) {
        self.spaces.values_mut().for_each(|space| space.stacks.clear());
    }

    pub(super) fn map(&mut self, record: &MmapRecord<'_>, file: u32) {
        let Some(end) = record.start.checked_add(record.length).filter(|_| record.length > 0) else { return };
        if self.mappings >= MAX_MAPPINGS {
            self.dropped += 1;
            return;
        }
        let mapping = PerfMapping { start: record.start, end, file_offset: record.file_offset, file };
        let space = self.spaces.entry(record.pid).or_default();
        if Rc::strong_count(&space.mappings) > 1 {
            self.mappings += space.mappings.len();
        }
        let more = space.map(mapping);
        self.mappings = self.mappings.saturating_add_signed(more);
    }

    /// Names a thread; with `is_exec` its process runs another program.
    pub(super) fn name(&mut self, pid: u32, tid: u32, name: &[u8], is_exec: bool) {
        let comm = safe_text::from_bytes(name);
        let thread = self.threads.entry(tid).or_default();
        thread.comm.clone_from(&comm);
        thread.task = None;
        let space = self.spaces.entry(pid).or_default();
        if pid == tid {
            space.comm = comm;
            space.version += 1;
        }
        if is_exec {
            self.mappings = self.mappings.saturating_sub(space.mappings.len());
            space.mappings = Rc::default();
            space.forget();
        }
    }

    /// Starts a thread with the name of its creator; a new process also inherits the mappings.
    pub(super) fn fork(&mut self, pid: u32, parent: u32, tid: u32, parent_tid: u32) {
        let comm = self.threads.get(&parent_tid).map_or(String::new(), |thread| thread.comm.clone());
        let thread = self.threads.entry(tid).or_default();
        thread.generation += u32::from(thread.has_exited);
        (thread.has_exited, thread.task) = (false, None);
        thread.comm.clone_from(&comm);
        if pid != parent {
            let mappings =
                self.spaces.get(&parent).map(|space| Rc::clone(&space.mappings)).unwrap_or_default();
            let version = self.spaces.get(&pid).map_or(0, |space| space.version + 1);
            self.spaces.insert(pid, AddressSpace { mappings, comm, version, ..AddressSpace::default() });
        }
    }

    pub(super) fn exit(&mut self, tid: u32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.has_exited = true;
        }
    }

    /// The task of a thread under its current name.
    pub(super) fn task(&mut self, intake: &mut Intake<'_>, pid: u32, tid: u32) -> TaskId {
        let space = self.spaces.entry(pid).or_default();
        let thread = self.threads.entry(tid).or_default();
        if let Some((task, of_pid, version)) = thread.task
            && (of_pid, version) == (pid, space.version)
        {
            return task;
        }
        let unnamed = || if tid == 0 { "swapper".to_owned() } else { format!(":{tid}") };
        let comm = match (thread.comm.as_str(), space.comm.as_str()) {
            ("", "") => unnamed(),
            ("", process) => process.to_owned(),
            (comm, _) => comm.to_owned(),
        };
        let process = if space.comm.is_empty() { &comm } else { &space.comm };
        let task = intake.task((pid, tid), thread.generation, &comm, process);
        thread.task = Some((task, pid, space.version));
        task
    }

    /// The name of a process.
    pub(super) fn process_name(&self, pid: u32) -> Option<&str> {
        self.spaces.get(&pid).map(|space| space.comm.as_str()).filter(|comm| !comm.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_takes_what_it_covers() {
        let mapping = |start, end, file| PerfMapping { start, end, file_offset: 0, file };
        let mut space = AddressSpace::default();
        assert_eq!(space.map(mapping(0x1000, 0x5000, 1)), 1);
        assert_eq!(space.map(mapping(0x2000, 0x3000, 2)), 2);
        let file = |space: &AddressSpace, address| space.mapping(address).map(|mapping| mapping.file);
        assert_eq!(
            (file(&space, 0x1fff), file(&space, 0x2000), file(&space, 0x3000)),
            (Some(1), Some(2), Some(1))
        );
        assert_eq!(space.mapping(0x3000).map(|mapping| mapping.file_offset), Some(0x2000));
        assert_eq!((file(&space, 0x5000), file(&space, 0xfff)), (None, None));
        assert_eq!(space.map(mapping(0, 0x6000, 3)), -2);
        assert_eq!(file(&space, 0x2000), Some(3));
    }
}
