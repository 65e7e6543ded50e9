//! The opener's side: a process that waits for requests, on several threads, since a file on a server that is away keeps the
//! thread that opens it.

use super::client::{connect, is_served_by};
use super::files;
use super::given::{self, GivenFiles, GivenRequest};
use super::message::{MAX_MESSAGE_BYTES, OpenerReply, OpenerRequest, Service, for_message, receive, send};
use crate::base::{own_file, privilege};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::HashSet;
use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Threads that may be kept by files that do not open.
const MOST_THREADS: usize = 64;

/// What rooms of the recorder do in the opener: `serve` gets the body of a request and the descriptor that came with it.
pub(crate) trait Services: Send + Sync {
    /// Does what is asked for; returns a body and a descriptor.
    ///
    /// # Errors
    ///
    /// Those of the work.
    fn serve(
        &self,
        service: Service,
        body: &[u8],
        descriptor: Option<OwnedFd>,
    ) -> io::Result<(Vec<u8>, Option<OwnedFd>)>;

    /// Does what is left to do when the recorder has ended.
    fn end(&self);

    /// Whether events of probes in other processes are among it.
    fn opens_probes(&self) -> bool {
        false
    }
}

/// Starts the opener, which keeps the descriptors `kept` and no others. It ends with this process.
///
/// # Errors
///
/// When no process can be made.
pub(crate) fn start(services: Box<dyn Services>, kept: &[RawFd]) -> io::Result<()> {
    let (own, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let recorder = std::process::id();
    // SAFETY: the child goes on with a copy of this process, in which no other thread has begun anything that it needs.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(own);
            let kept: Vec<i32> = kept.iter().copied().chain([theirs.as_raw_fd()]).collect();
            detach(c"prof-opener", &kept);
            own_file::make_for(recorder);
            let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if privilege::keep_opening(services.opens_probes()).is_ok() {
                    serve(&theirs, services, None);
                }
            }));
            // SAFETY: ends the process without running what the other one has registered for its own end.
            unsafe { libc::_exit(i32::from(served.is_err())) }
        }
        pid => {
            connect(own);
            is_served_by(pid);
            Ok(())
        }
    }
}

/// Has a process go by a name of its own and leave the terminal, the signals and the files, but for the descriptors `kept`, of the
/// process that it is a copy of.
pub(crate) fn detach(name: &CStr, kept: &[i32]) {
    // SAFETY: these calls take numbers, and strings with their NUL.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE, libc::SIGXFSZ]
        {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        let nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for standard in 0..=2 {
            libc::dup2(nowhere, standard);
        }
    }
    let open = files::list_descriptors();
    for descriptor in open.into_iter().filter(|open| *open > 2 && !kept.contains(open)) {
        // SAFETY: nothing of this process uses it any more.
        unsafe { libc::close(descriptor) };
    }
}

/// What the threads share.
struct OpenerState {
    services: Box<dyn Services>,
    /// What a command that reads may have besides; `None` for a recording.
    given: Option<GivenFiles>,
    threads: AtomicUsize,
    busy: AtomicUsize,
    /// Files that were made and have not got their last name.
    made: Mutex<HashSet<PathBuf>>,
    /// The command of the recording; `None` where there is none.
    command: OnceLock<Option<OwnedFd>>,
}

/// Answers what is asked over `socket` until no one can ask any more.
pub(super) fn serve(socket: &OwnedFd, services: Box<dyn Services>, given: Option<GivenFiles>) {
    let shared = Arc::new(OpenerState {
        services,
        given,
        threads: AtomicUsize::new(1),
        busy: AtomicUsize::new(0),
        made: Mutex::default(),
        command: OnceLock::new(),
    });
    let Ok(socket) = socket.try_clone() else { return };
    answer_all(&Arc::new(socket), &shared);
    shared.services.end();
}

/// Answers until the recorder has gone.
fn answer_all(socket: &Arc<OwnedFd>, shared: &Arc<OpenerState>) {
    let mut buffer = vec![0; MAX_MESSAGE_BYTES];
    loop {
        let Ok((length @ 1.., descriptors)) = receive(socket.as_fd(), &mut buffer) else { return };
        let busy = shared.busy.fetch_add(1, Ordering::Relaxed) + 1;
        if busy >= shared.threads.load(Ordering::Relaxed) && busy < MOST_THREADS {
            let (socket, others) = (Arc::clone(socket), Arc::clone(shared));
            let another = std::thread::Builder::new().spawn(move || answer_all(&socket, &others));
            shared.threads.fetch_add(usize::from(another.is_ok()), Ordering::Relaxed);
        }
        let mut descriptors = descriptors.into_iter();
        if let Some(reply_to) = descriptors.next() {
            let (reply, opened) = match serde_json::from_slice(&buffer[..length]) {
                Ok(request) => shared.answer(request, descriptors.next()),
                Err(error) => (OpenerReply::of_error(&error.into()), None),
            };
            let (reply, opened) = for_message(reply, opened);
            let sent = serde_json::to_vec(&reply).map_err(io::Error::from).and_then(|bytes| {
                let opened: Vec<BorrowedFd<'_>> = opened.iter().map(AsFd::as_fd).collect();
                send(reply_to.as_fd(), &bytes, &opened)
            });
            // Who asked may have gone: then no one misses the answer.
            let _ = sent;
        }
        shared.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OpenerState {
    fn answer(&self, request: OpenerRequest, descriptor: Option<OwnedFd>) -> (OpenerReply, Option<OwnedFd>) {
        match self.carry_out(request, descriptor) {
            Ok(answer) => answer,
            Err(error) => (OpenerReply::of_error(&error), None),
        }
    }

    fn carry_out(
        &self,
        request: OpenerRequest,
        descriptor: Option<OwnedFd>,
    ) -> io::Result<(OpenerReply, Option<OwnedFd>)> {
        let done = |opened: Option<OwnedFd>| (OpenerReply::Done { body: Vec::new() }, opened);
        let checked = |file: std::fs::File, path: &Path, wanted| match files::is_wanted(&file, path, wanted) {
            true => Ok(done(Some(file.into()))),
            false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        match request {
            _ if self.given.is_some() && is_of_recordings(&request) => Err(refused()),
            OpenerRequest::ProcessFile { pid, name } if files::is_open_to_recorder(&name) => {
                Ok(done(Some(files::process_file(pid, &name)?.into())))
            }
            OpenerRequest::ProcessPlace { pid, name } if name == "root" || name == "exe" => {
                Ok(done(Some(files::process_place(pid, &name)?)))
            }
            OpenerRequest::ProcessFile { .. } | OpenerRequest::ProcessPlace { .. } | OpenerRequest::Root => {
                Err(refused())
            }
            OpenerRequest::List { pid } => Ok((OpenerReply::Numbers(files::list(pid)?), None)),
            OpenerRequest::RobustList { tid } => {
                let body = files::robust_list(tid)?.to_ne_bytes().to_vec();
                Ok((OpenerReply::Done { body }, None))
            }
            OpenerRequest::Inside { path, links, wanted } => {
                let path = Path::new(OsStr::from_bytes(&path));
                let folder = descriptor.ok_or_else(refused)?;
                checked(files::inside(folder.as_fd(), path, links)?, path, wanted)
            }
            OpenerRequest::Named { path, wanted } => {
                let path = Path::new(OsStr::from_bytes(&path));
                checked(files::named(path)?, path, wanted)
            }
            OpenerRequest::Source { path } => {
                Ok(done(Some(files::source(Path::new(OsStr::from_bytes(&path)))?.into())))
            }
            OpenerRequest::NewFile { path } => Ok(done(Some(self.new_file(path)?))),
            OpenerRequest::NameNewFile { from, to } => self.name_new_file(from, to).map(|()| done(None)),
            OpenerRequest::Command { pid } => self.name_command(pid).map(|()| done(None)),
            OpenerRequest::Signal { signal } => self.signal(signal).map(|()| done(None)),
            OpenerRequest::Given(request) => {
                let (body, opened) = self.given(request)?;
                Ok((OpenerReply::Done { body }, opened))
            }
            OpenerRequest::Serve { service, body } => {
                let (body, opened) = self.services.serve(service, &body, descriptor)?;
                Ok((OpenerReply::Done { body }, opened))
            }
        }
    }

    fn given(&self, request: GivenRequest) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        let file = |path: Vec<u8>, may: &dyn Fn(&Path) -> bool| {
            let path = PathBuf::from(OsString::from_vec(path));
            if may(&path) { Ok(path) } else { Err(self.refusal()) }
        };
        let none = GivenFiles::default();
        let files = self.given.as_ref().unwrap_or(&none);
        let is_made = |path: &Path| self.made().contains(path);
        let nothing = || (Vec::new(), None);
        match request {
            GivenRequest::Look { path, follows } => {
                let path = file(path, &|path| files.may_be_seen(path) || self.may_be_made(path))?;
                Ok((serde_json::to_vec(&given::look(&path, follows)?)?, None))
            }
            GivenRequest::Open { path, how } => {
                let path = file(path, &|path| files.may_be_read(path))?;
                Ok((Vec::new(), Some(given::open(&path, how)?.into())))
            }
            GivenRequest::NamesNextTo { path } => {
                let path = file(path, &|path| files.may_be_read(path))?;
                Ok((serde_json::to_vec(&given::names_next_to(&path))?, None))
            }
            GivenRequest::NamesIn { path } => {
                let path = file(path, &|path| files.may_be_read(path))?;
                Ok((serde_json::to_vec(&given::names_in(&path)?)?, None))
            }
            GivenRequest::Replace { from, to } => {
                let (from, to) = (file(from, &is_made)?, file(to, &|path| files.may_be_replaced(path))?);
                given::replace(&from, &to)?;
                self.made().remove(&from);
                Ok(nothing())
            }
            GivenRequest::ReplaceSame { from, to, was } => {
                let (from, to) = (file(from, &is_made)?, file(to, &|path| files.may_be_replaced(path))?);
                given::replace_same(&from, &to, was)?;
                self.made().remove(&from);
                Ok(nothing())
            }
            GivenRequest::KeepCut { path, was } => {
                given::keep_cut(&file(path, &|path| files.may_be_replaced(path))?, was)?;
                Ok(nothing())
            }
            GivenRequest::Remove { path } => {
                let path = file(path, &is_made)?;
                privilege::as_user(|| std::fs::remove_file(&path))?;
                self.made().remove(&path);
                Ok(nothing())
            }
        }
    }

    /// Whether the process without rights may have a new file made there.
    fn may_be_made(&self, path: &Path) -> bool {
        self.given.as_ref().map_or_else(|| files::may_be_made(path), |given| given.may_be_made(path))
    }

    /// The error of a file that may not be made.
    fn refusal(&self) -> io::Error {
        if self.given.is_some() { refused() } else { io::Error::other(files::where_made()) }
    }

    fn made(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_file(&self, path: Vec<u8>) -> io::Result<OwnedFd> {
        let path = PathBuf::from(OsString::from_vec(path));
        if !self.may_be_made(&path) {
            return Err(self.refusal());
        }
        let file = privilege::as_user(|| own_file::create(&path))?;
        self.made().insert(path);
        Ok(file.into())
    }

    fn name_new_file(&self, from: Vec<u8>, to: Vec<u8>) -> io::Result<()> {
        let [from, to] = [from, to].map(|path| PathBuf::from(OsString::from_vec(path)));
        let mut made = self.made();
        if !made.contains(&from) || !self.may_be_made(&to) {
            return Err(self.refusal());
        }
        privilege::as_user(|| own_file::rename_new(&from, &to))?;
        made.remove(&from);
        Ok(())
    }

    fn name_command(&self, pid: Option<u32>) -> io::Result<()> {
        let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let command = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())).transpose()?;
        self.command.set(command).map_err(|_| refused())
    }

    fn signal(&self, signal: i32) -> io::Result<()> {
        let command = self.command.get().and_then(Option::as_ref).ok_or_else(refused)?;
        let signal = Signal::from_named_raw(signal).ok_or_else(refused)?;
        Ok(pidfd_send_signal(command, signal)?)
    }
}

/// Whether only recordings ask for it.
fn is_of_recordings(request: &OpenerRequest) -> bool {
    use OpenerRequest::{Command, List, ProcessFile, ProcessPlace, RobustList, Signal};
    matches!(
        request,
        ProcessFile { .. }
            | ProcessPlace { .. }
            | List { .. }
            | RobustList { .. }
            | Command { .. }
            | Signal { .. }
    )
}

/// The error of what a process without rights may not have.
fn refused() -> io::Error {
    io::Error::from_raw_os_error(libc::EACCES)
}
