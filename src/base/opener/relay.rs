//! Opening of files for a worker, which parses foreign bytes and can open nothing itself: the process that started it answers,
//! by its own rights and those of its opener. Debug files and maps of generated code are all that a worker gets.

use super::message::{MAX_MESSAGE_BYTES, OpenerReply, OpenerRequest, receive, send};
use super::{client, files};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Has this process, a worker, ask for files on a socket.
pub(crate) fn ask_on(socket: OwnedFd) {
    client::connect(socket);
}

/// Answers one request of a worker. Returns whether there was one: none comes from a worker that has ended.
///
/// # Errors
///
/// When nothing can be received.
pub(crate) fn answer_worker(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut buffer = vec![0; MAX_MESSAGE_BYTES];
    let (length @ 1.., descriptors) = receive(socket, &mut buffer)? else { return Ok(false) };
    let mut descriptors = descriptors.into_iter();
    let Some(reply_to) = descriptors.next() else { return Ok(true) };
    let opened = serde_json::from_slice(&buffer[..length])
        .map_err(io::Error::from)
        .and_then(|request| open(request, descriptors.next()));
    let reply = match &opened {
        Ok(_) => OpenerReply::Done { body: Vec::new() },
        Err(error) => OpenerReply::of_error(error),
    };
    let opened: Vec<BorrowedFd<'_>> = opened.iter().map(AsFd::as_fd).collect();
    // A worker that has ended meanwhile misses nothing.
    let _ = send(reply_to.as_fd(), &serde_json::to_vec(&reply)?, &opened);
    Ok(true)
}

fn open(request: OpenerRequest, folder: Option<OwnedFd>) -> io::Result<OwnedFd> {
    let refused = || io::Error::from_raw_os_error(libc::EACCES);
    let path_of = |path: &[u8]| Path::new(OsStr::from_bytes(path)).to_owned();
    let (file, path, wanted) = match request {
        OpenerRequest::Root => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            return Ok(rustix::fs::open("/", flags, Mode::empty())?);
        }
        OpenerRequest::ProcessPlace { pid, name } if name == "root" => {
            return client::process_place(pid, &name);
        }
        OpenerRequest::Inside { path, links, wanted } => {
            let folder = folder.ok_or_else(refused)?;
            let path = path_of(&path);
            (client::inside(folder.as_fd(), &path, links, wanted)?, path, wanted)
        }
        OpenerRequest::Named { path, wanted } => {
            let path = path_of(&path);
            (client::named(&path, wanted)?, path, wanted)
        }
        _ => return Err(refused()),
    };
    match files::is_wanted(&file, &path, wanted) {
        true => Ok(file.into()),
        false => Err(io::Error::other("it is not an ELF file")),
    }
}
