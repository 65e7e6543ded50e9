//! Ring-buffer bytes as events. The bytes are not trusted: lengths are checked, headers copied out.

use super::block::{BLOCK_BYTES, BlockEvent};
use super::faulted_memory::FaultedMemory;
use super::futex::FutexWait;
use super::goroutine::{GOROUTINE_BYTES, SampleGoroutine};
use super::layout::{
    FRAME_MANAGED, LARGEST_RESCUE_BYTES, LEAF_FRAMES, MAX_USER_FRAMES, RED_ZONE_BYTES, REGISTERS,
    RESCUE_SIZES, number, prof_managed_frame, prof_rescue, prof_runtime_frame, prof_sample, prof_stack_copy,
};
use super::managed_frame::ManagedFrame;
use super::runtime_frame::{InterpreterFrame, InterpreterFrames};
use crate::bpf::fields::{DecodeError, RecordFields};
use crate::bpf::layout::prof_wait;
use crate::bpf::stack_bytes::StackBytes;
use crate::bpf::wait_event::{Account, WAIT_BYTES, WaitKind};
use std::mem::offset_of;

const SAMPLE_HEADER_BYTES: usize = size_of::<prof_sample>();
const RUNTIME_FRAME_BYTES: usize = size_of::<prof_runtime_frame>();
const MANAGED_FRAME_BYTES: usize = size_of::<prof_managed_frame>();
const RESCUE_HEADER_BYTES: usize = offset_of!(prof_rescue, stack);
/// DWARF number of the stack pointer.
const STACK_POINTER: usize = if cfg!(target_arch = "aarch64") { 31 } else { 7 };
const COPY_HEADER_BYTES: usize = offset_of!(prof_stack_copy, stack);

/// One sample as the kernel side sent it. Addresses are leaf first.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct SampleEvent {
    /// CLOCK_MONOTONIC, ns.
    pub(crate) time_ns: u64,
    /// Process id in the PID namespace of this process.
    pub(crate) tgid: u32,
    /// Thread id there.
    pub(crate) tid: u32,
    /// The CPU.
    pub(crate) cpu: u32,
    /// Which counter it is of, from 1; 0 for a running thread, or a wait.
    pub(crate) event: u8,
    /// Weight of a counter's sample: its sampling period.
    pub(crate) weight: u64,
    /// Outcome of the walk: one of [`super::outcome`].
    pub(crate) outcome: u8,
    /// A [`RescueEvent`] with the same time and CPU was sent.
    pub(crate) has_rescue: bool,
    /// A rescue was wanted and refused.
    pub(crate) rescue_refused: bool,
    /// Name of the thread, up to the first NUL.
    pub(crate) comm: Vec<u8>,
    /// Kernel addresses.
    pub(crate) kernel: Vec<u64>,
    /// User addresses with the marks `FRAME_RETURN` and `FRAME_BY_FP`.
    pub(crate) user: Vec<u64>,
    /// User frames that were left out after the first [`LEAF_FRAMES`] addresses; 0 if `user` is the whole stack.
    pub(crate) left_out: u32,
    /// Frames that an interpreter keeps apart from the native ones.
    pub(crate) interpreter: InterpreterFrames,
    /// Goroutine that the thread worked for.
    pub(crate) goroutine: SampleGoroutine,
    /// What runtimes know of user frames, leaf first.
    pub(crate) managed: Vec<ManagedFrame>,
    /// Of a page fault: the memory that it was in.
    pub(crate) memory: FaultedMemory,
    /// Number of the system call that was made, of the kernel's own table; `None` for other samples.
    pub(crate) system_call: Option<u16>,
    /// Wait of a sample by the sampler of waits; `None` for a sample of a running thread.
    pub(crate) wait: Option<Box<WaitEvent>>,
    /// Block of memory that was allocated or freed, of a probe of the sampler of allocations; `None` for other samples.
    pub(crate) block: Option<BlockEvent>,
}

impl SampleEvent {
    /// A sample of a process at a time, without frames.
    pub(crate) fn of_process(tgid: u32, time_ns: u64) -> Self {
        SampleEvent {
            time_ns,
            tgid,
            tid: tgid,
            cpu: 0,
            event: 0,
            weight: 0,
            outcome: 0,
            has_rescue: false,
            rescue_refused: false,
            comm: Vec::new(),
            kernel: Vec::new(),
            user: Vec::new(),
            left_out: 0,
            interpreter: InterpreterFrames::default(),
            goroutine: SampleGoroutine::None,
            managed: Vec::new(),
            memory: FaultedMemory::Unknown,
            system_call: None,
            wait: None,
            block: None,
        }
    }

    /// Decodes one record of the ring of blocks: a sample that has its block.
    pub(crate) fn decode_block(bytes: &[u8]) -> Result<Self, DecodeError> {
        let block = BlockEvent::decode(bytes)?;
        Ok(SampleEvent { block: Some(block), ..SampleEvent::decode(&bytes[BLOCK_BYTES..])? })
    }

    /// Decodes one record of a sample ring.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut at = RecordFields::of(bytes, SAMPLE_HEADER_BYTES)?;
        let header = bytes;
        let kernel_count = usize::from(at.u16(offset_of!(prof_sample, kernel_count)));
        let user_count = usize::from(at.u16(offset_of!(prof_sample, user_count)));
        let runtime_count = usize::from(at.u16(offset_of!(prof_sample, runtime_count)));
        let managed_count = usize::from(at.u16(offset_of!(prof_sample, managed_count)));
        let native_bytes = 8 * (kernel_count + user_count);
        let runtime_flags = header[offset_of!(prof_sample, runtime_flags)];
        let managed_bytes = MANAGED_FRAME_BYTES * managed_count;
        let frame_bytes = native_bytes + managed_bytes + RUNTIME_FRAME_BYTES * runtime_count;
        let expected = SAMPLE_HEADER_BYTES + frame_bytes + goroutine_bytes(runtime_flags);
        if bytes.len() != expected || user_count > MAX_USER_FRAMES {
            return Err(DecodeError::Length { expected, actual: bytes.len() });
        }
        let left_out = u32::from(at.u16(offset_of!(prof_sample, left_out)));
        if left_out > 0 && user_count != MAX_USER_FRAMES {
            return Err(DecodeError::LeftOut { left_out, user_count });
        }
        let mut rest = &bytes[SAMPLE_HEADER_BYTES..];
        let goroutine = SampleGoroutine::take(runtime_flags, &mut rest);
        let (native, runtimes) = rest.split_at(native_bytes);
        let (managed, interpreted) = runtimes.split_at(managed_bytes);
        let (kernel, user) = native.split_at(8 * kernel_count);
        let mut user: Vec<u64> = words(user).collect();
        let lacking = usize::from(at.u16(offset_of!(prof_sample, managed_left_out)));
        let managed = ManagedFrame::decode_all(managed, &user, left_out as usize, lacking);
        user.iter_mut().for_each(|raw| *raw &= !FRAME_MANAGED);
        if left_out > 0 {
            // The walker has written round and round the second half.
            user[LEAF_FRAMES..].rotate_left(left_out as usize % LEAF_FRAMES);
        }
        let flags = u64::from(header[offset_of!(prof_sample, flags)]);
        Ok(SampleEvent {
            time_ns: at.u64(offset_of!(prof_sample, time_ns)),
            tgid: at.u32(offset_of!(prof_sample, tgid)),
            tid: at.u32(offset_of!(prof_sample, tid)),
            cpu: at.u32(offset_of!(prof_sample, cpu)),
            event: header[offset_of!(prof_sample, event)],
            weight: at.u64(offset_of!(prof_sample, weight)),
            outcome: header[offset_of!(prof_sample, outcome)],
            has_rescue: flags & number::PROF_SAMPLE_RESCUE != 0,
            rescue_refused: flags & number::PROF_SAMPLE_RESCUE_REFUSED != 0,
            comm: at.text(offset_of!(prof_sample, comm)),
            kernel: words(kernel).collect(),
            user,
            left_out,
            interpreter: InterpreterFrames {
                flags: runtime_flags,
                frames: interpreted.chunks_exact(RUNTIME_FRAME_BYTES).map(InterpreterFrame::decode).collect(),
            },
            goroutine,
            managed,
            memory: FaultedMemory::of(header[offset_of!(prof_sample, memory)]),
            system_call: at.u16(offset_of!(prof_sample, call)).checked_sub(1),
            wait: None,
            block: None,
        })
    }
}

/// What a sample with these flags has of a goroutine, bytes.
fn goroutine_bytes(runtime_flags: u8) -> usize {
    let has_goroutine = u64::from(runtime_flags) & number::PROF_RUNTIME_HAS_GOROUTINE != 0;
    if has_goroutine { GOROUTINE_BYTES } else { 0 }
}

/// An unfinished walk and a copy of the stack above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RescueEvent {
    /// CLOCK_MONOTONIC, ns: that of the sample it belongs to.
    pub(crate) time_ns: u64,
    /// The CPU: that of the sample it belongs to.
    pub(crate) cpu: u32,
    /// Process id in the PID namespace of this process.
    pub(crate) tgid: u32,
    /// User frames of the sample that stay: those below the registers' frame.
    pub(crate) frames_before: usize,
    /// Whether all registers are known, or just rip, rsp and rbp.
    pub(crate) all_registers: bool,
    /// Whether rip is a return address.
    pub(crate) is_return: bool,
    /// Registers by DWARF number, then the program counter.
    pub(crate) registers: [u64; REGISTERS],
    /// Process address of the first byte of `stack`.
    pub(crate) start: u64,
    /// The stack.
    pub(crate) stack: StackBytes,
    /// Whether `stack` ends for its size, and not where memory could not be read.
    pub(crate) is_cut: bool,
    /// Bit n: the nth block of 4,096 bytes of the address space, counted from the one with the first byte, is not in
    /// `stack`, which has other bytes in its place.
    pub(crate) missing_blocks: [u64; 4],
    /// What is next to the root of the stack, where that is known besides.
    pub(crate) root: Option<StackRoot>,
}

/// Memory next to the root of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StackRoot {
    /// Process address of the first byte.
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

impl RescueEvent {
    /// Decodes one record of the rescue ring.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut at = RecordFields::of(bytes, RESCUE_HEADER_BYTES)?;
        let stack_bytes = at.u32(offset_of!(prof_rescue, stack_bytes)) as usize;
        if stack_bytes > LARGEST_RESCUE_BYTES || bytes.len() < RESCUE_HEADER_BYTES + stack_bytes {
            let expected = RESCUE_HEADER_BYTES + stack_bytes;
            return Err(DecodeError::Length { expected, actual: bytes.len() });
        }
        let registers: [u64; REGISTERS] =
            std::array::from_fn(|i| at.u64(offset_of!(prof_rescue, regs) + 8 * i));
        Ok(RescueEvent {
            time_ns: at.u64(offset_of!(prof_rescue, time_ns)),
            cpu: at.u32(offset_of!(prof_rescue, cpu)),
            tgid: at.u32(offset_of!(prof_rescue, tgid)),
            frames_before: usize::from(at.u16(offset_of!(prof_rescue, frames_before))),
            all_registers: bytes[offset_of!(prof_rescue, all_registers)] != 0,
            is_return: bytes[offset_of!(prof_rescue, is_return)] != 0,
            registers,
            start: registers[STACK_POINTER].wrapping_sub(RED_ZONE_BYTES),
            stack: StackBytes::copy_of(&bytes[RESCUE_HEADER_BYTES..][..stack_bytes]),
            is_cut: RESCUE_SIZES.contains(&stack_bytes),
            missing_blocks: std::array::from_fn(|i| at.u64(offset_of!(prof_rescue, missing_blocks) + 8 * i)),
            root: None,
        })
    }
}

/// The registers of a sample's leaf and the stack above them, sent with every sample when asked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StackCopyEvent {
    /// CLOCK_MONOTONIC, ns: that of the sample it belongs to.
    pub(crate) time_ns: u64,
    /// The CPU: that of the sample it belongs to.
    pub(crate) cpu: u32,
    /// Whether rip is after a system call instruction.
    pub(crate) is_return: bool,
    /// Registers by DWARF number 0..=15, then rip.
    pub(crate) registers: [u64; REGISTERS],
    /// Process address of the first byte of `stack`.
    pub(crate) start: u64,
    /// Blocks that could not be read, like [`RescueEvent::missing_blocks`].
    pub(crate) missing_blocks: [u64; 4],
    /// The stack.
    pub(crate) stack: StackBytes,
}

impl StackCopyEvent {
    /// Decodes one record of the ring of stack copies.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut at = RecordFields::of(bytes, COPY_HEADER_BYTES)?;
        let stack_bytes = at.u32(offset_of!(prof_stack_copy, stack_bytes)) as usize;
        let expected = COPY_HEADER_BYTES + stack_bytes;
        let stack = bytes.get(COPY_HEADER_BYTES..expected);
        let stack = stack.ok_or(DecodeError::Length { expected, actual: bytes.len() })?;
        Ok(StackCopyEvent {
            time_ns: at.u64(offset_of!(prof_stack_copy, time_ns)),
            cpu: at.u32(offset_of!(prof_stack_copy, cpu)),
            is_return: at.u64(offset_of!(prof_stack_copy, is_return)) != 0,
            registers: std::array::from_fn(|i| at.u64(offset_of!(prof_stack_copy, regs) + 8 * i)),
            start: at.u64(offset_of!(prof_stack_copy, start)),
            missing_blocks: std::array::from_fn(|i| {
                at.u64(offset_of!(prof_stack_copy, missing_blocks) + 8 * i)
            }),
            stack: StackBytes::copy_of(stack),
        })
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| {
        let mut out = [0; 8];
        out.copy_from_slice(word);
        u64::from_ne_bytes(out)
    })
}

/// Part of a record of the ring of waits besides its sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitEvent {
    /// Kind of record.
    pub(crate) kind: WaitKind,
    /// Who ended the wait, 0 for a thread outside of the PID namespace; of [`WaitKind::Waker`] the thread that was woken.
    pub(crate) other_tid: u32,
    /// Process of `other_tid`.
    pub(crate) other_tgid: u32,
    /// Name of `other_tid`, up to the first NUL.
    pub(crate) other_comm: Vec<u8>,
    /// `enum prof_waker`.
    pub(crate) waker: u8,
    /// `enum prof_reason` of the blocked part.
    pub(crate) reason: u8,
    /// Futex that the thread slept on; of [`WaitKind::Ended`], [`WaitKind::Open`] and [`WaitKind::Still`].
    pub(crate) futex: Option<FutexWait>,
    /// Start of the wait, CLOCK_MONOTONIC, ns.
    pub(crate) start_ns: u64,
    /// End of the blocked part, CLOCK_MONOTONIC, ns; `start_ns` if there was none.
    pub(crate) wake_ns: u64,
    /// End of the wait, CLOCK_MONOTONIC, ns.
    pub(crate) end_ns: u64,
    /// Weight of the blocked part, ns; 0 if it was dropped by sampling.
    pub(crate) blocked_weight: u64,
    /// Weight of the rest, ns; 0 if it was dropped by sampling.
    pub(crate) no_cpu_weight: u64,
    /// The thread's account when the wait ended; of [`WaitKind::Ended`].
    pub(crate) account: Account,
}

impl WaitEvent {
    /// Decodes one record of the ring of waits: a sample that has its wait.
    pub(crate) fn decode(bytes: &[u8]) -> Result<SampleEvent, DecodeError> {
        let mut at = RecordFields::of(bytes, WAIT_BYTES)?;
        let kind = match u64::from(at.u32(offset_of!(prof_wait, kind))) {
            number::PROF_WAIT_ENDED => WaitKind::Ended,
            number::PROF_WAIT_OPEN => WaitKind::Open,
            number::PROF_WAIT_WAKER => WaitKind::Waker,
            number::PROF_WAIT_STACK => WaitKind::Stack,
            number::PROF_WAIT_STILL => WaitKind::Still,
            kind => return Err(DecodeError::Kind(kind as u32)),
        };
        let wait = WaitEvent {
            kind,
            other_tid: at.u32(offset_of!(prof_wait, other_tid)),
            other_tgid: at.u32(offset_of!(prof_wait, other_tgid)),
            other_comm: at.text(offset_of!(prof_wait, other_comm)),
            waker: bytes[offset_of!(prof_wait, waker)],
            reason: bytes[offset_of!(prof_wait, reason)],
            futex: FutexWait::of(bytes[offset_of!(prof_wait, futex)], at.u64(offset_of!(prof_wait, lock))),
            start_ns: at.u64(offset_of!(prof_wait, start_ns)),
            wake_ns: at.u64(offset_of!(prof_wait, wake_ns)),
            end_ns: at.u64(offset_of!(prof_wait, end_ns)),
            blocked_weight: at.u64(offset_of!(prof_wait, blocked_weight)),
            no_cpu_weight: at.u64(offset_of!(prof_wait, no_cpu_weight)),
            account: Account {
                on_cpu_ns: at.u64(offset_of!(prof_wait, on_cpu_ns)),
                no_cpu_ns: at.u64(offset_of!(prof_wait, no_cpu_ns)),
                blocked_ns: at.u64(offset_of!(prof_wait, blocked_ns)),
            },
        };
        let mut sample = SampleEvent::decode(&bytes[WAIT_BYTES..])?;
        sample.wait = Some(Box::new(wait));
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_bytes(kernel: &[u64], user: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; SAMPLE_HEADER_BYTES];
        bytes[0..8].copy_from_slice(&77u64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&10u32.to_ne_bytes());
        bytes[12..16].copy_from_slice(&11u32.to_ne_bytes());
        bytes[20..22].copy_from_slice(&(kernel.len() as u16).to_ne_bytes());
        bytes[22..24].copy_from_slice(&(user.len() as u16).to_ne_bytes());
        bytes[24] = 1;
        bytes[26..30].copy_from_slice(b"name");
        for address in kernel.iter().chain(user) {
            bytes.extend_from_slice(&address.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn a_sample_is_its_header_and_its_two_stacks() {
        let event = SampleEvent::decode(&sample_bytes(&[1, 2], &[3, 4, 5])).expect("well formed");
        assert_eq!((event.time_ns, event.tgid, event.tid), (77, 10, 11));
        assert_eq!(event.comm, b"name");
        assert_eq!((event.kernel, event.user), (vec![1, 2], vec![3, 4, 5]));
    }

    #[test]
    fn the_ring_of_a_deep_stack_is_put_in_order() {
        // As the walker stores 1,324 frames: the second half holds 812..1324, round and round.
        let mut user: Vec<u64> = (0..1024).collect();
        for frame in 512..1324u64 {
            user[512 + frame as usize % 512] = frame;
        }
        let mut bytes = sample_bytes(&[], &user);
        bytes[44..46].copy_from_slice(&300u16.to_ne_bytes());
        let event = SampleEvent::decode(&bytes).expect("a whole record");
        assert_eq!(event.left_out, 300);
        assert!(event.user.iter().copied().eq((0..512).chain(812..1324)));
        bytes[22..24].copy_from_slice(&1023u16.to_ne_bytes());
        assert!(SampleEvent::decode(&bytes[..bytes.len() - 8]).is_err(), "left out, but not full");
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let bytes = sample_bytes(&[1], &[2]);
        for cut in 0..bytes.len() {
            assert!(SampleEvent::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        let mut long = bytes.clone();
        long.push(0);
        assert!(SampleEvent::decode(&long).is_err());
        assert!(RescueEvent::decode(&[0; 100]).is_err());
        let mut rescue = vec![0u8; RESCUE_HEADER_BYTES + 8];
        rescue[16..20].copy_from_slice(&9u32.to_ne_bytes());
        assert!(RescueEvent::decode(&rescue).is_err(), "says 9 bytes of stack, has 8");
        let mut copy = vec![0u8; COPY_HEADER_BYTES + 8];
        copy[12..16].copy_from_slice(&8u32.to_ne_bytes());
        assert_eq!(StackCopyEvent::decode(&copy).map(|copy| copy.stack.len()), Ok(8));
        copy[12..16].copy_from_slice(&9u32.to_ne_bytes());
        assert!(StackCopyEvent::decode(&copy).is_err(), "says 9 bytes of stack, has 8");
    }
}
