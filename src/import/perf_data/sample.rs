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
    /// Whether the user stack was copied, to be unwound later.
    pub(super) has_stack_copy: bool,
}

/// Index of the instruction pointer among perf's registers on the architecture of the file.
fn ip_register(architecture: &str) -> u32 {
    if architecture.starts_with("aarch64") { 32 } else { 8 }
}

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
    fn after_chain(&mut self, cursor: &mut ByteCursor<'_>, attribute: &PerfAttribute, ip: u32) -> Option<()> {
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
        }
        if cursor.u64()? != 0 {
            let registers = cursor.words(attribute.user_registers.count_ones().into())?;
            if attribute.user_registers >> ip & 1 != 0 {
                let before = (attribute.user_registers & ((1u64 << ip) - 1)).count_ones() as usize;
                self.user_ip = super::bytes::u64_at(registers, before * 8);
            }
        }
        if attribute.has(bindings::PERF_SAMPLE_STACK_USER) {
            self.has_stack_copy = cursor.u64()? > 0;
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
