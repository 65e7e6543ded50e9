//! Lines of foreign text, with bounded length.

use memchr::memchr;
use std::io::{self, BufRead};

/// Longest line that is kept, bytes; the rest of a longer one is skipped.
const MAX_LINE_BYTES: usize = 4 << 20;

/// Lines of a text, read one by one.
pub(super) struct TextLines<R> {
    reader: R,
    line: Vec<u8>,
    /// Number of lines that were too long.
    pub(super) cut: u64,
    /// Error that ended reading before the end of the text.
    pub(super) problem: Option<io::Error>,
}

/// A line of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextLine<'l> {
    /// The line without its newline.
    pub(super) text: &'l [u8],
    /// Whether a newline follows it. Only the last line of a text can lack one: the text may be cut in it.
    pub(super) is_ended: bool,
}

impl<R: BufRead> TextLines<R> {
    pub(super) fn new(reader: R) -> Self {
        TextLines { reader, line: Vec::new(), cut: 0, problem: None }
    }

    /// The next line; `None` after the last one. A read error ends the text.
    pub(super) fn next_line(&mut self) -> Option<TextLine<'_>> {
        self.line.clear();
        let (mut is_any, mut is_cut, mut is_ended) = (false, false, false);
        loop {
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.problem = Some(error);
                    break;
                }
            };
            if buffer.is_empty() {
                break;
            }
            is_any = true;
            let end = memchr(b'\n', buffer);
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let room = MAX_LINE_BYTES - self.line.len();
            is_cut |= part.len() > room;
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                is_ended = true;
                break;
            }
        }
        self.cut += u64::from(is_cut);
        is_any.then(|| TextLine { text: self.line.strip_suffix(b"\r").unwrap_or(&self.line), is_ended })
    }
}
