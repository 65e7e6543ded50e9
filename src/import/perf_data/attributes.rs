//! Description of an event and the layout of its samples: perf_event_attr (perf_event_open(2)).

use super::bytes::ByteCursor;
use perf_event_open_sys::bindings;

/// An event of a file.
#[derive(Debug, Clone, Default)]
pub(super) struct PerfAttribute {
    /// Sampling period, or the frequency, Hz, if `is_frequency`.
    pub(super) rate: u64,
    pub(super) is_frequency: bool,
    /// Fields of samples: bits of PERF_SAMPLE_*.
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) branch_sample_type: u64,
    pub(super) user_registers: u64,
    /// Whether records other than samples end in thread, time and other sample fields.
    pub(super) has_sample_id: bool,
    pub(super) name: String,
    pub(super) ids: Vec<u64>,
}

/// Bits of the flags of perf_event_attr.
const FLAG_FREQUENCY: u64 = 1 << 10;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;

/// Length of the first version of the structure, bytes.
const FIRST_VERSION_BYTES: u32 = 64;

/// Fields at the end of records other than samples, in order.
const SAMPLE_ID_FIELDS: [u64; 6] = [
    bindings::PERF_SAMPLE_TID as u64,
    bindings::PERF_SAMPLE_TIME as u64,
    bindings::PERF_SAMPLE_ID as u64,
    bindings::PERF_SAMPLE_STREAM_ID as u64,
    bindings::PERF_SAMPLE_CPU as u64,
    bindings::PERF_SAMPLE_IDENTIFIER as u64,
];

impl PerfAttribute {
    /// Parses the attribute at the start of `bytes`; returns it with its length.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut cursor = ByteCursor(bytes);
        let source = cursor.u32()?;
        let size = cursor.u32()?;
        if size < FIRST_VERSION_BYTES || size as usize > bytes.len() {
            return None;
        }
        let mut cursor = ByteCursor(bytes.get(8..size as usize)?);
        let config = cursor.u64()?;
        let rate = cursor.u64()?;
        let sample_type = cursor.u64()?;
        let read_format = cursor.u64()?;
        let flags = cursor.u64()?;
        // Skips the fields for wake-ups and breakpoints.
        cursor.take(16)?;
        cursor.u64();
        let branch_sample_type = cursor.u64().unwrap_or(0);
        let user_registers = cursor.u64().unwrap_or(0);
        let attribute = PerfAttribute {
            rate,
            is_frequency: flags & FLAG_FREQUENCY != 0,
            sample_type,
            read_format,
            branch_sample_type,
            user_registers,
            has_sample_id: flags & FLAG_SAMPLE_ID_ALL != 0,
            name: name_of(source, config),
            ids: Vec::new(),
        };
        Some((attribute, size as usize))
    }

    /// Whether samples have this field.
    pub(super) fn has(&self, bit: u32) -> bool {
        self.sample_type & u64::from(bit) != 0
    }

    /// Offset of a field from the end of records other than samples, bytes.
    fn place_from_end(&self, field: u64) -> Option<usize> {
        if !self.has_sample_id || self.sample_type & field == 0 {
            return None;
        }
        let from = SAMPLE_ID_FIELDS.iter().position(|other| *other == field)?;
        let after = SAMPLE_ID_FIELDS[from..].iter().filter(|field| self.sample_type & **field != 0);
        Some(8 * after.count())
    }

    /// The time of a record other than a sample.
    pub(super) fn time_at_end(&self, body: &[u8]) -> Option<u64> {
        let at = body.len().checked_sub(self.place_from_end(bindings::PERF_SAMPLE_TIME as u64)?)?;
        super::bytes::u64_at(body, at)
    }

    /// Offset of the event id in samples, bytes.
    pub(super) fn id_place(&self) -> Option<usize> {
        if self.has(bindings::PERF_SAMPLE_IDENTIFIER) {
            return Some(0);
        }
        let before = [
            bindings::PERF_SAMPLE_IP,
            bindings::PERF_SAMPLE_TID,
            bindings::PERF_SAMPLE_TIME,
            bindings::PERF_SAMPLE_ADDR,
        ];
        self.has(bindings::PERF_SAMPLE_ID).then(|| 8 * before.iter().filter(|bit| self.has(**bit)).count())
    }

    /// Returns the rule by which samples were taken, for people.
    pub(super) fn sampling(&self) -> String {
        let (name, rate) = (&self.name, crate::base::units::count(self.rate));
        match self.is_frequency {
            true => format!("{name} at {rate} Hz"),
            false => format!("{name}, a sample every {rate}"),
        }
    }
}

/// perf's name of an event, from its type and config.
fn name_of(source: u32, config: u64) -> String {
    const HARDWARE: [&str; 10] = [
        "cycles",
        "instructions",
        "cache-references",
        "cache-misses",
        "branches",
        "branch-misses",
        "bus-cycles",
        "stalled-cycles-frontend",
        "stalled-cycles-backend",
        "ref-cycles",
    ];
    const SOFTWARE: [&str; 12] = [
        "cpu-clock",
        "task-clock",
        "page-faults",
        "context-switches",
        "cpu-migrations",
        "minor-faults",
        "major-faults",
        "alignment-faults",
        "emulation-faults",
        "dummy",
        "bpf-output",
        "cgroup-switches",
    ];
    let known: &[&str] = match source {
        bindings::PERF_TYPE_HARDWARE => &HARDWARE,
        bindings::PERF_TYPE_SOFTWARE => &SOFTWARE,
        _ => &[],
    };
    let at = usize::try_from(config & 0xff).unwrap_or(usize::MAX);
    match (known.get(at), source) {
        (Some(name), _) => (*name).to_owned(),
        (None, bindings::PERF_TYPE_RAW) => format!("r{config:x}"),
        (None, _) => format!("event {source}:{config:#x}"),
    }
}
