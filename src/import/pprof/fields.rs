//! The fields of a protobuf message, one by one, in a file that may end anywhere.

use prost::encoding::{WireType, decode_key, decode_varint};

/// Field numbers of pprof's `Profile`.
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

/// Largest field number that is accepted: the format has fifteen, and this leaves room for new ones.
const MAX_FIELD: u32 = 31;

/// Value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Iterator over the fields of a message. Ends where the rest is not a field.
#[derive(Debug)]
pub(super) struct PprofFields<'a> {
    rest: &'a [u8],
    length: usize,
    /// Whether it ended at something that is not a field of a profile, rather than at a truncated field.
    pub(super) is_foreign: bool,
}

impl<'a> PprofFields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        PprofFields { rest: message, length: message.len(), is_foreign: false }
    }

    /// Offset where it ended, if that is before the end of the message.
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
            // No field of a profile has another wire type.
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
