//! Why a profile cannot be read or written, and how much of it could be.

/// Words for a file of Linux perf.
pub(super) const PERF_DATA: &str = "a perf.data file of Linux perf";

/// Part of a file that could be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Integrity {
    /// The end record was found, and nothing that could not be read follows: nothing is missing.
    pub is_complete: bool,
    /// Description of what is missing or wrong, when anything is.
    pub problem: Option<String>,
    /// Whether the file ends inside its last chunk: nothing whole follows what was read.
    pub(crate) is_cut: bool,
    /// Whether the recorder of the file still runs: a missing end is no damage then.
    pub(crate) is_being_written: bool,
    /// Bytes of the file that were understood.
    pub bytes_read: u64,
    /// Bytes that were passed over: cut, damaged, or after damage.
    pub bytes_skipped: u64,
    /// Chunks of a type that this version does not know.
    pub unknown_chunks: u64,
    /// Fields that this version does not know, in chunks that it does know.
    pub unknown_fields: u64,
}

impl Integrity {
    /// Whether something that was written is wrong, and what comes after it cannot be read. One that is only cut has nothing
    /// whole after what was read.
    pub(crate) fn is_damaged(&self) -> bool {
        self.bytes_skipped > 0 && !self.is_cut
    }
}

/// Why a profile could not be read at all. The texts do not name the file: the caller puts
/// ``cannot read `path` `` before them, and [`ReadError::hint`] after.
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
        /// Kind of file that it seems to be, e.g. `a perf.data file of Linux perf`.
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
        crate::profile::file::bounds::MAJOR
    )]
    NewerVersion {
        /// Major version of the file.
        major: u16,
        /// Minor version of the file.
        minor: u16,
    },
}

impl ReadError {
    /// Whether the file may be one of another profiler that `prof import` reads.
    pub(crate) fn is_importable(&self) -> bool {
        let kinds = [PERF_DATA, "gzip", "pprof", "text"];
        matches!(self, ReadError::NotAProfile { looks_like } if kinds.iter().any(|kind| looks_like.contains(kind)))
    }

    /// Whether the file is one of Linux perf, which can open it as well.
    pub(crate) fn is_of_perf(&self) -> bool {
        matches!(self, ReadError::NotAProfile { looks_like } if looks_like.contains(PERF_DATA))
    }

    /// Advice on what the user can do about the error, when anything.
    pub(crate) fn hint(&self) -> Option<&'static str> {
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
                Some("record again; the previous recording may still exist with the suffix `.old`")
            }
            ReadError::NotAProfile { .. } if self.is_importable() => {
                Some("to read it as a recording:  prof import FILE -o NAME")
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
    #[error("an earlier write to it failed; it is complete up to there")]
    Broken,
    /// The profile holds something that the format cannot.
    #[error("{what} of {found} exceeds the format's limit of {limit}")]
    Limit {
        /// Name of what is too large, with its unit.
        what: &'static str,
        /// Size that was found.
        found: u64,
        /// The largest size that can be stored.
        limit: u64,
    },
}
