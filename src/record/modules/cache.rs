//! Unwind tables kept from one recording to the next.
//!
//! One file for each table in `$XDG_CACHE_HOME/prof`, else `~/.cache/prof`, that no one but its owner can write. A table
//! is found by a hash of what it was made from: the very file with its times, its headers and build ID, and this program's own
//! compiler. The time of change of an inode (ctime) is among them, which no one can set: no process can give its own table to
//! another program by claiming that one's build ID. A table that a separate debug file went into is not kept: that file may be
//! another one next time. Whatever goes wrong here costs time, never a recording.

use crate::base::opener::{self, Service};
use crate::unwind::table::bytes;
use crate::unwind::{ElfImage, Limits, Table};
use rustix::fs::{AtFlags, CWD, MemfdFlags, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Set and not empty: no table is kept or used.
const SWITCH: &str = "PROF_NO_CACHE";
/// All tables together, in bytes. The least recently used go first.
const MAX_BYTES: u64 = 256 << 20;
/// Size of all tables after that, in bytes.
const TRIMMED_BYTES: u64 = MAX_BYTES / 4 * 3;
/// A larger file is none of ours, in bytes.
const MAX_FILE_BYTES: u64 = 128 << 20;
/// A table with fewer rows takes less time to compile than to look for.
const MIN_ROWS: usize = 512;
/// A file that was written less than this before its table was compiled may change again within one tick of the clock
/// that stamps it.
const SETTLING: Duration = Duration::from_secs(2);
/// Time by which the recorded last use may lag.
const USE_RESOLUTION: Duration = Duration::from_secs(3600);
/// Age at which a file that was never finished is removed.
const ABANDONED: Duration = Duration::from_secs(3600);

const MAGIC: &[u8; 8] = b"proftab\x01";
const SUFFIX: &str = ".table";
const UNFINISHED_SUFFIX: &str = ".new";
/// Magic, key, length and checksum of what follows.
const HEADER_BYTES: usize = 8 + 32 + 8 + 4;

/// Identity of what a table was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheKey([u8; 32]);

impl CacheKey {
    /// The key of the table of a file with these headers. `None` for a file whose time of change does not yet tell its states
    /// apart.
    pub(super) fn of(file: &File, elf: &ElfImage) -> Option<CacheKey> {
        let facts = file.metadata().ok()?;
        let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::new(
            facts.ctime().try_into().ok()?,
            facts.ctime_nsec().try_into().ok()?,
        ))?;
        if SystemTime::now().duration_since(changed).ok()? < SETTLING {
            return None;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(env!("PROF_COMPILER_HASH").as_bytes());
        let times = [facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec()];
        for number in [facts.dev(), facts.ino(), facts.size()] {
            hasher.update(&number.to_le_bytes());
        }
        for number in times {
            hasher.update(&number.to_le_bytes());
        }
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        add(elf.build_id().unwrap_or_default());
        for segment in elf.segments() {
            let numbers = [segment.file_offset, segment.address, segment.file_size, segment.memory_size];
            numbers.into_iter().for_each(|number| add(&number.to_le_bytes()));
            add(&[u8::from(segment.is_executable)]);
        }
        for section in elf.sections() {
            add(&section.name);
            add(&section.kind.to_le_bytes());
            let numbers = [section.flags, section.address, section.file_offset, section.size];
            numbers.into_iter().for_each(|number| add(&number.to_le_bytes()));
        }
        Some(CacheKey(*hasher.finalize().as_bytes()))
    }

    fn file_name(&self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + SUFFIX
    }
}

/// Why there is no cache, for `-v`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoCache {
    #[error("PROF_NO_CACHE is set")]
    SwitchedOff,
    #[error("neither XDG_CACHE_HOME nor HOME is an absolute path")]
    NoHome,
    #[error("this program has more privileges than the user who started it")]
    OtherRights,
    #[error("`{}` belongs to another user, or others can write it", .0.display())]
    NotOurs(PathBuf),
    #[error("`{}`: {}", .0.display(), .1)]
    Unusable(PathBuf, rustix::io::Errno),
}

/// The tables of one user.
#[derive(Debug)]
pub(crate) struct TableCache {
    folder: OwnedFd,
    /// Tables found, and tables added.
    pub(super) found: AtomicU32,
    pub(super) added: AtomicU32,
    /// Bytes that may be added before the old ones are looked at.
    until_trim: AtomicU64,
    max_bytes: u64,
    is_full: AtomicBool,
    /// Why no more tables are added.
    problem: Mutex<Option<io::Error>>,
}

impl AsFd for TableCache {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

impl TableCache {
    /// The cache of the user as whom this program runs.
    ///
    /// # Errors
    ///
    /// There is none, or it cannot be trusted: tables are compiled then.
    pub(crate) fn open() -> Result<TableCache, NoCache> {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if is_set(SWITCH) {
            return Err(NoCache::SwitchedOff);
        }
        // By file capabilities or the set-user-ID bit: a table that its user wrote would be used on others' programs.
        if has_other_rights() {
            return Err(NoCache::OtherRights);
        }
        let base = base_folder(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"));
        TableCache::open_in(&base.ok_or(NoCache::NoHome)?)
    }

    /// The cache below `base`, which is made if it is not there.
    fn open_in(base: &Path) -> Result<TableCache, NoCache> {
        let private = Mode::RWXU;
        let _ = rustix::fs::mkdir(base, private);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let unusable = |path: &Path| {
            let path = path.to_owned();
            |error| NoCache::Unusable(path, error)
        };
        let opened = rustix::fs::openat(CWD, base, flags, Mode::empty()).map_err(unusable(base))?;
        // Under sudo the environment may be that of another user, who owns the folder.
        if !is_ours(&opened) {
            return Err(NoCache::NotOurs(base.to_owned()));
        }
        let path = base.join("prof");
        let _ = rustix::fs::mkdirat(&opened, "prof", private);
        let folder = rustix::fs::openat(&opened, "prof", flags | OFlags::NOFOLLOW, Mode::empty());
        let folder = folder.map_err(unusable(&path))?;
        if !is_ours(&folder) {
            return Err(NoCache::NotOurs(path));
        }
        Ok(TableCache {
            folder,
            found: AtomicU32::new(0),
            added: AtomicU32::new(0),
            until_trim: AtomicU64::new(0),
            max_bytes: MAX_BYTES,
            is_full: AtomicBool::new(false),
            problem: Mutex::new(None),
        })
    }

    /// The table of a key, if it is there and whole.
    pub(super) fn load(&self, key: &CacheKey, limits: &Limits) -> Option<Table> {
        let mut file = match opener::is_running() {
            true => {
                let (_, file) =
                    opener::ask_service(Service::TableCache, key.file_name().into_bytes(), None).ok()?;
                File::from(file?)
            }
            false => self.open_table(&key.file_name())?,
        };
        let mut bytes = Vec::with_capacity(file.metadata().ok()?.len().min(MAX_FILE_BYTES) as usize);
        (&mut file).take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        let table = bytes::from_bytes(unpacked(&bytes, key)?, limits)?;
        self.found.fetch_add(1, Ordering::Relaxed);
        Some(table)
    }

    /// Opens the file of a table, and notes that it was used.
    fn open_table(&self, name: &str) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = rustix::fs::openat(&self.folder, name, flags, Mode::empty()).ok()?;
        if !is_ours(&file) {
            return None;
        }
        let file = File::from(file);
        let facts = file.metadata().ok()?;
        if !facts.is_file() || facts.len() > MAX_FILE_BYTES {
            return None;
        }
        let used = facts.modified().ok()?;
        if SystemTime::now().duration_since(used).is_ok_and(|age| age > USE_RESOLUTION) {
            let unchanged = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            // The cache may be on a file system that cannot be written.
            let _ =
                rustix::fs::futimens(&file, &Timestamps { last_access: unchanged, last_modification: now });
        }
        Some(file)
    }

    /// Does in the opener what the recorder asks for: opens a table by its name, or keeps the bytes of a file as the table of
    /// that name.
    ///
    /// # Errors
    ///
    /// There is no such table, or it cannot be kept.
    pub(in crate::record) fn serve(
        &self,
        name: &[u8],
        bytes: Option<OwnedFd>,
    ) -> io::Result<Option<OwnedFd>> {
        let name = str::from_utf8(name).ok().filter(|name| is_table_name(name));
        let name = name.ok_or(ErrorKind::InvalidInput)?;
        let Some(file) = bytes else {
            return self.open_table(name).map(|file| Some(file.into())).ok_or(ErrorKind::NotFound.into());
        };
        let mut bytes = Vec::new();
        let mut file = File::from(file);
        file.seek(SeekFrom::Start(0))?;
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        self.keep(name, &bytes)?;
        Ok(None)
    }

    /// Has the opener keep a table.
    fn hand_over(key: &CacheKey, packed: &[u8]) -> io::Result<()> {
        let file = rustix::fs::memfd_create("table", MemfdFlags::CLOEXEC)?;
        let mut file = File::from(file);
        file.write_all(packed)?;
        let name = key.file_name().into_bytes();
        opener::ask_service(Service::TableCache, name, Some(file.as_fd())).map(|_| ())
    }

    /// Bytes that keep a table, for [`TableCache::add`]; `None` for a table that is not worth it.
    pub(super) fn packed(&self, key: &CacheKey, table: &Table) -> Option<Vec<u8>> {
        let is_worth_it = table.rows.len() >= MIN_ROWS && !self.is_full.load(Ordering::Relaxed);
        is_worth_it.then(|| packed(key, table))
    }

    /// Keeps a table.
    pub(super) fn add(&self, key: &CacheKey, packed: &[u8]) {
        let kept = match opener::is_running() {
            true => TableCache::hand_over(key, packed),
            false => self.keep(&key.file_name(), packed),
        };
        if let Err(error) = kept {
            self.is_full.store(true, Ordering::Relaxed);
            let mut problem = self.problem.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            problem.get_or_insert(error);
            return;
        }
        self.added.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes a table, and makes room where there are too many.
    fn keep(&self, name: &str, packed: &[u8]) -> io::Result<()> {
        self.write(name, packed)?;
        let size = packed.len() as u64;
        let spend = |left: u64| left.checked_sub(size);
        if self.until_trim.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_err() {
            // What is in the way of that is in the way of the next recording, too, which tries again.
            let _ = self.trim(SystemTime::now());
        }
        Ok(())
    }

    /// Under a name of its own first, so that no one ever sees a part of it.
    fn write(&self, name: &str, packed: &[u8]) -> io::Result<()> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let unfinished = format!("{}.{number}{UNFINISHED_SUFFIX}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &unfinished, flags, Mode::RUSR | Mode::WUSR)?;
        let written = File::from(file)
            .write_all(packed)
            .and_then(|()| Ok(rustix::fs::renameat(&self.folder, &unfinished, &self.folder, name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.folder, &unfinished, AtFlags::empty());
        }
        written
    }

    /// Removes the least recently used tables while there are too many, and what a killed recorder has left.
    fn trim(&self, now: SystemTime) -> io::Result<()> {
        let (mut tables, mut total) = (Vec::new(), 0);
        for entry in rustix::fs::Dir::read_from(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_owned();
            let Ok(facts) = rustix::fs::statat(&self.folder, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let age = now
                .duration_since(SystemTime::UNIX_EPOCH + Duration::from_secs(facts.st_mtime.max(0) as u64))
                .unwrap_or_default();
            let bytes = name.to_bytes();
            if bytes.ends_with(UNFINISHED_SUFFIX.as_bytes()) && age > ABANDONED {
                let _ = rustix::fs::unlinkat(&self.folder, &name, AtFlags::empty());
            } else if bytes.ends_with(SUFFIX.as_bytes()) {
                let size = facts.st_size.max(0) as u64;
                total += size;
                tables.push((age, size, name));
            }
        }
        if total > self.max_bytes {
            tables.sort_unstable_by(|one, other| other.cmp(one));
            let rest = TRIMMED_BYTES.min(self.max_bytes / 4 * 3);
            for (_, size, name) in tables {
                if total <= rest {
                    break;
                }
                let _ = rustix::fs::unlinkat(&self.folder, &name, AtFlags::empty());
                total -= size;
            }
        }
        // Another recorder may add as many meanwhile.
        let until_trim = self.max_bytes.saturating_sub(total) / 2;
        self.until_trim.store(until_trim, Ordering::Relaxed);
        Ok(())
    }

    /// Summary of the cache's use, for `-v`.
    pub(super) fn describe(&self) -> String {
        let (found, added) = (self.found.load(Ordering::Relaxed), self.added.load(Ordering::Relaxed));
        let problem = self.problem.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let problem = problem.as_ref().map(|error| format!("; adding failed: {error}")).unwrap_or_default();
        format!("unwind tables: {found} from the cache, {added} added to it{problem}")
    }
}

/// Whether it is the name of a table, and of nothing else.
fn is_table_name(name: &str) -> bool {
    name.strip_suffix(SUFFIX)
        .is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Whether this program was given rights that who started it does not have.
fn has_other_rights() -> bool {
    // SAFETY: reads a number that the kernel has put on the stack of this process.
    (unsafe { libc::getauxval(libc::AT_SECURE) }) != 0
}

/// Returns the folder of a user's caches (XDG Base Directory Specification): relative paths are ignored.
fn base_folder(cache_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    cache_home.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".cache")))
}

/// Whether a file or folder belongs to the user as whom this program runs, and only that user can write it.
fn is_ours(file: &OwnedFd) -> bool {
    let others_write = Mode::WGRP | Mode::WOTH;
    rustix::fs::fstat(file).is_ok_and(|facts| {
        facts.st_uid == rustix::process::geteuid().as_raw()
            && !Mode::from_raw_mode(facts.st_mode).intersects(others_write)
    })
}

fn packed(key: &CacheKey, table: &Table) -> Vec<u8> {
    let body = bytes::to_bytes(table);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend(MAGIC);
    bytes.extend(key.0);
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(crc32c::crc32c(&body).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn unpacked<'a>(bytes: &'a [u8], key: &CacheKey) -> Option<&'a [u8]> {
    let rest = bytes.strip_prefix(MAGIC)?.strip_prefix(&key.0)?;
    let (length, rest) = rest.split_first_chunk()?;
    let (checksum, body) = rest.split_first_chunk()?;
    let is_whole = u64::from_le_bytes(*length) == body.len() as u64;
    (is_whole && u32::from_le_bytes(*checksum) == crc32c::crc32c(body)).then_some(body)
}

#[cfg(test)]
mod tests;
