//! Tables of source positions of bytecodes and machine code, and of the machine code of bytecodes.

/// Position in the source of a script, perhaps of a function that was inlined there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct V8Position {
    /// Offset in the source, in UTF-16 units; absent if V8 has omitted positions of this function.
    pub(super) offset: Option<u32>,
    /// Index in the inlining positions of the code; `None` in the function itself.
    pub(super) inlining: Option<u32>,
}

impl V8Position {
    /// Position from the number V8 packs it into: external flag, offset + 1 (30 bits), inlining + 1 (16 bits).
    pub(super) fn unpack(raw: u64) -> Option<Self> {
        if raw & 1 != 0 {
            return None;
        }
        let offset = u32::try_from((raw >> 1) & 0x3fff_ffff).ok()?;
        let inlining = u32::try_from((raw >> 31) & 0xffff).ok()?;
        Some(Self { offset: offset.checked_sub(1), inlining: inlining.checked_sub(1) })
    }
}

/// How a table packs the distance to the next code offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum V8PositionPacking {
    /// Zigzag, negative if the entry is no statement: V8 up to 13.6.
    Signed,
    /// Two bits of flags below: from V8 14.1 on.
    Flags,
}

impl V8PositionPacking {
    /// Packing of this version of V8; `None` for those between the last seen with one and the first with the other.
    pub(super) fn of_version(version: (u32, u32)) -> Option<Self> {
        match version {
            (..=12, _) | (13, ..=6) => Some(Self::Signed),
            (13, _) | (14, 0) => None,
            _ => Some(Self::Flags),
        }
    }

    fn distance(self, raw: u64) -> u64 {
        match self {
            Self::Signed => raw >> 1,
            Self::Flags => raw >> 2,
        }
    }
}

/// Next number of 7 bits a byte; `None` at the end or if it has more than 64 bits.
fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// Entries of a table: code offset and packed position. Ends at the first entry that is damaged.
fn entries(table: &[u8], packing: V8PositionPacking) -> impl Iterator<Item = (i64, u64)> {
    let mut bytes = table.iter().copied();
    // The entry of the function itself is at offset -1.
    let (mut code, mut position) = (-1_i64, 0_i64);
    std::iter::from_fn(move || {
        let distance = i64::try_from(packing.distance(number(&mut bytes)?)).ok()?;
        code = code.checked_add(distance)?;
        position = position.checked_add(unzigzag(number(&mut bytes)?))?;
        Some((code, u64::try_from(position).ok()?))
    })
}

/// Last entry of a table at or before `code_offset`: its code offset and position.
pub(super) fn position_at(
    table: &[u8],
    packing: V8PositionPacking,
    code_offset: u32,
) -> Option<(u32, V8Position)> {
    let before = entries(table, packing).take_while(|&(code, _)| code <= code_offset.into());
    let (code, raw) = before.filter(|&(code, _)| code >= 0).last()?;
    Some((u32::try_from(code).ok()?, V8Position::unpack(raw)?))
}

/// True if a table of optimised code has positions of the function itself, not only of those inlined there.
pub(super) fn has_own_positions(table: &[u8], packing: V8PositionPacking) -> bool {
    let positions = entries(table, packing).filter_map(|(_, raw)| V8Position::unpack(raw));
    { positions }.any(|position| position.inlining.is_none() && position.offset.is_some())
}

/// Bytecode whose baseline code contains the instruction before `pc_offset`: the table has the size of the code of
/// each bytecode, the entry of the function first.
pub(super) fn baseline_bytecode(table: &[u8], bytecodes: &[u8], sizes: &[u8], pc_offset: u64) -> Option<u32> {
    let mut bytes = table.iter().copied();
    let mut end = number(&mut bytes)?;
    let mut offset = 0;
    let mut next = 0;
    while end < pc_offset {
        offset = next;
        next += bytecode_size(bytecodes.get(next..)?, sizes)?;
        end = end.checked_add(number(&mut bytes)?)?;
    }
    u32::try_from(offset).ok()
}

/// Size of the first bytecode of `bytecodes` with its prefix of operand scale: 0 and 2 double, 1 and 3 quadruple.
fn bytecode_size(bytecodes: &[u8], sizes: &[u8]) -> Option<usize> {
    let (first, rest) = bytecodes.split_first()?;
    let (prefix, scale, bytecode) = match first {
        0 | 2 => (1, 1, rest.first()?),
        1 | 3 => (1, 2, rest.first()?),
        _ => (0, 0, first),
    };
    let rows = sizes.len() / 3;
    let index = usize::from(*bytecode);
    let size = *sizes.get(scale * rows..(scale + 1) * rows)?.get(index)?;
    (size > 0).then_some(prefix + usize::from(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_known_or_refused() {
        let of = V8PositionPacking::of_version;
        assert_eq!(
            (of((13, 6)), of((13, 9)), of((14, 1))),
            (Some(V8PositionPacking::Signed), None, Some(V8PositionPacking::Flags))
        );
    }

    #[test]
    fn entries_of_both_packings() {
        // Function entry at position 5, then offset 3 at position 9, then offset 7 at position 8.
        let signed = [0x00, 0x18, 0x08, 0x10, 0x08, 0x03];
        let found =
            |table: &[u8], packing, at| position_at(table, packing, at).map(|(_, found)| found.offset);
        assert_eq!(found(&signed, V8PositionPacking::Signed, 2), None);
        assert_eq!(found(&signed, V8PositionPacking::Signed, 3), Some(Some(9)));
        assert_eq!(found(&signed, V8PositionPacking::Signed, 70), Some(Some(8)));
        let flags = [0x01, 0x18, 0x11, 0x10, 0x12, 0x03];
        assert_eq!(found(&flags, V8PositionPacking::Flags, 4), Some(Some(9)));
    }

    #[test]
    fn damaged_tables_end_quietly() {
        assert_eq!(position_at(&[0x80; 40], V8PositionPacking::Signed, 9), None);
        assert_eq!(position_at(&[0xff, 0xff], V8PositionPacking::Flags, 9), None);
        assert_eq!(position_at(&[0x08, 0x01], V8PositionPacking::Signed, 9), None);
        assert_eq!(baseline_bytecode(&[1, 1, 1], &[9, 9], &[], 3), None);
        assert_eq!(baseline_bytecode(&[0, 0, 0], &[9], &[1; 30], 3), None);
    }

    #[test]
    fn packed_position_has_offset_and_inlining() {
        let raw = (8 << 1) | (3 << 31);
        assert_eq!(V8Position::unpack(raw), Some(V8Position { offset: Some(7), inlining: Some(2) }));
        assert_eq!(V8Position::unpack(raw | 1), None);
        assert_eq!(V8Position::unpack(0), Some(V8Position { offset: None, inlining: None }));
    }

    #[test]
    fn baseline_code_is_walked_with_its_bytecodes() {
        let sizes = [1, 1, 1, 1, 2, 3, 1, 1, 1, 1, 3, 5, 1, 1, 1, 1, 5, 9];
        let bytecodes = [4, 0, 0, 4, 0, 0, 5, 0, 0];
        let table = [10, 20, 30, 40];
        let at = |pc| baseline_bytecode(&table, &bytecodes, &sizes, pc);
        assert_eq!((at(5), at(15), at(31), at(61)), (Some(0), Some(0), Some(2), Some(6)));
        assert_eq!(at(101), None);
    }
}
