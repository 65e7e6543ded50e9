//! A profile that lies in a file: opened, and looked at without reading all of it.

use super::error::{Integrity, ReadError};
use super::header;
use super::lock::is_written;
use super::reader::{Rest, read_with};
use crate::base::opener::{self, Opening};
use crate::profile::contents::Profile;
use crate::profile::file::glance::recorder_words;
use rustix::fs::FileType;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// A regular file or a pipe that was opened to be read.
#[derive(Debug)]
pub(crate) struct Opened {
    file: File,
    /// Length of a regular file, bytes.
    bytes: Option<u64>,
}

impl Opened {
    /// Opens what is at `path`, which must be a regular file or a pipe.
    ///
    /// # Errors
    /// When it cannot be opened. The texts do not name the file.
    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        let seen = opener::look(path, true)?;
        let bytes = match seen.kind() {
            FileType::Directory => return Err(ReadError::Directory),
            FileType::RegularFile => Some(seen.size_bytes()),
            FileType::Fifo => None,
            _ => return Err(ReadError::NotAFile),
        };
        Ok(Opened { file: opener::given_file(path, Opening::Any)?, bytes })
    }

    /// Reads the profile.
    ///
    /// # Errors
    /// As [`read`](super::reader::read).
    pub(crate) fn read(self) -> Result<(Profile, Integrity), ReadError> {
        // A hole of many gigabytes after the profile must not be read just to be counted.
        let input = io::BufReader::with_capacity(1 << 16, &self.file);
        let (profile, mut integrity) = read_with(input, self.bytes.map_or(Rest::Unknown, Rest::Known))?;
        if profile.end.is_none() && self.bytes.is_some() && is_written(&self.file) {
            let recorder = recorder_words(profile.meta.recorder_pid);
            integrity.problem = Some(format!("{recorder} is still recording it"));
        }
        Ok((profile, integrity))
    }
}

/// Bytes in which the first facts about a recording are.
const FIRST_FACTS: u64 = 1 << 16;

/// When the recording at `path` began, ns since the Unix epoch; `None` where there is none.
pub(crate) fn start_of(path: &Path) -> Option<u64> {
    let mut file = opener::given_file(path, Opening::Regular).ok()?;
    let header = header::read(&mut io::BufReader::with_capacity(4096, &file)).ok()?;
    if header.start_unix_ns > 0 {
        return Some(header.start_unix_ns);
    }
    // The file was made before the recording began.
    file.seek(SeekFrom::Start(0)).ok()?;
    let (profile, _) = read_with(file.take(FIRST_FACTS), Rest::Unknown).ok()?;
    Some(profile.meta.start_unix_ns)
}

/// Reads the profile at `path`, which must be a regular file or a pipe.
///
/// # Errors
/// As [`read`](super::reader::read), and when the file cannot be opened. The texts do not name the file.
pub fn read_path(path: &Path) -> Result<(Profile, Integrity), ReadError> {
    Opened::open(path)?.read()
}
