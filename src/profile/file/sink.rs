//! The output of a writer: whole chunks, and none after a failed one.

use super::chunk::{ChunkKind, MAX_SIZE, Packer};
use super::error::WriteError;
use prost::Message;
use std::io::Write;

/// The output, in whole chunks.
pub(super) struct WriterSink<W> {
    pub(super) out: W,
    pub(super) packer: Packer,
    pub(super) bytes: u64,
    /// Whole chunks, of which the format counts this many.
    pub(super) chunks: u16,
    pub(super) is_broken: bool,
}

impl<W: Write> WriterSink<W> {
    pub(super) fn chunk(&mut self, kind: ChunkKind, message: &impl Message) -> Result<(), WriteError> {
        let payload = message.encode_to_vec();
        if payload.len() > MAX_SIZE {
            let (found, limit) = (payload.len() as u64, MAX_SIZE as u64);
            return Err(WriteError::Limit { what: "a chunk's size in bytes", found, limit });
        }
        let chunk = self.packer.pack(kind, &payload)?;
        self.write(&chunk)?;
        self.chunks = self.chunks.wrapping_add(1);
        Ok(())
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        if self.is_broken {
            return Err(WriteError::Broken);
        }
        self.is_broken = true; // until it has succeeded
        self.out.write_all(bytes)?;
        self.is_broken = false;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), WriteError> {
        self.out.flush()?;
        Ok(())
    }
}
