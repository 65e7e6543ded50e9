//! Rescues whose tables are still being compiled.

use crate::bpf::{RescueEvent, SampleEvent, StackBytes};

/// A rescue waits this long for a table, ns. On a crowded machine the largest tables take seconds.
pub(crate) const PATIENCE_NS: u64 = 10_000_000_000;
/// Most bytes of packed stack copies that wait at a time.
const MAX_BYTES: usize = 48 << 20;
/// Stack copies are mostly small numbers and addresses that are like each other: the least effort takes most of it.
const COMPRESSION_LEVEL: i32 = 1;

/// A sample and the copy of its stack, which is packed.
#[derive(Debug)]
struct Packed {
    sample: SampleEvent,
    /// Without the stack.
    rescue: RescueEvent,
    stack: Vec<u8>,
    stack_bytes: usize,
}

/// Samples with copies of their stacks, in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct WaitingRescues {
    packed: Vec<Packed>,
    bytes: usize,
}

impl WaitingRescues {
    /// Whether there is room for another one.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < MAX_BYTES
    }

    /// Keeps a rescue for later.
    pub(crate) fn keep(&mut self, sample: SampleEvent, mut rescue: RescueEvent) {
        let stack_bytes = rescue.stack.len();
        // Nothing in a stack makes packing fail; an empty copy would only cut the stack.
        let stack = zstd::bulk::compress(&rescue.stack, COMPRESSION_LEVEL).unwrap_or_default();
        rescue.stack = StackBytes::default();
        self.bytes += stack.len();
        self.packed.push(Packed { sample, rescue, stack, stack_bytes });
    }

    /// Takes out all of them, one after the other.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (SampleEvent, RescueEvent)> + use<> {
        self.bytes = 0;
        std::mem::take(&mut self.packed).into_iter().map(
            |Packed { sample, mut rescue, stack, stack_bytes }| {
                // It was packed here, so it can be unpacked.
                rescue.stack = zstd::bulk::decompress(&stack, stack_bytes).unwrap_or_default().into();
                (sample, rescue)
            },
        )
    }

    /// The one that has waited longest.
    pub(crate) fn first(&self) -> Option<&SampleEvent> {
        self.packed.first().map(|packed| &packed.sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::REGISTERS;

    fn sample() -> SampleEvent {
        SampleEvent {
            time_ns: 1,
            tgid: 1,
            tid: 1,
            cpu: 0,
            event: 0,
            weight: 0,
            outcome: 0,
            has_rescue: true,
            rescue_refused: false,
            comm: Vec::new(),
            kernel: Vec::new(),
            user: Vec::new(),
            left_out: 0,
            interpreter: Default::default(),
            goroutine: Default::default(),
            managed: Vec::new(),
            memory: Default::default(),
            system_call: None,
            wait: None,
            block: None,
        }
    }

    fn with_stack(stack: Vec<u8>) -> RescueEvent {
        RescueEvent {
            time_ns: 1,
            cpu: 0,
            tgid: 1,
            frames_before: 0,
            all_registers: true,
            is_return: false,
            registers: [0; REGISTERS],
            start: 0,
            stack: stack.into(),
            is_cut: false,
            missing_blocks: [0; 4],
            root: None,
        }
    }

    /// A stack with nothing in it that could be packed (the words are those of splitmix64).
    fn rescue(seed: u64, bytes: usize) -> RescueEvent {
        let word = |index: u64| {
            let mut z = (seed << 20 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let stack = (0..bytes as u64 / 8).flat_map(|index| word(index).to_le_bytes()).collect();
        with_stack(stack)
    }

    #[test]
    fn what_is_taken_is_what_was_kept() {
        let mut waiting = WaitingRescues::default();
        for seed in 1..20 {
            waiting.keep(sample(), rescue(seed, 1000 * seed as usize));
        }
        let taken: Vec<_> = waiting.take().map(|(_, rescue)| rescue).collect();
        let kept: Vec<_> = (1..20).map(|seed| rescue(seed, 1000 * seed as usize)).collect();
        assert_eq!(taken, kept);
        assert!(waiting.first().is_none() && waiting.take().next().is_none());
    }

    #[test]
    fn no_more_than_there_is_room_for_is_kept_and_zeros_take_little() {
        let mut waiting = WaitingRescues::default();
        let is_kept = |waiting: &mut WaitingRescues, rescue| {
            let has_room = waiting.has_room();
            if has_room {
                waiting.keep(sample(), rescue);
            }
            has_room
        };
        let most = MAX_BYTES / 65536;
        let kept = (0..2 * most as u64).filter(|seed| is_kept(&mut waiting, rescue(seed + 1, 65536))).count();
        assert!((most - 10..=most + 1).contains(&kept), "{kept} of {most}");
        assert_eq!(waiting.take().count(), kept);
        let zeros = || with_stack(vec![0; 65536]);
        assert!((0..4 * most).all(|_| is_kept(&mut waiting, zeros())));
    }
}
