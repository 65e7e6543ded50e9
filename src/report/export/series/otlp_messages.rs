//! The messages and fields of OTLP's profiles (`v1development`) that are used. Words and code are indices in the tables of
//! the dictionary, in each of which index 0 is a row of zeros.

/// `ExportProfilesServiceRequest`, and `ProfilesData`, which is the same.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpProfiles {
    #[prost(message, repeated, tag = "1")]
    pub(super) resources: Vec<OtlpResourceProfiles>,
    #[prost(message, optional, tag = "2")]
    pub(super) dictionary: Option<OtlpDictionary>,
}

/// `ResourceProfiles`: what is of one service.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpResourceProfiles {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<OtlpResource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scopes: Vec<OtlpScopeProfiles>,
}

/// `Resource`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpResource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<OtlpKeyValue>,
}

/// `KeyValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpKeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<OtlpValue>,
}

/// `AnyValue`, as far as it is used.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpValue {
    #[prost(oneof = "OtlpValueKind", tags = "1, 3")]
    pub(super) kind: Option<OtlpValueKind>,
}

/// A value.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum OtlpValueKind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

/// `ScopeProfiles`: what one program has observed.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpScopeProfiles {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<OtlpScope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) profiles: Vec<OtlpProfile>,
}

/// `InstrumentationScope`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpScope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

/// `Profile`: samples with one value each.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpProfile {
    #[prost(message, optional, tag = "1")]
    pub(super) sample_type: Option<OtlpValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(super) samples: Vec<OtlpSample>,
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_ns: u64,
    #[prost(uint64, tag = "4")]
    pub(super) duration_ns: u64,
    #[prost(message, optional, tag = "5")]
    pub(super) period_type: Option<OtlpValueType>,
    #[prost(int64, tag = "6")]
    pub(super) period: i64,
    #[prost(bytes = "vec", tag = "7")]
    pub(super) id: Vec<u8>,
}

/// `ValueType`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct OtlpValueType {
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(int32, tag = "2")]
    pub(super) unit: i32,
}

/// `Sample`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpSample {
    #[prost(int32, tag = "1")]
    pub(super) stack: i32,
    #[prost(int32, repeated, tag = "2")]
    pub(super) attributes: Vec<i32>,
    #[prost(int32, tag = "3")]
    pub(super) link: i32,
    #[prost(int64, repeated, tag = "4")]
    pub(super) values: Vec<i64>,
}

/// `ProfilesDictionary`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpDictionary {
    #[prost(message, repeated, tag = "1")]
    pub(super) mappings: Vec<OtlpMapping>,
    #[prost(message, repeated, tag = "2")]
    pub(super) locations: Vec<OtlpLocation>,
    #[prost(message, repeated, tag = "3")]
    pub(super) functions: Vec<OtlpFunction>,
    #[prost(message, repeated, tag = "4")]
    pub(super) links: Vec<OtlpLink>,
    #[prost(string, repeated, tag = "5")]
    pub(super) strings: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub(super) attributes: Vec<OtlpAttribute>,
    #[prost(message, repeated, tag = "7")]
    pub(super) stacks: Vec<OtlpStack>,
}

/// `Mapping`: a module at its assigned addresses.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpMapping {
    #[prost(uint64, tag = "1")]
    pub(super) start: u64,
    #[prost(uint64, tag = "2")]
    pub(super) limit: u64,
    #[prost(int32, tag = "4")]
    pub(super) file: i32,
    #[prost(int32, repeated, tag = "5")]
    pub(super) attributes: Vec<i32>,
}

/// `Location`: a machine frame.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpLocation {
    #[prost(int32, tag = "1")]
    pub(super) mapping: i32,
    #[prost(uint64, tag = "2")]
    pub(super) address: u64,
    #[prost(message, repeated, tag = "3")]
    pub(super) lines: Vec<OtlpLine>,
    #[prost(int32, repeated, tag = "4")]
    pub(super) attributes: Vec<i32>,
}

/// `Line`: a function of a location, the innermost first.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct OtlpLine {
    #[prost(int32, tag = "1")]
    pub(super) function: i32,
    #[prost(int64, tag = "2")]
    pub(super) line: i64,
}

/// `Function`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct OtlpFunction {
    #[prost(int32, tag = "1")]
    pub(super) name: i32,
    #[prost(int32, tag = "2")]
    pub(super) system_name: i32,
    #[prost(int32, tag = "3")]
    pub(super) file: i32,
}

/// `Link`: the span that a sample is of.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub(super) struct OtlpLink {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) span: Vec<u8>,
}

/// `KeyValueAndUnit`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpAttribute {
    #[prost(int32, tag = "1")]
    pub(super) key: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<OtlpValue>,
}

/// `Stack`: locations, leaf first.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OtlpStack {
    #[prost(int32, repeated, tag = "1")]
    pub(super) locations: Vec<i32>,
}
