//! The messages of pprof's `profile.proto` that hold something; strings are numbers in its table of strings.

/// `ValueType`: what a value is, and its unit.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ValueType {
    #[prost(int64, tag = "1")]
    pub(super) kind: i64,
    #[prost(int64, tag = "2")]
    pub(super) unit: i64,
}

/// `Sample`: a stack, leaf first, and its values.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PprofSample {
    #[prost(uint64, repeated, tag = "1")]
    pub(super) locations: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) values: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) labels: Vec<PprofLabel>,
}

/// `Label`: text, or a number.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct PprofLabel {
    #[prost(int64, tag = "1")]
    pub(super) key: i64,
    #[prost(int64, tag = "2")]
    pub(super) text: i64,
    #[prost(int64, tag = "3")]
    pub(super) number: i64,
    #[prost(int64, tag = "4")]
    pub(super) unit: i64,
}

/// `Mapping`: a module, at addresses of its own.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct PprofMapping {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(uint64, tag = "2")]
    pub(super) start: u64,
    #[prost(uint64, tag = "3")]
    pub(super) limit: u64,
    #[prost(uint64, tag = "4")]
    pub(super) file_offset: u64,
    #[prost(int64, tag = "5")]
    pub(super) file: i64,
    #[prost(int64, tag = "6")]
    pub(super) build_id: i64,
    #[prost(bool, tag = "7")]
    pub(super) has_functions: bool,
    #[prost(bool, tag = "8")]
    pub(super) has_filenames: bool,
    #[prost(bool, tag = "9")]
    pub(super) has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    pub(super) has_inline_frames: bool,
}

/// `Location`: a machine frame.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PprofLocation {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(uint64, tag = "2")]
    pub(super) mapping: u64,
    #[prost(uint64, tag = "3")]
    pub(super) address: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) lines: Vec<PprofLine>,
}

/// `Line`: a function of a location, the innermost first.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct PprofLine {
    #[prost(uint64, tag = "1")]
    pub(super) function: u64,
    #[prost(int64, tag = "2")]
    pub(super) line: i64,
}

/// `Function`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct PprofFunction {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(int64, tag = "2")]
    pub(super) name: i64,
    #[prost(int64, tag = "3")]
    pub(super) system_name: i64,
    #[prost(int64, tag = "4")]
    pub(super) file: i64,
}
