//! What is imported: a file, or standard input.

use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

/// What is read at a time, bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// Looked at to tell the format, bytes.
const HEAD_BYTES: usize = 4096;

/// The first bytes of files packed by gzip.
const GZIP: &[u8] = b"\x1f\x8b";

/// An opened file or standard input, of which nothing was taken yet.
pub(crate) struct ImportSource {
    /// The file, where it is a regular one.
    file: Option<File>,
    /// As the user named it.
    name: String,
    /// The symbols of the running kernel, opened with the rights that the user has.
    pub(super) kernel_list: Option<File>,
    head: Vec<u8>,
    rest: Box<dyn Read>,
}

impl std::fmt::Debug for ImportSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportSource").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ImportSource {
    /// An opened regular file.
    ///
    /// # Errors
    ///
    /// When it cannot be opened a second time.
    pub(crate) fn of_file(file: File, name: String) -> io::Result<Self> {
        let rest = Box::new(file.try_clone()?);
        Ok(ImportSource { file: Some(file), name, kernel_list: None, head: Vec::new(), rest })
    }

    /// What comes through a pipe.
    pub(crate) fn of_stream(stream: impl Read + 'static) -> Self {
        ImportSource {
            file: None,
            name: String::new(),
            kernel_list: None,
            head: Vec::new(),
            rest: Box::new(stream),
        }
    }

    /// The same with the symbols of the running kernel, for what was recorded on it.
    pub(crate) fn with_kernel_list(self, kernel_list: Option<File>) -> Self {
        ImportSource { kernel_list, ..self }
    }

    /// The name of the file; empty for standard input.
    pub(super) fn shown_name(&self) -> &str {
        &self.name
    }

    /// The first bytes, fewer of a short file.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub(super) fn head(&mut self) -> io::Result<&[u8]> {
        if self.head.is_empty() {
            self.rest.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut self.head)?;
        }
        Ok(&self.head)
    }

    /// The first bytes, unpacked if they are packed by gzip.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub(super) fn unpacked_head(&mut self) -> io::Result<Vec<u8>> {
        let head = self.head()?;
        if !head.starts_with(GZIP) {
            return Ok(head.to_vec());
        }
        let mut unpacked = Vec::new();
        // It ends in the middle: what could be unpacked of it is enough.
        let _ = MultiGzDecoder::new(head).take(HEAD_BYTES as u64).read_to_end(&mut unpacked);
        Ok(if unpacked.is_empty() { head.to_vec() } else { unpacked })
    }

    /// Bytes of a regular file.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        self.file.as_ref()?.metadata().ok().map(|facts| facts.len())
    }

    /// All of it, unpacked if it is packed by gzip.
    ///
    /// # Errors
    ///
    /// When its first bytes cannot be read.
    pub(super) fn unpacked(mut self) -> io::Result<Box<dyn BufRead>> {
        let is_packed = self.head()?.starts_with(GZIP);
        let whole = BufReader::with_capacity(BUFFER_BYTES, io::Cursor::new(self.head).chain(self.rest));
        Ok(match is_packed {
            true => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(whole))),
            false => Box::new(whole),
        })
    }

    /// All of it as it is, and the file if it is one that parts can be read of.
    pub(super) fn into_parts(self) -> (Box<dyn Read>, Option<File>) {
        (Box::new(io::Cursor::new(self.head).chain(self.rest)), self.file)
    }
}
