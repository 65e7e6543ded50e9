//! Lines of positions in a sequence of instructions: entries, and an index of the positions at which they begin, packed
//! with ranks.

use super::layout::RubyOffsets;
use crate::runtimes::memory::TargetMemory;

/// Positions whose entry is found at once.
const DIRECT: u32 = 54;
/// Such positions in a word, of seven bits each.
const DIRECT_IN_WORD: u32 = 9;
/// Bytes of the words of all of these.
const DIRECT_BYTES: usize = 48;
/// Other positions in a block.
const IN_BLOCK: u32 = 512;
/// Bytes of a block: number of entries before it, those before each of its words, and a bit for each position.
const BLOCK_BYTES: usize = 80;
/// Most entries of one sequence of instructions.
const MOST_ENTRIES: u32 = 1 << 18;
/// Longest sequence of instructions, in words.
pub(crate) const MOST_POSITIONS: u32 = 1 << 22;

/// Lines of one sequence of instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RubyLines {
    lines: Vec<u32>,
    index: Vec<u8>,
}

impl RubyLines {
    /// Reads the lines of the sequence whose body is at `body` and has `size` words; `None` if they cannot be read.
    pub(crate) fn read(
        memory: &impl TargetMemory,
        offsets: &RubyOffsets,
        body: u64,
        size: u32,
    ) -> Option<Self> {
        let table = body.checked_add(offsets.line_table.into())?;
        let entries = memory.u64(table)?;
        let count = memory.u32(table.checked_add(16)?).filter(|&count| count <= MOST_ENTRIES)?;
        let bytes = u64::from(count) * u64::from(offsets.line_entry);
        let bytes = memory.range(entries, bytes, usize::try_from(bytes).ok()?)?;
        let lines: Vec<u32> = bytes
            .chunks_exact(offsets.line_entry as usize)
            .filter_map(|entry| entry.first_chunk().map(|line| u32::from_le_bytes(*line)))
            .collect();
        let index = if count < 2 { Vec::new() } else { read_index(memory, table, size)? };
        Some(Self { lines, index })
    }

    /// Line of the instruction at `position`, in words; `None` if it has none.
    pub(crate) fn line(&self, position: u32) -> Option<u32> {
        let entry = match self.lines.len() {
            0 => return None,
            1 => 0,
            _ => self.rank(position)?.checked_sub(1)?,
        };
        self.lines.get(entry).copied()
    }

    /// Number of entries that begin at `position` or before.
    fn rank(&self, position: u32) -> Option<usize> {
        let word = |offset: usize| {
            let bytes = self.index.get(offset..offset.checked_add(8)?)?;
            bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
        };
        let Some(after) = position.checked_sub(DIRECT) else {
            let word = word((position / DIRECT_IN_WORD) as usize * 8)?;
            return Some((word >> (7 * (position % DIRECT_IN_WORD)) & 0x7f) as usize);
        };
        let block = DIRECT_BYTES + (after / IN_BLOCK) as usize * BLOCK_BYTES;
        let (number, bit) = (after % IN_BLOCK / 64, after % 64);
        let before = word(block)? & 0xffff_ffff;
        let in_words = match number.checked_sub(1) {
            Some(earlier) => word(block + 8)? >> (9 * earlier) & 0x1ff,
            None => 0,
        };
        let here = word(block + 16 + 8 * number as usize)? << (63 - bit);
        usize::try_from(before + in_words + u64::from(here.count_ones())).ok()
    }
}

/// Reads the index of a table of lines for a sequence of `size` words.
fn read_index(memory: &impl TargetMemory, table: u64, size: u32) -> Option<Vec<u8>> {
    let bytes = match size.checked_sub(DIRECT) {
        None => (size + 8) / DIRECT_IN_WORD * 8,
        Some(after) => DIRECT_BYTES as u32 + after.div_ceil(IN_BLOCK) * BLOCK_BYTES as u32,
    };
    memory.range(memory.u64(table.checked_add(24)?)?, bytes.into(), bytes as usize)
}
