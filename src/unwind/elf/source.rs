//! Where the bytes of an ELF file come from: a file that may change while it is read, or memory.

use super::error::ElfError;
use super::limits::Limits;
use crate::base::file_holes;
use object::CompressionFormat;
use object::read::CompressedData;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// An opened file, or one in memory.
#[derive(Debug)]
pub(crate) enum Source {
    File { file: Arc<File>, size: u64 },
    Bytes(Vec<u8>),
}

impl Source {
    /// Its length, bytes.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::File { size, .. } => *size,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Bytes at an offset; all of them, or an error.
    pub(crate) fn read(&self, offset: u64, size: u64, limits: &Limits) -> Result<Vec<u8>, ElfError> {
        if size > limits.max_section_bytes {
            let limit = limits.max_section_bytes;
            return Err(ElfError::TooLarge { what: "a section", size, limit });
        }
        let end = offset.checked_add(size).filter(|&end| end <= self.size());
        let Some(end) = end else { return Err(ElfError::Malformed("a part lies outside the file")) };
        match self {
            Self::Bytes(bytes) => {
                // In range: `end` is at most the length, which is a usize.
                Ok(bytes[offset as usize..end as usize].to_vec())
            }
            Self::File { file, .. } => {
                if file_holes::is_hole(file, offset, size) {
                    return Err(ElfError::Malformed("a part was never written to disk"));
                }
                let mut bytes = vec![0; size as usize];
                file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
        }
    }
}

/// Decompresses a section.
pub(crate) fn unpack(
    format: CompressionFormat,
    data: &[u8],
    uncompressed_size: u64,
    limits: &Limits,
) -> Result<Vec<u8>, ElfError> {
    // zlib cannot do better than 1:1032; zstd can, but no section that unwinding needs does.
    let limit = limits.max_section_bytes.min((data.len() as u64).saturating_mul(1032));
    if uncompressed_size > limit {
        return Err(ElfError::TooLarge { what: "a compressed section", size: uncompressed_size, limit });
    }
    let packed = CompressedData { format, data, uncompressed_size };
    let unpacked = packed.decompress().map_err(|_| ElfError::Malformed("a section that does not unpack"))?;
    Ok(unpacked.into_owned())
}
