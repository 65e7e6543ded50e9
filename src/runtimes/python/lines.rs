//! Lines of positions in a code object, by the three forms of tables that versions of CPython have.

use super::layout::PythonLineTable;

/// Line of the instruction `position` bytes from the first one; `None` if the table gives it none.
///
/// Entries that the table's end cuts give nothing.
pub(crate) fn line(kind: PythonLineTable, table: &[u8], first_line: u32, position: u32) -> Option<u32> {
    let line = match kind {
        PythonLineTable::Increments => Some(line_by_increments(table, first_line, position)),
        PythonLineTable::Ranges => line_by_ranges(table, first_line, position),
        PythonLineTable::Locations => line_by_locations(table, first_line, position),
    }?;
    u32::try_from(line).ok()
}

fn line_by_increments(table: &[u8], first_line: u32, position: u32) -> i64 {
    let mut line = i64::from(first_line);
    let mut start = 0u64;
    for &[length, increment] in table.as_chunks::<2>().0 {
        start += u64::from(length);
        if start > u64::from(position) {
            break;
        }
        line += i64::from(increment.cast_signed());
    }
    line
}

fn line_by_ranges(table: &[u8], first_line: u32, position: u32) -> Option<i64> {
    let mut line = i64::from(first_line);
    let mut end = 0u64;
    for &[length, increment] in table.as_chunks::<2>().0 {
        end += u64::from(length);
        let has_line = increment != 0x80;
        if has_line {
            line += i64::from(increment.cast_signed());
        }
        if u64::from(position) < end {
            return has_line.then_some(line);
        }
    }
    None
}

fn line_by_locations(table: &[u8], first_line: u32, position: u32) -> Option<i64> {
    let mut line = i64::from(first_line);
    let mut end = 0u64;
    let mut bytes = table.iter().copied();
    while let Some(start) = bytes.next() {
        let mut has_line = true;
        match (start >> 3) & 15 {
            0..=9 => skip(&mut bytes, 1)?,
            code @ 10..=12 => {
                line += i64::from(code) - 10;
                skip(&mut bytes, 2)?;
            }
            13 => line = line.checked_add(signed(&mut bytes)?)?,
            14 => {
                line = line.checked_add(signed(&mut bytes)?)?;
                for _ in 0..3 {
                    unsigned(&mut bytes)?;
                }
            }
            _ => has_line = false,
        }
        // The low three bits count instructions of two bytes, less one.
        end += 2 * (u64::from(start & 7) + 1);
        if u64::from(position) < end {
            return has_line.then_some(line);
        }
    }
    None
}

fn skip(bytes: &mut impl Iterator<Item = u8>, count: usize) -> Option<()> {
    bytes.nth(count - 1).map(|_| ())
}

/// Number in groups of six bits, the lowest first; bit 6 says that another group follows.
fn unsigned(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..36).step_by(6) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(value);
        }
    }
    None
}

/// Number whose lowest bit is the sign.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = unsigned(bytes)?;
    let magnitude = i64::try_from(value >> 1).ok()?;
    Some(if value & 1 == 0 { magnitude } else { -magnitude })
}
