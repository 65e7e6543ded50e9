//! What a file says of itself at its start, without reading the rest.

use crate::profile::file::chunk::{ChunkKind, Next, Unpacker};
use crate::profile::file::header;
use crate::profile::file::rows::schema;
use prost::Message;
use std::fs::File;
use std::io;
use std::io::Seek;

/// Returns the words of messages for the recorder with this process id; 0 is an unknown one.
pub(crate) fn recorder_words(pid: u32) -> String {
    if pid == 0 { "prof".to_owned() } else { format!("prof (pid {pid})") }
}

/// Facts that the first chunks of a file tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Glance {
    /// Process id of its recorder, 0 where that is not known.
    pub(crate) recorder_pid: u32,
    /// There is at least one sample, wait, or time of a thread.
    pub(crate) has_samples: bool,
}

impl Glance {
    /// Reads as far as the first samples; `None` when it is no profile.
    pub(crate) fn at(mut file: &File) -> Option<Self> {
        file.rewind().ok()?;
        let mut input = io::BufReader::new(file);
        header::read(&mut input).ok()?;
        let mut chunks = Unpacker::new(input).ok()?;
        let mut glance = Glance { recorder_pid: 0, has_samples: false };
        while !glance.has_samples {
            match chunks.next() {
                Next::Chunk { kind: ChunkKind::Meta, payload, .. } => {
                    glance.recorder_pid = schema::Meta::decode(payload).ok()?.recorder_pid;
                }
                Next::Chunk { kind, .. } => {
                    glance.has_samples = matches!(kind, ChunkKind::Samples | ChunkKind::ThreadTimes)
                }
                Next::Unknown { .. } => {}
                Next::End | Next::Broken { .. } | Next::Cut { .. } => break,
            }
        }
        Some(glance)
    }
}
