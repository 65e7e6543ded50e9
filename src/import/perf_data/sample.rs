//! The fields of a sample, in the kernel's order (perf_event_open(2)).

use super::attributes::PerfAttribute;
use super::bytes::ByteCursor;
use perf_event_open_sys::bindings;

/// The fields of a sample that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PerfSample<'a> {
    pub(super) ip: u64,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) time_ns: Option<u64>,
    pub(super) cpu: u32,
    pub(super) period: Option<u64>,
    /// Callchain as eight-byte words, leaf first, with context markers.
    pub(super) chain: Option<&'a [u8]>,
    /// User instruction pointer, if user registers were recorded.
    pub(super) user_ip: Option<u64>,
    /// Registers and stack of user code, to be unwound later.
    pub(super) copy: Option<UserCopy<'a>>,
}

/// Registers and a copy of the stack of user code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UserCopy<'a> {
    /// Which of perf's registers there are.
    pub(super) register_mask: u64,
    /// Their values, eight bytes each.
    pub(super) registers: &'a [u8],
    /// The stack from the stack pointer on.
    pub(super) stack: &'a [u8],
    /// Whether as much was copied as was asked for.
    pub(super) is_whole: bool,
}

/// perf's number of the instruction pointer among the registers of x86-64, and of arm64.
pub(super) const X86_64_IP: u32 = 8;
pub(super) const AARCH64_PC: u32 = 32;

/// The same in files of this architecture, as uname calls it.
fn ip_register(architecture: &str) -> u32 {
    if architecture.starts_with("aarch64") { AARCH64_PC } else { X86_64_IP }
}

/// Registers are those of 64-bit code (`PERF_SAMPLE_REGS_ABI_64`).
const REGISTERS_OF_64_BITS: u64 = 2;

impl<'a> PerfSample<'a> {
    /// Parses the sample in `body`; `None` if it is cut or damaged.
    pub(super) fn parse(body: &'a [u8], attribute: &PerfAttribute, architecture: &str) -> Option<Self> {
        let mut cursor = ByteCursor(body);
        let mut sample = PerfSample::default();
        let has = |bit| attribute.has(bit);
        if has(bindings::PERF_SAMPLE_IDENTIFIER) {
            cursor.u64()?;
        }
        if has(bindings::PERF_SAMPLE_IP) {
            sample.ip = cursor.u64()?;
        }
        if has(bindings::PERF_SAMPLE_TID) {
            (sample.pid, sample.tid) = (cursor.u32()?, cursor.u32()?);
        }
        if has(bindings::PERF_SAMPLE_TIME) {
            sample.time_ns = Some(cursor.u64()?);
        }
        for bit in [bindings::PERF_SAMPLE_ADDR, bindings::PERF_SAMPLE_ID, bindings::PERF_SAMPLE_STREAM_ID] {
            if has(bit) {
                cursor.u64()?;
            }
        }
        if has(bindings::PERF_SAMPLE_CPU) {
            sample.cpu = cursor.u32()?;
            cursor.u32()?;
        }
        if has(bindings::PERF_SAMPLE_PERIOD) {
            sample.period = Some(cursor.u64()?);
        }
        if has(bindings::PERF_SAMPLE_READ) {
            skip_read(&mut cursor, attribute.read_format)?;
        }
        if has(bindings::PERF_SAMPLE_CALLCHAIN) {
            let length = cursor.u64()?;
            sample.chain = Some(cursor.words(length)?);
        }
        sample.after_chain(&mut cursor, attribute, ip_register(architecture))?;
        Some(sample)
    }

    /// Parses the fields after the callchain that are used.
    fn after_chain(&mut self, cursor: &mut ByteCursor<'a>, attribute: &PerfAttribute, ip: u32) -> Option<()> {
        if !attribute.has(bindings::PERF_SAMPLE_REGS_USER) {
            return Some(());
        }
        if attribute.has(bindings::PERF_SAMPLE_RAW) {
            let length = cursor.u32()?;
            cursor.take(length as usize)?;
        }
        if attribute.has(bindings::PERF_SAMPLE_BRANCH_STACK) {
            let count = cursor.u64()?;
            if attribute.branch_sample_type & u64::from(bindings::PERF_SAMPLE_BRANCH_HW_INDEX) != 0 {
                cursor.u64()?;
            }
            cursor.words(count.checked_mul(3)?)?;
            if attribute.branch_sample_type & u64::from(bindings::PERF_SAMPLE_BRANCH_COUNTERS) != 0 {
                cursor.words(count)?;
            }
        }
        let abi = cursor.u64()?;
        let mut registers = &[][..];
        if abi != 0 {
            registers = cursor.words(attribute.user_registers.count_ones().into())?;
            if attribute.user_registers >> ip & 1 != 0 {
                let before = (attribute.user_registers & ((1u64 << ip) - 1)).count_ones() as usize;
                self.user_ip = super::bytes::u64_at(registers, before * 8);
            }
        }
        if attribute.has(bindings::PERF_SAMPLE_STACK_USER) {
            let size = usize::try_from(cursor.u64()?).ok()?;
            if size > 0 {
                let (copied, filled) = (cursor.take(size)?, cursor.u64()?);
                let filled = size.min(usize::try_from(filled).unwrap_or(size));
                let is_whole = filled == size;
                self.copy = Some(match abi {
                    REGISTERS_OF_64_BITS => UserCopy {
                        register_mask: attribute.user_registers,
                        registers,
                        stack: &copied[..filled],
                        is_whole,
                    },
                    _ => UserCopy { register_mask: 0, registers: &[], stack: &[], is_whole },
                });
            }
        }
        Some(())
    }
}

/// Skips counter values that were read with the sample.
fn skip_read(cursor: &mut ByteCursor<'_>, format: u64) -> Option<()> {
    let has = |bit: u32| format & u64::from(bit) != 0;
    let times = [bindings::PERF_FORMAT_TOTAL_TIME_ENABLED, bindings::PERF_FORMAT_TOTAL_TIME_RUNNING];
    let times = times.iter().filter(|bit| has(**bit)).count() as u64;
    let each = 1 + u64::from(has(bindings::PERF_FORMAT_ID)) + u64::from(has(bindings::PERF_FORMAT_LOST));
    match has(bindings::PERF_FORMAT_GROUP) {
        true => {
            let count = cursor.u64()?;
            cursor.words(count.checked_mul(each)?.checked_add(times)?)?;
        }
        false => {
            cursor.words(times + each)?;
        }
    }
    Some(())
}
