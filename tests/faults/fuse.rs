//! A file system of one file, served by this process, that stops answering when it is told to: FUSE, as the kernel speaks it
//! (include/uapi/linux/fuse.h). What a file server on a network, or another user's file system, may do at any time.

use std::collections::VecDeque;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Name of the file.
pub(crate) const FILE: &str = "program";

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

/// What an answer to [`OPEN`] says of the file.
const DIRECT_IO: u64 = 1 << 0;
const KEEP_CACHE: u64 = 1 << 1;

/// Bytes of the head of a request and of an answer.
const REQUEST_HEAD: usize = 40;
const NODE_OF_ROOT: u64 = 1;
const NODE_OF_FILE: u64 = 2;
/// How long the kernel may believe what it was told, s: until the end of the row.
const VALID_S: u64 = 3600;

/// The mounted file system; dropped, it is unmounted and all that wait get an error.
pub(crate) struct StallingFiles {
    folder: PathBuf,
    shared: Arc<Shared>,
    device: File,
}

struct Shared {
    contents: Vec<u8>,
    /// A request that is not answered: one of [`Stalled`].
    stalled: AtomicU8,
    held: Mutex<VecDeque<Vec<u8>>>,
    held_ever: AtomicU64,
}

/// Requests that are not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stalled {
    /// None.
    Nothing,
    /// Those to read. A file is opened, and nothing that was read before is had by who opens it.
    Reads,
    /// Those to find, open and read.
    All,
}

impl StallingFiles {
    /// Mounts it on `folder`.
    ///
    /// # Errors
    ///
    /// Why there is none here.
    pub(crate) fn mount(folder: &Path, contents: Vec<u8>) -> Result<Self, String> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| format!("/dev/fuse: {error}"))?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let (target, options) = (c_text(folder), CString::new(options).expect("no NUL"));
        // SAFETY: all pointers are of C strings that live until the call returns.
        let result = unsafe {
            libc::mount(c"fuse".as_ptr(), target.as_ptr(), c"fuse".as_ptr(), 0, options.as_ptr().cast())
        };
        if result != 0 {
            return Err(format!("mounting FUSE: {}", std::io::Error::last_os_error()));
        }
        let shared = Arc::new(Shared {
            contents,
            stalled: AtomicU8::new(Stalled::Nothing as u8),
            held: Mutex::default(),
            held_ever: AtomicU64::new(0),
        });
        let (server, reader) = (Arc::clone(&shared), device.try_clone().expect("a descriptor"));
        std::thread::spawn(move || server.serve(reader));
        Ok(StallingFiles { folder: folder.to_owned(), shared, device })
    }

    /// From now on these requests are not answered.
    pub(crate) fn stall(&self, stalled: Stalled) {
        self.shared.stalled.store(stalled as u8, Ordering::SeqCst);
    }

    /// Answers all that wait, and what comes.
    pub(crate) fn go_on(&self) {
        self.stall(Stalled::Nothing);
        let held = std::mem::take(&mut *self.shared.held.lock().unwrap_or_else(PoisonError::into_inner));
        held.iter().for_each(|request| self.shared.answer(&mut &self.device, request));
    }

    /// Requests that were left without an answer.
    pub(crate) fn held(&self) -> u64 {
        self.shared.held_ever.load(Ordering::SeqCst)
    }
}

impl Drop for StallingFiles {
    fn drop(&mut self) {
        self.go_on();
        let folder = c_text(&self.folder);
        // SAFETY: the pointer is of a C string that lives until the call returns.
        unsafe { libc::umount2(folder.as_ptr(), libc::MNT_DETACH) };
    }
}

fn c_text(path: &Path) -> CString {
    CString::new(path.to_str().expect("a temporary path is text")).expect("no NUL")
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|half| half.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

impl Shared {
    /// Answers until the file system is unmounted.
    fn serve(&self, mut device: File) {
        let mut buffer = vec![0; 1 << 18];
        while let Ok(length) = device.read(&mut buffer) {
            let request = &buffer[..length];
            let code = half(request, 4);
            if self.stalls(code) {
                self.held_ever.fetch_add(1, Ordering::SeqCst);
                self.held.lock().unwrap_or_else(PoisonError::into_inner).push_back(request.to_vec());
                continue;
            }
            self.answer(&mut device, request);
        }
    }

    fn stalls(&self, code: u32) -> bool {
        match self.stalled.load(Ordering::SeqCst) {
            stalled if stalled == Stalled::All as u8 => [LOOKUP, GETATTR, OPEN, READ].contains(&code),
            stalled if stalled == Stalled::Reads as u8 => code == READ,
            _ => false,
        }
    }

    fn answer(&self, device: &mut impl Write, request: &[u8]) {
        let (code, unique, node) = (half(request, 4), word(request, 8), word(request, 16));
        let body = request.get(REQUEST_HEAD..).unwrap_or_default();
        let found = match code {
            FORGET | BATCH_FORGET | INTERRUPT => return,
            INIT => Ok(init()),
            GETATTR => Ok([&numbers(&[VALID_S, 0])[..], &self.attributes(node)].concat()),
            LOOKUP if body.strip_suffix(&[0]) == Some(FILE.as_bytes()) => {
                Ok([&numbers(&[NODE_OF_FILE, 0, VALID_S, VALID_S, 0])[..], &self.attributes(NODE_OF_FILE)]
                    .concat())
            }
            LOOKUP => Err(libc::ENOENT),
            // The kernel keeps what it has read: the target runs from that. Others are to ask the server.
            OPEN if self.stalled.load(Ordering::SeqCst) == Stalled::Reads as u8 => {
                Ok(numbers(&[0, KEEP_CACHE | DIRECT_IO]))
            }
            OPEN => Ok(numbers(&[0, KEEP_CACHE])),
            READ => {
                let from = (word(body, 8) as usize).min(self.contents.len());
                let size = (half(body, 16) as usize).min(self.contents.len() - from);
                Ok(self.contents[from..from + size].to_vec())
            }
            FLUSH | RELEASE => Ok(Vec::new()),
            _ => Err(libc::ENOSYS),
        };
        let (error, answer) = found.map_or_else(|error| (-error, Vec::new()), |answer| (0, answer));
        let mut bytes = ((16 + answer.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(error.to_ne_bytes());
        bytes.extend(unique.to_ne_bytes());
        bytes.extend(answer);
        // Who asked may be gone.
        let _ = device.write(&bytes);
    }

    /// `struct fuse_attr`.
    fn attributes(&self, node: u64) -> Vec<u8> {
        let is_root = node == NODE_OF_ROOT;
        let size = if is_root { 4096 } else { self.contents.len() as u64 };
        let mut bytes = numbers(&[node, size, size.div_ceil(512), 0, 0, 0]);
        let mode = if is_root { libc::S_IFDIR } else { libc::S_IFREG } | 0o755;
        for value in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
            bytes.extend(value.to_ne_bytes());
        }
        bytes
    }
}

fn numbers(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// `struct fuse_init_out` of version 7.31.
fn init() -> Vec<u8> {
    const MAX_WRITE: u32 = 1 << 16;
    let mut bytes = Vec::new();
    for value in [7, 31, 1 << 16, 0, 0, MAX_WRITE, 1, 0] {
        bytes.extend(value.to_ne_bytes());
    }
    bytes.resize(64, 0);
    bytes
}
