//! The header of a file: its events, and facts about the machine and perf. Everything is read by its offset in the
//! file, within limits; invalid parts are treated as absent.

use super::attributes::PerfAttribute;
use super::blocks::RecordBlocks;
use super::bytes::{ByteCursor, u64_at, until_zero};
use crate::base::safe_text;
use crate::import::error::ImportError;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// First bytes of a file.
pub(super) const MAGIC: &[u8] = b"PERFILE2";
/// First bytes of a file from a machine with the other byte order.
pub(super) const SWAPPED_MAGIC: &[u8] = b"2ELIFREP";

/// Header length of a file, and of a stream through a pipe, bytes.
const FILE_HEADER_BYTES: u64 = 104;
const PIPE_HEADER_BYTES: u64 = 16;
/// Offset of the feature bitmap in the header.
const FEATURES_AT: usize = 72;
/// Limits on the number of events, and of the ids of one event: one per CPU or thread.
const MAX_EVENTS: usize = 1 << 12;
const MAX_IDS: u64 = 1 << 20;
/// Longest section that is read, bytes.
const MAX_SECTION_BYTES: u64 = 16 << 20;

/// Note on sections after the records that are not in the file: names of events, build IDs, facts about the machine.
const FEATURES_CUT: &str = "the file is cut after its records: build IDs and names of events may be missing";

/// Feature numbers.
mod feature {
    pub(super) const BUILD_ID: u32 = 2;
    pub(super) const HOSTNAME: u32 = 3;
    pub(super) const RELEASE: u32 = 4;
    pub(super) const VERSION: u32 = 5;
    pub(super) const ARCHITECTURE: u32 = 6;
    pub(super) const CPUS: u32 = 7;
    pub(super) const COMMAND: u32 = 11;
    pub(super) const EVENTS: u32 = 12;
}

/// Facts that are known before the first record.
#[derive(Debug, Default)]
pub(super) struct PerfHeader {
    pub(super) attributes: Vec<PerfAttribute>,
    /// Build IDs by path; that of the kernel is under `[kernel.kallsyms]`.
    pub(super) build_ids: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) hostname: String,
    pub(super) release: String,
    pub(super) version: String,
    pub(super) architecture: String,
    pub(super) cpus: u32,
    pub(super) command: Vec<String>,
    /// Size of the records that follow, bytes.
    pub(super) data_bytes: u64,
    pub(super) notes: Vec<String>,
}

impl PerfHeader {
    /// Reads the header, so that the next record of `blocks` is the first one. `file` comes with its length.
    ///
    /// # Errors
    ///
    /// Fails when this is not a perf.data file, or one of an unsupported kind.
    pub(super) fn read(blocks: &mut RecordBlocks, file: Option<(File, u64)>) -> Result<Self, ImportError> {
        let foreign = |why: &str| ImportError::Foreign(why.to_owned());
        let start =
            blocks.take(PIPE_HEADER_BYTES as usize)?.ok_or_else(|| foreign("it ends within its header"))?;
        if start.starts_with(SWAPPED_MAGIC) {
            return Err(foreign(
                "it was recorded on a machine of the other byte order, which is not supported",
            ));
        }
        if !start.starts_with(MAGIC) {
            return Err(foreign("it is no perf.data file of this version (PERFILE2)"));
        }
        if u64_at(&start, 8) == Some(PIPE_HEADER_BYTES) {
            return Ok(PerfHeader { data_bytes: u64::MAX, ..PerfHeader::default() });
        }
        let Some((file, length)) = file else {
            return Err(foreign(
                "perf.data comes through a pipe only as perf record -o - writes it; name the file",
            ));
        };
        let head = section(&file, length, 0, FILE_HEADER_BYTES)
            .ok_or_else(|| foreign("it ends within its header"))?;
        let number = |at| u64_at(&head, at).unwrap_or(0);
        let (data_at, data_bytes) = (number(40), number(48));
        if data_at < PIPE_HEADER_BYTES || data_at > length {
            return Err(foreign("its header is damaged, or it ends before the records"));
        }
        let mut header = PerfHeader { data_bytes, ..PerfHeader::default() };
        header.attributes = attributes(&file, length, number(24), number(32), number(16));
        if header.attributes.is_empty() {
            return Err(foreign("its header is damaged: it describes no events"));
        }
        match data_at.checked_add(data_bytes).filter(|end| *end <= length && data_bytes > 0) {
            Some(end) => header.features(&file, length, end, &head[FEATURES_AT..]),
            None => {
                header.data_bytes = length - data_at;
                header.notes.push(
                    "the file is cut, or perf was killed: what stands after the records, such as build IDs, is missing"
                        .to_owned(),
                );
            }
        }
        blocks.skip(data_at - PIPE_HEADER_BYTES)?;
        Ok(header)
    }

    /// Reads the feature sections; their table begins at `at`, and the set bits say which exist.
    fn features(&mut self, file: &File, length: u64, mut at: u64, bits: &[u8]) {
        let wanted = (0..256u32).filter(|number| bits[*number as usize / 8] >> (number % 8) & 1 != 0);
        for number in wanted {
            let Some(place) = section(file, length, at, 16) else {
                self.notes.push(FEATURES_CUT.to_owned());
                return;
            };
            at += 16;
            let (start, size) = (u64_at(&place, 0).unwrap_or(0), u64_at(&place, 8).unwrap_or(0));
            let is_wanted = matches!(number, 2..=7 | 11 | 12);
            match section(file, length, start, size).filter(|_| is_wanted) {
                Some(bytes) => self.feature(number, &bytes),
                None if is_wanted && start.saturating_add(size) > length => {
                    self.notes.push(FEATURES_CUT.to_owned());
                    return;
                }
                None => {}
            }
        }
    }

    /// Reads the section of a feature.
    pub(super) fn feature(&mut self, number: u32, bytes: &[u8]) {
        let mut cursor = ByteCursor(bytes);
        let mut text = || cursor.string().map(safe_text::from_bytes).unwrap_or_default();
        match number {
            feature::HOSTNAME => self.hostname = text(),
            feature::RELEASE => self.release = text(),
            feature::VERSION => self.version = text(),
            feature::ARCHITECTURE => self.architecture = text(),
            feature::CPUS => self.cpus = ByteCursor(bytes.get(4..).unwrap_or_default()).u32().unwrap_or(0),
            feature::COMMAND => {
                let count = cursor.u32().unwrap_or(0);
                let words = (0..count).map_while(|_| cursor.string());
                self.command = words.map(safe_text::from_bytes).collect();
            }
            feature::EVENTS => {
                self.name_events(bytes);
            }
            feature::BUILD_ID => self.add_build_ids(bytes),
            _ => {}
        }
    }

    /// Reads the names of events, which are matched by one of their ids.
    fn name_events(&mut self, bytes: &[u8]) -> Option<()> {
        let mut cursor = ByteCursor(bytes);
        let (count, size) = (cursor.u32()?, cursor.u32()?);
        for at in 0..count as usize {
            cursor.take(size as usize)?;
            let ids = cursor.u32()?;
            let name = safe_text::from_bytes(cursor.string()?);
            let ids = cursor.words(u64::from(ids))?;
            let first = u64_at(ids, 0);
            let by_id =
                self.attributes.iter().position(|known| first.is_some_and(|id| known.ids.contains(&id)));
            if let Some(attribute) = self.attributes.get_mut(by_id.unwrap_or(at)) {
                attribute.name = name;
            }
        }
        Some(())
    }

    /// Reads build ID records: header, pid, 24 bytes of ID with its length, path.
    fn add_build_ids(&mut self, mut bytes: &[u8]) {
        const PATH_AT: usize = 36;
        const HAS_LENGTH: u16 = 1 << 15;
        while let Ok(Some((record, length))) = super::blocks::RawRecord::first(bytes) {
            let entry = &bytes[..length];
            bytes = &bytes[length..];
            let Some(path) = entry.get(PATH_AT..) else { continue };
            let id = &entry[12..PATH_AT];
            let size = match record.misc & HAS_LENGTH {
                0 => 20 - id[..20].iter().rev().take_while(|byte| **byte == 0).count() / 4 * 4,
                _ => usize::from(id[20]).min(20),
            };
            if size > 0 {
                self.build_ids.insert(until_zero(path).to_vec(), id[..size].to_vec());
            }
        }
    }
}

/// The attributes of the events, each with its ids.
fn attributes(file: &File, length: u64, at: u64, size: u64, entry: u64) -> Vec<PerfAttribute> {
    let Some(bytes) = section(file, length, at, size) else { return Vec::new() };
    let entry = usize::try_from(entry).unwrap_or(0);
    if entry <= 16 {
        return Vec::new();
    }
    let parsed = bytes.chunks_exact(entry).take(MAX_EVENTS).filter_map(|chunk| {
        let (bytes, place) = chunk.split_at(entry - 16);
        let (mut attribute, _) = PerfAttribute::parse(bytes)?;
        let (start, size) = (u64_at(place, 0)?, u64_at(place, 8)?);
        let ids = section(file, length, start, size.min(MAX_IDS * 8)).unwrap_or_default();
        attribute.ids = ids.chunks_exact(8).filter_map(|id| u64_at(id, 0)).collect();
        Some(attribute)
    });
    parsed.collect()
}

/// A section of the file; `None` if it is incomplete, or longer than the limit.
fn section(file: &File, length: u64, at: u64, size: u64) -> Option<Vec<u8>> {
    if size > MAX_SECTION_BYTES || at.checked_add(size)? > length {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}
