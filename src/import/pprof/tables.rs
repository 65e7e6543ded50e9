//! The tables that samples refer to: strings, functions, locations and mappings.

use super::fields::{PprofFields, WireValue, field};
use crate::base::safe_text;
use crate::report::pprof_messages::{PprofFunction, PprofLocation, PprofMapping, ValueType};
use prost::Message;
use rustc_hash::FxHashMap;
use std::cell::Cell;

/// The tables of a file.
#[derive(Debug, Default)]
pub(super) struct PprofTables<'a> {
    pub(super) sample_types: Vec<ValueType>,
    strings: Vec<&'a [u8]>,
    pub(super) mappings: Vec<PprofMapping>,
    functions: FxHashMap<u64, PprofFunction>,
    locations: FxHashMap<u64, PprofLocation>,
    pub(super) time_ns: i64,
    pub(super) duration_ns: i64,
    pub(super) period_type: Option<ValueType>,
    pub(super) period: i64,
    pub(super) comments: Vec<i64>,
    /// Number of readable bytes, if the file is truncated or damaged.
    pub(super) cut_at: Option<usize>,
    /// Whether a string was asked for that is not in the file.
    lacks_strings: Cell<bool>,
}

impl<'a> PprofTables<'a> {
    /// Reads the tables of a file. Invalid messages are left out.
    pub(super) fn of(all: &'a [u8]) -> Self {
        let mut tables = PprofTables::default();
        let mut fields = PprofFields::new(all);
        for (number, value) in fields.by_ref() {
            match value {
                WireValue::Bytes(message) => tables.add_message(number, message),
                WireValue::Number(value) => tables.add_number(number, value.cast_signed()),
            }
        }
        tables.cut_at = fields.cut_at();
        tables
    }

    fn add_message(&mut self, number: u32, message: &'a [u8]) {
        match number {
            field::SAMPLE_TYPE => self.sample_types.extend(ValueType::decode(message).ok()),
            field::PERIOD_TYPE => self.period_type = ValueType::decode(message).ok(),
            field::STRING => self.strings.push(message),
            field::MAPPING => self.mappings.extend(PprofMapping::decode(message).ok()),
            field::FUNCTION => {
                let function = PprofFunction::decode(message).ok();
                self.functions.extend(function.map(|function| (function.id, function)));
            }
            field::LOCATION => {
                let location = PprofLocation::decode(message).ok();
                self.locations.extend(location.map(|location| (location.id, location)));
            }
            field::COMMENT => {
                let mut rest = message;
                while let Ok(comment) = prost::encoding::decode_varint(&mut rest) {
                    self.comments.push(comment.cast_signed());
                }
            }
            _ => {}
        }
    }

    fn add_number(&mut self, number: u32, value: i64) {
        match number {
            field::TIME_NS => self.time_ns = value,
            field::DURATION_NS => self.duration_ns = value,
            field::PERIOD => self.period = value,
            field::COMMENT => self.comments.push(value),
            _ => {}
        }
    }

    /// The bytes of a string; empty if the index is invalid.
    pub(super) fn bytes(&self, number: i64) -> &'a [u8] {
        let string = usize::try_from(number).ok().and_then(|number| self.strings.get(number).copied());
        // Of a file without strings, index 0 is the empty one all the same.
        self.lacks_strings.set(self.lacks_strings.get() || (string.is_none() && number != 0));
        string.unwrap_or_default()
    }

    /// Whether some string that was asked for is not in the file: they come last as a rule, so it is cut.
    pub(super) fn lacks_strings(&self) -> bool {
        self.lacks_strings.get()
    }

    /// A string as text; empty if the index is invalid.
    pub(super) fn text(&self, number: i64) -> String {
        safe_text::from_bytes(self.bytes(number))
    }

    pub(super) fn location(&self, id: u64) -> Option<&PprofLocation> {
        self.locations.get(&id)
    }

    pub(super) fn function(&self, id: u64) -> Option<&PprofFunction> {
        self.functions.get(&id)
    }

    /// The mapping of a location: the one it refers to, or else the one that contains its address.
    pub(super) fn mapping(&self, location: &PprofLocation) -> Option<&PprofMapping> {
        let address = location.address;
        match location.mapping {
            0 => (self.mappings.iter())
                .find(|mapping| address > 0 && (mapping.start..mapping.limit).contains(&address)),
            id => self.mappings.iter().find(|mapping| mapping.id == id),
        }
    }
}
