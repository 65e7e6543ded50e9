//! The links in a module to the files with its debug information: `.gnu_debuglink` (GDB's manual, "Debugging
//! Information in Separate Files"), and to the file that it shares with others: `.gnu_debugaltlink` (dwz) and
//! `.debug_sup` (DWARF 5, section 7.3.6). Names in them are untrusted.

use crate::elf::ElfFile;
use crate::elf::fields::{Fields, c_string};

/// Bytes read of a link section.
const MAX_LINK_BYTES: u64 = 8192;

/// Contents of `.gnu_debuglink`: a file name, padding, a checksum of the whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DebugLink {
    pub(super) name: Vec<u8>,
    pub(super) crc: u32,
}

impl DebugLink {
    /// The link of `image`, if it has one.
    pub(super) fn of(image: &ElfFile) -> Option<Self> {
        Self::parse(&section(image, b".gnu_debuglink")?)
    }

    fn parse(section: &[u8]) -> Option<Self> {
        let name = c_string(section, 0)?;
        let crc = Fields(section).u32((name.len() + 1).next_multiple_of(4))?;
        let is_plain = !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/');
        is_plain.then(|| DebugLink { name: name.to_vec(), crc })
    }
}

/// The file that a debug file shares with others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharedLink {
    /// Path of the shared file, absolute or relative to the folder of the file that refers to it.
    pub(super) path: Vec<u8>,
    pub(super) build_id: Vec<u8>,
}

impl SharedLink {
    /// The link of `image`, if it has one.
    pub(super) fn of(image: &ElfFile) -> Option<Self> {
        if let Some(bytes) = section(image, b".gnu_debugaltlink") {
            return Self::parse(&bytes);
        }
        Self::parse_standard(&section(image, b".debug_sup")?)
    }

    /// Parses `.gnu_debugaltlink`: a path, then the build ID.
    fn parse(section: &[u8]) -> Option<Self> {
        let path = c_string(section, 0)?;
        let build_id = section.get(path.len() + 1..)?;
        let is_sound = !path.is_empty() && (2..=64).contains(&build_id.len());
        is_sound.then(|| SharedLink { path: path.to_vec(), build_id: build_id.to_vec() })
    }

    /// Parses `.debug_sup`: a version, whether this is the shared file, a path, the length of the checksum, and the
    /// checksum, which is the build ID in files written by dwz.
    fn parse_standard(section: &[u8]) -> Option<Self> {
        if section.get(2) != Some(&0) {
            return None;
        }
        let path = c_string(section, 3)?;
        let (&length, rest) = section.get(3 + path.len() + 1..)?.split_first()?;
        let build_id = rest.get(..usize::from(length))?;
        let is_sound = !path.is_empty() && (2..=64).contains(&length);
        is_sound.then(|| SharedLink { path: path.to_vec(), build_id: build_id.to_vec() })
    }
}

fn section(image: &ElfFile, name: &[u8]) -> Option<Vec<u8>> {
    let section = image.section(name).filter(|section| section.size <= MAX_LINK_BYTES)?;
    image.part(section, "debug link", 0, section.size, MAX_LINK_BYTES).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_shared_link_is_a_path_and_a_build_id() {
        let link = SharedLink::parse(b"../.dwz/a.debug\0\x01\x02\x03").expect("a link");
        assert_eq!(
            (link.path.as_slice(), link.build_id.as_slice()),
            (&b"../.dwz/a.debug"[..], &[1, 2, 3][..])
        );
        for bytes in [&b"a.debug"[..], b"a.debug\0", b"a.debug\0\x01", b"\0\x01\x02", b""] {
            assert_eq!(SharedLink::parse(bytes), None);
        }
        let standard = b"\x05\0\0shared\0\x02\x07\x08";
        let link = SharedLink::parse_standard(standard).expect("a link");
        assert_eq!((link.path.as_slice(), link.build_id.as_slice()), (&b"shared"[..], &[7, 8][..]));
        assert_eq!(SharedLink::parse_standard(b"\x05\0\x01\0\x02\x07\x08"), None, "the shared file itself");
        for cut in 0..standard.len() {
            assert_eq!(SharedLink::parse_standard(&standard[..cut]), None);
        }
    }
}
