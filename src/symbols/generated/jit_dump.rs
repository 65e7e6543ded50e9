//! `jit-PID.dump`: names, lines and times of generated code, as runtimes write them for perf.
//!
//! A header and a sequence of records: code was loaded or moved; the lines of the code loaded next; its unwind entries;
//! the end. The format is described in the kernel's `tools/perf/Documentation/jitdump-specification.txt`. A runtime
//! announces its dump by mapping the file as code, so the file is found among the mappings of the process, in whatever
//! namespace that is.
//!
//! The file grows while it is read, and is untrusted: it is read at positions and never mapped, only as far as records
//! are complete; code bytes in it are skipped, and everything is bounded by [`NamingLimits`]. `dump_piece` makes records of bytes,
//! here they are put together.

use super::dump_piece::{DumpHeader, DumpPiece, DumpPosition, DumpRecord, LoadedCode, LoadedLine};
use super::dumped_code::{DumpedCode, JitName, Line, Text};
use crate::base::file_state::KnownFile;
use crate::symbols::limits::NamingLimits;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Most lines kept, for all code together.
const MAX_LINES: usize = 8 << 20;
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
    /// Where the next piece begins.
    next: DumpPosition,
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
    last_file: Option<(String, Text)>,
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
        // A server that never answers is not asked.
        let known = KnownFile::of(&file).ok_or(io::ErrorKind::Unsupported)?;
        if !known.is_regular {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "jitdump is not a regular file"));
        }
        if known.owner != uid && known.owner != 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "jitdump belongs to another user"));
        }
        Ok(JitDump {
            file,
            next: DumpPosition::default(),
            pid: 0,
            has_times: true,
            known_until_ns: 0,
            codes: Vec::new(),
            present: BTreeMap::new(),
            past: BTreeMap::new(),
            longest_past: 0,
            text: String::new(),
            lines: Vec::new(),
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

    /// Where the next piece begins; `None` once it was read to its end.
    pub(crate) fn unread(&self) -> Option<&DumpPosition> {
        (!self.is_over).then_some(&self.next)
    }

    /// Reads up to `max_records` more records here, as far as they are complete, and perhaps some more.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn read_more(&mut self, max_records: usize, limits: &NamingLimits) -> Progress {
        let mut progress = Progress::default();
        while !self.is_over && progress.records < max_records {
            let most = max_records - progress.records;
            let Progress { records, has_more } =
                self.add_piece(DumpPiece::read(&self.file, &self.next, most, limits), limits);
            progress = Progress { records: progress.records + records, has_more };
            if !has_more {
                break;
            }
        }
        progress
    }

    /// Adds the piece that was read next.
    pub(crate) fn add_piece(&mut self, piece: DumpPiece, limits: &NamingLimits) -> Progress {
        let mut progress = Progress::default();
        if let Some(DumpHeader { pid, has_times }) = piece.header {
            (self.pid, self.has_times) = (pid, has_times);
        }
        for (time_ns, record) in piece.records {
            if self.is_over {
                break;
            }
            let is_lost = matches!(record, DumpRecord::Lost);
            if self.add_record(time_ns, record, limits).is_none() {
                self.bad_records += 1;
            }
            if !is_lost {
                self.known_until_ns = self.known_until_ns.max(time_ns);
                progress.records += 1;
            }
        }
        self.next = piece.next;
        progress.has_more = piece.has_more && !self.is_over;
        progress
    }

    /// Nothing more of the file can be read.
    pub(crate) fn give_up(&mut self) {
        (self.is_over, self.is_cut) = (true, true);
    }

    /// Adds one record; `None` if it is malformed.
    fn add_record(&mut self, time_ns: u64, record: DumpRecord, limits: &NamingLimits) -> Option<()> {
        match record {
            DumpRecord::Load(loaded) => self.load(time_ns, &loaded, limits),
            DumpRecord::Move { old, new, end } => {
                let number = *self.present.get(&old)?;
                let code = *self.codes.get(number as usize)?;
                self.end(number, time_ns);
                self.add(
                    DumpedCode { start: new, end, since_ns: time_ns, until_ns: u64::MAX, ..code },
                    limits,
                )
            }
            DumpRecord::Other => Some(()),
            DumpRecord::Malformed => None,
            DumpRecord::End => {
                self.is_over = true;
                Some(())
            }
            DumpRecord::Lost => {
                self.give_up();
                None
            }
        }
    }

    fn load(&mut self, time_ns: u64, loaded: &LoadedCode, limits: &NamingLimits) -> Option<()> {
        let LoadedCode { start, end, ref name, ref readable, bytes_at, ref lines, ref files } = *loaded;
        let lines = self.add_lines(lines, files, limits);
        let name = self.add_text(name, limits)?;
        let readable = readable.as_ref().map_or(Some(name), |readable| self.add_text(readable, limits))?;
        let until_ns = u64::MAX;
        let code =
            DumpedCode { start, end, since_ns: time_ns, until_ns, name, readable, lines, bytes_at, reuse: 0 };
        self.add(code, limits)
    }

    /// Adds the lines of a piece of code; it has none if there is no room for the names of their files.
    fn add_lines(&mut self, lines: &[LoadedLine], files: &[String], limits: &NamingLimits) -> (u32, u32) {
        let room = MAX_LINES.saturating_sub(self.lines.len());
        self.is_cut |= lines.len() > room;
        let Some(texts) =
            files.iter().map(|file| self.file_text(file, limits)).collect::<Option<Vec<Text>>>()
        else {
            return (0, 0);
        };
        let first = self.lines.len();
        let known = lines.iter().take(room).filter_map(|line| {
            let file = *texts.get(line.file as usize)?;
            Some(Line { offset: line.offset, line: line.line, file })
        });
        self.lines.extend(known);
        // There are at most `MAX_LINES` of them.
        (first as u32, self.lines.len() as u32)
    }

    /// The text of a line's file name: one after the other has the same.
    fn file_text(&mut self, name: &str, limits: &NamingLimits) -> Option<Text> {
        if let Some((_, text)) = self.last_file.as_ref().filter(|(last, _)| last == name) {
            return Some(*text);
        }
        let text = self.add_text(name, limits)?;
        self.last_file = Some((name.to_owned(), text));
        Some(text)
    }

    fn add_text(&mut self, text: &str, limits: &NamingLimits) -> Option<Text> {
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
        (code.start < code.end).then_some(())?;
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
        let text = |(at, len): Text| self.text.get(at as usize..at.checked_add(len)? as usize);
        let lines = self.lines.get(code.lines.0 as usize..code.lines.1 as usize).unwrap_or(&[]);
        let after = lines.partition_point(|line| u64::from(line.offset) <= address - code.start);
        let line = after.checked_sub(1).map(|index| lines[index]);
        let name = text(code.name).filter(|name| !name.is_empty())?;
        let file = line.and_then(|line| text(line.file)).filter(|file| !file.is_empty());
        let line = file.and(line).map_or(0, |line| line.line);
        Some(JitName { name, readable: text(code.readable)?, file, line, reuse: code.reuse })
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
