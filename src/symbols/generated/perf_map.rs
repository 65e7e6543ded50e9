//! `/tmp/perf-PID.map`: names that a JIT compiler writes for its code.
//!
//! A line is `START SIZE NAME`, both numbers hexadecimal, the name up to the end of the line. Code moves
//! and is replaced, so later lines override earlier ones where they overlap. The format is
//! described in the kernel's `tools/perf/Documentation/jit-interface.txt`.
//!
//! The file is in a directory where anyone can write: it is opened without following links, only inside the target's
//! own file system, and a malformed line is never shown.

use crate::base::deadline::Deadline;
use crate::base::opener::{self, FileContent, Links};
use crate::symbols::limits::NamingLimits;
use crate::symbols::limits::cut_text;
use crate::symbols::lines::read_line;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

/// Longest line accepted, bytes. Longer ones are dropped as a whole.
const MAX_LINE_BYTES: usize = 8 << 10;

/// Lines read between two checks of the clock.
const LINES_PER_LOOK: u64 = 1 << 12;

/// A range of code with one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
    /// First byte of the name in `names`, and its length.
    name: (u32, u32),
}

/// The names in a perf map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PerfMap {
    /// Sorted, not overlapping.
    ranges: Vec<Range>,
    names: String,
    bad_lines: u64,
    is_cut: bool,
}

impl PerfMap {
    /// Reads a map. Malformed lines are counted and skipped; reading ends at [`NamingLimits::max_perf_map_bytes`], at
    /// [`NamingLimits::max_perf_map_entries`], at the deadline, or where reading fails.
    pub(crate) fn parse(reader: impl BufRead, limits: &NamingLimits, deadline: &Deadline) -> Self {
        let mut map = PerfMap::default();
        // One byte more than allowed tells a map of exactly that size from one that was cut.
        let mut reader = reader.take(limits.max_perf_map_bytes.saturating_add(1));
        let mut ranges: BTreeMap<u64, (u64, (u32, u32))> = BTreeMap::new();
        let mut line = Vec::new();
        let (mut entries, mut lines) = (0, 0_u64);
        loop {
            lines += 1;
            if lines.is_multiple_of(LINES_PER_LOOK) && deadline.has_passed() {
                map.is_cut = true;
                break;
            }
            match read_line(&mut reader, &mut line, MAX_LINE_BYTES + 1) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    map.is_cut = true;
                    break;
                }
            }
            if reader.limit() == 0 || entries >= limits.max_perf_map_entries {
                map.is_cut = true;
                break;
            }
            let Some((start, end, name)) = parse_line(&line) else {
                map.bad_lines += u64::from(!line.is_empty());
                continue;
            };
            let name = String::from_utf8_lossy(name);
            let name = cut_text(&name, limits.max_name_bytes);
            let (Ok(at), Ok(len)) = (u32::try_from(map.names.len()), u32::try_from(name.len())) else {
                map.is_cut = true;
                break;
            };
            map.names.push_str(name);
            insert(&mut ranges, start, end, (at, len));
            entries += 1;
        }
        map.ranges = (ranges.into_iter()).map(|(start, (end, name))| Range { start, end, name }).collect();
        map
    }

    /// The name of the code at `address`.
    pub(crate) fn lookup(&self, address: u64) -> Option<&str> {
        let after = self.ranges.partition_point(|range| range.start <= address);
        let range = self.ranges.get(after.checked_sub(1)?)?;
        let (at, len) = (range.name.0 as usize, range.name.1 as usize);
        if address < range.end { self.names.get(at..at + len) } else { None }
    }

    /// Whether it names nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of separate ranges with a name.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Number of malformed lines.
    pub(crate) fn bad_lines(&self) -> u64 {
        self.bad_lines
    }

    /// Whether the map was longer than the limits, or could not be read to its end.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Start, end and name of a line.
fn parse_line(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    if line.len() > MAX_LINE_BYTES {
        return None;
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (start, rest) = split_field(line)?;
    let (size, name) = split_field(rest)?;
    let (start, size) = (hex(start)?, hex(size)?);
    let end = start.checked_add(size)?;
    let name = name.trim_ascii();
    (size > 0 && !name.is_empty()).then_some((start, end, name))
}

/// The bytes before the first space, and those after it.
fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|byte| byte.is_ascii_whitespace())?;
    Some((&line[..end], &line[end + 1..]))
}

fn hex(digits: &[u8]) -> Option<u64> {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Puts `start..end` over whatever was there before.
fn insert(ranges: &mut BTreeMap<u64, (u64, (u32, u32))>, start: u64, end: u64, name: (u32, u32)) {
    if let Some((_, before)) = ranges.range_mut(..start).next_back()
        && before.0 > start
    {
        let (before_end, before_name) = *before;
        before.0 = start;
        if before_end > end {
            ranges.insert(end, (before_end, before_name));
        }
    }
    while let Some((&inside, &(inside_end, inside_name))) = ranges.range(start..end).next() {
        ranges.remove(&inside);
        if inside_end > end {
            ranges.insert(end, (inside_end, inside_name));
        }
    }
    ranges.insert(start, (end, name));
}

/// The process and user that a map belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Effective user id, as seen from here.
    pub(crate) uid: u32,
    /// The process id in the innermost PID namespace of the process.
    pub(crate) pid: u32,
}

impl Owner {
    /// Reads the `Uid` and `NSpid` lines of `/proc/PID/status`.
    fn parse(status: &str) -> Option<Self> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        // Real, effective, saved, file system.
        let uid = field("Uid:")?.split_ascii_whitespace().nth(1)?.parse().ok()?;
        // One number for each namespace, the innermost last.
        let pid = field("NSpid:").or_else(|| field("Pid:"))?;
        let pid = pid.split_ascii_whitespace().next_back()?.parse().ok()?;
        Some(Owner { uid, pid })
    }
}

/// The place of a process's map: `/tmp/perf-N.map` in its own mount namespace, `N` being its number in its own PID
/// namespace. Made while the process lives, it can still be read when the process is gone.
#[derive(Debug)]
pub(crate) struct PerfMapSource {
    root: OwnedFd,
    owner: Owner,
    /// A map that was begun later may be of another process.
    begun_by: Option<SystemTime>,
}

impl PerfMapSource {
    /// Finds the place of the map of process `pid`, whether there is a map or not.
    ///
    /// # Errors
    /// Fails when the process is gone or we may not look at it.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let owner = Owner::parse(&status).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "unexpected form of /proc/PID/status")
        })?;
        let root = opener::folder(Path::new(&format!("/proc/{pid}/root")))?;
        Ok(PerfMapSource { root, owner, begun_by: None })
    }

    /// The place where process `pid` has left its map below `root`, if it was begun by a time: a later process may have the
    /// same number. The map has to belong to this process's user or to root.
    ///
    /// # Errors
    /// Fails when `root` cannot be opened.
    pub(crate) fn left_behind(root: &Path, pid: u32, begun_by: SystemTime) -> io::Result<Self> {
        let root = opener::folder(root)?;
        let owner = Owner { uid: rustix::process::geteuid().as_raw(), pid };
        Ok(PerfMapSource { root, owner, begun_by: Some(begun_by) })
    }

    /// The owner of the map.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Path of the map as the process sees it.
    pub(crate) fn path(&self) -> String {
        format!("/{}", map_path(self.owner))
    }

    /// Opens the map, if there is one.
    ///
    /// # Errors
    /// Fails when the file is a link, not a regular file, larger than [`NamingLimits::max_perf_map_bytes`], owned by
    /// neither the process's user nor root, or begun too late. The error does not have the file's name.
    pub(crate) fn open(&self) -> io::Result<Option<File>> {
        let Some(file) = open_map(&self.root, self.owner, &NamingLimits::default())? else { return Ok(None) };
        if let Some(begun_by) = self.begun_by {
            let facts = file.metadata()?;
            // Without a time of birth, one that was written later may have been begun later.
            if facts.created().or_else(|_| facts.modified())? > begun_by {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it was begun after the recording"));
            }
        }
        Ok(Some(file))
    }
}

fn map_path(owner: Owner) -> String {
    format!("tmp/perf-{}.map", owner.pid)
}

/// Opens the map of `owner` under the directory `root`, if there is one.
fn open_map(root: impl AsFd, owner: Owner, limits: &NamingLimits) -> io::Result<Option<File>> {
    let path = map_path(owner);
    let file = match opener::inside(root.as_fd(), Path::new(&path), Links::Refused, FileContent::PerfMap) {
        Ok(file) => file,
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT) => return Ok(None),
            Some(libc::ELOOP) => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link"));
            }
            _ => return Err(error),
        },
    };
    let facts = file.metadata()?;
    if facts.uid() != owner.uid && facts.uid() != 0 {
        let whose = format!("it belongs to user {}, the process to user {}", facts.uid(), owner.uid);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, whose));
    }
    if facts.len() > limits.max_perf_map_bytes {
        let most = format!("it is larger than {} MiB", limits.max_perf_map_bytes >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, most));
    }
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn read_map(source: &PerfMapSource) -> io::Result<Option<PerfMap>> {
        let parse =
            |file| PerfMap::parse(BufReader::new(file), &NamingLimits::default(), &Deadline::default());
        Ok(source.open()?.map(parse))
    }
    use proptest::prelude::*;
    use rustix::fs::Mode;
    use std::os::unix::fs::symlink;

    fn parse(text: &str) -> PerfMap {
        PerfMap::parse(text.as_bytes(), &NamingLimits::default(), &Deadline::default())
    }

    #[test]
    fn names_cover_their_ranges_only() {
        let map = parse("1000 10 first\n0x1020 0x8 LazyCompile:*f /app.js:1:2\n");
        assert_eq!(map.lookup(0xfff), None);
        assert_eq!(map.lookup(0x1000), Some("first"));
        assert_eq!(map.lookup(0x100f), Some("first"));
        assert_eq!(map.lookup(0x1010), None);
        assert_eq!(map.lookup(0x1027), Some("LazyCompile:*f /app.js:1:2"));
        assert_eq!(map.lookup(0x1028), None);
        assert_eq!(map.len(), 2);
    }

    #[test]
    fn later_lines_override_what_they_overlap() {
        let map = parse("1000 100 old\n1040 10 middle\n10f0 20 tail\nff0 20 head\n1040 10 again\n");
        let names: Vec<_> =
            [0xff0, 0x100f, 0x1010, 0x103f, 0x1040, 0x104f, 0x1050, 0x10ef, 0x10f0, 0x110f, 0x1110]
                .map(|address| map.lookup(address).unwrap_or("-"))
                .into();
        assert_eq!(
            names,
            ["head", "head", "old", "old", "again", "again", "old", "old", "tail", "tail", "-"]
        );
    }

    #[test]
    fn hostile_lines_are_counted_and_skipped() {
        let lines = [
            "root:x:0:0:root:/root:/bin/bash",
            "zz 10 name",
            "1000",
            "1000 10",
            "1000 10 ",
            "1000 0 empty",
            "ffffffffffffffff 10 wraps",
            "+1000 10 sign",
            "1000 -10 sign",
            "11112222333344445 10 long",
            "\u{1b}[2J",
        ];
        let map = parse(&(lines.join("\n") + "\n\n2000 10 good\n"));
        assert_eq!(map.bad_lines(), lines.len() as u64);
        assert_eq!((map.len(), map.lookup(0x2008)), (1, Some("good")));
    }

    #[test]
    fn limits_hold() {
        let limits = NamingLimits { max_perf_map_entries: 2, max_name_bytes: 3, ..NamingLimits::default() };
        let map = PerfMap::parse(&b"10 1 \xc3\xa4bcd\n20 1 b\n30 1 c\n"[..], &limits, &Deadline::default());
        assert_eq!((map.len(), map.is_cut(), map.lookup(0x10)), (2, true, Some("äb")));

        let limits = NamingLimits { max_perf_map_bytes: 16, ..NamingLimits::default() };
        let parse_cut = |text: &[u8]| PerfMap::parse(text, &limits, &Deadline::default()).is_cut();
        assert!(parse_cut(b"10 1 abcdefgh\n20 1 b\n"));
        assert!(!parse_cut(b"10 1 abcdefghij\n"));

        let long = format!("10 1 {}\n20 1 b\n", "x".repeat(100_000));
        let map = parse(&long);
        assert_eq!((map.len(), map.bad_lines()), (1, 1));
    }

    #[test]
    fn status_gives_the_innermost_pid_and_the_effective_user() {
        let status = "Name:\tx\nUid:\t1000\t1001\t1002\t1003\nPid:\t77\nNSpid:\t77\t5\t1\n";
        assert_eq!(Owner::parse(status), Some(Owner { uid: 1001, pid: 1 }));
        assert_eq!(Owner::parse("Pid:\t77\n"), None);
    }

    #[test]
    fn only_a_plain_file_of_the_right_owner_is_opened() {
        let root = tempfile::tempdir().unwrap();
        let tmp = root.path().join("tmp");
        std::fs::create_dir(&tmp).unwrap();
        let uid = std::fs::metadata(&tmp).unwrap().uid();
        let owner = |pid| Owner { uid, pid };
        let open = |owner| -> io::Result<Option<PerfMap>> {
            let root = File::open(root.path()).unwrap();
            let limits = NamingLimits { max_perf_map_bytes: 1000, ..NamingLimits::default() };
            let file = open_map(root, owner, &limits)?;
            Ok(file.map(|file| PerfMap::parse(BufReader::new(file), &limits, &Deadline::default())))
        };

        std::fs::write(tmp.join("perf-1.map"), "10 1 good\n").unwrap();
        assert_eq!(open(owner(1)).unwrap().unwrap().lookup(0x10), Some("good"));
        assert!(open(owner(2)).unwrap().is_none());

        symlink("perf-1.map", tmp.join("perf-3.map")).unwrap();
        assert!(open(owner(3)).is_err());

        std::fs::create_dir(tmp.join("perf-4.map")).unwrap();
        assert!(open(owner(4)).is_err());

        let fifo = tmp.join("perf-5.map");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(open(owner(5)).is_err());

        std::fs::write(tmp.join("perf-6.map"), vec![b'x'; 1001]).unwrap();
        assert_eq!(open(owner(6)).unwrap_err().kind(), io::ErrorKind::FileTooLarge);

        // A file of root is trusted, that of a third user is not: only root can make one to test with.
        if uid == 0 {
            std::os::unix::fs::chown(tmp.join("perf-1.map"), Some(4711), None).unwrap();
            assert_eq!(open(owner(1)).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert!(open(Owner { uid: 4711, pid: 1 }).unwrap().is_some());
        }

        std::fs::rename(&tmp, root.path().join("real")).unwrap();
        symlink("real", &tmp).unwrap();
        assert!(open(owner(1)).is_err());
    }

    #[test]
    fn the_map_of_this_process_is_found() {
        let pid = std::process::id();
        let path = format!("/tmp/perf-{pid}.map");
        std::fs::write(&path, "7f0000001000 20 jit_function\n").unwrap();
        let read = |source: PerfMapSource| read_map(&source);
        let map = PerfMapSource::of(pid).and_then(read);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(map.unwrap().unwrap().lookup(0x7f0000001010), Some("jit_function"));
        assert!(read(PerfMapSource::of(pid).unwrap()).unwrap().is_none());
        assert!(PerfMapSource::of(u32::MAX).is_err());
    }

    #[test]
    fn a_map_that_was_left_behind_was_begun_in_time() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("tmp")).unwrap();
        let map = root.path().join("tmp/perf-77.map");
        std::fs::write(&map, "10 10 old\n").unwrap();
        let begun = std::fs::metadata(&map).unwrap();
        let begun = begun.created().or_else(|_| begun.modified()).unwrap();
        let read = |pid, begun_by| {
            let source = PerfMapSource::left_behind(root.path(), pid, begun_by).unwrap();
            read_map(&source)
        };
        assert_eq!(read(77, begun).unwrap().unwrap().lookup(0x10), Some("old"));
        let second = std::time::Duration::from_secs(1);
        assert_eq!(read(77, begun - second).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(read(78, begun).unwrap().is_none());
    }

    proptest! {
        /// Compares with the obvious model: the last line that covers an address names it.
        #[test]
        fn lookup_equals_the_last_covering_line(lines in proptest::collection::vec((0_u64..60, 1_u64..20), 0..30)) {
            let text: String =
                lines.iter().enumerate().map(|(i, (s, n))| format!("{s:x} {n:x} n{i}\n")).collect();
            let map = parse(&text);
            for address in 0..90 {
                let expected = lines.iter().rposition(|&(s, n)| (s..s + n).contains(&address));
                let expected = expected.map(|index| format!("n{index}"));
                prop_assert_eq!(map.lookup(address), expected.as_deref());
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in any::<u64>()) {
            PerfMap::parse(bytes.as_slice(), &NamingLimits::default(), &Deadline::default()).lookup(at);
        }
    }
}
