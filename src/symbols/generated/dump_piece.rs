//! From the bytes of a dump to its records, a piece at a time. Nothing is kept between two pieces but where the next one begins,
//! so that another process can read them.

use super::dump_window::{DumpWindow, u32_at, u64_at};
use crate::symbols::demangle;
use crate::symbols::limits::{NamingLimits, cut_text};
use serde::{Deserialize, Serialize};
use std::fs::File;

/// First word of a file that was written by a little-endian processor ("JiTD").
pub(super) const MAGIC: u32 = 0x4a69_5444;
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: u64 = 40;
/// Flag: times are not CLOCK_MONOTONIC, but the processor's own counter.
pub(super) const ARCHITECTURE_TIMES: u64 = 1;
pub(super) const RECORD_HEADER_BYTES: u64 = 16;
/// Sizes of the fixed parts of records, without their headers.
const LOAD_BYTES: u64 = 40;
const MOVE_BYTES: u64 = 48;
const DEBUG_BYTES: u64 = 16;
const DEBUG_ENTRY_BYTES: usize = 16;
/// Length above which a record with lines is skipped.
const MAX_DEBUG_BYTES: u64 = 16 << 20;
const ELF_HEADER_BYTES: u32 = 0x40;
/// A file name that means the same file as in the line before.
pub(super) const SAME_FILE: &[u8] = b"\xff";
/// Records that may be between lines and their code.
const MOST_BETWEEN: usize = 8;
/// A piece with more than this is not continued, bytes.
const MOST_BYTES: usize = 8 << 20;

/// Where a piece begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DumpPosition {
    /// Offset of the first record; 0: the header comes first.
    at: u64,
    /// File of the last line before.
    last_file: Option<String>,
}

impl DumpPosition {
    /// Whether nothing can begin there in a file of `size` bytes.
    pub(crate) fn is_behind(&self, size: u64) -> bool {
        self.at.saturating_add(RECORD_HEADER_BYTES) > size
    }
}

/// Some records of a dump.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct DumpPiece {
    /// The header, if the piece begins with it.
    pub(super) header: Option<DumpHeader>,
    /// Records with their times.
    pub(super) records: Vec<(u64, DumpRecord)>,
    pub(super) next: DumpPosition,
    /// Whether there are more.
    pub(super) has_more: bool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct DumpHeader {
    /// Process id of the writer, in its own namespace.
    pub(super) pid: u32,
    pub(super) has_times: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum DumpRecord {
    Load(LoadedCode),
    Move {
        old: u64,
        new: u64,
        end: u64,
    },
    /// It says nothing of code, or of that in the next record.
    Other,
    Malformed,
    /// The writer is done.
    End,
    /// Where the next record begins is not known.
    Lost,
}

/// Code that was loaded.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LoadedCode {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) name: String,
    /// The name as people read it, if it is another.
    pub(super) readable: Option<String>,
    /// Offset of the code bytes in the file; 0 if they were cut off.
    pub(super) bytes_at: u64,
    pub(super) lines: Vec<LoadedLine>,
    /// Files of the lines.
    pub(super) files: Vec<String>,
}

/// The start of a source line.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct LoadedLine {
    /// Offset from the start of the code.
    pub(super) offset: u32,
    pub(super) line: u32,
    /// Index in the files of the code.
    pub(super) file: u32,
}

/// Lines for the code that is loaded next.
struct NextLines {
    /// Address of the code.
    start: u64,
    lines: Vec<LoadedLine>,
    files: Vec<String>,
    /// Where the record with them begins, and how many are before it in this piece.
    at: u64,
    records_before: usize,
}

impl DumpPiece {
    /// A piece without records.
    pub(crate) fn nothing_at(begin: &DumpPosition) -> Self {
        DumpPiece { next: begin.clone(), ..DumpPiece::default() }
    }

    /// Reads up to `most` records from `begin` on, as far as they are complete, and perhaps some more: lines come with their code.
    pub(crate) fn read(file: &File, begin: &DumpPosition, most: usize, limits: &NamingLimits) -> Self {
        let mut piece = DumpPiece::nothing_at(begin);
        let Ok(size) = file.metadata().map(|facts| facts.len()) else { return piece };
        let mut reader = PieceReader {
            file,
            size,
            limits,
            window: DumpWindow::default(),
            last_file: begin.last_file.clone(),
            next_lines: None,
            bytes: 0,
        };
        if begin.at == 0 && !reader.read_header(&mut piece) {
            return piece;
        }
        let is_complete = reader.read_records(&mut piece, most);
        piece.next.last_file = reader.last_file.take();
        piece.has_more = is_complete
            && !matches!(piece.records.last(), Some((_, DumpRecord::End | DumpRecord::Lost)))
            && piece.next.at.saturating_add(RECORD_HEADER_BYTES) <= size;
        // Their code comes with the next piece.
        if let Some(NextLines { at, records_before, .. }) = reader.next_lines {
            piece.records.truncate(records_before);
            piece.next.at = at;
        }
        piece
    }
}

struct PieceReader<'f> {
    file: &'f File,
    size: u64,
    limits: &'f NamingLimits,
    window: DumpWindow,
    last_file: Option<String>,
    next_lines: Option<NextLines>,
    /// Bytes that the records take so far, about.
    bytes: usize,
}

impl PieceReader<'_> {
    fn read_header(&mut self, piece: &mut DumpPiece) -> bool {
        let Some(header) = self.bytes(0, HEADER_BYTES) else { return false };
        let (magic, version, length) = (u32_at(header, 0), u32_at(header, 4), u64::from(u32_at(header, 8)));
        let (pid, flags) = (u32_at(header, 20), u64_at(header, 32));
        if magic != MAGIC || version != VERSION || length < HEADER_BYTES {
            piece.records.push((0, DumpRecord::Lost));
            return false;
        }
        piece.header = Some(DumpHeader { pid, has_times: flags & ARCHITECTURE_TIMES == 0 });
        piece.next.at = length;
        true
    }

    /// Returns whether all records were complete that were looked at.
    fn read_records(&mut self, piece: &mut DumpPiece, most: usize) -> bool {
        loop {
            let count = piece.records.len();
            let is_enough = count >= most || self.bytes > MOST_BYTES;
            let is_between = |lines: &NextLines| count - lines.records_before <= MOST_BETWEEN;
            self.next_lines = self.next_lines.take().filter(is_between);
            if is_enough && self.next_lines.is_none() {
                return true;
            }
            let at = piece.next.at;
            let Some(header) = self.bytes(at, RECORD_HEADER_BYTES) else { return false };
            let (kind, length) = (u32_at(header, 0), u64::from(u32_at(header, 4)));
            let time_ns = u64_at(header, 8);
            if length < RECORD_HEADER_BYTES {
                self.next_lines = None;
                piece.records.push((0, DumpRecord::Lost));
                return true;
            }
            let Some(end) = at.checked_add(length).filter(|&end| end <= self.size) else { return false };
            let record = self.read_record(kind, (at, count), length - RECORD_HEADER_BYTES);
            let is_end = matches!(record, Some(DumpRecord::End));
            piece.records.push((time_ns, record.unwrap_or(DumpRecord::Malformed)));
            piece.next.at = end;
            if is_end {
                self.next_lines = None;
                return true;
            }
        }
    }

    /// Reads the record at `place.0`, before which there are `place.1` in this piece, and whose body has `length` bytes; `None` if
    /// it is malformed.
    fn read_record(&mut self, kind: u32, place: (u64, usize), length: u64) -> Option<DumpRecord> {
        let body = place.0 + RECORD_HEADER_BYTES;
        match kind {
            0 => self.read_load(body, length),
            1 => self.read_move(body, length),
            2 => {
                self.next_lines = None;
                self.next_lines = Some(self.read_lines(place, body, length)?);
                Some(DumpRecord::Other)
            }
            3 => Some(DumpRecord::End),
            // Unwind entries, and records that later versions may add.
            _ => Some(DumpRecord::Other),
        }
    }

    fn read_load(&mut self, body: u64, length: u64) -> Option<DumpRecord> {
        let (lines, most) = (self.next_lines.take(), self.limits.max_name_bytes);
        // The name is followed by the code; the end of an overlong name is not searched for.
        let name_bytes = length.checked_sub(LOAD_BYTES)?.min(most as u64 + 1);
        let bytes = self.bytes(body, LOAD_BYTES + name_bytes)?;
        let (start, code_size) = (u64_at(bytes, 16), u64_at(bytes, 24));
        let name = &bytes[LOAD_BYTES as usize..];
        let name_end = name.iter().position(|&byte| byte == 0);
        let name = name_end.map_or(name, |end| &name[..end]);
        // The code follows the name and its terminating zero.
        let code_at = LOAD_BYTES + name.len() as u64 + 1;
        let is_whole = name_end.is_some() && code_at.checked_add(code_size).is_some_and(|end| end <= length);
        let bytes_at = if is_whole { body + code_at } else { 0 };
        let end = start.checked_add(code_size).filter(|&end| end > start)?;
        let name = String::from_utf8_lossy(name);
        let name = cut_text(&name, most).to_owned();
        let readable = demangle(&name);
        let readable = (readable != name).then(|| cut_text(&readable, most).to_owned());
        let (lines, files) = match lines.filter(|lines| lines.start == start) {
            Some(NextLines { lines, files, .. }) => (lines, files),
            None => (Vec::new(), Vec::new()),
        };
        self.bytes += size_of::<LoadedCode>() + name.len() + lines.len() * size_of::<LoadedLine>();
        Some(DumpRecord::Load(LoadedCode { start, end, name, readable, bytes_at, lines, files }))
    }

    fn read_move(&mut self, body: u64, length: u64) -> Option<DumpRecord> {
        (length >= MOVE_BYTES).then_some(())?;
        let bytes = self.bytes(body, MOVE_BYTES)?;
        let (old, new, code_size) = (u64_at(bytes, 16), u64_at(bytes, 24), u64_at(bytes, 32));
        let end = new.checked_add(code_size).filter(|&end| end > new)?;
        self.bytes += size_of::<DumpRecord>();
        Some(DumpRecord::Move { old, new, end })
    }

    fn read_lines(
        &mut self,
        (at, records_before): (u64, usize),
        body: u64,
        length: u64,
    ) -> Option<NextLines> {
        (DEBUG_BYTES..=MAX_DEBUG_BYTES).contains(&length).then_some(())?;
        let bytes = self.bytes(body, length)?.to_vec();
        let (start, count) = (u64_at(&bytes, 0), u64_at(&bytes, 8));
        let mut found = NextLines { start, lines: Vec::new(), files: Vec::new(), at, records_before };
        let mut rest = &bytes[DEBUG_BYTES as usize..];
        for _ in 0..count {
            let (entry, after) = rest.split_at_checked(DEBUG_ENTRY_BYTES)?;
            let name_end = after.iter().position(|&byte| byte == 0)?;
            let file = self.file_index(&after[..name_end], &mut found.files)?;
            // Erlang writes some that begin before the code: they are left out.
            let offset = u64_at(entry, 0).checked_sub(start).and_then(|offset| u32::try_from(offset).ok());
            found.lines.extend(offset.map(|offset| LoadedLine { offset, line: u32_at(entry, 8), file }));
            rest = &after[name_end + 1..];
        }
        let lines = &mut found.lines;
        lines.sort_by_key(|line| line.offset);
        // V8 includes the ELF header that perf puts before the code.
        if lines.first().is_some_and(|line| line.offset == ELF_HEADER_BYTES) {
            lines.iter_mut().for_each(|line| line.offset -= ELF_HEADER_BYTES);
        }
        Some(found)
    }

    /// The index of a line's file name: many lines have the same one. `None` if it cannot be a name: V8 of node 20
    /// writes freed memory, with another length, for code of its second compiler.
    fn file_index(&mut self, name: &[u8], files: &mut Vec<String>) -> Option<u32> {
        let last = self.last_file.as_ref().filter(|last| name == SAME_FILE || name == last.as_bytes());
        if last.is_none() {
            let name = std::str::from_utf8(name).ok().filter(|name| !name.chars().any(char::is_control))?;
            self.last_file = Some(cut_text(name, self.limits.max_name_bytes).to_owned());
        }
        if files.last() != self.last_file.as_ref() {
            files.extend(self.last_file.clone());
            self.bytes += files.last().map_or(0, |file| size_of::<String>() + file.len());
        }
        u32::try_from(files.len().checked_sub(1)?).ok()
    }

    /// Bytes of the file, all of which must lie in it.
    fn bytes(&mut self, at: u64, len: u64) -> Option<&[u8]> {
        let end = at.checked_add(len).filter(|&end| end <= self.size)?;
        self.window.read(self.file, at, (end - at) as usize, self.size)
    }
}
