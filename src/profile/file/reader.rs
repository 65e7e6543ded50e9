//! From chunks back to a profile. The file is a stranger's: each id, length and sum is checked before it
//! is used, and the reader stops at the first thing that is wrong, keeping what came before.

use super::blocks_so_far;
use super::chunk::{ChunkKind, Next, Unpacker};
use super::decode::{Damage, Decoder};
use super::error::{Integrity, ReadError};
use super::header;
use crate::profile::contents::Profile;
use std::io::{self, Read};

/// Reads a profile.
///
/// # Errors
/// When not even the header can be read. Damage after the header is no error: the profile then
/// holds what came before it, and [`Integrity`] says what is missing.
pub fn read(input: impl Read) -> Result<(Profile, Integrity), ReadError> {
    read_with(input, Rest::Counted)
}

/// Reads like [`read`], from an input that may never end: nothing after damage is read.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_stream(input: impl Read) -> Result<(Profile, Integrity), ReadError> {
    read_with(input, Rest::Unknown)
}

/// Length of the input as far as known, to count the bytes after damage.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rest {
    /// The input has this many bytes.
    Known(u64),
    /// Unknown length: the input is read on and counted.
    Counted,
    /// Unknown length: the input may never end.
    Unknown,
}

pub(super) fn read_with(input: impl Read, rest: Rest) -> Result<(Profile, Integrity), ReadError> {
    let mut input = input;
    let header = header::read(&mut input)?;
    let mut chunks = Unpacker::new(input)?;
    let mut decoder = Decoder::default();
    decoder.profile.meta.start_unix_ns = header.start_unix_ns;
    let mut integrity = Integrity { bytes_read: header.length, ..Integrity::default() };
    let mut has_end = false;
    loop {
        let position = integrity.bytes_read;
        let mut stop = |reason: String, consumed: u64| {
            integrity.problem = Some(format!("{reason}, at byte {position}"));
            integrity.bytes_skipped = consumed;
        };
        match chunks.next() {
            Next::Chunk { kind, payload, size } => {
                let result = decoder.chunk(kind, payload, position + size);
                if let Err(Damage(reason)) = result {
                    stop(format!("a chunk of {} is wrong: {reason}", kind.name()), size);
                    break;
                }
                integrity.bytes_read += size;
                has_end = kind == ChunkKind::End;
            }
            Next::Unknown { size } => {
                integrity.bytes_read += size;
                integrity.unknown_chunks += 1;
            }
            Next::End => break,
            Next::Broken { reason, consumed } => {
                stop(reason, consumed);
                break;
            }
            Next::Cut { consumed } => {
                stop("the file is cut in the middle of a chunk".into(), consumed);
                integrity.is_cut = true;
                break;
            }
        }
    }
    integrity.unknown_fields = decoder.unknown_fields;
    integrity.is_complete = has_end && integrity.problem.is_none();
    if integrity.problem.is_some() {
        integrity.bytes_skipped = match rest {
            Rest::Known(total) => total.saturating_sub(integrity.bytes_read),
            // Read only to be counted; what cannot be read any more cannot be counted either.
            Rest::Counted => {
                integrity.bytes_skipped + io::copy(&mut chunks.into_inner(), &mut io::sink()).unwrap_or(0)
            }
            Rest::Unknown => integrity.bytes_skipped,
        };
    } else if !has_end {
        let text = "the recording has no end: its recorder was killed, or the file was cut";
        integrity.problem = Some(text.into());
    }
    blocks_so_far::settle(&mut decoder.profile, has_end);
    Ok((decoder.profile, integrity))
}
