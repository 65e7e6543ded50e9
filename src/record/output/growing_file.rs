//! The file of a recording while it grows: there is always room after it to say how it ended.

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// Bytes kept free after the file: what says how a recording ended takes a few hundred.
const ROOM_FOR_END: u64 = 4096;
/// Bytes that are taken at a time, where the disk has them: each time costs as much as many small writes.
const STEP: u64 = 64 << 10;

/// A file that is appended to. Its disk may become full, but what is kept free after it can be written all the same.
#[derive(Debug)]
pub(in crate::record) struct GrowingFile {
    file: File,
    /// Bytes it has.
    length: u64,
    /// Bytes that there is room for.
    reserved: u64,
    /// Some file systems give no room in advance.
    can_reserve: bool,
}

impl GrowingFile {
    /// An empty file.
    pub(super) fn new(file: File) -> Self {
        GrowingFile { file, length: 0, reserved: 0, can_reserve: true }
    }

    /// Another descriptor of the file.
    pub(super) fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Cuts it to its first `bytes` bytes, and appends `end` if there is room.
    pub(super) fn end_at(&mut self, bytes: u64, end: &[u8]) {
        // What is written first takes the room that was kept free, which cutting would give away.
        let is_written = self.file.seek(SeekFrom::Start(bytes)).and_then(|_| self.file.write_all(end));
        self.length = bytes + if is_written.is_ok() { end.len() as u64 } else { 0 };
        // If even that fails, readers stop at the damage by themselves.
        let _ = self.file.set_len(self.length);
        self.reserved = self.length;
    }

    /// Has the disk keep it.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Takes room for this many bytes more, and for the end after them.
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let wanted = bytes + ROOM_FOR_END;
        let limit = getrlimit(Resource::Fsize).current;
        if limit.is_some_and(|limit| self.length + wanted > limit) {
            return Err(Errno::FBIG.into());
        }
        if !self.can_reserve || self.length + wanted <= self.reserved {
            return Ok(());
        }
        // A disk that has no room for a step may have some for what is written.
        match self.take_room(wanted.max(STEP)).or_else(|_| self.take_room(wanted)) {
            // On a disk that has no such room to begin with, as much is written as it takes.
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) if self.length > 0 => Err(error.into()),
            Err(Errno::INTR) | Ok(()) => Ok(()),
            Err(_) => {
                self.can_reserve = false;
                Ok(())
            }
        }
    }

    fn take_room(&mut self, bytes: u64) -> Result<(), Errno> {
        rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.length, bytes)?;
        self.reserved = self.length + bytes;
        Ok(())
    }
}

impl Write for GrowingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.reserve(bytes.len() as u64)?;
        let written = self.file.write(bytes)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for GrowingFile {
    /// Gives back what was kept free.
    fn drop(&mut self) {
        if self.can_reserve && self.length > 0 {
            let _ = self.file.set_len(self.length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn room_for_the_end_is_kept_and_given_back() {
        let mut growing = GrowingFile::new(tempfile::tempfile().expect("a temporary file can be made"));
        let blocks = |file: &File| file.metadata().expect("it is open").blocks() * 512;
        for number in 1..=60 {
            growing.write_all(&vec![1; 97 * number]).expect("there is room");
            if growing.can_reserve {
                assert!(blocks(&growing.file) >= growing.length + ROOM_FOR_END, "{}", blocks(&growing.file));
            }
        }
        assert_eq!(growing.length, 97 * 60 * 61 / 2);
        growing.end_at(10_000, b"the end");
        let file = growing.file.try_clone().expect("it is open");
        drop(growing);
        assert_eq!(file.metadata().expect("it is open").len(), 10_007);
        assert!(blocks(&file) < 10_007 + ROOM_FOR_END, "{}", blocks(&file));
    }
}
