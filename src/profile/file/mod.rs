//! The file `prof.data`: chunks of rows, appended while the recording runs. See `docs/format.md`.
//!
//! ```text
//! header │ meta │ strings │ modules │ … │ samples │ counters │ strings │ frames │ samples │ … │ end
//! ```
//!
//! A chunk only refers to rows of chunks before it, so every prefix that ends between two chunks is a
//! profile. [`Writer`] appends what is new; [`read`] takes a file as a stranger's: it checks each length, id
//! and sum before it relies on it, and what it holds in memory is bounded by the size of the file.

mod chunk;
mod coding;
mod header;
mod open;
mod reader;
mod schema;
mod wire;
mod writer;

#[cfg(test)]
mod hostile_tests;

pub use open::{Glance, Opened, read_path, recorder_words};
pub use reader::{read, read_stream};
pub use writer::Writer;

/// Most rows (samples, stacks, strings, …) of one chunk.
const MAX_ROWS: usize = 1 << 16;
/// Most rows of a table: ids are below this.
const MAX_ID: u32 = 1 << 31;
/// Most frames of one stack.
const MAX_STACK_DEPTH: u16 = 1 << 12;
/// Longest string, in bytes. The writer cuts longer ones.
const MAX_STRING: usize = 1 << 20;
/// Most locations of one frame. The writer keeps the outermost ones.
const MAX_LOCATIONS: usize = 1 << 9;

/// How much of a file could be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Integrity {
    /// The end record was found, and nothing that could not be read follows: nothing is missing.
    pub is_complete: bool,
    /// What is missing or wrong, in words, when anything is.
    pub problem: Option<String>,
    /// Bytes of the file that were understood.
    pub bytes_read: u64,
    /// Bytes that were passed over: cut, damaged, or after damage.
    pub bytes_skipped: u64,
    /// Chunks of a type that this version does not know.
    pub unknown_chunks: u64,
    /// Fields that this version does not know, in chunks that it does know.
    pub unknown_fields: u64,
}

/// Why a profile could not be read at all. The texts do not name the file: the caller puts
/// ``cannot read `path` `` before them, and [`ReadError::hint`] behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The path is a directory.
    #[error("it is a directory, not a profile")]
    Directory,
    /// The path is a device or a socket.
    #[error("it is neither a regular file nor a pipe")]
    NotAFile,
    /// There is not a single byte.
    #[error("it is empty: nothing was recorded into it")]
    Empty,
    /// The first bytes are not those of a profile.
    #[error("not a prof file: it looks like {looks_like}")]
    NotAProfile {
        /// What the file seems to be, e.g. `a perf.data file of Linux perf`.
        looks_like: &'static str,
    },
    /// The file ends inside its header.
    #[error("cut within its header, after {bytes} bytes: no sample was saved")]
    TruncatedHeader {
        /// Length of the file.
        bytes: u64,
    },
    /// The header's checksum does not match.
    #[error("its header is damaged (the checksum does not match)")]
    DamagedHeader,
    /// Written by a version of the format that this reader cannot understand.
    #[error(
        "written in format version {major}.{minor}, newer than this prof reads (version {})",
        header::MAJOR
    )]
    NewerVersion {
        /// Major version of the file.
        major: u16,
        /// Minor version of the file.
        minor: u16,
    },
}

impl ReadError {
    /// What the user can do about it, when anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ReadError::Io(error) => match error.kind() {
                std::io::ErrorKind::NotFound => {
                    Some("record one: `prof record -p PID` or `prof record -- CMD`")
                }
                std::io::ErrorKind::PermissionDenied => {
                    Some("a recording belongs to the user who made it: read it as that user, or as root")
                }
                _ => None,
            },
            ReadError::Directory | ReadError::NotAFile => {
                Some("name the file that `prof record -o FILE` wrote")
            }
            ReadError::Empty | ReadError::TruncatedHeader { .. } => {
                Some("record again; the recording before may still be there, with `.old` at its name's end")
            }
            ReadError::NotAProfile { looks_like } if looks_like.contains("Linux perf") => {
                Some("`perf report -i FILE` opens it")
            }
            ReadError::NotAProfile { .. } => Some("name a file that `prof record` wrote"),
            ReadError::DamagedHeader => Some("copy it again from where it was recorded, in binary mode"),
            ReadError::NewerVersion { .. } => {
                Some("open it with the version of prof that recorded it, or a later one")
            }
        }
    }
}

/// Why a profile could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// An earlier write failed part-way, so that nothing can be appended any more. What was written
    /// before that can be read.
    #[error("an earlier write to it failed; it holds everything up to there")]
    Broken,
    /// The profile holds something that the format cannot.
    #[error("{what} of {found} is past the format's limit of {limit}")]
    Limit {
        /// What is too large, with its unit.
        what: &'static str,
        /// Its size.
        found: u64,
        /// The largest size that can be stored.
        limit: u64,
    },
}
