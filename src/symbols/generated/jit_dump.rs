//! `jit-PID.dump`: names, lines and times of generated code, as runtimes write them for perf.
//!
//! A header and a sequence of records: code was loaded or moved; the lines of the code loaded next; its unwind entries;
//! the end. The format is described in the kernel's `tools/perf/Documentation/jitdump-specification.txt`. A runtime
//! announces its dump by mapping the file as code, so the file is found among the mappings of the process, in whatever
//! namespace that is.
//!
//! The file grows while it is read, and is untrusted: it is read at positions and never mapped, only as far as records
//! are complete; code bytes in it are skipped, and everything is bounded by [`NamingLimits`].

use super::dump_window::{DumpWindow, u32_at, u64_at};
use super::dumped_code::{DumpedCode, JitName, Line, Text};
use crate::symbols::limits::NamingLimits;
use crate::symbols::limits::cut_text;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

/// First word of a file that was written by a little-endian processor ("JiTD").
const MAGIC: u32 = 0x4a69_5444;
const VERSION: u32 = 1;
const HEADER_BYTES: u64 = 40;
/// Flag: times are not CLOCK_MONOTONIC, but the processor's own counter.
const ARCHITECTURE_TIMES: u64 = 1;
const RECORD_HEADER_BYTES: u64 = 16;
/// Sizes of the fixed parts of records, without their headers.
const LOAD_BYTES: u64 = 40;
const MOVE_BYTES: u64 = 48;
const DEBUG_BYTES: u64 = 16;
const DEBUG_ENTRY_BYTES: usize = 16;
/// Length above which a record with lines is skipped.
const MAX_DEBUG_BYTES: u64 = 16 << 20;
/// Most lines kept, for all code together.
const MAX_LINES: usize = 8 << 20;
const ELF_HEADER_BYTES: u32 = 0x40;
/// A file name that means the same file as in the line before.
const SAME_FILE: &[u8] = b"\xff";
/// Most pieces of former code around one address that are looked at.
const MAX_CANDIDATES: usize = 256;

/// Result of reading more records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    /// Records read.
    pub(crate) records: usize,
    /// Whether there are more records than were asked for.
    pub(crate) has_more: bool,
}

/// The contents of a dump, as far as it was read.
#[derive(Debug)]
pub(crate) struct JitDump {
    file: Arc<File>,
    /// Offset of the next record; 0 before the header was read.
    at: u64,
    window: DumpWindow,
    /// Process id of the writer, in its own namespace.
    pid: u32,
    has_times: bool,
    /// The time of the last record.
    known_until_ns: u64,
    codes: Vec<DumpedCode>,
    /// Code that is there now, by start, without overlaps.
    present: BTreeMap<u64, u32>,
    /// Code that is gone, by start.
    past: BTreeMap<u64, Vec<u32>>,
    longest_past: u64,
    text: String,
    lines: Vec<Line>,
    /// Lines for the code that is loaded next: its address, and the range in `lines`.
    next_lines: Option<(u64, (u32, u32))>,
    last_file: Option<(Vec<u8>, Text)>,
    bad_records: u64,
    is_over: bool,
    is_cut: bool,
}

impl JitDump {
    /// Makes a reader of the dump in an opened file of a process whose effective user is `uid`. Nothing is read yet.
    ///
    /// # Errors
    ///
    /// Fails when `file` is not a regular file, or belongs to neither the user nor root.
    pub(crate) fn new(file: Arc<File>, uid: u32) -> io::Result<Self> {
        let facts = file.metadata()?;
        if !facts.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "jitdump is not a regular file"));
        }
        if facts.uid() != uid && facts.uid() != 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "jitdump belongs to another user"));
        }
        Ok(JitDump {
            file,
            at: 0,
            window: DumpWindow::default(),
            pid: 0,
            has_times: true,
            known_until_ns: 0,
            codes: Vec::new(),
            present: BTreeMap::new(),
            past: BTreeMap::new(),
            longest_past: 0,
            text: String::new(),
            lines: Vec::new(),
            next_lines: None,
            last_file: None,
            bad_records: 0,
            is_over: false,
            is_cut: false,
        })
    }

    /// Whether a file is named as dumps are: `jit-PID.dump`.
    pub(crate) fn is_name(path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let pid = name.strip_prefix("jit-").and_then(|rest| rest.strip_suffix(".dump"));
        pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Process id of the writer in its own namespace, as given in the file; 0 before anything was read.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Time (CLOCK_MONOTONIC, ns) up to which everything written has been read.
    pub(crate) fn known_until_ns(&self) -> u64 {
        if self.has_times { self.known_until_ns } else { 0 }
    }

    /// Number of pieces of code loaded so far.
    pub(crate) fn len(&self) -> usize {
        self.codes.len()
    }

    /// Number of malformed records.
    pub(crate) fn bad_records(&self) -> u64 {
        self.bad_records
    }

    /// Whether the dump is longer than the limits allow, or could not be read further.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Reads up to `max_records` more records, as far as they are complete.
    pub(crate) fn read_more(&mut self, max_records: usize, limits: &NamingLimits) -> Progress {
        let mut progress = Progress::default();
        let Ok(size) = self.file.metadata().map(|facts| facts.len()) else { return progress };
        self.window.forget();
        if self.at == 0 && !self.read_header(size) {
            return progress;
        }
        while !self.is_over && progress.records < max_records {
            let Some(header) = self.bytes(self.at, RECORD_HEADER_BYTES, size) else { return progress };
            let (kind, length) = (u32_at(header, 0), u64::from(u32_at(header, 4)));
            let time_ns = u64_at(header, 8);
            if length < RECORD_HEADER_BYTES {
                // The start of the next record is not known.
                self.bad_records += 1;
                (self.is_over, self.is_cut) = (true, true);
                return progress;
            }
            if self.at.checked_add(length).is_none_or(|end| end > size) {
                return progress;
            }
            let (body, length_of_body) = (self.at + RECORD_HEADER_BYTES, length - RECORD_HEADER_BYTES);
            if self.read_record(kind, time_ns, body, length_of_body, size, limits).is_none() {
                self.bad_records += 1;
            }
            self.known_until_ns = self.known_until_ns.max(time_ns);
            self.at += length;
            progress.records += 1;
        }
        progress.has_more = !self.is_over && self.at + RECORD_HEADER_BYTES <= size;
        progress
    }

    fn read_header(&mut self, size: u64) -> bool {
        let Some(header) = self.bytes(0, HEADER_BYTES, size) else { return false };
        let (magic, version, length) = (u32_at(header, 0), u32_at(header, 4), u64::from(u32_at(header, 8)));
        let (pid, flags) = (u32_at(header, 20), u64_at(header, 32));
        if magic != MAGIC || version != VERSION || length < HEADER_BYTES {
            self.bad_records += 1;
            (self.is_over, self.is_cut) = (true, true);
            return false;
        }
        (self.pid, self.at, self.has_times) = (pid, length, flags & ARCHITECTURE_TIMES == 0);
        true
    }

    /// Reads one record; `None` if it is malformed.
    fn read_record(
        &mut self,
        kind: u32,
        time_ns: u64,
        body: u64,
        length: u64,
        size: u64,
        limits: &NamingLimits,
    ) -> Option<()> {
        match kind {
            0 => self.read_load(time_ns, body, length, size, limits),
            1 => self.read_move(time_ns, body, length, size, limits),
            2 => self.read_lines(body, length, size, limits),
            3 => {
                self.is_over = true;
                Some(())
            }
            // Unwind entries, and records that later versions may add.
            _ => Some(()),
        }
    }

    fn read_load(
        &mut self,
        time_ns: u64,
        body: u64,
        length: u64,
        size: u64,
        limits: &NamingLimits,
    ) -> Option<()> {
        let lines = self.next_lines.take();
        // The name is followed by the code; the end of an overlong name is not searched for.
        let name_bytes = length.checked_sub(LOAD_BYTES)?.min(limits.max_name_bytes as u64 + 1);
        let bytes = self.bytes(body, LOAD_BYTES + name_bytes, size)?;
        let (start, code_size) = (u64_at(bytes, 16), u64_at(bytes, 24));
        let name = &bytes[LOAD_BYTES as usize..];
        let name_end = name.iter().position(|&byte| byte == 0);
        let name = name_end.map_or(name, |end| &name[..end]).to_vec();
        // The code follows the name and its terminating zero.
        let code_at = LOAD_BYTES + name.len() as u64 + 1;
        let is_whole = name_end.is_some() && code_at.checked_add(code_size).is_some_and(|end| end <= length);
        let bytes_at = if is_whole { body + code_at } else { 0 };
        let end = start.checked_add(code_size).filter(|&end| end > start)?;
        let name = self.add_text(&name, limits)?;
        let lines = lines.filter(|(address, _)| *address == start).map_or((0, 0), |(_, lines)| lines);
        self.add(
            DumpedCode { start, end, since_ns: time_ns, until_ns: u64::MAX, name, lines, bytes_at, reuse: 0 },
            limits,
        )
    }

    fn read_move(
        &mut self,
        time_ns: u64,
        body: u64,
        length: u64,
        size: u64,
        limits: &NamingLimits,
    ) -> Option<()> {
        (length >= MOVE_BYTES).then_some(())?;
        let bytes = self.bytes(body, MOVE_BYTES, size)?;
        let (old, new, code_size) = (u64_at(bytes, 16), u64_at(bytes, 24), u64_at(bytes, 32));
        let end = new.checked_add(code_size).filter(|&end| end > new)?;
        let number = *self.present.get(&old)?;
        let code = *self.codes.get(number as usize)?;
        self.end(number, time_ns);
        self.add(DumpedCode { start: new, end, since_ns: time_ns, until_ns: u64::MAX, ..code }, limits)
    }

    fn read_lines(&mut self, body: u64, length: u64, size: u64, limits: &NamingLimits) -> Option<()> {
        self.next_lines = None;
        (DEBUG_BYTES..=MAX_DEBUG_BYTES).contains(&length).then_some(())?;
        let bytes = self.bytes(body, length, size)?.to_vec();
        let (start, count) = (u64_at(&bytes, 0), u64_at(&bytes, 8));
        let first = self.lines.len();
        let mut rest = &bytes[DEBUG_BYTES as usize..];
        for _ in 0..count {
            if self.lines.len() >= MAX_LINES {
                self.is_cut = true;
                break;
            }
            let Some((line, after)) = self.read_line(start, rest, limits) else {
                self.lines.truncate(first);
                return None;
            };
            rest = after;
            self.lines.extend(line);
        }
        let lines = &mut self.lines[first..];
        lines.sort_by_key(|line| line.offset);
        // V8 includes the ELF header that perf puts before the code.
        if lines.first().is_some_and(|line| line.offset == ELF_HEADER_BYTES) {
            lines.iter_mut().for_each(|line| line.offset -= ELF_HEADER_BYTES);
        }
        self.next_lines = Some((start, (first as u32, self.lines.len() as u32)));
        Some(())
    }

    /// Splits off one line of the code at `start`. Erlang writes some that begin before the code: they are left out.
    fn read_line<'b>(
        &mut self,
        start: u64,
        bytes: &'b [u8],
        limits: &NamingLimits,
    ) -> Option<(Option<Line>, &'b [u8])> {
        let (entry, rest) = bytes.split_at_checked(DEBUG_ENTRY_BYTES)?;
        let name_end = rest.iter().position(|&byte| byte == 0)?;
        let file = self.file_text(&rest[..name_end], limits)?;
        let offset = u64_at(entry, 0).checked_sub(start).and_then(|offset| u32::try_from(offset).ok());
        let line = offset.map(|offset| Line { offset, line: u32_at(entry, 8), file });
        Some((line, &rest[name_end + 1..]))
    }

    /// The text of a line's file name: many lines have the same one. `None` if it cannot be a name: V8 of node 20
    /// writes freed memory, with another length, for code of its second compiler.
    fn file_text(&mut self, name: &[u8], limits: &NamingLimits) -> Option<Text> {
        if let Some((last, text)) = &self.last_file
            && (name == SAME_FILE || name == &last[..])
        {
            return Some(*text);
        }
        std::str::from_utf8(name).ok().filter(|name| !name.chars().any(char::is_control))?;
        let text = self.add_text(name, limits)?;
        self.last_file = Some((name.to_vec(), text));
        Some(text)
    }

    fn add_text(&mut self, bytes: &[u8], limits: &NamingLimits) -> Option<Text> {
        let text = String::from_utf8_lossy(bytes);
        let text = cut_text(&text, limits.max_name_bytes);
        if self.text.len().saturating_add(text.len()) as u64 > limits.max_perf_map_bytes {
            self.is_cut = true;
            return None;
        }
        let place = (u32::try_from(self.text.len()).ok()?, u32::try_from(text.len()).ok()?);
        self.text.push_str(text);
        Some(place)
    }

    /// Adds code that is there from its time on; code that it overlaps ends then.
    fn add(&mut self, mut code: DumpedCode, limits: &NamingLimits) -> Option<()> {
        if self.codes.len() >= limits.max_perf_map_entries {
            (self.is_over, self.is_cut) = (true, true);
            return None;
        }
        let mut is_again = self.was_something_at(code.start, code.end);
        loop {
            let before = self.present.range(..code.end).next_back().map(|(_, &number)| number);
            let overlaps = |&number: &u32| self.codes[number as usize].end > code.start;
            let Some(number) = before.filter(overlaps) else { break };
            is_again = true;
            self.end(number, code.since_ns);
        }
        // There are at most `max_perf_map_entries` of them.
        let number = self.codes.len() as u32;
        code.reuse = if is_again { number.saturating_add(1) } else { 0 };
        self.present.insert(code.start, number);
        self.codes.push(code);
        Some(())
    }

    /// Marks code as gone from a time on.
    fn end(&mut self, number: u32, time_ns: u64) {
        let code = &mut self.codes[number as usize];
        code.until_ns = time_ns;
        self.present.remove(&code.start);
        self.longest_past = self.longest_past.max(code.end - code.start);
        self.past.entry(code.start).or_default().push(number);
    }

    /// Whether former code was at some of these addresses. True as well if there are too many candidates to tell.
    fn was_something_at(&self, start: u64, end: u64) -> bool {
        let from = start.saturating_sub(self.longest_past);
        let numbers = self.past.range(from..end).rev().flat_map(|(_, numbers)| numbers.iter());
        let mut looked_at = 0;
        numbers.into_iter().any(|&number| {
            looked_at += 1;
            looked_at > MAX_CANDIDATES || self.codes[number as usize].end > start
        })
    }

    /// Former code around an address, the newest first for each start.
    fn past_at(&self, address: u64) -> impl Iterator<Item = u32> + '_ {
        let from = address.saturating_sub(self.longest_past);
        let numbers = self.past.range(from..=address).rev().flat_map(|(_, numbers)| numbers.iter().rev());
        numbers.copied().take(MAX_CANDIDATES).filter(move |&number| address < self.codes[number as usize].end)
    }

    /// The code that was at an address all the time from `first_ns` to `last_ns`.
    fn find(&self, address: u64, first_ns: u64, last_ns: u64) -> Option<&DumpedCode> {
        let holds = |code: &&DumpedCode| {
            // Some writers announce code when it is already running: then no other code was there before.
            let is_early = code.since_ns <= first_ns || code.reuse == 0;
            is_early && last_ns < code.until_ns
        };
        let present =
            self.present.range(..=address).next_back().map(|(_, &number)| &self.codes[number as usize]);
        let present = present.filter(|code| address < code.end);
        if !self.has_times {
            // Without times, only code that was the first and is the last at its address is certain.
            return present.filter(|code| code.reuse == 0);
        }
        present
            .filter(holds)
            .or_else(|| self.past_at(address).map(|number| &self.codes[number as usize]).find(holds))
    }

    /// Name of the code that was at an address for the whole time from `first_ns` to `last_ns`. `None` if that is
    /// unknown or there were several.
    pub(crate) fn lookup(&self, address: u64, first_ns: u64, last_ns: u64) -> Option<JitName<'_>> {
        let code = self.find(address, first_ns, last_ns)?;
        self.name_in(code, address)
    }

    /// Name and line of an address in `code`.
    fn name_in(&self, code: &DumpedCode, address: u64) -> Option<JitName<'_>> {
        let text = |(at, len): Text| self.text.get(at as usize..(at + len) as usize);
        let lines = self.lines.get(code.lines.0 as usize..code.lines.1 as usize).unwrap_or(&[]);
        let after = lines.partition_point(|line| u64::from(line.offset) <= address - code.start);
        let line = after.checked_sub(1).map(|index| lines[index]);
        let name = text(code.name).filter(|name| !name.is_empty())?;
        let file = line.and_then(|line| text(line.file)).filter(|file| !file.is_empty());
        Some(JitName { name, file, line: file.and(line).map_or(0, |line| line.line), reuse: code.reuse })
    }

    /// The code around an address whose reuse number is `reuse`, 0 for the first that was there, with at most `most`
    /// bytes of it.
    pub(crate) fn code_at(&self, address: u64, reuse: u32, most: u64) -> Option<DumpedBytes<'_>> {
        let number = match reuse.checked_sub(1) {
            Some(number) => number,
            None => {
                let present = self.present.range(..=address).next_back().map(|(_, &number)| number);
                let is_first = |number: &u32| self.codes[*number as usize].reuse == 0;
                present.filter(is_first).into_iter().chain(self.past_at(address).filter(is_first)).next()?
            }
        };
        let code = *self.codes.get(number as usize)?;
        ((code.start..code.end).contains(&address) && code.bytes_at > 0).then_some(())?;
        let size = code.end - code.start;
        let mut bytes = vec![0; size.min(most) as usize];
        self.file.read_exact_at(&mut bytes, code.bytes_at).ok()?;
        Some(DumpedBytes { dump: self, code, start: code.start, size, bytes })
    }

    /// Bytes of the file, all of which must lie below `size`.
    fn bytes(&mut self, at: u64, len: u64, size: u64) -> Option<&[u8]> {
        let end = at.checked_add(len).filter(|&end| end <= size)?;
        self.window.read(&self.file, at, (end - at) as usize, size)
    }
}

/// The bytes of one piece of code.
#[derive(Debug)]
pub(crate) struct DumpedBytes<'d> {
    dump: &'d JitDump,
    code: DumpedCode,
    /// Start address of the code.
    pub(crate) start: u64,
    /// Length of the code, bytes.
    pub(crate) size: u64,
    /// Bytes from the start of the code, as many as were asked for.
    pub(crate) bytes: Vec<u8>,
}

impl<'d> DumpedBytes<'d> {
    /// The name and line at an offset from the start of the code, in bytes.
    pub(crate) fn name_at(&self, offset: u64) -> Option<JitName<'d>> {
        self.dump.name_in(&self.code, self.start.saturating_add(offset))
    }
}

#[cfg(test)]
#[path = "jit_dump_tests.rs"]
mod tests;
