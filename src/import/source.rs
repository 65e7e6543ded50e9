//! The source of an import: a file, or standard input.

use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::time::SystemTime;

/// Size of a read buffer, bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// Number of bytes that are used to detect the format.
const HEAD_BYTES: usize = 4096;

/// First bytes of gzipped files.
const GZIP: &[u8] = b"\x1f\x8b";

/// An open file or standard input, before anything was read from it.
pub(crate) struct ImportSource {
    /// The file, if it is a regular one.
    file: Option<File>,
    /// Name as the user gave it.
    name: String,
    /// Symbols of the running kernel, opened with the user's privileges.
    pub(super) kernel_list: Option<File>,
    /// The vDSO of the running kernel.
    pub(super) vdso: Option<Vec<u8>>,
    head: Vec<u8>,
    rest: Box<dyn Read>,
}

impl std::fmt::Debug for ImportSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportSource").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ImportSource {
    /// A source for an open regular file.
    ///
    /// # Errors
    ///
    /// Fails when the descriptor cannot be duplicated.
    pub(crate) fn of_file(file: File, name: String) -> io::Result<Self> {
        let rest = Box::new(file.try_clone()?);
        Ok(ImportSource { file: Some(file), name, kernel_list: None, vdso: None, head: Vec::new(), rest })
    }

    /// A source for a stream through a pipe.
    pub(crate) fn of_stream(stream: impl Read + 'static) -> Self {
        ImportSource {
            file: None,
            name: String::new(),
            kernel_list: None,
            vdso: None,
            head: Vec::new(),
            rest: Box::new(stream),
        }
    }

    /// Adds the symbols of the running kernel, for files that were recorded on it.
    pub(crate) fn with_kernel_list(self, kernel_list: Option<File>) -> Self {
        ImportSource { kernel_list, ..self }
    }

    /// The same with the vDSO of the running kernel.
    pub(crate) fn with_vdso(self, vdso: Option<Vec<u8>>) -> Self {
        ImportSource { vdso, ..self }
    }

    /// The name of the file; empty for standard input.
    pub(super) fn shown_name(&self) -> &str {
        &self.name
    }

    /// The first bytes; fewer for a short file.
    ///
    /// # Errors
    ///
    /// Fails when the source cannot be read.
    pub(super) fn head(&mut self) -> io::Result<&[u8]> {
        if self.head.is_empty() {
            self.rest.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut self.head)?;
        }
        Ok(&self.head)
    }

    /// The first bytes, unpacked if gzipped.
    ///
    /// # Errors
    ///
    /// Fails when the source cannot be read.
    pub(super) fn unpacked_head(&mut self) -> io::Result<Vec<u8>> {
        let head = self.head()?;
        if !head.starts_with(GZIP) {
            return Ok(head.to_vec());
        }
        let mut unpacked = Vec::new();
        // The head is truncated, so an error at its end is expected.
        let _ = MultiGzDecoder::new(head).take(HEAD_BYTES as u64).read_to_end(&mut unpacked);
        Ok(if unpacked.is_empty() { head.to_vec() } else { unpacked })
    }

    /// Size of a regular file, bytes.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        self.file.as_ref()?.metadata().ok().map(|facts| facts.len())
    }

    /// Returns the time at which a regular file was last written.
    pub(crate) fn written(&self) -> Option<SystemTime> {
        self.file.as_ref()?.metadata().ok()?.modified().ok()
    }

    /// The whole contents, unpacked if gzipped.
    ///
    /// # Errors
    ///
    /// Fails when the first bytes cannot be read.
    pub(super) fn unpacked(mut self) -> io::Result<Box<dyn BufRead>> {
        let is_packed = self.head()?.starts_with(GZIP);
        let whole = BufReader::with_capacity(BUFFER_BYTES, io::Cursor::new(self.head).chain(self.rest));
        Ok(match is_packed {
            true => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(whole))),
            false => Box::new(whole),
        })
    }

    /// The whole contents unchanged, and the file if it supports random access.
    pub(super) fn into_parts(self) -> (Box<dyn Read>, Option<File>) {
        (Box::new(io::Cursor::new(self.head).chain(self.rest)), self.file)
    }
}
