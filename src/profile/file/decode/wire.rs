//! A look at a protobuf message before it is decoded: fields no one knows are counted, and a message
//! that would decode to far more memory than its bytes is refused.

use crate::profile::file::rows::schema::KnownFields;

/// Most fields of a chunk's message. Packed columns are one field each; only rows are repeated, and
/// each may become some tens of bytes in memory from two in the file.
const MAX_FIELDS: usize = crate::profile::file::bounds::MAX_ROWS + 64;

/// Number of fields in `message` that are not `known`; `None` when it is not a message or has too many
/// fields.
pub(in crate::profile::file) fn unknown_fields(message: &[u8], known: &KnownFields) -> Option<u64> {
    let mut unknown = 0;
    for (position, field) in (WireFields { rest: message }).take(MAX_FIELDS + 1).enumerate() {
        let (number, value) = field?;
        if position == MAX_FIELDS {
            return None;
        }
        unknown += u64::from(number > known.highest);
        if let Some((_, highest)) = known.row.filter(|&(row, _)| row == number) {
            for field in (WireFields { rest: value }) {
                unknown += u64::from(field?.0 > highest);
            }
        }
    }
    Some(unknown)
}

/// The fields of a message: number, and the bytes of a length-delimited value (else none). Ends after the
/// first malformed field, which is `None`.
struct WireFields<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for WireFields<'a> {
    type Item = Option<(u32, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> WireFields<'a> {
    fn field(&mut self) -> Option<(u32, &'a [u8])> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).ok()?;
        let value = match key & 7 {
            0 => {
                self.varint()?;
                &[]
            }
            1 => self.take(8)?,
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.take(length)?
            }
            5 => self.take(4)?,
            _ => return None, // groups, which no version writes
        };
        Some((number, if key & 7 == 2 { value } else { &[] }))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (value, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: KnownFields = KnownFields { highest: 2, row: Some((2, 1)) };

    #[test]
    fn unknown_fields_are_counted_at_both_levels() {
        assert_eq!(unknown_fields(&[], &KNOWN), Some(0));
        assert_eq!(unknown_fields(&[0x08, 5], &KNOWN), Some(0)); // field 1 = 5
        assert_eq!(unknown_fields(&[0x18, 5], &KNOWN), Some(1)); // field 3 = 5
        assert_eq!(unknown_fields(&[0x12, 4, 0x08, 1, 0x10, 1], &KNOWN), Some(1)); // row {1: 1, 2: 1}
        assert_eq!(unknown_fields(&[0x1d, 1, 2, 3, 4, 0x19, 1, 2, 3, 4, 5, 6, 7, 8], &KNOWN), Some(2));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [&[0x08][..], &[0x12, 9, 1], &[0x0b], &[0xff; 12], &[0x09, 1], &[0x12, 1, 0x08]] {
            assert_eq!(unknown_fields(bytes, &KNOWN), None, "{bytes:x?}");
        }
    }

    #[test]
    fn a_message_of_countless_rows_is_refused() {
        assert_eq!(unknown_fields(&[0x12, 0].repeat(MAX_FIELDS), &KNOWN), Some(0));
        assert_eq!(unknown_fields(&[0x12, 0].repeat(MAX_FIELDS + 1), &KNOWN), None);
    }
}
