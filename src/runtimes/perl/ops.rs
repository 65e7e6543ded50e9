//! Functions of ops, by the two tables that every interpreter exports: the names of ops, and the functions that run them.

/// More ops than any version has.
const MOST_OPS: u64 = 600;
/// Bytes of the longest name looked for, and the zero after it.
const NAME_BYTES: usize = 16;

/// Where the tables are, and how they are read: addresses are those of `word` and `bytes`.
pub(crate) struct OpTables<'r> {
    /// Address of `PL_op_name`.
    pub(crate) names: u64,
    /// Address of `PL_ppaddr`.
    pub(crate) functions: u64,
    /// The word at an address, as it is after relocation.
    pub(crate) word: &'r dyn Fn(u64) -> Option<u64>,
    /// The bytes at an address.
    pub(crate) bytes: &'r dyn Fn(u64) -> Option<[u8; NAME_BYTES]>,
}

impl OpTables<'_> {
    /// Addresses of the functions of some ops; those of no such op are `None`.
    pub(super) fn functions<const N: usize>(&self, ops: [&str; N]) -> [Option<u64>; N] {
        let mut found = [None; N];
        for number in 0..MOST_OPS {
            let Some(name) = self.entry(self.names, number).filter(|&name| name != 0) else { break };
            let Some(bytes) = (self.bytes)(name) else { break };
            let op = ops.iter().position(|op| {
                bytes.get(..op.len()) == Some(op.as_bytes()) && bytes.get(op.len()) == Some(&0)
            });
            if let Some(place) = op.and_then(|op| found.get_mut(op)) {
                *place = self.entry(self.functions, number).filter(|&function| function != 0);
            }
        }
        found
    }

    fn entry(&self, table: u64, number: u64) -> Option<u64> {
        (self.word)(table.checked_add(number.checked_mul(8)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_the_names_of_their_ops() {
        let texts: [&[u8; NAME_BYTES]; 3] =
            [b"null\0...........", b"nextstate\0......", b"nextstates\0....."];
        let word = |address: u64| match address {
            0x1000..0x1018 => Some(0x3000 + 16 * ((address - 0x1000) / 8)),
            0x2000..0x2018 => Some(0x4000 + (address - 0x2000)),
            _ => None,
        };
        let bytes =
            |address: u64| texts.get(usize::try_from((address - 0x3000) / 16).ok()?).map(|text| **text);
        let tables = OpTables { names: 0x1000, functions: 0x2000, word: &word, bytes: &bytes };
        assert_eq!(tables.functions(["nextstate", "none", "null"]), [Some(0x4008), None, Some(0x4000)]);
    }
}
