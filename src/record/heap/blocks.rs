//! Sampled blocks that are live, until they become rows of the profile.
//!
//! A block gets its row when it is freed, or when the recording ends. Its allocation may be stored late, since its stack lacks
//! a table; then its end is there before.

use super::inject::image::SamplerImage;
use crate::bpf::{BlockEvent, SampleEvent, SamplingChance};
use crate::profile::{
    EventId, EventInfo, EventKind, FrameId, HeapBlock, LabelSetId, Outcome, Sample, StackId, Tables, counter,
};
use crate::record::collect::row_writer::RowWriter;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Ends of blocks are kept for so long for an allocation that comes late, ns.
const PATIENCE_NS: u64 = 30_000_000_000;
/// A block that is live for so long is in the file before it is freed, ns.
const SO_FAR_NS: u64 = 3_000_000_000;
/// Time between two searches for old ends, ns.
const PRUNING_NS: u64 = 1_000_000_000;
/// No more ends are kept.
const MOST_ENDS: usize = 1 << 18;
/// Number of such ends after which old ones are looked for.
const MANY_ENDS: usize = 4096;

/// A block by its process and address.
type BlockKey = (u32, u64);

/// A block that is live.
#[derive(Debug, Clone)]
struct LiveBlock {
    time_ns: u64,
    tid: u32,
    comm: Vec<u8>,
    cpu: u16,
    stack: Option<StackId>,
    outcome: Outcome,
    labels: Option<LabelSetId>,
    size: u64,
    weight: u64,
    /// The file says that it was live.
    is_in_file: bool,
}

/// Sampled blocks that are live.
#[derive(Debug)]
pub(crate) struct LiveBlocks {
    event: EventId,
    /// The event of what is live so far, once there is some.
    so_far: Option<EventId>,
    live: FxHashMap<BlockKey, LiveBlock>,
    /// Their sizes, by address.
    sizes: BTreeMap<BlockKey, u64>,
    /// Times of ends whose beginning was not stored yet, if it was sampled at all.
    ends: FxHashMap<BlockKey, Vec<u64>>,
    samples: u64,
    /// When old ends were looked for, ns.
    pruned_ns: u64,
    /// Processes that have ended lately, and when: samples of them may come later.
    ended: FxHashMap<u32, u64>,
    /// Paths of libraries that sample blocks themselves. Foreign text.
    libraries: Vec<String>,
}

/// What the stack of a sample came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockPart {
    pub(crate) stack: Option<StackId>,
    pub(crate) outcome: Outcome,
    pub(crate) labels: Option<LabelSetId>,
}

impl LiveBlocks {
    /// None are live so far; rows go to `event`.
    pub(crate) fn new(event: EventId) -> Self {
        let (live, ends) = (FxHashMap::default(), FxHashMap::default());
        LiveBlocks {
            event,
            so_far: None,
            live,
            sizes: BTreeMap::new(),
            ends,
            samples: 0,
            pruned_ns: 0,
            ended: FxHashMap::default(),
            libraries: Vec::new(),
        }
    }

    /// A library samples blocks itself.
    pub(crate) fn add_library(&mut self, path: &str) {
        if !self.libraries.iter().any(|known| known == path) {
            self.libraries.push(path.to_owned());
        }
    }

    /// Paths of libraries that do. Foreign text.
    pub(super) fn libraries(&self) -> &[String] {
        &self.libraries
    }

    /// Number of blocks that were sampled so far.
    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    /// Number of those that are live.
    pub(crate) fn live(&self) -> usize {
        self.live.len()
    }

    /// A sampled block was allocated.
    pub(crate) fn allocated(
        &mut self,
        sample: &SampleEvent,
        block: &BlockEvent,
        part: BlockPart,
        rows: &mut RowWriter<'_>,
    ) {
        let key = (sample.tgid, block.address);
        let new = LiveBlock {
            time_ns: sample.time_ns,
            tid: sample.tid,
            comm: sample.comm.clone(),
            cpu: sample.cpu as u16,
            stack: part.stack,
            outcome: part.outcome,
            labels: part.labels,
            size: block.size.max(1),
            weight: weight(block.size.max(1), block.chance),
            is_in_file: false,
        };
        self.samples += 1;
        if let Some(&end_ns) = self.ended.get(&key.0).filter(|&&end_ns| end_ns >= new.time_ns) {
            let end_ns = self.take_end(key, new.time_ns).map_or(end_ns, |freed_ns| freed_ns.min(end_ns));
            self.store(key, new, Some(end_ns), rows);
            return;
        }
        if let Some(end_ns) = self.take_end(key, new.time_ns) {
            self.store(key, new, Some(end_ns), rows);
            return;
        }
        let (older, newer) = match self.take(&key) {
            Some(known) if known.time_ns <= new.time_ns => (Some(known), new),
            Some(known) => (Some(new), known),
            None => (None, new),
        };
        if let Some(older) = older {
            // It cannot be longer there than until another one is.
            rows.profile.count(counter::BLOCK_ENDS_MISSED, 1);
            self.store(key, older, Some(newer.time_ns), rows);
        }
        self.sizes.insert(key, newer.size);
        self.live.insert(key, newer);
    }

    /// Takes a block out of those that are live.
    fn take(&mut self, key: &BlockKey) -> Option<LiveBlock> {
        self.sizes.remove(key);
        self.live.remove(key)
    }

    /// The stack that allocated the live block that an address of a process is in.
    pub(crate) fn allocation_of(&self, pid: u32, address: u64) -> Option<StackId> {
        let (key, size) = self.sizes.range((pid, 0)..=(pid, address)).next_back()?;
        self.live.get(key).filter(|_| address - key.1 < *size)?.stack
    }

    /// The earliest end of a block after its beginning.
    fn take_end(&mut self, key: BlockKey, begin_ns: u64) -> Option<u64> {
        let ends = self.ends.get_mut(&key)?;
        let end = (0..ends.len()).filter(|at| ends[*at] >= begin_ns).min_by_key(|at| ends[*at])?;
        let end_ns = ends.swap_remove(end);
        if ends.is_empty() {
            self.ends.remove(&key);
        }
        Some(end_ns)
    }

    /// A block that may have been sampled was freed.
    pub(crate) fn freed(&mut self, sample: &SampleEvent, address: u64, rows: &mut RowWriter<'_>) {
        let key = (sample.tgid, address);
        if self.live.get(&key).is_some_and(|block| block.time_ns <= sample.time_ns)
            && let Some(block) = self.take(&key)
        {
            return self.store(key, block, Some(sample.time_ns), rows);
        }
        // Of a child of fork, a block may be its parent's; of a program that samples itself, one that was left out.
        if self.ends.len() > MANY_ENDS && sample.time_ns.saturating_sub(self.pruned_ns) > PRUNING_NS {
            self.pruned_ns = sample.time_ns;
            let since_ns = sample.time_ns.saturating_sub(PATIENCE_NS);
            self.ends.retain(|_, ends| {
                ends.retain(|end_ns| *end_ns >= since_ns);
                !ends.is_empty()
            });
        }
        // The beginning of nearly all of them is not to come.
        if self.ends.len() < MOST_ENDS {
            self.ends.entry(key).or_default().push(sample.time_ns);
        }
    }

    /// A process has another program, or none: its blocks are gone.
    pub(crate) fn process_ended(&mut self, pid: u32, time_ns: u64, rows: &mut RowWriter<'_>) {
        if self.ended.len() > MANY_ENDS {
            self.ended.retain(|_, end_ns| *end_ns + PATIENCE_NS >= time_ns);
        }
        self.ended.insert(pid, time_ns);
        let of_process =
            self.live.iter().filter(|((tgid, _), block)| *tgid == pid && block.time_ns <= time_ns);
        let keys: Vec<BlockKey> = of_process.map(|(key, _)| *key).collect();
        for key in keys {
            if let Some(block) = self.take(&key) {
                self.store(key, block, Some(time_ns), rows);
            }
        }
    }

    /// Stores all blocks that are live, at the end of the recording.
    pub(crate) fn end(&mut self, rows: &mut RowWriter<'_>) {
        let mut live: Vec<(BlockKey, LiveBlock)> = self.live.drain().collect();
        live.sort_by_key(|(key, block)| (block.time_ns, *key));
        for (key, block) in live {
            self.store(key, block, None, rows);
        }
    }

    /// Stores those that have been live for a while by `now_ns`, each once, as live so far: a recorder that is killed stores no others.
    pub(crate) fn store_so_far(&mut self, now_ns: u64, rows: &mut RowWriter<'_>) {
        for (key, block) in &mut self.live {
            if block.is_in_file || now_ns.saturating_sub(block.time_ns) < SO_FAR_NS {
                continue;
            }
            block.is_in_file = true;
            let event = *self.so_far.get_or_insert_with(|| {
                let kind = EventKind::HEAP_SO_FAR;
                rows.profile.add_event(EventInfo { kind, ..EventInfo::default() })
            });
            let sample = sample_of(*key, block, None, rows);
            rows.profile.events[event.index()].push(sample);
        }
    }

    /// Whether none is live.
    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// The blocks that are live, as they would be stored.
    pub(crate) fn rows(&self, rows: &mut RowWriter<'_>) -> Vec<Sample> {
        self.live.iter().map(|(key, block)| sample_of(*key, block, None, rows)).collect()
    }

    /// Gives the stacks and sets of labels of live blocks new numbers.
    pub(crate) fn renumber(
        &mut self,
        mut renumber: impl FnMut(&mut Option<StackId>, &mut Option<LabelSetId>),
    ) {
        self.live.values_mut().for_each(|block| renumber(&mut block.stack, &mut block.labels));
    }

    fn store(&self, key: BlockKey, block: LiveBlock, end_ns: Option<u64>, rows: &mut RowWriter<'_>) {
        rows.totals.add(self.event, block.weight);
        *rows.totals.outcomes.entry(block.outcome).or_default() += 1;
        rows.totals.threads.insert((key.0, block.tid));
        if let Some(stack) = block.stack {
            *rows.totals.stacks.entry(stack).or_default() += 1;
        }
        let sample = sample_of(key, &block, end_ns, rows);
        rows.profile.events[self.event.index()].push(sample);
    }
}

/// The row of a block that is freed at `end_ns`, or not yet.
fn sample_of(key: BlockKey, block: &LiveBlock, end_ns: Option<u64>, rows: &mut RowWriter<'_>) -> Sample {
    let lifetime_ns = end_ns.map(|end_ns| end_ns.saturating_sub(block.time_ns));
    Sample {
        time_ns: block.time_ns.saturating_sub(rows.start_ns),
        task: rows.task(block.time_ns, (key.0, block.tid), &block.comm),
        stack: block.stack,
        weight: block.weight,
        cpu: block.cpu,
        outcome: block.outcome,
        wait: None,
        merged: None,
        block: Some(HeapBlock { size: block.size, lifetime_ns }),
        labels: block.labels,
    }
}

/// Bytes that a sampled block of `size` bytes is weighted as: where one of so many bytes is sampled, its size divided by the
/// chance that one of its bytes is.
fn weight(size: u64, chance: SamplingChance) -> u64 {
    let mean = match chance {
        SamplingChance::Mean(mean) => mean,
        SamplingChance::Weight(weight) => return weight.max(1),
    };
    let chance = -(-(size as f64) / mean.max(1) as f64).exp_m1();
    (size as f64 / chance).round() as u64
}

/// Takes the sampler's frames, and what is inside of them, off a stack, leaf first: the first one is that of the function that has
/// called the allocator. Where a function of an allocator calls another one, both have jumped to the sampler. Of a library that
/// samples blocks itself, whose path is among `libraries`, its own frames go that are inside of all others.
pub(super) fn leave_sampler(path: &mut Vec<FrameId>, tables: &Tables, libraries: &[String]) {
    let module_path = |frame: &FrameId| tables.string(tables.module(tables.frame(*frame).module).path);
    if let Some(last) = path.iter().rposition(|frame| SamplerImage::is_mapped_as(module_path(frame))) {
        path.drain(..=last);
    }
    let is_caller = |frame: &FrameId| !libraries.iter().any(|library| library == module_path(frame));
    if let Some(caller) = path.iter().position(is_caller) {
        path.drain(..caller);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Frame, Module};

    #[test]
    fn a_stack_begins_with_what_has_called_the_allocator() {
        let mut tables = Tables::default();
        let mut frame = |path: &str, address| {
            let path = tables.intern_string(path);
            let module = tables.intern_module(Module { path, ..Module::default() });
            tables.intern_frame(Frame { module, address, ..Frame::default() })
        };
        let sampler = [1, 2].map(|address| frame("/memfd:prof-heap (deleted)", address));
        let [calloc, waste] = [frame("/lib/ld-musl.so", 3), frame("/bin/app", 4)];
        // calloc calls malloc, which jumps to the sampler as calloc has.
        let mut path = vec![sampler[0], calloc, sampler[1], waste];
        leave_sampler(&mut path, &tables, &[]);
        assert_eq!(path, [waste]);
        leave_sampler(&mut path, &tables, &[]);
        assert_eq!(path, [waste]);
        let libraries = ["/lib/ld-musl.so".to_owned()];
        let mut path = vec![calloc, calloc, waste, calloc, waste];
        leave_sampler(&mut path, &tables, &libraries);
        assert_eq!(path, [waste, calloc, waste], "an allocator calls back");
        let mut path = vec![calloc];
        leave_sampler(&mut path, &tables, &libraries);
        assert_eq!(path, [calloc], "nothing else is known");
    }

    #[test]
    fn the_weight_of_a_block_is_its_size_divided_by_its_chance() {
        let mean = SamplingChance::Mean;
        assert_eq!(weight(64, mean(512 << 10)), (512 << 10) + 32, "nearly the mean");
        assert_eq!(weight(64 << 20, mean(512 << 10)), 64 << 20, "it is always sampled");
        assert_eq!(weight(1, mean(1)), 2);
        assert_eq!(weight(64, SamplingChance::Weight(4096)), 4096, "its program says so");
    }
}
