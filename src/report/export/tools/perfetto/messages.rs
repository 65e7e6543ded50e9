//! The messages and fields of Perfetto's trace format that are used.

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* })*) => {
        $($(#[$doc])* #[derive(Clone, PartialEq, prost::Message)]
        pub(super) struct $name { $($(#[$attribute])* pub(super) $field: $type,)* })*
    };
}

messages! {
    /// `TracePacket`.
    Packet {
        #[prost(message, optional, tag = "6")] clock_snapshot: Option<ClockSnapshot>,
        #[prost(uint64, optional, tag = "8")] timestamp: Option<u64>,
        #[prost(uint32, tag = "10")] sequence_id: u32,
        #[prost(message, optional, tag = "11")] track_event: Option<TrackEvent>,
        #[prost(message, optional, tag = "12")] interned: Option<InternedData>,
        #[prost(uint32, tag = "13")] sequence_flags: u32,
        #[prost(message, optional, tag = "59")] defaults: Option<PacketDefaults>,
        #[prost(message, optional, tag = "60")] track: Option<TrackDescriptor>,
        #[prost(message, optional, tag = "66")] perf_sample: Option<PerfSample>,
        #[prost(bool, tag = "87")] is_first: bool,
    }
    /// `ClockSnapshot`.
    ClockSnapshot {
        #[prost(message, repeated, tag = "1")] clocks: Vec<ClockValue>,
    }
    /// `ClockSnapshot.Clock`: the reading of one clock.
    ClockValue {
        #[prost(uint32, tag = "1")] clock: u32,
        #[prost(uint64, tag = "2")] timestamp: u64,
    }
    /// `TracePacketDefaults`.
    PacketDefaults {
        #[prost(uint32, tag = "58")] clock: u32,
        #[prost(message, optional, tag = "12")] perf_sample: Option<PerfSampleDefaults>,
    }
    /// `PerfSampleDefaults`.
    PerfSampleDefaults {
        #[prost(message, optional, tag = "1")] timebase: Option<Timebase>,
    }
    /// `PerfEvents.Timebase`: the event that triggers samples.
    Timebase {
        #[prost(uint64, tag = "1")] period: u64,
        #[prost(string, tag = "10")] name: String,
    }
    /// `TrackDescriptor`: a process, or a thread of one.
    TrackDescriptor {
        #[prost(uint64, tag = "1")] uuid: u64,
        #[prost(uint64, tag = "5")] parent: u64,
        #[prost(message, optional, tag = "3")] process: Option<ProcessDescriptor>,
        #[prost(message, optional, tag = "4")] thread: Option<ThreadDescriptor>,
    }
    /// `ProcessDescriptor`.
    ProcessDescriptor {
        #[prost(int32, tag = "1")] pid: i32,
        #[prost(string, tag = "6")] name: String,
    }
    /// `ThreadDescriptor`.
    ThreadDescriptor {
        #[prost(int32, tag = "1")] pid: i32,
        #[prost(int64, tag = "2")] tid: i64,
        #[prost(string, tag = "5")] name: String,
    }
    /// `TrackEvent`: a slice begins or ends.
    TrackEvent {
        #[prost(uint64, repeated, tag = "3")] categories: Vec<u64>,
        #[prost(message, repeated, tag = "4")] annotations: Vec<DebugAnnotation>,
        #[prost(int32, tag = "9")] kind: i32,
        #[prost(uint64, tag = "10")] name: u64,
        #[prost(uint64, tag = "11")] track: u64,
        #[prost(uint64, optional, tag = "56")] callstack: Option<u64>,
    }
    /// `DebugAnnotation`: an argument of a slice.
    DebugAnnotation {
        #[prost(uint64, tag = "1")] name: u64,
        #[prost(uint64, optional, tag = "3")] number: Option<u64>,
        #[prost(uint64, optional, tag = "17")] text: Option<u64>,
    }
    /// `PerfSample`.
    PerfSample {
        #[prost(uint32, tag = "1")] cpu: u32,
        #[prost(uint32, tag = "2")] pid: u32,
        #[prost(uint32, tag = "3")] tid: u32,
        #[prost(uint64, optional, tag = "4")] callstack: Option<u64>,
        #[prost(int32, tag = "5")] mode: i32,
        #[prost(uint64, tag = "6")] timebase_count: u64,
    }
    /// `InternedData`: what packets refer to by index.
    InternedData {
        #[prost(message, repeated, tag = "1")] categories: Vec<InternedName>,
        #[prost(message, repeated, tag = "2")] event_names: Vec<InternedName>,
        #[prost(message, repeated, tag = "3")] annotation_names: Vec<InternedName>,
        #[prost(message, repeated, tag = "5")] function_names: Vec<InternedString>,
        #[prost(message, repeated, tag = "6")] frames: Vec<InternedFrame>,
        #[prost(message, repeated, tag = "7")] callstacks: Vec<Callstack>,
        #[prost(message, repeated, tag = "16")] build_ids: Vec<InternedString>,
        #[prost(message, repeated, tag = "17")] mapping_paths: Vec<InternedString>,
        #[prost(message, repeated, tag = "18")] source_paths: Vec<InternedString>,
        #[prost(message, repeated, tag = "19")] mappings: Vec<InternedMapping>,
        #[prost(message, repeated, tag = "29")] annotation_texts: Vec<InternedString>,
    }
    /// `EventCategory`, `EventName`, `DebugAnnotationName`.
    InternedName {
        #[prost(uint64, tag = "1")] id: u64,
        #[prost(string, tag = "2")] name: String,
    }
    /// `InternedString`.
    InternedString {
        #[prost(uint64, tag = "1")] id: u64,
        #[prost(bytes = "vec", tag = "2")] text: Vec<u8>,
    }
    /// `Frame`.
    InternedFrame {
        #[prost(uint64, tag = "1")] id: u64,
        #[prost(uint64, tag = "2")] function_name: u64,
        #[prost(uint64, tag = "3")] mapping: u64,
        #[prost(uint64, tag = "4")] address: u64,
        #[prost(uint64, optional, tag = "5")] source_path: Option<u64>,
        #[prost(uint32, optional, tag = "6")] line: Option<u32>,
    }
    /// `Callstack`: frames, the outermost first.
    Callstack {
        #[prost(uint64, tag = "1")] id: u64,
        #[prost(uint64, repeated, tag = "2")] frames: Vec<u64>,
    }
    /// `Mapping`: a module.
    InternedMapping {
        #[prost(uint64, tag = "1")] id: u64,
        #[prost(uint64, tag = "2")] build_id: u64,
        #[prost(uint64, repeated, tag = "7")] path: Vec<u64>,
    }
}
