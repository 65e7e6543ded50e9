//! Files of the host in which container engines keep names, read through a folder where the host's root is mounted.

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Reads files of the host. Another implementation asks the process that has the rights to.
pub(crate) trait HostFiles {
    /// The content of a plain file by its absolute path on the host.
    ///
    /// # Errors
    ///
    /// When it is not there, may not be read, is no plain file, or has more than `most` bytes.
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>>;

    /// The names in a folder of the host: the first `most` that the file system lists.
    ///
    /// # Errors
    ///
    /// When it is not there or may not be read.
    fn list(&self, folder: &Path, most: usize) -> io::Result<Vec<OsString>>;
}

/// Files below a folder that stands for the root of the host. Links, also absolute ones, do not lead out of it.
#[derive(Debug)]
pub(crate) struct RootedFiles {
    root: OwnedFd,
}

impl RootedFiles {
    /// The files below `root`: `/` on the host itself.
    ///
    /// # Errors
    ///
    /// When it is no folder, or may not be opened.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(RootedFiles { root: rustix::fs::open(root, flags, Mode::empty())? })
    }

    fn open_below(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        // Without these, opening a pipe waits, and a terminal becomes that of this process.
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        Ok(rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve)?)
    }
}

impl HostFiles for RootedFiles {
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let file = self.open_below(path, OFlags::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"));
        }
        let mut bytes = Vec::new();
        File::from(file).take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it has more than {most} bytes")));
        }
        Ok(bytes)
    }

    fn list(&self, folder: &Path, most: usize) -> io::Result<Vec<OsString>> {
        let folder = rustix::fs::Dir::new(self.open_below(folder, OFlags::DIRECTORY)?)?;
        let is_name = |name: &&[u8]| *name != b"." && *name != b"..";
        let mut names = Vec::new();
        for entry in folder {
            let entry = entry?;
            let name = Some(entry.file_name().to_bytes()).filter(is_name);
            names.extend(name.map(|name| OsStr::from_bytes(name).to_owned()));
            if names.len() >= most {
                break;
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn links_stay_below_the_root_and_sizes_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("host");
        fs::create_dir_all(root.join("data/docker")).unwrap();
        fs::write(root.join("data/docker/a"), "inside").unwrap();
        fs::write(folder.path().join("secret"), "outside").unwrap();
        // As an administrator moves a folder of the host: an absolute link.
        std::os::unix::fs::symlink("/data", root.join("lib")).unwrap();
        std::os::unix::fs::symlink("../secret", root.join("out")).unwrap();
        let files = RootedFiles::open(&root).unwrap();
        assert_eq!(files.read(Path::new("/lib/docker/a"), 6).unwrap(), b"inside");
        assert!(files.read(Path::new("/lib/docker/a"), 5).is_err());
        assert!(files.read(Path::new("/out"), 100).is_err());
        assert!(files.read(Path::new("/lib"), 100).is_err());
        assert_eq!(files.list(Path::new("/lib/docker"), 10).unwrap(), ["a"]);
        assert_eq!(files.list(Path::new("/data"), 1).unwrap(), ["docker"]);
        assert!(files.list(Path::new("/none"), 10).is_err());
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(RootedFiles::open(folder.path()).unwrap().read(Path::new("/pipe"), 9).is_err());
    }
}
