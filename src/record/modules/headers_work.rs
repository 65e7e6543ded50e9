//! The headers of a file that may be on a server, or made by a program: a worker reads them, which may wait for ever.

use super::file::{ModuleFile, is_remote};
use crate::base::deadline::Deadline;
use crate::base::file_state::FileState;
use crate::elf::ElfHeaders;
use crate::profile::ModuleKind;
use crate::record::workers::{self, JobKind, JobUrgency, WorkerJob, WorkerLane};
use crate::unwind::{Architecture, ElfImage, Limits};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest time for the headers of one file.
const LONGEST_READ: Duration = Duration::from_secs(10);
/// The list of file systems is read again for a device that is not in it after this time.
const LEAST_AGE: Duration = Duration::from_secs(1);
/// File systems whose files this machine has itself.
const LOCAL: [&str; 23] = [
    "ext2",
    "ext3",
    "ext4",
    "xfs",
    "btrfs",
    "f2fs",
    "tmpfs",
    "ramfs",
    "rootfs",
    "overlay",
    "zfs",
    "squashfs",
    "erofs",
    "iso9660",
    "vfat",
    "exfat",
    "ntfs3",
    "bcachefs",
    "jfs",
    "nilfs2",
    "udf",
    "devtmpfs",
    "hugetlbfs",
];

/// The file systems that are mounted here.
#[derive(Debug, Default)]
pub(super) struct FileSystems {
    /// Whether the files of a device are on this machine.
    by_device: FxHashMap<(u32, u32), bool>,
    read: Option<Instant>,
}

impl FileSystems {
    /// Whether the files of a device are known to be on this machine, so that no one else is waited for who reads them.
    pub(super) fn has_locally(&mut self, device: (u32, u32)) -> bool {
        let is_old = self.read.is_none_or(|read| read.elapsed() > LEAST_AGE);
        if !self.by_device.contains_key(&device) && is_old {
            // Of what cannot be read nothing is known.
            let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            self.by_device = devices(&text);
            self.read = Some(Instant::now());
        }
        self.by_device.get(&device).copied().unwrap_or(false)
    }
}

/// Devices by the text of `/proc/PID/mountinfo` (proc(5)): `ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS [TAG]… - TYPE SOURCE …`.
fn devices(mountinfo: &str) -> FxHashMap<(u32, u32), bool> {
    let device_of = |line: &str| {
        let (about, file_system) = line.split_once(" - ")?;
        let (major, minor) = about.split(' ').nth(2)?.split_once(':')?;
        let kind = file_system.split(' ').next()?;
        Some(((major.parse().ok()?, minor.parse().ok()?), LOCAL.contains(&kind)))
    };
    mountinfo.lines().filter_map(device_of).collect()
}

/// What a worker says of a file.
#[derive(Debug, Serialize, Deserialize)]
struct HeadersReply {
    /// The state of the file before anything was read from it.
    state: Option<FileState>,
    is_remote: bool,
    headers: Option<ElfHeaders>,
}

impl ModuleFile {
    /// Has a worker read the headers of an opened file, as [`ModuleFile::read`] does. One that it does not come back from has none,
    /// and is not open.
    pub(super) fn read_elsewhere(pid: u32, path: &str, file: Arc<File>, limits: &Limits) -> ModuleFile {
        let deadline = Deadline::after(LONGEST_READ, &Arc::default());
        let descriptors = [file.as_fd()];
        let job = WorkerJob {
            kind: JobKind::Headers,
            urgency: JobUrgency::First,
            part: 0,
            // For tests, which have the reader of a file die.
            body: path.as_bytes(),
            descriptors: &descriptors,
        };
        let answer =
            workers::take(WorkerLane::Slow, &deadline).and_then(|mut worker| worker.work(&job, &deadline));
        let unread = ModuleFile::new(path, pid, ModuleKind::Elf);
        let reply = answer.ok().and_then(|answer| postcard::from_bytes(&answer).ok());
        let Some(HeadersReply { state, is_remote, headers }) = reply else { return unread };
        let elf = headers.and_then(|headers| ElfImage::with_headers(&file, headers, &limits.elf));
        let elf = elf.filter(|elf| elf.architecture() == Architecture::HOST);
        ModuleFile { file: Some(file), state, is_remote, ..unread.with_elf(elf) }
    }
}

/// Reads headers in a worker.
pub(crate) fn work(descriptors: Vec<OwnedFd>) -> Vec<u8> {
    let reply = descriptors.into_iter().next().map(|file| {
        let file = Arc::new(File::from(file));
        let state = FileState::of(&file);
        let elf = ElfImage::open_shared(&file, &Limits::default().elf).ok();
        HeadersReply { state, is_remote: is_remote(&file), headers: elf.map(ElfImage::into_headers) }
    });
    reply.and_then(|reply| postcard::to_stdvec(&reply).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_systems_of_this_machine_are_local() {
        let text = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                    40 22 0:45 / /srv rw shared:2 master:1 - nfs4 server:/srv rw\n\
                    41 22 0:46 / /fuse rw - fuse.sshfs host: rw\n\
                    42 22 8:2 / /ntfs rw - fuseblk /dev/sda2 rw\n\
                    43 22 0:47 / /a\\040-\\040b rw - overlay overlay rw\nodd line\n";
        let devices = devices(text);
        let local = |device| devices.get(&device).copied();
        assert_eq!([local((8, 1)), local((0, 47))], [Some(true); 2]);
        assert_eq!([local((0, 45)), local((0, 46)), local((8, 2))], [Some(false); 3]);
        assert_eq!((local((9, 9)), devices.len()), (None, 5));
    }

    #[test]
    fn a_worker_s_headers_make_the_image_that_the_file_itself_makes() {
        let file = Arc::new(File::open("/proc/self/exe").expect("it is there"));
        let limits = Limits::default();
        let here = ModuleFile::read(1, "/program", Arc::clone(&file), &limits);
        let sent = work(vec![file.as_fd().try_clone_to_owned().expect("a descriptor")]);
        let reply: HeadersReply = postcard::from_bytes(&sent).expect("an answer");
        assert_eq!((reply.state, reply.is_remote), (here.state, here.is_remote));
        let image = ElfImage::with_headers(&file, reply.headers.expect("it is one"), &limits.elf);
        let (image, elf) = (image.expect("they are possible"), here.elf.expect("it is one"));
        assert_eq!((image.sections(), image.segments()), (elf.sections(), elf.segments()));
        assert_eq!(
            (image.build_id(), image.is_go(), image.elf_type()),
            (elf.build_id(), elf.is_go(), elf.elf_type())
        );
        let code = image.section(b".text").expect("it has code");
        assert_eq!(image.section_bytes(code).ok(), elf.section_bytes(code).ok());
    }
}
