//! Sampled blocks in a collector.

use super::blocks::{BlockPart, LiveBlocks, leave_sampler};
use super::go_samples::GoHeapStep;
use crate::bpf::{BlockEvent, BlockStep, FRAME_RETURN, SampleEvent, SamplingChance};
use crate::profile::{ALLOCATED_BEFORE, EventInfo, EventKind, FrameId, Outcome, Sample};
use crate::record::collect::collector::Collector;
use crate::record::collect::row_writer::RowWriter;

/// Blocks that a look at a Go program has found begin at so many different times, ns.
const GO_BLOCKS_APART: u64 = 1 << 20;

impl Collector {
    /// Blocks of memory are sampled; `sampling` says by which rule, for people.
    pub(crate) fn add_heap(&mut self, sampling: String) {
        let info = EventInfo { kind: EventKind::HEAP, sampling, ..EventInfo::default() };
        self.blocks = Some(LiveBlocks::new(self.profile.add_event(info)));
    }

    /// Takes a record of a block that is freed; whether it is one.
    pub(crate) fn took_end_of_block(&mut self, sample: &SampleEvent) -> bool {
        let block = sample.block.filter(|block| block.step == BlockStep::Freed);
        if let Some(block) = block {
            self.with_blocks(|blocks, rows| blocks.freed(sample, block.address, rows));
        }
        block.is_some()
    }

    /// Takes the frames of the sampler off the path of a block's sample, leaf first.
    pub(crate) fn leave_sampler(&self, sample: &SampleEvent, path: &mut Vec<FrameId>) {
        if sample.block.is_some() {
            let libraries = self.blocks.as_ref().map_or(&[][..], LiveBlocks::libraries);
            leave_sampler(path, &self.profile.tables, libraries);
        }
    }

    /// Stores a block that was allocated, if the sample is of one.
    pub(crate) fn store_block(&mut self, sample: &SampleEvent, part: BlockPart) {
        if let Some(block) = &sample.block {
            self.with_blocks(|blocks, rows| blocks.allocated(sample, block, part, rows));
        }
    }

    /// Has `work` done with the blocks that are live, if they are sampled.
    fn with_blocks(&mut self, work: impl FnOnce(&mut LiveBlocks, &mut RowWriter<'_>)) {
        let Some(mut blocks) = self.blocks.take() else { return };
        work(&mut blocks, &mut self.rows());
        self.blocks = Some(blocks);
    }

    /// A process has another program, or none, from `time_ns` on.
    pub(crate) fn blocks_are_gone(&mut self, pid: u32, time_ns: u64) {
        self.with_blocks(|blocks, rows| blocks.process_ended(pid, time_ns, rows));
    }

    /// Stores blocks that have been live for a while, for a file whose recorder may be killed.
    pub(crate) fn store_blocks_so_far(&mut self, now_ns: u64) {
        self.with_blocks(|blocks, rows| blocks.store_so_far(now_ns, rows));
    }

    /// The blocks that are live now, as they would be stored; `None` if none are sampled.
    pub(crate) fn live_blocks(&mut self) -> Option<Vec<Sample>> {
        let blocks = self.blocks.take()?;
        let live = blocks.rows(&mut self.rows());
        self.blocks = Some(blocks);
        Some(live)
    }

    /// Stores what Go programs have allocated and freed by now; unless `is_last`, only where that was not read a moment ago.
    pub(crate) fn look_at_go_heap(&mut self, now_ns: u64, is_last: bool) {
        if self.go_heap.is_empty() {
            return;
        }
        let look = (now_ns, is_last);
        let steps = self.go_heap.look(look, &mut self.goroutines, (&self.processes, &self.files));
        for step in steps {
            self.store_go_step(&step, now_ns);
        }
    }

    fn store_go_step(&mut self, step: &GoHeapStep, now_ns: u64) {
        let Some(process) = self.processes.at_mut(step.pid, now_ns) else { return };
        let sample = SampleEvent {
            comm: process.comm.clone().into_bytes(),
            user: step.stack.iter().map(|address| address | FRAME_RETURN).collect(),
            ..SampleEvent::of_process(step.pid, now_ns)
        };
        let mut path = Vec::new();
        let trusted = self.user_stack(&sample).resolve(Outcome::Complete, &mut path);
        path.reverse();
        let stack = self.profile.tables.intern_stack_of(path);
        let before = || self.profile.tables.intern_labels(&[ALLOCATED_BEFORE]);
        let labels = step.is_from_before.then(before);
        let part = BlockPart { stack, outcome: trusted.outcome, labels };
        let mut allocated = SampleEvent { time_ns: step.since_ns, ..sample.clone() };
        self.with_blocks(|blocks, rows| {
            for &number in &step.allocated {
                // Blocks are told apart by their times, too.
                allocated.time_ns = now_ns.min(step.since_ns + number % GO_BLOCKS_APART);
                let block = BlockEvent {
                    step: BlockStep::Allocated,
                    address: number,
                    size: step.size,
                    chance: SamplingChance::Mean(step.mean),
                };
                blocks.allocated(&allocated, &block, part, rows);
            }
            for &number in &step.freed {
                blocks.freed(&sample, number, rows);
            }
        });
    }

    /// Stores the blocks that are live at the end.
    pub(crate) fn store_live_blocks(&mut self) {
        self.with_blocks(LiveBlocks::end);
    }
}
