//! Records of events of tasks as values. Their bytes are not trusted. Layouts: `enum perf_event_type` in
//! include/uapi/linux/perf_event.h; every event here asks for [`SAMPLE_TYPE`], and for kernel stacks or not.

use super::functions::ReadFunctions;
use crate::bpf::{REGISTERS, StackBytes};
use crate::elf::Architecture;
use crate::record::kernel::sideband::{self, Sideband};
use crate::unwind::arch::perf_registers::{PerfRegister, lacks_unsaved};
use perf_event_open_sys::bindings;

/// What every sample has. The other records end with the same facts of who and when (`sample_id_all`).
pub(super) const SAMPLE_TYPE: u64 = bindings::PERF_SAMPLE_IDENTIFIER as u64
    | bindings::PERF_SAMPLE_TID as u64
    | bindings::PERF_SAMPLE_TIME as u64
    | bindings::PERF_SAMPLE_CPU as u64
    | bindings::PERF_SAMPLE_PERIOD as u64
    | bindings::PERF_SAMPLE_REGS_USER as u64
    | bindings::PERF_SAMPLE_STACK_USER as u64;

/// Bytes at the end of all records but samples: process and thread, time, CPU, number of the event.
const ID_BYTES: usize = 32;
/// The last of them, which records of the side-band do not have elsewhere.
const OWN_ID_BYTES: usize = 16;
/// Marks between addresses of a callchain are above this (`enum perf_callchain_context`).
const FIRST_CONTEXT: u64 = u64::MAX - 4095;
/// Set in `misc` of a switch: the thread leaves the CPU, and would have gone on.
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// A record, with its time: CLOCK_MONOTONIC, ns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TimedRecord {
    pub(super) time_ns: u64,
    pub(super) tgid: u32,
    pub(super) tid: u32,
    pub(super) cpu: u32,
    pub(super) what: RecordOf,
}

/// What a record tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecordOf {
    /// An event has taken a sample.
    Sample(Box<CopiedSample>),
    /// The thread has come on the CPU.
    SwitchIn,
    /// The thread has left the CPU.
    SwitchOut {
        /// It would have gone on.
        is_preempted: bool,
    },
    /// A thread was born.
    Born {
        /// Process and thread.
        child: (u32, u32),
        /// The thread that has made it.
        parent_tid: u32,
        /// The same for the side-band.
        record: Sideband,
    },
    /// A thread has ended.
    Ended {
        /// Process and thread.
        thread: (u32, u32),
    },
    /// A thread has another name.
    Named {
        /// The name.
        comm: String,
        /// The same for the side-band.
        record: Sideband,
    },
    /// Something else has happened to a process.
    Side(Sideband),
    /// This many records did not fit into the ring.
    Lost(u64),
    /// The kernel stops an event for a while, since it came too often.
    Throttled,
    /// The event goes on.
    Unthrottled,
}

/// A sample with registers and a copy of the stack of user code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CopiedSample {
    /// Number of the event.
    pub(super) id: u64,
    pub(super) period: u64,
    /// Kernel addresses, leaf first.
    pub(super) kernel: Vec<u64>,
    pub(super) user: CopiedUser,
    /// Functions that an interpreter ran at the time of the sample, if they were read then.
    pub(super) functions: Option<ReadFunctions>,
}

/// The beginning of a sample: who was sampled, and what is next to the leaf of its stack.
#[derive(Debug)]
pub(super) struct SampleHead<'a> {
    pub(super) tgid: u32,
    pub(super) tid: u32,
    pub(super) time_ns: u64,
    /// By DWARF number, then the program counter.
    pub(super) registers: [u64; REGISTERS],
    /// From the stack pointer on, as far as the bytes go.
    pub(super) stack: &'a [u8],
    /// Bytes of stack that the sample has, at the most.
    pub(super) copy_bytes: u64,
}

/// The user part of a sample.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CopiedUser {
    /// There is none.
    None,
    /// It is of a 32-bit program.
    Narrow,
    /// Registers and stack.
    Copy {
        /// By DWARF number, then the program counter.
        registers: [u64; REGISTERS],
        /// Or just program counter, stack pointer and frame pointer.
        all_registers: bool,
        /// From the stack pointer on.
        stack: StackBytes,
        /// It ends for its size.
        is_cut: bool,
    },
}

/// Whether a record is a sample, by its type.
pub(super) fn is_sample(kind: u32) -> bool {
    kind == bindings::PERF_RECORD_SAMPLE
}

/// Takes fields off the front of a record.
struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_ne_bytes)
    }
}

/// Decodes one record: its type, misc bits and the bytes after the head. `None` for one that is damaged, or means nothing here.
pub(super) fn decode(kind: u32, misc: u16, bytes: &[u8], has_chain: bool) -> Option<TimedRecord> {
    if kind == bindings::PERF_RECORD_SAMPLE {
        return sample(bytes, has_chain);
    }
    let (body, id) = bytes.split_at_checked(bytes.len().checked_sub(ID_BYTES)?)?;
    let mut id = FieldReader(id);
    let (tgid, tid, time_ns, cpu) = (id.u32()?, id.u32()?, id.u64()?, id.u32()?);
    let what = match kind {
        bindings::PERF_RECORD_SWITCH | bindings::PERF_RECORD_SWITCH_CPU_WIDE => {
            match misc & MISC_SWITCH_OUT != 0 {
                true => RecordOf::SwitchOut { is_preempted: misc & MISC_SWITCH_OUT_PREEMPT != 0 },
                false => RecordOf::SwitchIn,
            }
        }
        bindings::PERF_RECORD_LOST => {
            let mut body = FieldReader(body);
            body.u64()?;
            RecordOf::Lost(body.u64()?)
        }
        bindings::PERF_RECORD_THROTTLE => RecordOf::Throttled,
        bindings::PERF_RECORD_UNTHROTTLE => RecordOf::Unthrottled,
        _ => of_process(kind, misc, bytes)?,
    };
    Some(TimedRecord { time_ns, tgid, tid, cpu, what })
}

/// What has happened to a process or thread.
fn of_process(kind: u32, misc: u16, bytes: &[u8]) -> Option<RecordOf> {
    let (_, record) = sideband::decode(kind, misc, &bytes[..bytes.len() - OWN_ID_BYTES])?;
    let mut body = FieldReader(bytes);
    Some(match (kind, &record) {
        // Process, its parent, thread, its parent.
        (bindings::PERF_RECORD_FORK | bindings::PERF_RECORD_EXIT, _) => {
            let (pid, _, tid, parent_tid) = (body.u32()?, body.u32()?, body.u32()?, body.u32()?);
            match kind {
                bindings::PERF_RECORD_FORK => RecordOf::Born { child: (pid, tid), parent_tid, record },
                _ => RecordOf::Ended { thread: (pid, tid) },
            }
        }
        (_, Sideband::Named { comm, .. }) => RecordOf::Named { comm: comm.clone(), record },
        _ => RecordOf::Side(record),
    })
}

/// A sample: its fields are in the kernel's order.
fn sample(bytes: &[u8], has_chain: bool) -> Option<TimedRecord> {
    let mut fields = FieldReader(bytes);
    let id = fields.u64()?;
    let (tgid, tid, time_ns) = (fields.u32()?, fields.u32()?, fields.u64()?);
    let (cpu, _) = (fields.u32()?, fields.u32()?);
    let period = fields.u64()?;
    let mut kernel = Vec::new();
    if has_chain {
        let addresses = fields.u64()?;
        let bytes = usize::try_from(addresses.checked_mul(8)?).ok()?;
        let mut chain = FieldReader(fields.take(bytes)?);
        kernel.extend(std::iter::from_fn(|| chain.u64()).filter(|address| *address < FIRST_CONTEXT));
    }
    let user = user(&mut fields)?;
    let what = RecordOf::Sample(Box::new(CopiedSample { id, period, kernel, user, functions: None }));
    Some(TimedRecord { time_ns, tgid, tid, cpu, what })
}

/// What is next to the leaf of a sample of 64-bit user code, of which the end may be missing.
pub(super) fn head(bytes: &[u8], has_chain: bool) -> Option<SampleHead<'_>> {
    let mut fields = FieldReader(bytes);
    fields.u64()?;
    let (tgid, tid, time_ns) = (fields.u32()?, fields.u32()?, fields.u64()?);
    fields.take(16)?;
    if has_chain {
        let addresses = usize::try_from(fields.u64()?).ok()?;
        fields.take(addresses.checked_mul(8)?)?;
    }
    let (abi, registers) = registers(&mut fields)?;
    let copy_bytes = fields.u64()?;
    let size = usize::try_from(copy_bytes).ok()?;
    let stack = fields.0.get(..size.min(fields.0.len()))?;
    let is_wide = abi == u64::from(bindings::PERF_SAMPLE_REGS_ABI_64);
    is_wide.then_some(SampleHead { tgid, tid, time_ns, registers, stack, copy_bytes })
}

/// Registers of a sample, and whose they are (`enum perf_sample_regs_abi`).
fn registers(fields: &mut FieldReader<'_>) -> Option<(u64, [u64; REGISTERS])> {
    const HOST: Architecture = Architecture::HOST;
    let abi = fields.u64()?;
    let mut registers = [0; REGISTERS];
    if abi != u64::from(bindings::PERF_SAMPLE_REGS_ABI_NONE) {
        let mask = PerfRegister::walk_mask(HOST);
        for number in (0..u64::BITS).filter(|number| mask >> number & 1 != 0) {
            let value = fields.u64()?;
            match PerfRegister::of(HOST, number) {
                PerfRegister::General(dwarf) => registers[usize::from(dwarf)] = value,
                PerfRegister::ProgramCounter => registers[REGISTERS - 1] = value,
                PerfRegister::Other => {}
            }
        }
    }
    Some((abi, registers))
}

/// Registers and stack of a sample.
fn user(fields: &mut FieldReader<'_>) -> Option<CopiedUser> {
    let (abi, registers) = registers(fields)?;
    let size = usize::try_from(fields.u64()?).ok()?;
    let mut stack = &[][..];
    let mut is_cut = false;
    if size > 0 {
        let room = fields.take(size)?;
        let copied = usize::try_from(fields.u64()?).ok()?.min(size);
        stack = &room[..copied];
        is_cut = copied == size;
    }
    if abi == u64::from(bindings::PERF_SAMPLE_REGS_ABI_32) {
        return Some(CopiedUser::Narrow);
    }
    if abi == u64::from(bindings::PERF_SAMPLE_REGS_ABI_NONE) {
        return Some(CopiedUser::None);
    }
    let all_registers =
        !lacks_unsaved(Architecture::HOST, |number| registers.get(usize::from(number)).copied());
    Some(CopiedUser::Copy { registers, all_registers, stack: StackBytes::copy_of(stack), is_cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: [u64; 4] = [8 << 32 | 7, 500, 1, 77];

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn sample_bytes(copied: u64) -> Vec<u8> {
        // Number of the event, process 7 and thread 8, time, CPU 1, period, two kernel addresses behind their mark.
        let mut words = vec![77, 8 << 32 | 7, 500, 1, 1000, 3, u64::MAX - 127, 0xffff_8000, 0xffff_9000];
        words.push(2);
        words.extend(100..100 + u64::from(PerfRegister::walk_mask(Architecture::HOST).count_ones()));
        words.extend([16, 1, 2, copied]);
        bytes(&words)
    }

    #[test]
    fn a_sample_has_registers_by_dwarf_number_and_as_much_stack_as_was_copied() {
        let record = decode(bindings::PERF_RECORD_SAMPLE, 0, &sample_bytes(8), true).expect("a sample");
        assert_eq!((record.time_ns, record.tgid, record.tid, record.cpu), (500, 7, 8, 1));
        let RecordOf::Sample(sample) = record.what else { panic!("{record:?}") };
        assert_eq!((sample.id, sample.period), (77, 1000));
        assert_eq!(sample.kernel, [0xffff_8000, 0xffff_9000], "without the mark");
        let CopiedUser::Copy { registers, all_registers, stack, is_cut } = sample.user else { panic!() };
        assert_eq!((stack, is_cut, all_registers), (bytes(&[1]).into(), false, true));
        if cfg!(target_arch = "x86_64") {
            // ax, dx, cx, bx, si, di, bp, sp, r8 to r15, ip: perf has bx second, and ip before r8.
            let expected =
                [100, 103, 102, 101, 104, 105, 106, 107, 109, 110, 111, 112, 113, 114, 115, 116, 108];
            assert_eq!(registers[..], expected);
        }
        let bytes = sample_bytes(8);
        let head = head(&bytes[..bytes.len() - 12], true).expect("without its end");
        assert_eq!((head.tgid, head.tid, head.time_ns, head.registers), (7, 8, 500, registers));
        assert_eq!(head.stack, &bytes[bytes.len() - 24..bytes.len() - 12]);
        let whole = decode(bindings::PERF_RECORD_SAMPLE, 0, &sample_bytes(16), true).expect("a sample");
        let RecordOf::Sample(sample) = whole.what else { panic!("no sample") };
        assert!(matches!(sample.user, CopiedUser::Copy { is_cut: true, .. }), "as much as was asked for");
    }

    #[test]
    fn damaged_samples_are_none() {
        let whole = sample_bytes(8);
        for cut in 0..whole.len() {
            assert_eq!(decode(bindings::PERF_RECORD_SAMPLE, 0, &whole[..cut], true), None, "{cut}");
        }
        let mut odd = whole;
        odd[40..48].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(decode(bindings::PERF_RECORD_SAMPLE, 0, &odd, true), None, "a chain of 2^64 addresses");
    }

    #[test]
    fn switches_say_who_and_whether_it_would_have_gone_on() {
        let switch =
            |misc| decode(bindings::PERF_RECORD_SWITCH, misc, &bytes(&TAIL), false).map(|it| it.what);
        assert_eq!(switch(0), Some(RecordOf::SwitchIn));
        assert_eq!(switch(MISC_SWITCH_OUT), Some(RecordOf::SwitchOut { is_preempted: false }));
        let preempted = MISC_SWITCH_OUT | MISC_SWITCH_OUT_PREEMPT;
        assert_eq!(switch(preempted), Some(RecordOf::SwitchOut { is_preempted: true }));
        assert_eq!(decode(bindings::PERF_RECORD_SWITCH, 0, &bytes(&TAIL[1..]), false), None, "cut");
    }

    #[test]
    fn births_and_ends_are_of_threads() {
        let record = |kind| {
            let body = bytes(&[[1 << 32 | 9, 8 << 32 | 10, 400].as_slice(), &TAIL].concat());
            decode(kind, 0, &body, false).map(|it| it.what)
        };
        let Some(RecordOf::Born { child, parent_tid, .. }) = record(bindings::PERF_RECORD_FORK) else {
            panic!("no birth");
        };
        assert_eq!((child, parent_tid), ((9, 10), 8));
        assert_eq!(record(bindings::PERF_RECORD_EXIT), Some(RecordOf::Ended { thread: (9, 10) }));
        let lost = decode(bindings::PERF_RECORD_LOST, 0, &bytes(&[&[77, 3], &TAIL[..]].concat()), false);
        assert_eq!(lost.map(|it| it.what), Some(RecordOf::Lost(3)));
    }
}
