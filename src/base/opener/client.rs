//! The recorder's side: opens files directly where its own rights are enough, and asks the opener where they are not.

use super::files;
use super::given::{self, GivenRequest, Opening, SeenFile};
use super::message::{
    FileContent, Links, MAX_MESSAGE_BYTES, OpenerReply, OpenerRequest, Service, from_message, is_closed,
    receive, send,
};
use crate::base::own_file::FileStamp;
use crate::base::{own_file, privilege};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// The way to the opener. A process has one, as it has one set of rights.
static OPENER: OnceLock<OwnedFd> = OnceLock::new();

/// Whether this process is no longer of the user for whom files are made.
static HAS_FILES_MADE: AtomicBool = AtomicBool::new(false);

/// The opener, if it is a child of this process.
static OPENER_PID: AtomicI32 = AtomicI32::new(0);

/// CPU time that it had used when it was asked for last, ns.
static OPENER_CPU_NS: AtomicU64 = AtomicU64::new(0);

/// Whether `/proc` hides the processes of others from this one (hidepid).
static HIDES_PROCESSES: AtomicBool = AtomicBool::new(false);

/// Whether an opener was started.
pub(crate) fn is_running() -> bool {
    OPENER.get().is_some()
}

/// Whether the opener that was started has ended before this process.
pub(crate) fn has_ended() -> bool {
    OPENER.get().is_some_and(|opener| is_closed(opener.as_fd()))
}

/// Whether the opener makes files for the user, because this process became another user.
pub(crate) fn makes_files() -> bool {
    HAS_FILES_MADE.load(Ordering::Relaxed)
}

/// This process became a user that owns nothing: files are made for it, and processes may be hidden from it.
pub(super) fn have_files_made() {
    HAS_FILES_MADE.store(true, Ordering::Relaxed);
    // The first process is always there.
    let is_hidden = !Path::new("/proc/1").exists();
    HIDES_PROCESSES.store(is_hidden, Ordering::Relaxed);
}

pub(super) fn connect(socket: OwnedFd) {
    // There is only one recording.
    let _ = OPENER.set(socket);
}

/// The opener is a child of this process.
pub(super) fn is_served_by(pid: libc::pid_t) {
    OPENER_PID.store(pid, Ordering::Relaxed);
}

/// CPU time that the opener of this process has used so far, ns; as far as it is known, once it has ended.
pub(crate) fn opener_cpu_ns() -> u64 {
    let pid = OPENER_PID.load(Ordering::Relaxed);
    if pid == 0 {
        return 0;
    }
    let used_ns = cpu_ns_of(pid).unwrap_or(0);
    OPENER_CPU_NS.fetch_max(used_ns, Ordering::Relaxed).max(used_ns)
}

/// CPU time that a process has used so far, ns; `None` if there is none with that number.
fn cpu_ns_of(pid: libc::pid_t) -> Option<u64> {
    // SAFETY: all-zero values are valid ones, and the calls fill them.
    unsafe {
        let (mut clock, mut time): (libc::clockid_t, libc::timespec) = std::mem::zeroed();
        let is_known = libc::clock_getcpuclockid(pid, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0;
        is_known.then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

/// Whether the opener may be able to do what this process was refused. Only a `/proc` that hides processes says of others' that
/// they are not there; most that are not have ended, and there may be thousands of these.
fn may_help(error: &io::Error) -> bool {
    is_running()
        && match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => true,
            Some(libc::ENOENT) => HIDES_PROCESSES.load(Ordering::Relaxed),
            _ => false,
        }
}

fn ask(
    request: &OpenerRequest,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<(OpenerReply, Option<OwnedFd>)> {
    let opener = OPENER.get().ok_or(io::ErrorKind::PermissionDenied)?;
    // An answer of its own to each question: one that takes long keeps no other.
    let (own, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let bytes = serde_json::to_vec(request)?;
    let descriptors: Vec<BorrowedFd<'_>> = [theirs.as_fd()].into_iter().chain(descriptor).collect();
    send(opener.as_fd(), &bytes, &descriptors)?;
    drop(descriptors);
    drop(theirs);
    let mut buffer = vec![0; MAX_MESSAGE_BYTES];
    let (length, descriptors) = receive(own.as_fd(), &mut buffer)?;
    if length == 0 {
        return Err(io::Error::other("the process that opens files for this recording has ended"));
    }
    from_message(serde_json::from_slice(&buffer[..length])?, descriptors.into_iter().next())
}

/// A path, as messages have it.
fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// What is known of a path from the command line.
fn ask_of_given<T: DeserializeOwned>(request: GivenRequest) -> io::Result<T> {
    match ask(&OpenerRequest::Given(request), None)? {
        (OpenerReply::Done { body }, _) => Ok(serde_json::from_slice(&body)?),
        (reply, _) => Err(failed(reply)),
    }
}

fn failed(reply: OpenerReply) -> io::Error {
    match reply {
        OpenerReply::Failed { code: Some(code), .. } => io::Error::from_raw_os_error(code),
        OpenerReply::Failed { code: None, text } => io::Error::other(text),
        OpenerReply::Done { .. } | OpenerReply::DoneInFile | OpenerReply::Numbers(_) => {
            io::Error::other("the opener answered something else")
        }
    }
}

fn ask_for_file(request: &OpenerRequest, folder: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    match ask(request, folder)? {
        (OpenerReply::Done { .. }, Some(descriptor)) => Ok(descriptor),
        (reply, _) => Err(failed(reply)),
    }
}

/// Opens a file below `/proc/PID` for reading.
///
/// # Errors
///
/// When it is not there, or neither this process nor the opener may read it.
pub(crate) fn process_file(pid: u32, name: &str) -> io::Result<File> {
    match files::process_file(pid, name) {
        Err(error) if may_help(&error) => {
            ask_for_file(&OpenerRequest::ProcessFile { pid, name: name.to_owned() }, None).map(File::from)
        }
        opened => opened,
    }
}

/// Finds a file or folder below `/proc/PID`: a descriptor of its place (O_PATH).
///
/// # Errors
///
/// As [`process_file`].
pub(crate) fn process_place(pid: u32, name: &str) -> io::Result<OwnedFd> {
    match files::process_place(pid, name) {
        Err(error) if may_help(&error) => {
            ask_for_file(&OpenerRequest::ProcessPlace { pid, name: name.to_owned() }, None)
        }
        found => found,
    }
}

/// Finds a folder: a descriptor of its place (O_PATH). `/proc/PID/root` may be that of another user's process.
///
/// # Errors
///
/// As [`process_file`].
pub(crate) fn folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let found = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from);
    match (found, process_with_root(path)) {
        (Err(error), _) if path == Path::new("/") && may_help(&error) => {
            ask_for_file(&OpenerRequest::Root, None)
        }
        (Err(error), Some(pid)) if may_help(&error) => process_place(pid, "root"),
        (found, _) => found,
    }
}

/// The process whose root a path of the form `/proc/PID/root` is.
fn process_with_root(path: &Path) -> Option<u32> {
    path.to_str()?.strip_prefix("/proc/")?.strip_suffix("/root")?.parse().ok()
}

/// Numbers of all processes.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub(crate) fn list_processes() -> io::Result<Vec<u32>> {
    list(None)
}

/// Numbers of the threads of a process.
///
/// # Errors
///
/// When it is gone.
pub(crate) fn list_threads(pid: u32) -> io::Result<Vec<u32>> {
    list(Some(pid))
}

fn list(pid: Option<u32>) -> io::Result<Vec<u32>> {
    let ask_for_list = || match ask(&OpenerRequest::List { pid }, None)? {
        (OpenerReply::Numbers(numbers), _) => Ok(numbers),
        (reply, _) => Err(failed(reply)),
    };
    // A list says nothing of what is hidden from this process.
    if pid.is_none() && is_running() {
        return ask_for_list();
    }
    match files::list(pid) {
        Err(error) if may_help(&error) => ask_for_list(),
        listed => listed,
    }
}

/// Address of the list of robust locks that a thread has named to the kernel; 0 where it has named none.
///
/// # Errors
///
/// When the thread is gone, or neither this process nor the opener may look at it.
pub(crate) fn robust_list(tid: u32) -> io::Result<u64> {
    let ask_for_list = || match ask(&OpenerRequest::RobustList { tid }, None)? {
        (OpenerReply::Done { body }, _) => {
            body.try_into().map(u64::from_ne_bytes).map_err(|_| io::ErrorKind::InvalidData.into())
        }
        (reply, _) => Err(failed(reply)),
    };
    match files::robust_list(tid) {
        Err(error) if may_help(&error) => ask_for_list(),
        list => list,
    }
}

/// Opens a regular file below a folder, which links do not lead out of.
///
/// # Errors
///
/// As of openat2(2); EINVAL for what is no regular file, or not what was wanted, if the opener was asked.
pub(crate) fn inside(
    folder: BorrowedFd<'_>,
    path: &Path,
    links: Links,
    wanted: FileContent,
) -> io::Result<File> {
    match files::inside(folder, path, links) {
        Err(error) if may_help(&error) && error.raw_os_error() != Some(libc::ENOENT) => {
            let path = bytes_of(path);
            ask_for_file(&OpenerRequest::Inside { path, links, wanted }, Some(folder)).map(File::from)
        }
        opened => opened,
    }
}

/// Opens a regular file that the user has named, with the user's own rights.
///
/// # Errors
///
/// As [`inside`].
pub(crate) fn named(path: &Path, wanted: FileContent) -> io::Result<File> {
    match files::named(path) {
        Err(error) if may_help(&error) && error.raw_os_error() != Some(libc::ENOENT) => {
            let path = bytes_of(path);
            ask_for_file(&OpenerRequest::Named { path, wanted }, None).map(File::from)
        }
        opened => opened,
    }
}

/// Opens a source file with the user's own rights, if it has the name of one and the user who called sudo could read it.
///
/// # Errors
///
/// As [`inside`].
pub(crate) fn source(path: &Path) -> io::Result<File> {
    match files::source(path) {
        Err(error) if may_help(&error) && error.raw_os_error() != Some(libc::ENOENT) => {
            ask_for_file(&OpenerRequest::Source { path: bytes_of(path) }, None).map(File::from)
        }
        opened => opened,
    }
}

/// Makes a new file that belongs to the user ([`own_file::create`]).
///
/// # Errors
///
/// When something is there; by the opener also when it is neither in the working folder nor in that for temporary files, nor
/// below.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    if !makes_files() {
        return privilege::as_user(|| own_file::create(path));
    }
    let path = bytes_of(path);
    ask_for_file(&OpenerRequest::NewFile { path }, None).map(File::from)
}

/// Gives a file from [`new_file`] a name that nothing must have ([`own_file::rename_new`]).
///
/// # Errors
///
/// As [`new_file`], and by the opener for a file that was not made by it.
pub(crate) fn name_new_file(from: &Path, to: &Path) -> io::Result<()> {
    if !makes_files() {
        return privilege::as_user(|| own_file::rename_new(from, to));
    }
    let [from, to] = [from, to].map(bytes_of);
    ask_for_nothing(&OpenerRequest::NameNewFile { from, to })
}

/// Gives a file from [`new_file`] a name that may be taken; the file that has it is lost. Only a name from the command line.
///
/// # Errors
///
/// As of rename(2).
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    if !makes_files() {
        return given::replace(from, to);
    }
    let [from, to] = [from, to].map(bytes_of);
    ask_for_nothing(&OpenerRequest::Given(GivenRequest::Replace { from, to }))
}

/// Gives a file from [`new_file`] the name, owner and mode of one that still is as it was ([`own_file::replace_same`]).
///
/// # Errors
///
/// [`io::ErrorKind::AlreadyExists`] when another file is there, or it was written meanwhile: it stays.
pub(crate) fn replace_same(from: &Path, to: &Path, was: FileStamp) -> io::Result<()> {
    if !makes_files() {
        return given::replace_same(from, to, was);
    }
    let [from, to] = [from, to].map(bytes_of);
    ask_for_same(&OpenerRequest::Given(GivenRequest::ReplaceSame { from, to, was }))
}

/// Gives a file that is cut, if it still is as it was, a second name, under which it stays so; returns that.
///
/// # Errors
///
/// [`io::ErrorKind::AlreadyExists`] when it was written meanwhile, or the name is taken.
pub(crate) fn keep_cut(path: &Path, was: FileStamp) -> io::Result<PathBuf> {
    if makes_files() {
        ask_for_same(&OpenerRequest::Given(GivenRequest::KeepCut { path: bytes_of(path), was }))?;
    } else {
        given::keep_cut(path, was)?;
    }
    Ok(given::cut_name(path))
}

fn ask_for_same(request: &OpenerRequest) -> io::Result<()> {
    match ask(request, None)? {
        (OpenerReply::Done { .. }, _) => Ok(()),
        (OpenerReply::Failed { code: None, .. }, _) => Err(own_file::is_other()),
        (reply, _) => Err(failed(reply)),
    }
}

/// Removes a file from [`new_file`] that has got no other name.
pub(crate) fn remove_new_file(path: &Path) {
    // What cannot be removed is gone, or stays where its user finds it.
    let _ = match makes_files() {
        false => privilege::as_user(|| std::fs::remove_file(path)),
        true => {
            let path = bytes_of(path);
            ask_for_nothing(&OpenerRequest::Given(GivenRequest::Remove { path }))
        }
    };
}

/// Looks at a path from the command line, with the user's own rights.
///
/// # Errors
///
/// When nothing is there, or the user may not look.
pub(crate) fn look(path: &Path, follows: bool) -> io::Result<SeenFile> {
    if !makes_files() {
        return given::look(path, follows);
    }
    ask_of_given(GivenRequest::Look { path: bytes_of(path), follows })
}

/// Opens a file from the command line for reading, with the user's own rights.
///
/// # Errors
///
/// When it is not of the kind that `how` says, or cannot be opened.
pub(crate) fn given_file(path: &Path, how: Opening) -> io::Result<File> {
    if !makes_files() {
        return given::open(path, how);
    }
    let path = bytes_of(path);
    ask_for_file(&OpenerRequest::Given(GivenRequest::Open { path, how }), None).map(File::from)
}

/// Names in the folder of a file from the command line that begin with its name and a dot.
pub(crate) fn names_next_to(path: &Path) -> Vec<OsString> {
    let names: Vec<Vec<u8>> = match makes_files() {
        false => given::names_next_to(path),
        true => ask_of_given(GivenRequest::NamesNextTo { path: bytes_of(path) }).unwrap_or_default(),
    };
    names.into_iter().map(OsString::from_vec).collect()
}

/// Names of what may be recordings in a folder from the command line.
///
/// # Errors
///
/// When the user may not read the folder, or it is none.
pub(crate) fn names_in(folder: &Path) -> io::Result<Vec<OsString>> {
    let names: Vec<Vec<u8>> = match makes_files() {
        false => given::names_in(folder)?,
        true => ask_of_given(GivenRequest::NamesIn { path: bytes_of(folder) })?,
    };
    Ok(names.into_iter().map(OsString::from_vec).collect())
}

/// Says which process is the command of the recording, if there is one: no other gets signals. Only once, while this process
/// has read nothing foreign.
///
/// # Errors
///
/// When the process is gone.
pub(crate) fn name_command(pid: Option<u32>) -> io::Result<()> {
    if is_running() { ask_for_nothing(&OpenerRequest::Command { pid }) } else { Ok(()) }
}

/// Has the opener send a signal to the command of the recording.
///
/// # Errors
///
/// When there is no opener or no command, and as of kill(2).
pub(crate) fn signal_command(signal: i32) -> io::Result<()> {
    ask_for_nothing(&OpenerRequest::Signal { signal })
}

fn ask_for_nothing(request: &OpenerRequest) -> io::Result<()> {
    match ask(request, None)? {
        (OpenerReply::Done { .. }, _) => Ok(()),
        (reply, _) => Err(failed(reply)),
    }
}

/// Has a service of the opener do something.
///
/// # Errors
///
/// Those of the service.
pub(crate) fn ask_service(
    service: Service,
    body: Vec<u8>,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    match ask(&OpenerRequest::Serve { service, body }, descriptor)? {
        (OpenerReply::Done { body }, descriptor) => Ok((body, descriptor)),
        (reply, _) => Err(failed(reply)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_another_process_is_known_until_it_is_gone() {
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; sleep 60";
        let mut command = std::process::Command::new("sh");
        let mut busy = command.args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut said = [0; 4];
        io::Read::read_exact(&mut busy.stdout.take().unwrap(), &mut said).unwrap();
        let pid = busy.id().cast_signed();
        let used_ns = cpu_ns_of(pid).expect("it sleeps");
        assert!(used_ns > 5_000_000, "{used_ns} ns");
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert_eq!(cpu_ns_of(pid), None);
    }
}
