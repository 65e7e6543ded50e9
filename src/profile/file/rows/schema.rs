//! The payloads of chunks, as protobuf messages. `docs/format.md` gives the meaning of each field.
//!
//! Tables are stored as columns (one packed field each), since bytes of one kind side by side pack best.
//! A *column* is empty when every row has the default, and has one value when every row has that value;
//! [`super::coding`] holds the ways in which columns are coded.

use crate::profile::file::chunk::ChunkKind;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct Meta {
    #[prost(string, tag = "1")]
    pub(in crate::profile::file) prof_version: String,
    #[prost(string, repeated, tag = "2")]
    pub(in crate::profile::file) command: Vec<String>,
    #[prost(string, tag = "3")]
    pub(in crate::profile::file) hostname: String,
    #[prost(string, tag = "4")]
    pub(in crate::profile::file) kernel: String,
    #[prost(string, tag = "5")]
    pub(in crate::profile::file) arch: String,
    #[prost(uint32, tag = "6")]
    pub(in crate::profile::file) cpus: u32,
    #[prost(uint64, tag = "7")]
    pub(in crate::profile::file) start_unix_ns: u64,
    #[prost(uint64, tag = "8")]
    pub(in crate::profile::file) start_mono_ns: u64,
    #[prost(string, tag = "9")]
    pub(in crate::profile::file) target: String,
    #[prost(string, tag = "10")]
    pub(in crate::profile::file) target_name: String,
    #[prost(uint32, repeated, packed = "true", tag = "11")]
    pub(in crate::profile::file) target_pids: Vec<u32>,
    #[prost(uint32, tag = "12")]
    pub(in crate::profile::file) threads_at_start: u32,
    #[prost(uint32, tag = "13")]
    pub(in crate::profile::file) requested_hz: u32,
    #[prost(uint32, tag = "14")]
    pub(in crate::profile::file) effective_hz: u32,
    #[prost(string, tag = "15")]
    pub(in crate::profile::file) clock: String,
    #[prost(bool, tag = "16")]
    pub(in crate::profile::file) user_only: bool,
    #[prost(uint32, tag = "17")]
    pub(in crate::profile::file) recorder_pid: u32,
    #[prost(uint32, optional, tag = "18")]
    pub(in crate::profile::file) kptr_restrict: Option<u32>,
    #[prost(sint32, optional, tag = "19")]
    pub(in crate::profile::file) perf_event_paranoid: Option<i32>,
    #[prost(uint64, tag = "20")]
    pub(in crate::profile::file) pid_namespace: u64,
    #[prost(string, repeated, tag = "21")]
    pub(in crate::profile::file) notices: Vec<String>,
    #[prost(bool, tag = "22")]
    pub(in crate::profile::file) is_command: bool,
    /// The recorder had CAP_SYSLOG.
    #[prost(bool, tag = "23")]
    pub(in crate::profile::file) has_syslog: bool,
    #[prost(string, tag = "24")]
    pub(in crate::profile::file) imported_from: String,
    #[prost(string, tag = "25")]
    pub(in crate::profile::file) source_file: String,
    #[prost(string, tag = "26")]
    pub(in crate::profile::file) source_tool: String,
    #[prost(bool, tag = "27")]
    pub(in crate::profile::file) losses_known: bool,
    /// Missing in files of versions up to 0.1.0, as the next.
    #[prost(bool, optional, tag = "28")]
    pub(in crate::profile::file) clock_is_timer: Option<bool>,
    #[prost(string, optional, tag = "29")]
    pub(in crate::profile::file) why_no_waits: Option<String>,
    #[prost(uint32, tag = "30")]
    pub(in crate::profile::file) runtime: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct Strings {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) first_id: u32,
    #[prost(uint32, repeated, packed = "true", tag = "2")]
    pub(in crate::profile::file) length: Vec<u32>,
    #[prost(string, tag = "3")]
    pub(in crate::profile::file) text: String,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct Modules {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) first_id: u32,
    #[prost(message, repeated, tag = "2")]
    pub(in crate::profile::file) rows: Vec<ModuleRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct ModuleRow {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) path: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub(in crate::profile::file) build_id: Vec<u8>,
    #[prost(uint32, tag = "3")]
    pub(in crate::profile::file) kind: u32,
    #[prost(uint32, tag = "4")]
    pub(in crate::profile::file) instance: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct Tasks {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) first_id: u32,
    #[prost(message, repeated, tag = "2")]
    pub(in crate::profile::file) rows: Vec<TaskRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct TaskRow {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) pid: u32,
    #[prost(uint32, tag = "2")]
    pub(in crate::profile::file) tid: u32,
    #[prost(uint32, tag = "3")]
    pub(in crate::profile::file) generation: u32,
    #[prost(uint32, tag = "4")]
    pub(in crate::profile::file) comm: u32,
    #[prost(uint32, tag = "5")]
    pub(in crate::profile::file) process: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct Frames {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) first_id: u32,
    #[prost(uint32, tag = "2")]
    pub(in crate::profile::file) rows: u32,
    #[prost(uint32, repeated, packed = "true", tag = "3")]
    pub(in crate::profile::file) module: Vec<u32>,
    #[prost(sint64, repeated, packed = "true", tag = "4")]
    pub(in crate::profile::file) address: Vec<i64>,
    #[prost(uint32, repeated, packed = "true", tag = "5")]
    pub(in crate::profile::file) flags: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct Stacks {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) first_id: u32,
    #[prost(uint32, repeated, packed = "true", tag = "2")]
    pub(in crate::profile::file) run_parent: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "3")]
    pub(in crate::profile::file) run_length: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "4")]
    pub(in crate::profile::file) frame: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct Events {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) first_id: u32,
    #[prost(message, repeated, tag = "2")]
    pub(in crate::profile::file) rows: Vec<EventRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct EventRow {
    #[prost(string, tag = "1")]
    pub(in crate::profile::file) name: String,
    #[prost(uint32, tag = "2")]
    pub(in crate::profile::file) unit: u32,
    #[prost(string, tag = "3")]
    pub(in crate::profile::file) sampling: String,
    #[prost(uint64, tag = "4")]
    pub(in crate::profile::file) period: u64,
    /// Missing in files of versions up to 0.1.0, as the next two.
    #[prost(string, optional, tag = "5")]
    pub(in crate::profile::file) title: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub(in crate::profile::file) noun: Option<String>,
    #[prost(bool, optional, tag = "7")]
    pub(in crate::profile::file) has_duration: Option<bool>,
    /// Missing in files of versions up to 0.1.0.
    #[prost(uint64, optional, tag = "8")]
    pub(in crate::profile::file) min_duration_ns: Option<u64>,
    /// Missing in files of versions up to 0.1.0.
    #[prost(bool, optional, tag = "9")]
    pub(in crate::profile::file) skids: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct Functions {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) first_id: u32,
    #[prost(uint32, tag = "2")]
    pub(in crate::profile::file) rows: u32,
    #[prost(uint32, repeated, packed = "true", tag = "3")]
    pub(in crate::profile::file) name: Vec<u32>,
    #[prost(sint32, repeated, packed = "true", tag = "4")]
    pub(in crate::profile::file) raw_name: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct Symbols {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) rows: u32,
    #[prost(uint32, tag = "2")]
    pub(in crate::profile::file) locations: u32,
    #[prost(uint32, repeated, packed = "true", tag = "3")]
    pub(in crate::profile::file) frame: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "4")]
    pub(in crate::profile::file) location_count: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "5")]
    pub(in crate::profile::file) function: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "6")]
    pub(in crate::profile::file) file: Vec<u32>,
    #[prost(sint32, repeated, packed = "true", tag = "7")]
    pub(in crate::profile::file) line: Vec<i32>,
    #[prost(uint32, repeated, packed = "true", tag = "8")]
    pub(in crate::profile::file) inlined_unlike_place: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct Samples {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) event: u32,
    #[prost(uint32, tag = "2")]
    pub(in crate::profile::file) rows: u32,
    #[prost(uint64, tag = "3")]
    pub(in crate::profile::file) time_first_us: u64,
    #[prost(uint64, tag = "4")]
    pub(in crate::profile::file) time_step_us: u64,
    #[prost(sint64, repeated, packed = "true", tag = "5")]
    pub(in crate::profile::file) time: Vec<i64>,
    #[prost(uint32, repeated, packed = "true", tag = "6")]
    pub(in crate::profile::file) task: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "7")]
    pub(in crate::profile::file) stack: Vec<u32>,
    #[prost(uint64, repeated, packed = "true", tag = "8")]
    pub(in crate::profile::file) weight: Vec<u64>,
    #[prost(uint32, repeated, packed = "true", tag = "9")]
    pub(in crate::profile::file) cpu: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "10")]
    pub(in crate::profile::file) outcome: Vec<u32>,
    #[prost(uint64, repeated, packed = "true", tag = "11")]
    pub(in crate::profile::file) duration: Vec<u64>,
    #[prost(uint32, repeated, packed = "true", tag = "12")]
    pub(in crate::profile::file) reason: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "13")]
    pub(in crate::profile::file) waker_kind: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "14")]
    pub(in crate::profile::file) waker_task: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "15")]
    pub(in crate::profile::file) waker_stack: Vec<u32>,
    #[prost(bool, tag = "16")]
    pub(in crate::profile::file) are_waits: bool,
    #[prost(uint64, repeated, packed = "true", tag = "17")]
    pub(in crate::profile::file) merged_samples: Vec<u64>,
    #[prost(uint64, repeated, packed = "true", tag = "18")]
    pub(in crate::profile::file) merged_count_thousandths: Vec<u64>,
    #[prost(uint64, repeated, packed = "true", tag = "19")]
    pub(in crate::profile::file) merged_variance: Vec<u64>,
    #[prost(uint64, repeated, packed = "true", tag = "20")]
    pub(in crate::profile::file) merged_span: Vec<u64>,
    #[prost(uint32, repeated, packed = "true", tag = "21")]
    pub(in crate::profile::file) labels: Vec<u32>,
    #[prost(uint64, repeated, packed = "true", tag = "22")]
    pub(in crate::profile::file) block_size: Vec<u64>,
    #[prost(uint64, repeated, packed = "true", tag = "23")]
    pub(in crate::profile::file) block_lifetime: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct ThreadTimes {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::profile::file) rows: Vec<ThreadTimeRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct ThreadTimeRow {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) task: u32,
    #[prost(uint64, tag = "2")]
    pub(in crate::profile::file) from_ns: u64,
    #[prost(uint64, tag = "3")]
    pub(in crate::profile::file) length_ns: u64,
    #[prost(uint64, tag = "4")]
    pub(in crate::profile::file) on_cpu_ns: u64,
    #[prost(uint64, tag = "5")]
    pub(in crate::profile::file) no_cpu_ns: u64,
    #[prost(uint64, tag = "6")]
    pub(in crate::profile::file) blocked_ns: u64,
    #[prost(uint64, tag = "7")]
    pub(in crate::profile::file) switches: u64,
    #[prost(bool, tag = "8")]
    pub(in crate::profile::file) has_ended: bool,
    #[prost(uint32, repeated, packed = "true", tag = "9")]
    pub(in crate::profile::file) short_reason: Vec<u32>,
    #[prost(uint64, repeated, packed = "true", tag = "10")]
    pub(in crate::profile::file) short_count: Vec<u64>,
    #[prost(uint64, repeated, packed = "true", tag = "11")]
    pub(in crate::profile::file) short_ns: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct Counters {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::profile::file) rows: Vec<CounterRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct CounterRow {
    #[prost(string, tag = "1")]
    pub(in crate::profile::file) name: String,
    #[prost(uint64, tag = "2")]
    pub(in crate::profile::file) value: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct End {
    #[prost(uint64, tag = "1")]
    pub(in crate::profile::file) duration_ns: u64,
    #[prost(string, tag = "2")]
    pub(in crate::profile::file) reason: String,
    #[prost(uint64, tag = "3")]
    pub(in crate::profile::file) cpu_ns: u64,
    #[prost(uint64, tag = "4")]
    pub(in crate::profile::file) bpf_ns: u64,
    #[prost(uint64, tag = "5")]
    pub(in crate::profile::file) bpf_runs: u64,
    #[prost(uint64, tag = "6")]
    pub(in crate::profile::file) max_rss_bytes: u64,
    #[prost(uint32, tag = "7")]
    pub(in crate::profile::file) threads: u32,
    #[prost(sint32, optional, tag = "8")]
    pub(in crate::profile::file) command_status: Option<i32>,
    #[prost(uint64, optional, tag = "9")]
    pub(in crate::profile::file) recording_cpu_ns: Option<u64>,
    #[prost(sint32, optional, tag = "10")]
    pub(in crate::profile::file) command_signal: Option<i32>,
    #[prost(string, repeated, tag = "11")]
    pub(in crate::profile::file) notices: Vec<String>,
    /// Missing in files of versions up to 0.1.0.
    #[prost(bool, optional, tag = "12")]
    pub(in crate::profile::file) writing_failed: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct NotesOfModules {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::profile::file) rows: Vec<ModuleNotesRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct ModuleNotesRow {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) module: u32,
    #[prost(uint32, tag = "2")]
    pub(in crate::profile::file) symbols: u32,
    #[prost(bool, tag = "3")]
    pub(in crate::profile::file) has_debug_info: bool,
    #[prost(string, tag = "4")]
    pub(in crate::profile::file) debug_file: String,
    #[prost(string, tag = "5")]
    pub(in crate::profile::file) shared_file: String,
    #[prost(string, tag = "6")]
    pub(in crate::profile::file) package_file: String,
    #[prost(uint64, tag = "7")]
    pub(in crate::profile::file) split_found: u64,
    #[prost(uint64, tag = "8")]
    pub(in crate::profile::file) split_missing: u64,
    #[prost(string, repeated, tag = "9")]
    pub(in crate::profile::file) problems: Vec<String>,
    #[prost(string, tag = "10")]
    pub(in crate::profile::file) package: String,
    #[prost(string, tag = "11")]
    pub(in crate::profile::file) distribution: String,
    #[prost(string, tag = "12")]
    pub(in crate::profile::file) shared_missing: String,
}

/// The highest field number of a chunk's message that this version knows, and the same for the rows
/// in field `row.0`.
pub(in crate::profile::file) struct KnownFields {
    pub(in crate::profile::file) highest: u32,
    pub(in crate::profile::file) row: Option<(u32, u32)>,
}

/// Code bytes of functions.
#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct CodeRows {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::profile::file) rows: Vec<CodeRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct CodeRow {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) module: u32,
    #[prost(uint32, tag = "2")]
    pub(in crate::profile::file) function: u32,
    #[prost(uint64, tag = "3")]
    pub(in crate::profile::file) start: u64,
    #[prost(uint64, tag = "4")]
    pub(in crate::profile::file) size: u64,
    #[prost(uint64, tag = "5")]
    pub(in crate::profile::file) skipped: u64,
    #[prost(bytes = "vec", tag = "6")]
    pub(in crate::profile::file) bytes: Vec<u8>,
    #[prost(uint32, repeated, packed = "true", tag = "7")]
    pub(in crate::profile::file) run_length: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "8")]
    pub(in crate::profile::file) run_call: Vec<u32>,
    #[prost(sint32, repeated, packed = "true", tag = "9")]
    pub(in crate::profile::file) run_file: Vec<i32>,
    #[prost(sint32, repeated, packed = "true", tag = "10")]
    pub(in crate::profile::file) run_line: Vec<i32>,
    #[prost(uint32, repeated, packed = "true", tag = "11")]
    pub(in crate::profile::file) call_function: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "12")]
    pub(in crate::profile::file) call_parent: Vec<u32>,
    #[prost(sint32, repeated, packed = "true", tag = "13")]
    pub(in crate::profile::file) call_file: Vec<i32>,
    #[prost(sint32, repeated, packed = "true", tag = "14")]
    pub(in crate::profile::file) call_line: Vec<i32>,
    #[prost(sint64, repeated, packed = "true", tag = "15")]
    pub(in crate::profile::file) target_address: Vec<i64>,
    #[prost(uint32, repeated, packed = "true", tag = "16")]
    pub(in crate::profile::file) target_function: Vec<u32>,
}

/// Lines of source files.
#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct Sources {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::profile::file) rows: Vec<SourceRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct SourceRow {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) file: u32,
    #[prost(uint32, tag = "2")]
    pub(in crate::profile::file) first_line: u32,
    #[prost(string, tag = "3")]
    pub(in crate::profile::file) text: String,
}

/// Sets of labels that samples have.
#[derive(Clone, PartialEq, Message)]
pub(in crate::profile::file) struct LabelSets {
    #[prost(uint32, tag = "1")]
    pub(in crate::profile::file) first_id: u32,
    #[prost(uint32, tag = "2")]
    pub(in crate::profile::file) rows: u32,
    #[prost(uint32, tag = "3")]
    pub(in crate::profile::file) labels: u32,
    #[prost(uint32, repeated, packed = "true", tag = "4")]
    pub(in crate::profile::file) label_count: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "5")]
    pub(in crate::profile::file) key: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "6")]
    pub(in crate::profile::file) value: Vec<u32>,
}

/// The fields that this version knows of a chunk.
pub(in crate::profile::file) fn known_fields(kind: ChunkKind) -> KnownFields {
    let (highest, row) = match kind {
        ChunkKind::Meta => (30, None),
        ChunkKind::Strings => (3, None),
        ChunkKind::Modules => (2, Some((2, 4))),
        ChunkKind::Tasks => (2, Some((2, 5))),
        ChunkKind::Frames => (5, None),
        ChunkKind::Stacks => (4, None),
        ChunkKind::Events => (2, Some((2, 9))),
        ChunkKind::Functions => (4, None),
        ChunkKind::Symbols => (8, None),
        ChunkKind::Samples => (21, None),
        ChunkKind::ThreadTimes => (1, Some((1, 11))),
        ChunkKind::Counters => (1, Some((1, 2))),
        ChunkKind::ModuleNotes => (1, Some((1, 12))),
        ChunkKind::End => (12, None),
        ChunkKind::Code => (1, Some((1, 16))),
        ChunkKind::Sources => (1, Some((1, 3))),
        ChunkKind::LabelSets => (6, None),
    };
    KnownFields { highest, row }
}
