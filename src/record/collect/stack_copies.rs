//! A copy of every sample's registers and stack in a file, with the stack that was made of it: what another
//! unwinder needs to walk each of them a second time (`make oracle`).
//!
//! The file is little-endian: eight bytes `PROFCOPY`, then records of a kind (u32), a length in bytes (u32)
//! and as many bytes:
//!
//! | kind | contents |
//! |---|---|
//! | 1, mappings | number (u32), process id (u32), then the text of `/proc/PID/maps` |
//! | 2, sample | see below |
//! | 3, end | samples that have no copy because the ring was full (u64) |
//!
//! A sample: time (u64, ns), process id, thread id, number of the mappings (0: none), bytes of stack, count of
//! frames (u32 each), outcome, 1 if rescued, 1 if rip is after a system call, 1 if there is a copy (u8 each),
//! process address of the stack's first byte (u64), which of the stack's blocks of 4,096 bytes are not there, one bit
//! each, counted from the one with the first byte (4 of u64), 17 registers (u64, DWARF numbers 0..=15, then rip), the frames
//! (u64, leaf first, with the kernel side's marks; of a stack with `middle_left_out` both ends, one after the other),
//! the bytes of the stack.

use crate::bpf::{MarkedAddress, REGISTERS, SampleEvent, StackCopyEvent};
use crate::profile::Outcome;
use crate::record::process::proc_fs;
use anyhow::Context;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};

/// The text of a process's mappings is read again after this long, ns.
const REREAD_INTERVAL_NS: u64 = 200_000_000;
/// A copy whose sample has not come after this long is dropped, ns.
const PATIENCE_NS: u64 = 4_000_000_000;
/// Longest text of mappings that is taken, bytes.
const MAX_MAPS_BYTES: usize = 16 << 20;

/// Result of a walk of a sample's stack here.
#[derive(Debug)]
pub(crate) struct Walked {
    /// The frames, leaf first, with marks.
    pub(crate) frames: Vec<u64>,
    /// User space took part in the walk.
    pub(crate) is_rescued: bool,
    /// End of the walk.
    pub(crate) outcome: Outcome,
}

/// The last text of a process's mappings.
#[derive(Debug, Default)]
struct Maps {
    number: u32,
    text: Vec<u8>,
    /// Executable ranges of the text, by start.
    code: Vec<(u64, u64)>,
    read_ns: u64,
}

impl Maps {
    /// Whether the code of a frame is mapped here.
    fn hold(&self, frame: MarkedAddress) -> bool {
        let address = frame.lookup();
        let after = self.code.partition_point(|&(start, _)| start <= address);
        after.checked_sub(1).is_some_and(|index| address < self.code[index].1)
    }
}

/// The file, and copies whose samples are still to come.
#[derive(Debug)]
pub(crate) struct StackCopies {
    file: BufWriter<File>,
    copies: FxHashMap<(u64, u32), StackCopyEvent>,
    maps: FxHashMap<u32, Maps>,
    maps_written: u32,
    /// The first failure to write, reported at the end.
    failure: Option<io::Error>,
}

impl StackCopies {
    /// Starts the file, which must not be there yet.
    ///
    /// # Errors
    ///
    /// When the file cannot be created.
    #[cfg(feature = "testing")]
    pub(crate) fn create(path: &std::path::Path) -> anyhow::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)
            .with_context(|| format!("cannot create `{}`", path.display()))?;
        let mut file = BufWriter::with_capacity(1 << 20, file);
        file.write_all(b"PROFCOPY").with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(StackCopies {
            file,
            copies: FxHashMap::default(),
            maps: FxHashMap::default(),
            maps_written: 0,
            failure: None,
        })
    }

    /// Keeps copies until their samples are walked.
    pub(crate) fn take(&mut self, copies: Vec<StackCopyEvent>) {
        let newest = copies.iter().map(|copy| copy.time_ns).max().unwrap_or(0);
        self.copies.extend(copies.into_iter().map(|copy| ((copy.time_ns, copy.cpu), copy)));
        if newest > 0 {
            self.copies.retain(|(time_ns, _), _| newest.saturating_sub(*time_ns) <= PATIENCE_NS);
        }
    }

    /// Writes a sample. One without a user stack is left out.
    pub(crate) fn add(&mut self, sample: &SampleEvent, walked: Walked) {
        let copy = self.copies.remove(&(sample.time_ns, sample.cpu));
        if matches!(walked.outcome, Outcome::NoUserStack | Outcome::Compat32) || self.failure.is_some() {
            return;
        }
        if let Err(error) = self.write(sample, walked, copy) {
            self.failure = Some(error);
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    ///
    /// Something could not be written, now or before.
    pub(crate) fn finish(mut self, refused: u64) -> anyhow::Result<()> {
        let written = match self.failure.take() {
            Some(error) => Err(error),
            None => self.record(3, &refused.to_le_bytes()).and_then(|()| self.file.flush()),
        };
        written.context("cannot write the stack copies")
    }

    fn write(
        &mut self,
        sample: &SampleEvent,
        walked: Walked,
        copy: Option<StackCopyEvent>,
    ) -> io::Result<()> {
        let maps = self.maps_of(sample, &walked.frames)?;
        let stack = copy.as_ref().map_or(&[][..], |copy| &copy.stack);
        let mut bytes = Vec::with_capacity(256 + 8 * walked.frames.len() + stack.len());
        bytes.extend(sample.time_ns.to_le_bytes());
        for word in [sample.tgid, sample.tid, maps, stack.len() as u32, walked.frames.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.push(walked.outcome.code());
        bytes.push(u8::from(walked.is_rescued));
        bytes.push(u8::from(copy.as_ref().is_some_and(|copy| copy.is_return)));
        bytes.push(u8::from(copy.is_some()));
        let registers = copy.as_ref().map_or([0; REGISTERS], |copy| copy.registers);
        let start = copy.as_ref().map_or(0, |copy| copy.start);
        let missing = copy.as_ref().map_or([0; 4], |copy| copy.missing_blocks);
        for word in std::iter::once(start).chain(missing).chain(registers).chain(walked.frames) {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(stack);
        self.record(2, &bytes)
    }

    /// The number of the text that tells the process's mappings, which is written if it is new.
    fn maps_of(&mut self, sample: &SampleEvent, frames: &[u64]) -> io::Result<u32> {
        let maps = self.maps.entry(sample.tgid).or_default();
        let is_recent = sample.time_ns.saturating_sub(maps.read_ns) < REREAD_INTERVAL_NS;
        if maps.number > 0 && is_recent && frames.iter().all(|&frame| maps.hold(MarkedAddress(frame))) {
            return Ok(maps.number);
        }
        maps.read_ns = sample.time_ns;
        let pid = proc_fs::thread_to_read(sample.tgid);
        let text = proc_fs::mappings_text(pid).unwrap_or_default();
        // Empty: it has ended, and what was known holds for its last samples.
        if text.is_empty() || text.len() > MAX_MAPS_BYTES || text == maps.text {
            return Ok(maps.number);
        }
        self.maps_written += 1;
        maps.number = self.maps_written;
        let number = maps.number;
        let mut bytes = Vec::with_capacity(8 + text.len());
        bytes.extend(number.to_le_bytes());
        bytes.extend(sample.tgid.to_le_bytes());
        bytes.extend(&text);
        let code = proc_fs::parse_maps(&text);
        maps.code = code.iter().map(|mapping| (mapping.start, mapping.end)).collect();
        maps.text = text;
        self.record(1, &bytes)?;
        Ok(number)
    }

    fn record(&mut self, kind: u32, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(&kind.to_le_bytes())?;
        self.file.write_all(&(bytes.len() as u32).to_le_bytes())?;
        self.file.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn frames_at_both_ends_of_a_mapping_are_in_it() {
        let maps = Maps { code: vec![(0x1000, 0x2000), (0x3000, 0x4000)], ..Maps::default() };
        let holds = |address, is_return| maps.hold(MarkedAddress::new(address, is_return, false));
        assert!(holds(0x3000, false), "a leaf at the first instruction");
        assert!(!holds(0x3000, true), "no call is before it");
        assert!(holds(0x2000, true), "a call at the end of a mapping");
        assert!(!holds(0x2000, false), "nothing is mapped there");
    }

    #[test]
    fn copies_go_to_a_new_private_file_alone() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("victim"), "precious").expect("writes");
        std::os::unix::fs::symlink("victim", path("link")).expect("links");
        std::os::unix::fs::symlink("nothing", path("dangling")).expect("links");
        for name in ["victim", "link", "dangling"] {
            assert!(StackCopies::create(&path(name)).is_err(), "{name}");
        }
        assert_eq!(fs::read_to_string(path("victim")).expect("reads"), "precious");
        assert!(!path("nothing").exists());
        StackCopies::create(&path("new")).expect("creates");
        assert_eq!(path("new").metadata().expect("exists").mode() & 0o777, 0o600);
    }
}
