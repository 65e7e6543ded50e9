//! The messages and fields of pprof's `profile.proto` that are used; strings are indices in its string table.

/// `ValueType`: name and unit of a value.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ValueType {
    #[prost(int64, tag = "1")]
    pub(crate) kind: i64,
    #[prost(int64, tag = "2")]
    pub(crate) unit: i64,
}

/// `Sample`: a stack, leaf first, and its values.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PprofSample {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) locations: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(crate) values: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) labels: Vec<PprofLabel>,
}

/// `Label`: text, or a number.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct PprofLabel {
    #[prost(int64, tag = "1")]
    pub(crate) key: i64,
    #[prost(int64, tag = "2")]
    pub(crate) text: i64,
    #[prost(int64, tag = "3")]
    pub(crate) number: i64,
    #[prost(int64, tag = "4")]
    pub(crate) unit: i64,
}

/// `Mapping`: a module at its assigned addresses.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct PprofMapping {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) start: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) limit: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) file_offset: u64,
    #[prost(int64, tag = "5")]
    pub(crate) file: i64,
    #[prost(int64, tag = "6")]
    pub(crate) build_id: i64,
    #[prost(bool, tag = "7")]
    pub(crate) has_functions: bool,
    #[prost(bool, tag = "8")]
    pub(crate) has_filenames: bool,
    #[prost(bool, tag = "9")]
    pub(crate) has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    pub(crate) has_inline_frames: bool,
}

/// `Location`: a machine frame.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PprofLocation {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) mapping: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) address: u64,
    #[prost(message, repeated, tag = "4")]
    pub(crate) lines: Vec<PprofLine>,
}

/// `Line`: a function of a location, the innermost first.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct PprofLine {
    #[prost(uint64, tag = "1")]
    pub(crate) function: u64,
    #[prost(int64, tag = "2")]
    pub(crate) line: i64,
}

/// `Function`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct PprofFunction {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(int64, tag = "2")]
    pub(crate) name: i64,
    #[prost(int64, tag = "3")]
    pub(crate) system_name: i64,
    #[prost(int64, tag = "4")]
    pub(crate) file: i64,
}
