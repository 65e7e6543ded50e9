//! Parts of an input, and files that hold one.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The first byte, which chooses, and the rest.
pub(super) fn choice(data: &[u8]) -> (u8, &[u8]) {
    data.split_first().map_or((0, data), |(first, rest)| (*first, rest))
}

/// A file in memory with these bytes, at its start.
pub(super) fn file_of(bytes: &[u8]) -> File {
    let memory = rustix::fs::memfd_create("fuzzing", rustix::fs::MemfdFlags::CLOEXEC);
    let file = File::from(memory.expect("there is memory for a file"));
    file.write_all_at(bytes, 0).expect("there is memory for a file");
    file
}
