//! Opening of files by the rules of the opener, with the rights of the process that calls: no links out of a root, regular
//! files only, nothing that could hold or change anything by being opened.

use super::message::{FileContent, Links};
use crate::base::{own_file, privilege};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Size of the largest source file that is read, bytes.
const MAX_SOURCE_BYTES: u64 = 16 << 20;
/// File name endings of source files.
const SOURCE_ENDINGS: [&str; 53] = [
    "c", "cc", "cpp", "cxx", "c++", "h", "hh", "hpp", "hxx", "inc", "inl", "ipp", "tcc", "tpp", "rs", "go",
    "s", "asm", "f", "for", "f90", "f95", "f03", "zig", "d", "swift", "m", "mm", "nim", "pas", "pp", "adb",
    "ads", "cu", "cuh", "y", "l", "rl", "js", "mjs", "ts", "java", "kt", "py", "rb", "hs", "pl", "pm", "php",
    "cjs", "jsx", "tsx", "pyx",
];

fn path_of(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

pub(super) fn process_file(pid: u32, name: &str) -> io::Result<File> {
    Ok(File::from(openat(CWD, path_of(pid, name), READ, Mode::empty())?))
}

pub(super) fn process_place(pid: u32, name: &str) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path_of(pid, name), PLACE, Mode::empty())?)
}

pub(super) fn list(pid: Option<u32>) -> io::Result<Vec<u32>> {
    let folder = pid.map_or_else(|| PathBuf::from("/proc"), |pid| path_of(pid, "task"));
    let number = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let mut numbers: Vec<u32> = std::fs::read_dir(folder)?.filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Address of the list of robust locks that a thread has named to the kernel (get_robust_list(2)); 0 where it has named none.
pub(super) fn robust_list(tid: u32) -> io::Result<u64> {
    let (mut list, mut bytes) = (0_u64, 0_usize);
    // SAFETY: the kernel writes a word to each of the two places.
    let result = unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut list, &raw mut bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(list) }
}

/// Descriptors that this process has open.
pub(super) fn list_descriptors() -> Vec<i32> {
    let number = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    std::fs::read_dir("/proc/self/fd")
        .map_or_else(|_| Vec::new(), |entries| entries.filter_map(number).collect())
}

pub(super) fn inside(folder: BorrowedFd<'_>, path: &Path, links: Links) -> io::Result<File> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let resolve = match links {
        Links::Followed => resolve,
        Links::Refused => resolve | ResolveFlags::NO_SYMLINKS,
    };
    regular(&openat2(folder, path, PLACE, Mode::empty(), resolve)?)
}

pub(super) fn named(path: &Path) -> io::Result<File> {
    privilege::as_user(|| regular(&openat2(CWD, path, PLACE, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?))
}

/// Whether a path has the form of that of a source file.
pub(crate) fn is_source(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    path.is_absolute() && ending.is_some_and(|ending| SOURCE_ENDINGS.contains(&&*ending))
}

pub(super) fn source(path: &Path) -> io::Result<File> {
    if !is_source(path) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has not the name of a source file"));
    }
    let file = privilege::as_user(|| regular(&openat(CWD, path, PLACE, Mode::empty())?))?;
    let facts = file.metadata()?;
    let is_theirs =
        own_file::invoking_user().is_none_or(|(uid, _)| facts.uid() == uid || facts.mode() & 0o004 != 0);
    match (is_theirs, facts.len() <= MAX_SOURCE_BYTES) {
        (false, _) => Err(io::ErrorKind::PermissionDenied.into()),
        (_, false) => Err(io::ErrorKind::FileTooLarge.into()),
        _ => Ok(file),
    }
}

/// Whether a process without rights may have a new file made there: in the working folder, that for temporary files, or below.
pub(super) fn may_be_made(path: &Path) -> bool {
    let goes_up = path.components().any(|part| part == std::path::Component::ParentDir);
    let Some(folder) = path.parent().filter(|_| !goes_up) else { return false };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (Ok(folder), Ok(working)) = (folder.canonicalize(), std::env::current_dir()) else { return false };
    // Not the whole machine, where prof was started in its root.
    let is_below = |top: &Path| top != Path::new("/") && folder.starts_with(top);
    folder == working
        || is_below(&working)
        || std::env::temp_dir().canonicalize().is_ok_and(|top| is_below(&top))
}

/// Where new files may be made, in words.
pub(super) fn where_made() -> String {
    let (working, temporary) = (std::env::current_dir().unwrap_or_default(), std::env::temp_dir());
    format!(
        "prof has given up its rights, and makes files only in `{}`, where it was started, in `{}`, and below",
        working.display(),
        temporary.display()
    )
}

/// Opens what was found if it is a regular file: opening a device may have side effects.
fn regular(place: &OwnedFd) -> io::Result<File> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(place)?.st_mode);
    if kind != FileType::RegularFile {
        return Err(match kind {
            FileType::Directory => io::Error::from(io::ErrorKind::IsADirectory),
            _ => io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"),
        });
    }
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    Ok(File::from(rustix::fs::open(path, READ, Mode::empty())?))
}

/// Whether a file at a path is what may be given to a process without rights.
pub(super) fn is_wanted(file: &File, path: &Path, wanted: FileContent) -> bool {
    match wanted {
        FileContent::Elf => {
            let mut magic = [0; 4];
            file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"\x7fELF"
        }
        FileContent::PerfMap => {
            let number = path.to_str().and_then(|path| path.strip_prefix("tmp/perf-")?.strip_suffix(".map"));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        }
    }
}

/// Whether a process without rights may have this file below `/proc/PID` opened.
pub(super) fn is_open_to_recorder(name: &str) -> bool {
    const FILES: [&str; 10] =
        ["maps", "mem", "exe", "stat", "status", "cmdline", "comm", "environ", "auxv", "cgroup"];
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(range) = name.strip_prefix("map_files/") {
        return range.split_once('-').is_some_and(|(start, end)| is_hex(start) && is_hex(end));
    }
    if let Some((tid, file)) = name.strip_prefix("task/").and_then(|rest| rest.split_once('/')) {
        return is_number(tid) && FILES.contains(&file);
    }
    FILES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn only_these_files_of_processes_are_given_to_a_process_without_rights() {
        for name in ["maps", "mem", "cgroup", "map_files/7f00-7f10", "task/12/stat"] {
            assert!(is_open_to_recorder(name), "{name}");
        }
        for name in [
            "",
            "root/etc/shadow",
            "fd/3",
            "cwd/x",
            "map_files/../root",
            "map_files/1-2/x",
            "task/1/../fd/3",
            "task/../mem",
            "task/1/root/etc/shadow",
            "clear_refs",
            "/etc/shadow",
            "../../etc/shadow",
        ] {
            assert!(!is_open_to_recorder(name), "{name}");
        }
    }

    #[test]
    fn where_new_files_may_be_made_is_said() {
        let said = where_made();
        for folder in [std::env::current_dir().unwrap(), std::env::temp_dir()] {
            assert!(said.contains(&format!("`{}`", folder.display())), "{said}");
        }
    }

    #[test]
    fn only_files_of_the_wanted_kind_are_given() {
        let own = File::open("/proc/self/exe").expect("it runs");
        let other = File::open("/proc/self/cmdline").expect("it runs");
        assert!(is_wanted(&own, Path::new("any"), FileContent::Elf));
        assert!(!is_wanted(&other, Path::new("any"), FileContent::Elf));
        assert!(is_wanted(&other, Path::new("tmp/perf-12.map"), FileContent::PerfMap));
        for path in [
            "tmp/perf-.map",
            "etc/shadow",
            "tmp/perf-1.map/../../etc/x.map",
            "/tmp/perf-12.map",
            "tmp/perf-a.map",
        ] {
            assert!(!is_wanted(&own, Path::new(path), FileContent::PerfMap), "{path}");
        }
    }

    #[test]
    fn sources_are_known_by_their_names_and_nothing_but_regular_files_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a.c"), "int a;").unwrap();
        std::fs::write(path("shadow"), "root").unwrap();
        rustix::fs::mknodat(CWD, path("fifo.c"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(source(&path("a.c")).is_ok());
        for name in ["shadow", "fifo.c", "gone.c"] {
            assert!(source(&path(name)).is_err(), "{name}");
        }
        assert!(source(Path::new("a.c")).is_err(), "a relative one is not in the program's folder");
        let root = File::open(folder.path()).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", path("out")).unwrap();
        std::os::unix::fs::symlink("a.c", path("in")).unwrap();
        assert!(inside(root.as_fd(), Path::new("in"), Links::Followed).is_ok());
        assert!(inside(root.as_fd(), Path::new("in"), Links::Refused).is_err());
        assert!(inside(root.as_fd(), Path::new("out"), Links::Followed).is_err(), "it is in another root");
        assert!(inside(root.as_fd(), Path::new("fifo.c"), Links::Followed).is_err());
    }
}
