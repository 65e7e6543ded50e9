//! The package of the distribution that a file is from, by dpkg's lists of files: read, not asked for, since dpkg may be busy,
//! and the program that lists a package's files is another one than the recorder.

use crate::base::opener;
use memchr::memmem;
use rustc_hash::{FxHashMap, FxHasher};
use std::ffi::OsStr;
use std::fs::File;
use std::hash::Hasher;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

const LISTS: &str = "/var/lib/dpkg/info";
/// Limits on what is read of the lists: all of them and each, bytes. A full desktop has 100 MB of 3,000 packages.
const MAX_TOTAL_BYTES: u64 = 256 << 20;
const MAX_LIST_BYTES: u64 = 16 << 20;
const MAX_LISTS: usize = 50_000;

/// Which package programs and libraries are from.
#[derive(Debug, Default)]
struct PackageIndex {
    names: Vec<String>,
    /// Numbers of packages by the hash of a path; a hash of two paths is in it for the first.
    by_path: FxHashMap<u64, u32>,
}

impl PackageIndex {
    /// Reads the lists in `folder`.
    fn read(folder: &Path) -> Self {
        let mut index = PackageIndex::default();
        let mut left = MAX_TOTAL_BYTES;
        let code_paths = CodePaths::new();
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_LISTS);
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort_unstable();
        for path in paths.iter().filter(|path| path.extension() == Some(OsStr::new("list"))) {
            let mut bytes = Vec::new();
            let opened = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|it| it.is_file()));
            let Some(file) = opened else { continue };
            if file.take(MAX_LIST_BYTES.min(left)).read_to_end(&mut bytes).is_err() {
                continue;
            }
            left -= bytes.len() as u64;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            // `libc6:amd64`
            let name = name.split(':').next().unwrap_or_default().to_owned();
            let number = index.names.len() as u32;
            index.names.push(name);
            for line in bytes.split(|&byte| byte == b'\n').filter(|line| code_paths.have(line)) {
                index.by_path.entry(hash(line)).or_insert(number);
            }
        }
        index
    }

    fn owner(&self, path: &Path) -> Option<&str> {
        let bytes = path.as_os_str().as_bytes();
        // A package may have put it into /lib, which is a link to /usr/lib by now.
        let without_usr = bytes.strip_prefix(b"/usr").unwrap_or(bytes);
        let number = self.by_path.get(&hash(bytes)).or_else(|| self.by_path.get(&hash(without_usr)))?;
        self.names.get(*number as usize).map(String::as_str)
    }
}

/// Finds the paths that may be those of programs or libraries, among the many of documents and texts.
struct CodePaths([memmem::Finder<'static>; 4]);

impl CodePaths {
    fn new() -> Self {
        CodePaths(["lib", "bin/", ".so", "/opt/"].map(memmem::Finder::new))
    }

    fn have(&self, path: &[u8]) -> bool {
        self.0.iter().any(|part| part.find(path).is_some())
    }
}

fn hash(path: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(path);
    hasher.finish()
}

/// The package that has put a file of this machine at `path`; empty if it is not known.
pub(crate) fn owner_of(path: &Path) -> String {
    static INDEX: OnceLock<PackageIndex> = OnceLock::new();
    known(&INDEX, || PackageIndex::read(Path::new(LISTS))).owner(path).unwrap_or_default().to_owned()
}

/// Returns the value of `cell`, read first if it is empty. No one waits for another thread that reads it already: that
/// may be one in the background, which on a busy machine does not run for seconds, and names are waited for. The first to
/// have it keeps it.
fn known<T>(cell: &OnceLock<T>, read: impl FnOnce() -> T) -> &T {
    cell.get().unwrap_or_else(|| {
        let read = read();
        cell.get_or_init(|| read)
    })
}

/// The distribution of this machine, and those that it is like, with blanks between; empty if it is not known.
pub(crate) fn distribution() -> &'static str {
    static DISTRIBUTION: OnceLock<String> = OnceLock::new();
    known::<String>(&DISTRIBUTION, || {
        let mut text = String::new();
        for path in ["/etc/os-release", "/usr/lib/os-release"] {
            let opened = File::open(path).and_then(|file| file.take(1 << 16).read_to_string(&mut text));
            if opened.is_ok() {
                break;
            }
        }
        distribution_in(&text)
    })
}

fn distribution_in(os_release: &str) -> String {
    let value = |key: &str| {
        let lines = os_release.lines().filter_map(|line| line.split_once('='));
        let mut value =
            lines.filter(|(name, _)| *name == key).map(|(_, value)| value.trim_matches(['"', '\'']));
        value.next_back().unwrap_or_default().to_owned()
    };
    format!("{} {}", value("ID"), value("ID_LIKE")).trim().to_owned()
}

/// Whether a process that sees `root` as `/` has the files of this machine.
pub(crate) fn is_own_root(root: &Path) -> bool {
    let place = |path: &Path| {
        let facts = rustix::fs::fstat(opener::folder(path).ok()?).ok()?;
        Some((facts.st_dev, facts.st_ino))
    };
    place(root).is_some_and(|there| place(Path::new("/")) == Some(there))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_package_whose_list_has_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        write("libc6:amd64.list", "/.\n/lib\n/lib/x86_64-linux-gnu/libc.so.6\n");
        write("git.list", "/usr/bin/git\n/usr/share/doc/git\n");
        write("git.md5sums", "/usr/bin/other\n");
        let index = PackageIndex::read(folder.path());
        assert_eq!(index.owner(Path::new("/usr/lib/x86_64-linux-gnu/libc.so.6")), Some("libc6"));
        assert_eq!(index.owner(Path::new("/usr/bin/git")), Some("git"));
        assert_eq!(index.owner(Path::new("/usr/bin/gi")), None);
        assert_eq!(index.owner(Path::new("/usr/bin/other")), None);
    }

    #[test]
    fn no_one_waits_for_a_thread_that_reads_slowly() {
        static CELL: OnceLock<u32> = OnceLock::new();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let slow = std::thread::spawn(move || {
            *known(&CELL, || {
                begun.send(()).expect("it is waited for");
                released.recv().expect("it is released");
                1
            })
        });
        has_begun.recv().expect("the other thread reads");
        assert_eq!(*known(&CELL, || 2), 2);
        release.send(()).expect("it waits");
        assert_eq!(slow.join().expect("it ends"), 2, "all have one");
    }

    #[test]
    fn a_distribution_is_its_id_and_what_it_is_like() {
        assert_eq!(distribution_in("NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n"), "ubuntu debian");
        assert_eq!(
            distribution_in("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"),
            "rocky rhel centos fedora"
        );
        assert_eq!(distribution_in(""), "");
    }
}
