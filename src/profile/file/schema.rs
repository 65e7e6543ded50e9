//! The payloads of chunks, as protobuf messages. `docs/format.md` gives the meaning of each field.
//!
//! Tables are stored as columns (one packed field each), since bytes of one kind side by side pack best.
//! A *column* is empty when every row has the default, and has one value when every row has that value;
//! [`super::coding`] holds the ways in which columns are coded.

use super::chunk::ChunkKind;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Meta {
    #[prost(string, tag = "1")]
    pub(super) prof_version: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) command: Vec<String>,
    #[prost(string, tag = "3")]
    pub(super) hostname: String,
    #[prost(string, tag = "4")]
    pub(super) kernel: String,
    #[prost(string, tag = "5")]
    pub(super) arch: String,
    #[prost(uint32, tag = "6")]
    pub(super) cpus: u32,
    #[prost(uint64, tag = "7")]
    pub(super) start_unix_ns: u64,
    #[prost(uint64, tag = "8")]
    pub(super) start_mono_ns: u64,
    #[prost(string, tag = "9")]
    pub(super) target: String,
    #[prost(string, tag = "10")]
    pub(super) target_name: String,
    #[prost(uint32, repeated, packed = "true", tag = "11")]
    pub(super) target_pids: Vec<u32>,
    #[prost(uint32, tag = "12")]
    pub(super) threads_at_start: u32,
    #[prost(uint32, tag = "13")]
    pub(super) requested_hz: u32,
    #[prost(uint32, tag = "14")]
    pub(super) effective_hz: u32,
    #[prost(string, tag = "15")]
    pub(super) clock: String,
    #[prost(bool, tag = "16")]
    pub(super) user_only: bool,
    #[prost(uint32, tag = "17")]
    pub(super) recorder_pid: u32,
    #[prost(uint32, optional, tag = "18")]
    pub(super) kptr_restrict: Option<u32>,
    #[prost(sint32, optional, tag = "19")]
    pub(super) perf_event_paranoid: Option<i32>,
    #[prost(uint64, tag = "20")]
    pub(super) pid_namespace: u64,
    #[prost(string, repeated, tag = "21")]
    pub(super) notices: Vec<String>,
    #[prost(bool, tag = "22")]
    pub(super) is_command: bool,
    /// The recorder had CAP_SYSLOG.
    #[prost(bool, tag = "23")]
    pub(super) has_syslog: bool,
    #[prost(string, tag = "24")]
    pub(super) imported_from: String,
    #[prost(string, tag = "25")]
    pub(super) source_file: String,
    #[prost(string, tag = "26")]
    pub(super) source_tool: String,
    #[prost(bool, tag = "27")]
    pub(super) losses_known: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Strings {
    #[prost(uint32, tag = "1")]
    pub(super) first_id: u32,
    #[prost(uint32, repeated, packed = "true", tag = "2")]
    pub(super) length: Vec<u32>,
    #[prost(string, tag = "3")]
    pub(super) text: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Modules {
    #[prost(uint32, tag = "1")]
    pub(super) first_id: u32,
    #[prost(message, repeated, tag = "2")]
    pub(super) rows: Vec<ModuleRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ModuleRow {
    #[prost(uint32, tag = "1")]
    pub(super) path: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) build_id: Vec<u8>,
    #[prost(uint32, tag = "3")]
    pub(super) kind: u32,
    #[prost(uint32, tag = "4")]
    pub(super) instance: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Tasks {
    #[prost(uint32, tag = "1")]
    pub(super) first_id: u32,
    #[prost(message, repeated, tag = "2")]
    pub(super) rows: Vec<TaskRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TaskRow {
    #[prost(uint32, tag = "1")]
    pub(super) pid: u32,
    #[prost(uint32, tag = "2")]
    pub(super) tid: u32,
    #[prost(uint32, tag = "3")]
    pub(super) generation: u32,
    #[prost(uint32, tag = "4")]
    pub(super) comm: u32,
    #[prost(uint32, tag = "5")]
    pub(super) process: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Frames {
    #[prost(uint32, tag = "1")]
    pub(super) first_id: u32,
    #[prost(uint32, tag = "2")]
    pub(super) rows: u32,
    #[prost(uint32, repeated, packed = "true", tag = "3")]
    pub(super) module: Vec<u32>,
    #[prost(sint64, repeated, packed = "true", tag = "4")]
    pub(super) address: Vec<i64>,
    #[prost(uint32, repeated, packed = "true", tag = "5")]
    pub(super) flags: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Stacks {
    #[prost(uint32, tag = "1")]
    pub(super) first_id: u32,
    #[prost(uint32, repeated, packed = "true", tag = "2")]
    pub(super) run_parent: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "3")]
    pub(super) run_length: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "4")]
    pub(super) frame: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Events {
    #[prost(uint32, tag = "1")]
    pub(super) first_id: u32,
    #[prost(message, repeated, tag = "2")]
    pub(super) rows: Vec<EventRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EventRow {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(uint32, tag = "2")]
    pub(super) unit: u32,
    #[prost(string, tag = "3")]
    pub(super) sampling: String,
    #[prost(uint64, tag = "4")]
    pub(super) period: u64,
    /// Missing in files of versions up to 0.1.0, as the next two.
    #[prost(string, optional, tag = "5")]
    pub(super) title: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub(super) noun: Option<String>,
    #[prost(bool, optional, tag = "7")]
    pub(super) has_duration: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Functions {
    #[prost(uint32, tag = "1")]
    pub(super) first_id: u32,
    #[prost(uint32, tag = "2")]
    pub(super) rows: u32,
    #[prost(uint32, repeated, packed = "true", tag = "3")]
    pub(super) name: Vec<u32>,
    #[prost(sint32, repeated, packed = "true", tag = "4")]
    pub(super) raw_name: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Symbols {
    #[prost(uint32, tag = "1")]
    pub(super) rows: u32,
    #[prost(uint32, tag = "2")]
    pub(super) locations: u32,
    #[prost(uint32, repeated, packed = "true", tag = "3")]
    pub(super) frame: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "4")]
    pub(super) location_count: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "5")]
    pub(super) function: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "6")]
    pub(super) file: Vec<u32>,
    #[prost(sint32, repeated, packed = "true", tag = "7")]
    pub(super) line: Vec<i32>,
    #[prost(uint32, repeated, packed = "true", tag = "8")]
    pub(super) inlined_unlike_place: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Samples {
    #[prost(uint32, tag = "1")]
    pub(super) event: u32,
    #[prost(uint32, tag = "2")]
    pub(super) rows: u32,
    #[prost(uint64, tag = "3")]
    pub(super) time_first_us: u64,
    #[prost(uint64, tag = "4")]
    pub(super) time_step_us: u64,
    #[prost(sint64, repeated, packed = "true", tag = "5")]
    pub(super) time: Vec<i64>,
    #[prost(uint32, repeated, packed = "true", tag = "6")]
    pub(super) task: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "7")]
    pub(super) stack: Vec<u32>,
    #[prost(uint64, repeated, packed = "true", tag = "8")]
    pub(super) weight: Vec<u64>,
    #[prost(uint32, repeated, packed = "true", tag = "9")]
    pub(super) cpu: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "10")]
    pub(super) outcome: Vec<u32>,
    #[prost(uint64, repeated, packed = "true", tag = "11")]
    pub(super) duration: Vec<u64>,
    #[prost(uint32, repeated, packed = "true", tag = "12")]
    pub(super) reason: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "13")]
    pub(super) waker_kind: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "14")]
    pub(super) waker_task: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "15")]
    pub(super) waker_stack: Vec<u32>,
    #[prost(bool, tag = "16")]
    pub(super) are_waits: bool,
    #[prost(uint64, repeated, packed = "true", tag = "17")]
    pub(super) folded_samples: Vec<u64>,
    #[prost(uint64, repeated, packed = "true", tag = "18")]
    pub(super) folded_count_thousandths: Vec<u64>,
    #[prost(uint64, repeated, packed = "true", tag = "19")]
    pub(super) folded_variance: Vec<u64>,
    #[prost(uint64, repeated, packed = "true", tag = "20")]
    pub(super) folded_span: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ThreadTimes {
    #[prost(message, repeated, tag = "1")]
    pub(super) rows: Vec<ThreadTimeRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ThreadTimeRow {
    #[prost(uint32, tag = "1")]
    pub(super) task: u32,
    #[prost(uint64, tag = "2")]
    pub(super) from_ns: u64,
    #[prost(uint64, tag = "3")]
    pub(super) length_ns: u64,
    #[prost(uint64, tag = "4")]
    pub(super) on_cpu_ns: u64,
    #[prost(uint64, tag = "5")]
    pub(super) no_cpu_ns: u64,
    #[prost(uint64, tag = "6")]
    pub(super) blocked_ns: u64,
    #[prost(uint64, tag = "7")]
    pub(super) switches: u64,
    #[prost(bool, tag = "8")]
    pub(super) has_ended: bool,
    #[prost(uint32, repeated, packed = "true", tag = "9")]
    pub(super) short_reason: Vec<u32>,
    #[prost(uint64, repeated, packed = "true", tag = "10")]
    pub(super) short_count: Vec<u64>,
    #[prost(uint64, repeated, packed = "true", tag = "11")]
    pub(super) short_ns: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Counters {
    #[prost(message, repeated, tag = "1")]
    pub(super) rows: Vec<CounterRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterRow {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(uint64, tag = "2")]
    pub(super) value: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct End {
    #[prost(uint64, tag = "1")]
    pub(super) duration_ns: u64,
    #[prost(string, tag = "2")]
    pub(super) reason: String,
    #[prost(uint64, tag = "3")]
    pub(super) cpu_ns: u64,
    #[prost(uint64, tag = "4")]
    pub(super) bpf_ns: u64,
    #[prost(uint64, tag = "5")]
    pub(super) bpf_runs: u64,
    #[prost(uint64, tag = "6")]
    pub(super) max_rss_bytes: u64,
    #[prost(uint32, tag = "7")]
    pub(super) threads: u32,
    #[prost(sint32, optional, tag = "8")]
    pub(super) command_status: Option<i32>,
    #[prost(uint64, optional, tag = "9")]
    pub(super) recording_cpu_ns: Option<u64>,
    #[prost(sint32, optional, tag = "10")]
    pub(super) command_signal: Option<i32>,
    #[prost(string, repeated, tag = "11")]
    pub(super) notices: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NotesOfModules {
    #[prost(message, repeated, tag = "1")]
    pub(super) rows: Vec<ModuleNotesRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ModuleNotesRow {
    #[prost(uint32, tag = "1")]
    pub(super) module: u32,
    #[prost(uint32, tag = "2")]
    pub(super) symbols: u32,
    #[prost(bool, tag = "3")]
    pub(super) has_debug_info: bool,
    #[prost(string, tag = "4")]
    pub(super) debug_file: String,
    #[prost(string, tag = "5")]
    pub(super) shared_file: String,
    #[prost(string, tag = "6")]
    pub(super) package_file: String,
    #[prost(uint64, tag = "7")]
    pub(super) split_found: u64,
    #[prost(uint64, tag = "8")]
    pub(super) split_missing: u64,
    #[prost(string, repeated, tag = "9")]
    pub(super) problems: Vec<String>,
    #[prost(string, tag = "10")]
    pub(super) package: String,
    #[prost(string, tag = "11")]
    pub(super) distribution: String,
}

/// The highest field number of a chunk's message that this version knows, and the same for the rows
/// in field `row.0`.
pub(super) struct KnownFields {
    pub(super) highest: u32,
    pub(super) row: Option<(u32, u32)>,
}

/// Code bytes of functions.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CodeRows {
    #[prost(message, repeated, tag = "1")]
    pub(super) rows: Vec<CodeRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CodeRow {
    #[prost(uint32, tag = "1")]
    pub(super) module: u32,
    #[prost(uint32, tag = "2")]
    pub(super) function: u32,
    #[prost(uint64, tag = "3")]
    pub(super) start: u64,
    #[prost(uint64, tag = "4")]
    pub(super) size: u64,
    #[prost(uint64, tag = "5")]
    pub(super) skipped: u64,
    #[prost(bytes = "vec", tag = "6")]
    pub(super) bytes: Vec<u8>,
    #[prost(uint32, repeated, packed = "true", tag = "7")]
    pub(super) run_length: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "8")]
    pub(super) run_call: Vec<u32>,
    #[prost(sint32, repeated, packed = "true", tag = "9")]
    pub(super) run_file: Vec<i32>,
    #[prost(sint32, repeated, packed = "true", tag = "10")]
    pub(super) run_line: Vec<i32>,
    #[prost(uint32, repeated, packed = "true", tag = "11")]
    pub(super) call_function: Vec<u32>,
    #[prost(uint32, repeated, packed = "true", tag = "12")]
    pub(super) call_parent: Vec<u32>,
    #[prost(sint32, repeated, packed = "true", tag = "13")]
    pub(super) call_file: Vec<i32>,
    #[prost(sint32, repeated, packed = "true", tag = "14")]
    pub(super) call_line: Vec<i32>,
    #[prost(sint64, repeated, packed = "true", tag = "15")]
    pub(super) target_address: Vec<i64>,
    #[prost(uint32, repeated, packed = "true", tag = "16")]
    pub(super) target_function: Vec<u32>,
}

/// Lines of source files.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Sources {
    #[prost(message, repeated, tag = "1")]
    pub(super) rows: Vec<SourceRow>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SourceRow {
    #[prost(uint32, tag = "1")]
    pub(super) file: u32,
    #[prost(uint32, tag = "2")]
    pub(super) first_line: u32,
    #[prost(string, tag = "3")]
    pub(super) text: String,
}

/// The fields that this version knows of a chunk.
pub(super) fn known_fields(kind: ChunkKind) -> KnownFields {
    let (highest, row) = match kind {
        ChunkKind::Meta => (27, None),
        ChunkKind::Strings => (3, None),
        ChunkKind::Modules => (2, Some((2, 4))),
        ChunkKind::Tasks => (2, Some((2, 5))),
        ChunkKind::Frames => (5, None),
        ChunkKind::Stacks => (4, None),
        ChunkKind::Events => (2, Some((2, 7))),
        ChunkKind::Functions => (4, None),
        ChunkKind::Symbols => (8, None),
        ChunkKind::Samples => (20, None),
        ChunkKind::ThreadTimes => (1, Some((1, 11))),
        ChunkKind::Counters => (1, Some((1, 2))),
        ChunkKind::ModuleNotes => (1, Some((1, 11))),
        ChunkKind::End => (11, None),
        ChunkKind::Code => (1, Some((1, 16))),
        ChunkKind::Sources => (1, Some((1, 3))),
    };
    KnownFields { highest, row }
}
