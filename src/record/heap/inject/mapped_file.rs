//! The file that a process has mapped for its sampler: its own, and no other.
//!
//! Who may open it for writing may open much else. While the threads of a process are stopped, another process with the same
//! memory, or a handler of a signal, can have any file mapped there. So the file is looked at before it is opened.

use super::image::{FILE_BYTES, FILE_NAME};
use super::memory_map::MemoryMap;
use super::stopped::StoppedProcess;
use crate::record::process::proc_fs;
use rustix::fs::{MemfdFlags, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The file of the sampler at `at`, to be read and written.
///
/// # Errors
///
/// When another file is mapped there, or none.
pub(super) fn open_mapped(process: &StoppedProcess, map: &MemoryMap, at: u64) -> io::Result<File> {
    let range = map.at(at).ok_or_else(|| io::Error::other("the sampler is not where it was mapped"))?;
    let thread = proc_fs::thread_to_read(process.pid());
    let path = format!("/proc/{thread}/map_files/{:x}-{:x}", range.start, range.end);
    let owner = process.user()?;
    // This opens nothing: what is there may be a device.
    let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    if !is_of_sampler(found.as_fd(), owner)? {
        return Err(io::Error::other("another file was mapped in the place of the sampler"));
    }
    File::options().read(true).write(true).open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

/// Whether a file is one that this user has made with memfd_create for a sampler.
fn is_of_sampler(file: BorrowedFd<'_>, owner: u32) -> io::Result<bool> {
    let own = rustix::fs::memfd_create(c"prof-compared", MemfdFlags::CLOEXEC)?;
    let (own, found) = (rustix::fs::fstat(own)?, rustix::fs::fstat(file)?);
    let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Ok(found.st_dev == own.st_dev
        && found.st_mode & libc::S_IFMT == libc::S_IFREG
        && found.st_nlink == 0
        && found.st_uid == owner
        && u64::try_from(found.st_size).is_ok_and(|size| size == FILE_BYTES)
        && name.as_os_str() == format!("/memfd:{FILE_NAME} (deleted)").as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_but_a_samplers_own_is_one() {
        let own = rustix::process::getuid().as_raw();
        let memfd = |name: &std::ffi::CStr, size: u64| {
            let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).expect("a memfd can be made");
            rustix::fs::ftruncate(&file, size).expect("own file");
            file
        };
        let sampler = memfd(c"prof-heap", FILE_BYTES);
        let is = |file: BorrowedFd<'_>, owner| is_of_sampler(file, owner).expect("it can be looked at");
        assert!(is(sampler.as_fd(), own));
        assert!(!is(sampler.as_fd(), own + 1), "another user's");
        assert!(!is(memfd(c"prof-heat", FILE_BYTES).as_fd(), own), "of another name");
        assert!(!is(memfd(c"prof-heap", 4096).as_fd(), own), "of another size");
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("memfd:prof-heap (deleted)");
        let file = File::create(&path).expect("a file can be made");
        file.set_len(FILE_BYTES).expect("own file");
        assert!(!is(file.as_fd(), own), "a file with a place in the file system");
        std::fs::remove_file(path).expect("own file");
        assert!(!is(file.as_fd(), own), "a file of another file system");
        let device = File::open("/dev/null").expect("every machine has one");
        assert!(!is(device.as_fd(), own));
    }
}
