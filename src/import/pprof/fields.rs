//! The fields of a protobuf message one after the other, of a file that may end anywhere.

use prost::encoding::{WireType, decode_key, decode_varint};

/// Numbers of the fields of pprof's `Profile`.
pub(super) mod field {
    pub(in crate::import::pprof) const SAMPLE_TYPE: u32 = 1;
    pub(in crate::import::pprof) const SAMPLE: u32 = 2;
    pub(in crate::import::pprof) const MAPPING: u32 = 3;
    pub(in crate::import::pprof) const LOCATION: u32 = 4;
    pub(in crate::import::pprof) const FUNCTION: u32 = 5;
    pub(in crate::import::pprof) const STRING: u32 = 6;
    pub(in crate::import::pprof) const TIME_NS: u32 = 9;
    pub(in crate::import::pprof) const DURATION_NS: u32 = 10;
    pub(in crate::import::pprof) const PERIOD_TYPE: u32 = 11;
    pub(in crate::import::pprof) const PERIOD: u32 = 12;
    pub(in crate::import::pprof) const COMMENT: u32 = 13;
}

/// The highest number of a field that a profile may have: there are fifteen, and some to come.
const MAX_FIELD: u32 = 31;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message. Ends where the rest is no field.
#[derive(Debug)]
pub(super) struct PprofFields<'a> {
    rest: &'a [u8],
    length: usize,
    /// What was met is no field of a profile, rather than one that is cut.
    pub(super) is_foreign: bool,
}

impl<'a> PprofFields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        PprofFields { rest: message, length: message.len(), is_foreign: false }
    }

    /// Bytes up to where it ended, when that is before the end of the message.
    pub(super) fn cut_at(&self) -> Option<usize> {
        (!self.rest.is_empty()).then(|| self.length - self.rest.len())
    }
}

impl<'a> Iterator for PprofFields<'a> {
    type Item = (u32, WireValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let mut rest = self.rest;
        let (number, kind) =
            decode_key(&mut rest).ok().filter(|(number, _)| *number <= MAX_FIELD).or_else(|| {
                self.is_foreign = true;
                None
            })?;
        let value = match kind {
            WireType::Varint => WireValue::Number(decode_varint(&mut rest).ok()?),
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
                let (bytes, after) = rest.split_at_checked(length)?;
                rest = after;
                WireValue::Bytes(bytes)
            }
            // A profile has none of the other kinds.
            _ => {
                self.is_foreign = true;
                return None;
            }
        };
        self.rest = rest;
        Some((number, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_end_where_the_message_is_cut() {
        let message = [0x0a, 2, 8, 1, 0x48, 0x96, 1, 0x12, 3, 1];
        let mut fields = PprofFields::new(&message);
        assert_eq!(fields.next(), Some((1, WireValue::Bytes(&[8, 1]))));
        assert_eq!(fields.next(), Some((9, WireValue::Number(150))));
        assert_eq!((fields.next(), fields.cut_at(), fields.is_foreign), (None, Some(7), false));
        let mut fields = PprofFields::new(b"main;work 12\n");
        while fields.next().is_some() {}
        assert!(fields.is_foreign);
    }
}
