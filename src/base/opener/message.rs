//! What is asked of the opener and what it answers, and how both travel with descriptors over a socket.

use super::given::GivenRequest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Most bytes of a message: paths have 4 KiB at the most, and are written as text.
pub(super) const MAX_MESSAGE_BYTES: usize = 1 << 17;
/// Most bytes of a body in a message, where each may take four.
const MAX_BODY_BYTES: usize = 1 << 14;
/// Most descriptors of a message.
const MAX_DESCRIPTORS: usize = 2;

/// What a file has to begin with, or be called, to be opened: the recorder, which reads foreign files, may ask for no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FileContent {
    /// An ELF file.
    Elf,
    /// The map of generated code that a process leaves as `tmp/perf-N.map`.
    PerfMap,
}

/// Whether links of a path are followed: never out of the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Links {
    /// They are.
    Followed,
    /// A link is an error.
    Refused,
}

/// Work that a room of the recorder does in the opener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Service {
    /// Another map for unwind tables.
    TableSpace,
    /// The cache of unwind tables.
    TableCache,
    /// An event of a CPU that has come online.
    CpuEvent,
    /// The sampler of allocations in another process.
    Heap,
    /// The rates by which a Go program samples waits.
    GoRates,
    /// The file of the recording.
    Output,
    /// A pager, for the text in the file that comes with it.
    Pager,
    /// The user's editor.
    Editor,
    /// The stop of all processes of the shell's job.
    Stop,
    /// The cache of debug files from servers.
    DebugFiles,
    /// Files of the host that name its containers.
    HostFiles,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum OpenerRequest {
    /// A file below /proc/PID, for reading.
    ProcessFile { pid: u32, name: String },
    /// A file or folder below /proc/PID that is only found, not opened: its root, its program.
    ProcessPlace { pid: u32, name: String },
    /// The root of the process that is asked: only for a worker, which can open nothing.
    Root,
    /// Numbers of all processes, or of the threads of one.
    List { pid: Option<u32> },
    /// The address at which a thread keeps its list of robust locks.
    RobustList { tid: u32 },
    /// A file below the folder whose descriptor comes with it.
    Inside { path: Vec<u8>, links: Links, wanted: FileContent },
    /// A file that the user has named, or in a folder that the user has named.
    Named { path: Vec<u8>, wanted: FileContent },
    /// A source file.
    Source { path: Vec<u8> },
    /// A new file, for reading and writing.
    NewFile { path: Vec<u8> },
    /// Another name for a file that was made for a request, which nothing must have.
    NameNewFile { from: Vec<u8>, to: Vec<u8> },
    /// Says which process is the command of the recording, if there is one; only once.
    Command { pid: Option<u32> },
    /// A signal for the command.
    Signal { signal: i32 },
    /// A file that the command line names.
    Given(GivenRequest),
    /// Work of a service.
    Serve { service: Service, body: Vec<u8> },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum OpenerReply {
    /// It is done. A descriptor may come with it.
    Done { body: Vec<u8> },
    /// It is done, and what came of it, which is too much for a message, is in the file that comes with it.
    DoneInFile,
    /// Numbers that were asked for.
    Numbers(Vec<u32>),
    /// It is not. A number of errno(3), if it has one, and words.
    Failed { code: Option<i32>, text: String },
}

impl OpenerReply {
    pub(super) fn of_error(error: &io::Error) -> Self {
        OpenerReply::Failed { code: error.raw_os_error(), text: error.to_string() }
    }
}

/// An answer as it is sent: much that came of it goes into a file in memory.
pub(super) fn for_message(reply: OpenerReply, opened: Option<OwnedFd>) -> (OpenerReply, Option<OwnedFd>) {
    match (reply, opened) {
        (OpenerReply::Done { body }, None) if body.len() > MAX_BODY_BYTES => match in_memory(&body) {
            Ok(file) => (OpenerReply::DoneInFile, Some(file)),
            Err(error) => (OpenerReply::of_error(&error), None),
        },
        as_it_is => as_it_is,
    }
}

fn in_memory(body: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("answer", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(body)?;
    file.rewind()?;
    Ok(file.into())
}

/// What [`for_message`] was given.
pub(super) fn from_message(
    reply: OpenerReply,
    opened: Option<OwnedFd>,
) -> io::Result<(OpenerReply, Option<OwnedFd>)> {
    match (reply, opened) {
        (OpenerReply::DoneInFile, Some(file)) => {
            let mut body = Vec::new();
            File::from(file).read_to_end(&mut body)?;
            Ok((OpenerReply::Done { body }, None))
        }
        as_it_is => Ok(as_it_is),
    }
}

/// Whether the other end of a socket is closed: who had it has ended.
pub(crate) fn is_closed(socket: BorrowedFd<'_>) -> bool {
    let mut looked_at = [PollFd::from_borrowed_fd(socket, PollFlags::empty())];
    poll(&mut looked_at, Some(&Timespec::default())).is_ok_and(|found| found > 0)
}

/// Sends a message with descriptors.
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    retry_on_intr(|| sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives a message with its descriptors; nothing of both once the other end is closed.
pub(super) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut pieces = [IoSliceMut::new(buffer)];
        match recvmsg(socket, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok((received.bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_for_a_message_arrives_in_a_file() {
        for length in [0, MAX_BODY_BYTES, MAX_BODY_BYTES + 1, 3_000_000] {
            let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let (sent, file) = for_message(OpenerReply::Done { body: body.clone() }, None);
            let bytes = serde_json::to_vec(&sent).expect("it can be written");
            assert!(bytes.len() < MAX_MESSAGE_BYTES / 2, "{} bytes for {length}", bytes.len());
            let taken = serde_json::from_slice(&bytes).expect("it can be read");
            let Ok((OpenerReply::Done { body: taken }, None)) = from_message(taken, file) else {
                panic!("{length} bytes did not arrive")
            };
            assert!(taken == body, "{length} bytes");
        }
    }
}
