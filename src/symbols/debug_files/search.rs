//! Finding the separate debug information of a module.
//!
//! Two customs, both of GDB's manual, "Debugging Information in Separate Files": by build ID,
//! `/usr/lib/debug/.build-id/ab/cdef….debug`; and by the name in `.gnu_debuglink` next to the module, in `.debug/`
//! next to it, or under `/usr/lib/debug` and the module's folder. Names from the module are data of a
//! stranger: only hexadecimal digits and plain file names are used, files are opened inside the given
//! root only, and a file counts only if its build ID or checksum is the one asked for.

use crate::base::deadline::Deadline;
use crate::elf::ElfFile;
use crate::elf::fields::{Fields, c_string};
use crate::elf::source::Source;
use crate::symbols::limits::NamingLimits;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where distributions put debug files.
const DEBUG_DIR: &str = "/usr/lib/debug";
/// Larger files are not read through for their checksum, bytes. Those of distributions are found by their build ID.
const MAX_CHECKSUM_BYTES: u64 = 256 << 20;

/// The separate debug information of the module `file`, opened, or `None` if there is none or `file` has its own.
///
/// `module_path` is the module's path as its process sees it, and `root` the folder that this process sees as
/// `/` (`/proc/PID/root`, or `/`). The host's own `/usr/lib/debug` is searched too. The search gives up at the deadline.
pub fn find_debug_file(
    root: &Path,
    module_path: &Path,
    file: &Arc<File>,
    deadline: &Deadline,
) -> Option<Arc<File>> {
    let limits = NamingLimits::default();
    let image = ElfFile::parse(Source::of_file(file).ok()?, &limits.elf).ok()?;
    if crate::symbols::sections::dwarf::has_debug_info(&image) {
        return None;
    }
    let wanted = WantedFile::of(&image, file)?;
    let mut roots = vec![root];
    if root != Path::new("/") {
        roots.push(Path::new("/"));
    }
    let paths = wanted.candidate_paths(module_path);
    let roots: Vec<OwnedFd> = roots.into_iter().filter_map(open_root).collect();
    (paths.iter())
        .flat_map(|path| roots.iter().map(move |root| (root, path)))
        .take_while(|_| !deadline.has_passed())
        .filter_map(|(root, path)| open_inside(root, path).map(Arc::new))
        .find(|candidate| wanted.matches(candidate, &limits, deadline))
}

/// What identifies the debug file looked for.
#[derive(Debug)]
struct WantedFile {
    build_id: Option<Vec<u8>>,
    link: Option<DebugLink>,
    /// Device and inode of the module, which is not its own debug file.
    module: (u64, u64),
}

/// Contents of `.gnu_debuglink`: a file name, padding, a checksum of the whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DebugLink {
    name: Vec<u8>,
    crc: u32,
}

impl DebugLink {
    fn parse(section: &[u8]) -> Option<Self> {
        let name = c_string(section, 0)?;
        let crc = Fields(section).u32((name.len() + 1).next_multiple_of(4))?;
        let is_plain = !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/');
        is_plain.then(|| DebugLink { name: name.to_vec(), crc })
    }
}

impl WantedFile {
    fn of(image: &ElfFile, file: &File) -> Option<Self> {
        let link = (image.section(b".gnu_debuglink"))
            .and_then(|section| image.part(section, "debug link", 0, section.size, 4096).ok())
            .and_then(|bytes| DebugLink::parse(&bytes));
        let build_id = image.build_id();
        let facts = file.metadata().ok()?;
        (link.is_some() || build_id.is_some()).then_some(WantedFile {
            build_id,
            link,
            module: (facts.dev(), facts.ino()),
        })
    }

    /// Where to look, best first; paths as seen from a root.
    fn candidate_paths(&self, module_path: &Path) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        if let Some(build_id) = &self.build_id
            && let [first, rest @ ..] = build_id.as_slice()
            && !rest.is_empty()
        {
            let mut hex = String::new();
            for byte in rest {
                // Writing to a string cannot fail.
                let _ = write!(hex, "{byte:02x}");
            }
            paths.push(PathBuf::from(format!("{DEBUG_DIR}/.build-id/{first:02x}/{hex}.debug")));
        }
        if let Some(link) = &self.link
            && let Some(folder) = module_path.parent()
            && module_path.is_absolute()
        {
            let name = OsStr::from_bytes(&link.name);
            paths.push(folder.join(name));
            paths.push(folder.join(".debug").join(name));
            let below = folder.strip_prefix("/").unwrap_or(folder);
            paths.push(Path::new(DEBUG_DIR).join(below).join(name));
        }
        paths
    }

    /// Whether `candidate` is the file looked for.
    fn matches(&self, candidate: &Arc<File>, limits: &NamingLimits, deadline: &Deadline) -> bool {
        let Ok(facts) = candidate.metadata() else { return false };
        if !facts.is_file() || (facts.dev(), facts.ino()) == self.module {
            return false;
        }
        let Ok(source) = Source::of_file(candidate) else { return false };
        let Ok(image) = ElfFile::parse(source, &limits.elf) else { return false };
        let has_names =
            crate::symbols::sections::dwarf::has_debug_info(&image) || image.section(b".symtab").is_some();
        if !has_names {
            return false;
        }
        match (&self.build_id, image.build_id(), &self.link) {
            (Some(wanted), Some(found), _) => *wanted == found,
            (_, _, Some(link)) => file_crc32(candidate, facts.len(), deadline) == Some(link.crc),
            _ => false,
        }
    }
}

fn open_root(root: &Path) -> Option<OwnedFd> {
    rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Opens a file below `root`; links are followed, but never out of it.
fn open_inside(root: &OwnedFd, path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, flags, Mode::empty(), resolve).ok().map(File::from)
}

/// The CRC-32 (ISO 3309, as in zlib) of the first `len` bytes of a file. `None` if that would take too long: no one's debug
/// file is so large, or holes for the most part.
fn file_crc32(file: &Arc<File>, len: u64, deadline: &Deadline) -> Option<u32> {
    if len > MAX_CHECKSUM_BYTES || Source::of_file(file).ok()?.is_hole(0, len) {
        return None;
    }
    let mut buffer = vec![0; 1 << 18];
    let (mut crc, mut at) = (!0, 0);
    while at < len {
        if deadline.has_passed() {
            return None;
        }
        let size = (len - at).min(buffer.len() as u64) as usize;
        file.read_exact_at(&mut buffer[..size], at).ok()?;
        crc = crc32_update(crc, &buffer[..size]);
        at += size as u64;
    }
    Some(!crc)
}

/// `CRC_TABLES[k][b]`: what byte `b` followed by `k` zero bytes adds to the checksum.
static CRC_TABLES: [[u32; 256]; 8] = crc_tables();

const fn crc_tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[table - 1][byte];
            tables[table][byte] = (crc >> 8) ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// Adds bytes to a running (inverted) checksum, eight at a time.
fn crc32_update(mut crc: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = u64::from_le_bytes(*word) ^ u64::from(crc);
        crc = (mixed.to_le_bytes().iter().rev().zip(&CRC_TABLES))
            .fold(0, |crc, (&byte, table)| crc ^ table[usize::from(byte)]);
    }
    for &byte in rest {
        crc = (crc >> 8) ^ CRC_TABLES[0][usize::from((crc as u8) ^ byte)];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_the_one_of_zlib() {
        assert_eq!(!crc32_update(!0, b"123456789"), 0xcbf4_3926);
        let bytes: Vec<u8> = (0..1000_u32).map(|n| (n * 7 + n / 3) as u8).collect();
        for cut in [0, 1, 7, 8, 9, 500, 1000] {
            let parts = crc32_update(crc32_update(!0, &bytes[..cut]), &bytes[cut..]);
            let by_byte = bytes.chunks(1).fold(!0, crc32_update);
            assert_eq!(parts, by_byte);
        }
    }

    #[test]
    fn debug_link_is_a_plain_file_name() {
        let section = |name: &[u8]| {
            let mut bytes = name.to_vec();
            bytes.resize((name.len() + 1).next_multiple_of(4), 0);
            bytes.extend_from_slice(&7_u32.to_le_bytes());
            bytes
        };
        assert_eq!(
            DebugLink::parse(&section(b"prog.debug")),
            Some(DebugLink { name: b"prog.debug".to_vec(), crc: 7 })
        );
        for name in [&b""[..], b".", b"..", b"../../etc/shadow", b"/etc/shadow", b"a/b"] {
            assert_eq!(DebugLink::parse(&section(name)), None);
        }
        assert_eq!(DebugLink::parse(b"prog.debug"), None);
    }
}
