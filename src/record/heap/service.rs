//! What the opener does for a recording of the heap: only it may change other processes. The recorder, which has read foreign
//! files, can ask it for nothing but the sampler, at functions of processes that the user has named.

use super::functions::AllocatorFunction;
use super::inject::entry::HeldCommand;
use super::inject::examiner::Examiner;
use super::inject::image::{SEMAPHORE_AT, SamplerImage};
use super::inject::patch::Patch;
use super::listened_file::ListenedFile;
use crate::base::opener::{self, Service};
use crate::base::privilege;
use crate::record::kernel::perf_event;
use crate::record::probes::allocator_probes::AllocatorProbe;
use crate::record::process::named::NamedProcesses;
use crate::record::workers::LentWorker;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most files of processes that sample blocks themselves.
const MOST_LISTENED_FILES: usize = 64;

/// What is asked for.
#[derive(Debug, Serialize, Deserialize)]
enum HeapRequest {
    /// A process's functions are to jump to the sampler.
    Patch { pid: u32, functions: Vec<AllocatorFunction>, mean: u64 },
    /// Samplers of a process are to sample one of so many bytes from now on.
    Mean { pid: u32, mean: u64 },
    /// An event of a probe of a sampler in a process.
    Probe { pid: u32, sampler: usize, probe: Probe },
    /// The places at which a file says which blocks are sampled, that has code at this address of a process.
    Places { pid: u32, code_at: u64 },
    /// The event of one of them, by its number.
    PlaceEvent { pid: u32, code_at: u64, index: usize },
    /// The process is to be as it was.
    Restore { pid: u32 },
    /// A command that has not begun is to stop at its entry point.
    Hold { pid: u32 },
    /// Waits until it has.
    AwaitEntry { pid: u32 },
    /// It is to go on.
    Continue { pid: u32 },
}

/// A probe of the sampler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Probe {
    Allocated,
    Freed,
}

/// What was done to a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PatchReply {
    /// Number of functions that jump to a sampler.
    pub(super) count: usize,
    /// The files of its samplers, by device and inode. Children of fork have that of their parent.
    pub(super) samplers: Vec<(u64, u64)>,
    /// Functions that do not, and why. Foreign text.
    pub(super) skipped: Vec<String>,
    /// Time for which the process was stopped, us.
    pub(super) stopped_us: u64,
}

/// Has the sampler put into a process.
pub(super) fn patch(pid: u32, functions: Vec<AllocatorFunction>, mean: u64) -> io::Result<PatchReply> {
    let (body, _) = ask(&HeapRequest::Patch { pid, functions, mean })?;
    Ok(serde_json::from_slice(&body)?)
}

/// Has the samplers of a process sample one of `mean` bytes from now on.
pub(super) fn set_mean(pid: u32, mean: u64) -> io::Result<()> {
    ask(&HeapRequest::Mean { pid, mean }).map(drop)
}

/// The event of a probe of one of the samplers of a process that was patched.
pub(super) fn probe(pid: u32, sampler: usize, probe: Probe) -> io::Result<OwnedFd> {
    let (_, event) = ask(&HeapRequest::Probe { pid, sampler, probe })?;
    event.ok_or_else(|| io::ErrorKind::Other.into())
}

/// The places at which the file that has code at an address of a process says which blocks it samples.
pub(super) fn places(pid: u32, code_at: u64) -> io::Result<Vec<AllocatorProbe>> {
    let (body, _) = ask(&HeapRequest::Places { pid, code_at })?;
    Ok(serde_json::from_slice(&body)?)
}

/// The event of one of these places, by its number.
pub(super) fn place_event(pid: u32, code_at: u64, index: usize) -> io::Result<OwnedFd> {
    let (_, event) = ask(&HeapRequest::PlaceEvent { pid, code_at, index })?;
    event.ok_or_else(|| io::ErrorKind::Other.into())
}

/// Has a process be as it was. Returns the number of blocks that could not be followed.
pub(super) fn restore(pid: u32) -> io::Result<u64> {
    let (body, _) = ask(&HeapRequest::Restore { pid })?;
    Ok(serde_json::from_slice(&body)?)
}

/// Has a command that has not begun stop at its entry point.
pub(super) fn hold(pid: u32) -> io::Result<()> {
    ask(&HeapRequest::Hold { pid }).map(drop)
}

/// Waits until it has stopped there.
pub(super) fn await_entry(pid: u32) -> io::Result<()> {
    ask(&HeapRequest::AwaitEntry { pid }).map(drop)
}

/// Has it go on.
pub(super) fn go_on(pid: u32) -> io::Result<()> {
    ask(&HeapRequest::Continue { pid }).map(drop)
}

fn ask(request: &HeapRequest) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    opener::ask_service(Service::Heap, serde_json::to_vec(request)?, None)
}

/// The opener's side.
#[derive(Debug)]
pub(crate) struct HeapService {
    may_change: NamedProcesses,
    /// Who reads code of processes; `None` where the heap is not recorded at all.
    examiner: Option<Examiner>,
    patches: Mutex<BTreeMap<u32, Patch>>,
    /// Files that sample blocks themselves, by process and an address of their code.
    listened: Mutex<BTreeMap<(u32, u64), ListenedFile>>,
    held: Mutex<BTreeMap<u32, HeldCommand>>,
}

impl HeapService {
    /// For a recording of this process, which may change some processes.
    ///
    /// # Errors
    ///
    /// When there can be no worker that reads code of processes.
    pub(crate) fn new(may_change: NamedProcesses, is_wanted: bool) -> io::Result<Self> {
        let examiner = if is_wanted { Some(Examiner::new(LentWorker::make()?)) } else { None };
        let (patches, listened, held) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(HeapService { may_change, examiner, patches, listened, held })
    }

    /// Whether the heap is recorded at all.
    pub(crate) fn is_wanted(&self) -> bool {
        self.examiner.is_some()
    }

    /// The worker that reads code of processes.
    pub(crate) fn worker(&self) -> Option<&LentWorker> {
        self.examiner.as_ref()?.worker()
    }

    /// Does what a request asks for.
    ///
    /// # Errors
    ///
    /// For what is no request, for other processes, and why a process is left as it is.
    pub(crate) fn serve(&self, body: &[u8]) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        let request: HeapRequest = serde_json::from_slice(body)?;
        let (HeapRequest::Patch { pid, .. }
        | HeapRequest::Mean { pid, .. }
        | HeapRequest::Probe { pid, .. }
        | HeapRequest::Places { pid, .. }
        | HeapRequest::PlaceEvent { pid, .. }
        | HeapRequest::Restore { pid }
        | HeapRequest::Hold { pid }
        | HeapRequest::AwaitEntry { pid }
        | HeapRequest::Continue { pid }) = request;
        let is_patched = self.patches().contains_key(&pid);
        if !is_patched && !self.may_change(pid) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let nothing = || Ok((Vec::new(), None));
        match request {
            HeapRequest::Patch { functions, mean, .. } => {
                let reply = self.patch(pid, functions, mean)?;
                Ok((serde_json::to_vec(&reply)?, None))
            }
            HeapRequest::Mean { mean, .. } => {
                let patches = self.patches();
                patches.get(&pid).ok_or(io::ErrorKind::NotFound)?.set_mean(mean)?;
                nothing()
            }
            HeapRequest::Probe { sampler, probe, .. } => {
                Ok((Vec::new(), Some(self.probe(pid, sampler, probe)?)))
            }
            HeapRequest::Places { code_at, .. } => Ok((self.places(pid, code_at)?, None)),
            HeapRequest::PlaceEvent { code_at, index, .. } => {
                Ok((Vec::new(), Some(self.place_event(pid, code_at, index)?)))
            }
            HeapRequest::Restore { .. } => {
                let patch = self.patches().remove(&pid);
                let not_followed = patch.map_or(Ok(0), |patch| on_own_thread(|| patch.undo()))?;
                Ok((serde_json::to_vec(&not_followed)?, None))
            }
            HeapRequest::Hold { .. } => {
                let held = HeldCommand::hold(pid).map_err(io::Error::other)?;
                self.held().insert(pid, held);
                nothing()
            }
            HeapRequest::AwaitEntry { .. } => {
                let held = self.held().remove(&pid).ok_or(io::ErrorKind::NotFound)?;
                held.wait().map_err(io::Error::other)?;
                nothing()
            }
            HeapRequest::Continue { .. } => go_on_here(pid).and_then(|()| nothing()),
        }
    }

    /// Has every process be as it was: the recorder has ended, perhaps without a word.
    pub(crate) fn end(&self) {
        self.listened().clear();
        let patches = std::mem::take(&mut *self.patches());
        for patch in patches.into_values() {
            // There is no one left to be told.
            let _ = on_own_thread(|| patch.undo());
        }
    }

    fn patch(&self, pid: u32, functions: Vec<AllocatorFunction>, mean: u64) -> io::Result<PatchReply> {
        let mut patches = self.patches();
        if patches.contains_key(&pid) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let examiner = self.examiner.as_ref().ok_or(io::ErrorKind::PermissionDenied)?;
        let patch = on_own_thread(|| Patch::apply(pid, &functions, mean, examiner))?;
        let stopped_us = u64::try_from(patch.stopped.as_micros()).unwrap_or(u64::MAX);
        let file = |file: &File| file.metadata().map(|about| (about.dev(), about.ino()));
        let (count, samplers) = (patch.count(), patch.files().map(file).collect::<io::Result<_>>()?);
        let reply = PatchReply { count, samplers, skipped: patch.skipped.clone(), stopped_us };
        patches.insert(pid, patch);
        Ok(reply)
    }

    fn probe(&self, pid: u32, sampler: usize, probe: Probe) -> io::Result<OwnedFd> {
        let patches = self.patches();
        let file = patches.get(&pid).and_then(|patch| patch.files().nth(sampler));
        let file = file.ok_or(io::ErrorKind::NotFound)?;
        let image = SamplerImage::of_this_build().ok_or(io::ErrorKind::Unsupported)?;
        let offset = match probe {
            Probe::Allocated => image.probe_alloc,
            Probe::Freed => image.probe_free,
        };
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        privilege::open_event(|| perf_event::open_probe(&path, offset, SEMAPHORE_AT, None))
    }

    fn places(&self, pid: u32, code_at: u64) -> io::Result<Vec<u8>> {
        // Each keeps a file open.
        if self.listened().len() >= MOST_LISTENED_FILES {
            return Err(io::Error::other("too many files are listened to"));
        }
        let file = ListenedFile::find(pid, code_at, self.worker()).map_err(io::Error::other)?;
        let places = serde_json::to_vec(&file.places)?;
        self.listened().insert((pid, code_at), file);
        Ok(places)
    }

    fn place_event(&self, pid: u32, code_at: u64, index: usize) -> io::Result<OwnedFd> {
        let listened = self.listened();
        listened.get(&(pid, code_at)).ok_or(io::ErrorKind::NotFound)?.event(pid, index)
    }

    fn may_change(&self, pid: u32) -> bool {
        self.is_wanted() && self.may_change.has(pid)
    }

    fn patches(&self) -> MutexGuard<'_, BTreeMap<u32, Patch>> {
        self.patches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listened(&self) -> MutexGuard<'_, BTreeMap<(u32, u64), ListenedFile>> {
        self.listened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<u32, HeldCommand>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has a stopped process go on.
fn go_on_here(pid: u32) -> io::Result<()> {
    // SAFETY: kill takes numbers.
    match unsafe { libc::kill(pid.cast_signed(), libc::SIGCONT) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Does `work`, which traces a process, on a thread that ends with it: whatever is left traced goes on then.
fn on_own_thread<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> io::Result<T> {
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.map_err(|_| io::Error::other("the thread that traced it has failed"))?.map_err(io::Error::other)
}
