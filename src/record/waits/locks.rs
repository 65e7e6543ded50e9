//! Locks that threads waited for, as labels of their waits: the address of the futex, the operation, the memory that it is in,
//! and of one in the data of a module its place there, by which it gets a name.

use crate::bpf::{FutexWait, SampleEvent, WaitEvent, WaitKind};
use crate::profile::{
    FUTEX_LABEL, Frame, FrameFlags, GLOBAL_MEMORY, LOCK_ALLOCATION_LABEL, LOCK_LABEL, LOCK_OBJECT_LABEL,
    LabelSetId, MEMORY_LABEL, Profile, SHARED_MEMORY, StackId, Tables, counter,
};
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::modules::{FileId, ModuleFiles};
use crate::record::process::mappings::Process;
use crate::record::process::proc_fs;
use crate::record::process::table::Processes;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// Most locks that are told apart in one recording: each has strings in the file.
const MOST_LOCKS: usize = 1 << 16;
/// Time for which it is taken for granted what memory a lock is in, ns: that may be unmapped, and mapped again.
const TRUSTED_NS: u64 = 1_000_000_000;
/// The memory of a process is not read again sooner than this many times the time that it took.
const READ_SHARE: u64 = 100;
/// The longest time between two readings, ns: on a crowded machine even a short one takes long.
const MOST_PAUSE_NS: u64 = 5_000_000_000;
/// Most processes whose memory is kept.
const MOST_PROCESSES: usize = 256;

/// Frames of the stack that allocated a lock's block that are kept with it.
const MOST_ALLOCATION_FRAMES: usize = 4;

/// The stack that allocated the sampled block that an address is in.
type AllocationOf<'a> = &'a dyn Fn(u64) -> Option<StackId>;

/// Locks that are known so far.
#[derive(Debug, Default)]
pub(crate) struct KnownLocks {
    known: FxHashMap<FutexKey, KnownLock>,
    /// Locks that have labels of their own, by process and address.
    labelled: FxHashSet<(u32, u64)>,
    memory: FxHashMap<u32, WritableMemory>,
}

/// A lock with the labels that its wait has besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FutexKey {
    pid: u32,
    generation: u32,
    futex: FutexWait,
    labels: Option<LabelSetId>,
}

#[derive(Debug, Clone, Copy)]
struct KnownLock {
    labels: LabelSetId,
    place: LockPlace,
    /// Last change of the code that the process has mapped, when the lock was looked up, ns.
    changed_ns: u64,
    /// Time from which on it is looked up again, ns.
    until_ns: u64,
}

/// Memory that a lock is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockPlace {
    /// Data of a module, at this ELF virtual address.
    Global(FileId, u64),
    /// Memory of this kind.
    Memory(&'static str),
    Unknown,
}

impl KnownLocks {
    /// Forgets the locks: sets of labels get new numbers.
    pub(crate) fn forget_labels(&mut self) {
        self.known.clear();
        self.labelled.clear();
    }

    /// The labels of a sample that has `labels`: with those of the lock that its thread waited for, if it is a wait for one.
    /// `allocation` knows the stacks that allocated sampled blocks, by an address in them.
    pub(crate) fn labels(
        &mut self,
        sample: &SampleEvent,
        labels: Option<LabelSetId>,
        (processes, allocation): (&Processes, AllocationOf<'_>),
        files: &mut ModuleFiles,
        profile: &mut Profile,
    ) -> Option<LabelSetId> {
        let Some(futex) = sample.wait.as_ref().and_then(|wait| futex_of(wait)) else { return labels };
        let process = processes.at(sample.tgid, sample.time_ns);
        let (generation, changed_ns) =
            process.map_or((0, 0), |process| (process.generation, process.changed_ns()));
        let key = FutexKey { pid: sample.tgid, generation, futex, labels };
        let valid = |known: &&KnownLock| known.changed_ns == changed_ns && sample.time_ns < known.until_ns;
        if let Some(known) = self.known.get(&key).filter(valid) {
            note_frame(known.place, sample.tgid, files, profile);
            return Some(known.labels);
        }
        let address = futex.address.unwrap_or(0);
        if self.labelled.len() >= MOST_LOCKS && !self.labelled.contains(&(sample.tgid, address)) {
            profile.count(counter::LOCKS_LEFT_OUT, 1);
            return labels;
        }
        self.labelled.insert((sample.tgid, address));
        let place = match (process, futex.address) {
            (Some(process), Some(address)) => self.place(sample, process, address, files),
            _ => LockPlace::Unknown,
        };
        let until_ns = match place {
            LockPlace::Global(..) => u64::MAX,
            LockPlace::Unknown => sample.time_ns.saturating_add(TRUSTED_NS / 10),
            LockPlace::Memory(_) => sample.time_ns.saturating_add(TRUSTED_NS),
        };
        note_frame(place, sample.tgid, files, profile);
        let mut found = labels_of(futex, place, labels, files, profile);
        if let (LockPlace::Memory(_), Some(stack)) = (place, futex.address.and_then(allocation)) {
            let frames = allocation_text(stack, &profile.tables);
            found = profile.tables.add_label(Some(found), (LOCK_ALLOCATION_LABEL, &frames));
        }
        self.known.insert(key, KnownLock { labels: found, place, changed_ns, until_ns });
        if self.known.len() > 2 * MOST_LOCKS {
            self.known.clear();
        }
        Some(found)
    }

    /// Finds the memory that a lock is in.
    fn place(
        &mut self,
        sample: &SampleEvent,
        process: &Process,
        address: u64,
        files: &ModuleFiles,
    ) -> LockPlace {
        if let Some((file, address)) = in_module(process, sample.time_ns, address, files) {
            return LockPlace::Global(file, address);
        }
        if process.has_ended {
            return LockPlace::Unknown; // its number may be another's by now
        }
        if self.memory.len() > MOST_PROCESSES {
            self.memory.clear();
        }
        let memory = self.memory.entry(sample.tgid).or_default();
        memory.kind_at(sample.tgid, process.generation, address).map_or(LockPlace::Unknown, LockPlace::Memory)
    }
}

/// The futex of a record that becomes a row.
fn futex_of(wait: &WaitEvent) -> Option<FutexWait> {
    wait.futex.filter(|_| matches!(wait.kind, WaitKind::Ended | WaitKind::Open | WaitKind::Still))
}

/// The module whose data holds a process address at a time, and the ELF virtual address there.
fn in_module(process: &Process, time_ns: u64, address: u64, files: &ModuleFiles) -> Option<(FileId, u64)> {
    let mut mappings = process.mappings().iter().filter(|mapping| mapping.since_ns <= time_ns);
    mappings.find_map(|mapping| {
        let elf = files.get(mapping.file).elf.as_ref()?;
        let own = address.wrapping_sub(mapping.bias);
        let holds = |range: Range<u64>| range.contains(&own);
        let data = elf.segments().iter().filter(|segment| !segment.is_executable);
        data.map(|segment| segment.address..segment.end()).any(holds).then_some((mapping.file, own))
    })
}

/// Sees to it that the variable of a lock is among what gets names, also after the tables have been begun again.
fn note_frame(place: LockPlace, pid: u32, files: &mut ModuleFiles, profile: &mut Profile) {
    if let LockPlace::Global(file, address) = place {
        let module = files.profile_module(file, pid, &mut profile.tables);
        profile.tables.intern_frame(Frame { module, address, flags: FrameFlags::default() });
    }
}

fn labels_of(
    futex: FutexWait,
    place: LockPlace,
    labels: Option<LabelSetId>,
    files: &ModuleFiles,
    profile: &mut Profile,
) -> LabelSetId {
    let tables = &mut profile.tables;
    let mut set = tables.add_label(labels, (FUTEX_LABEL, futex.command()));
    if let Some(address) = futex.address {
        set = tables.add_label(Some(set), (LOCK_LABEL, &format!("{address:#x}")));
    }
    match place {
        LockPlace::Unknown => set,
        LockPlace::Memory(kind) => tables.add_label(Some(set), (MEMORY_LABEL, kind)),
        LockPlace::Global(file, address) => {
            let object = format!("{}+{address:#x}", files.get(file).path);
            let set = tables.add_label(Some(set), (MEMORY_LABEL, GLOBAL_MEMORY));
            tables.add_label(Some(set), (LOCK_OBJECT_LABEL, &object))
        }
    }
}

/// The innermost frames of a stack that allocated a block, as in [`LOCK_ALLOCATION_LABEL`].
fn allocation_text(stack: StackId, tables: &Tables) -> String {
    let text = |frame| {
        let Frame { module, address, .. } = *tables.frame(frame);
        format!("{}+{address:#x}", tables.string(tables.module(module).path))
    };
    tables.stack_frames(stack).take(MOST_ALLOCATION_FRAMES).map(text).collect::<Vec<_>>().join("\n")
}

/// Memory of a process that it can write to, as `/proc/PID/maps` had it.
#[derive(Debug, Default)]
struct WritableMemory {
    /// Addresses and kind, ascending.
    ranges: Vec<(Range<u64>, &'static str)>,
    generation: u32,
    /// When it was read, and from when on it may be read again, ns.
    read_ns: u64,
    next_ns: u64,
}

impl WritableMemory {
    /// Kind of memory at `address` now.
    fn kind_at(&mut self, pid: u32, generation: u32, address: u64) -> Option<&'static str> {
        let now = monotonic_ns();
        if self.generation != generation {
            *self = WritableMemory { generation, ..WritableMemory::default() };
        }
        let is_old = now.saturating_sub(self.read_ns) > TRUSTED_NS;
        if (is_old || self.known_at(address).is_none()) && now >= self.next_ns {
            self.ranges = proc_fs::mappings_text(pid).map(|text| writable(&text)).unwrap_or_default();
            self.read_ns = monotonic_ns();
            let pause_ns = (self.read_ns - now).saturating_mul(READ_SHARE).min(MOST_PAUSE_NS);
            self.next_ns = self.read_ns.saturating_add(pause_ns);
        }
        self.known_at(address)
    }

    fn known_at(&self, address: u64) -> Option<&'static str> {
        let after = self.ranges.partition_point(|(range, _)| range.start <= address);
        let (range, kind) = self.ranges.get(after.checked_sub(1)?)?;
        range.contains(&address).then_some(*kind)
    }
}

/// The writable mappings in the text of /proc/PID/maps, with their kinds. Lines of another form are skipped.
fn writable(text: &[u8]) -> Vec<(Range<u64>, &'static str)> {
    text.split(|&byte| byte == b'\n').filter_map(writable_line).collect()
}

fn writable_line(line: &[u8]) -> Option<(Range<u64>, &'static str)> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.split_ascii_whitespace();
    let (range, protection) = (fields.next()?, fields.next()?.as_bytes());
    let (start, end) = range.split_once('-')?;
    let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
    let inode = fields.nth(2)?;
    let kind = match (fields.next(), protection.get(3)?) {
        (_, b's') => SHARED_MEMORY,
        (Some("[heap]"), _) => "heap",
        (Some("[stack]"), _) => "stack",
        _ if inode != "0" => "file",
        _ => "anonymous",
    };
    (protection.get(1) == Some(&b'w')).then_some((range, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &[u8] = b"55d0c0000000-55d0c0001000 r--p 00000000 fe:01 42    /bin/a\n\
        55d0c0003000-55d0c0004000 rw-p 00003000 fe:01 42    /bin/a\n\
        55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0     [heap]\n\
        7f0000000000-7f0000100000 rw-s 00000000 00:01 1026  /dev/zero (deleted)\n\
        7f0000200000-7f0000300000 rw-p 00000000 00:00 0 \n\
        7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0     [stack]\n\
        rubbish\n";

    #[test]
    fn memory_is_told_apart_by_its_mapping() {
        let memory = WritableMemory { ranges: writable(MAPS), ..WritableMemory::default() };
        let kinds =
            [0x55d0_c000_3010, 0x55d0_c100_0010, 0x7f00_0000_0010, 0x7f00_0020_0010, 0x7ffc_0000_0010];
        let found = kinds.map(|address| memory.known_at(address).unwrap());
        assert_eq!(found, ["file", "heap", "shared", "anonymous", "stack"]);
        assert_eq!(memory.known_at(0x55d0_c000_0010), None, "it cannot be written");
        assert_eq!(memory.known_at(0x7f00_0010_0000), None, "between two");
    }

    #[test]
    fn labels_say_where_a_lock_is() {
        let mut profile = Profile::default();
        let files = ModuleFiles::new(false);
        let set =
            labels_of(FutexWait::private_wait(0x10), LockPlace::Memory("heap"), None, &files, &mut profile);
        assert!(profile.tables.labels(set).eq([("futex", "wait"), ("lock", "0x10"), ("memory", "heap")]));
    }
}
