//! Jobs and answers as bytes: what kind, a length, the bytes, and the descriptors that come with the first of them.

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recv, recvmsg, send, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Most bytes of a message: an unwind table is the largest.
const MOST_BYTES: u64 = 256 << 20;
/// Most bytes that are made room for before they have come.
const PIECE_BYTES: usize = 1 << 20;
/// Most descriptors of a message.
pub(super) const MAX_DESCRIPTORS: usize = 4;
/// Kind, urgency, two bytes of nothing, number of a part, and length of what follows.
const HEADER_BYTES: usize = 4 + 8 + 8;

/// The rooms that have jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobKind {
    /// An unwind table.
    Table,
    /// Headers of a file.
    Headers,
    /// Names of addresses in a file.
    Names,
    /// Functions of allocators.
    Allocators,
    /// Forgets what was kept for a later job; has no answer.
    Forget,
    /// Places of probes in a file.
    Probes,
    /// Instructions and filters of a process that is about to be changed.
    Examination,
}

impl JobKind {
    const ALL: [JobKind; 7] = [
        JobKind::Table,
        JobKind::Headers,
        JobKind::Names,
        JobKind::Allocators,
        JobKind::Forget,
        JobKind::Probes,
        JobKind::Examination,
    ];

    fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// What a job may take from others that want to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobUrgency {
    /// It takes little, and samples wait for it: it comes before all others.
    First,
    /// It is done at the priority that the program was started with.
    Ordinary,
    /// It is done at the lowest priority.
    Background,
}

impl JobUrgency {
    fn of_byte(byte: u8) -> Self {
        match byte {
            0 => JobUrgency::First,
            1 => JobUrgency::Ordinary,
            _ => JobUrgency::Background,
        }
    }
}

/// Work for a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerJob<'a> {
    pub(crate) kind: JobKind,
    pub(crate) urgency: JobUrgency,
    /// What was kept by an earlier job and is meant by this one; 0: nothing.
    pub(crate) part: u64,
    pub(crate) body: &'a [u8],
    pub(crate) descriptors: &'a [BorrowedFd<'a>],
}

/// A job as it comes to the worker, or an answer, whose kind says nothing.
#[derive(Debug)]
pub(super) struct WorkerMessage {
    pub(super) kind: JobKind,
    pub(super) urgency: JobUrgency,
    pub(super) part: u64,
    pub(super) body: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Sends a job, or an answer in its form.
pub(super) fn send_job(socket: BorrowedFd<'_>, job: &WorkerJob<'_>) -> io::Result<()> {
    let mut header = [0; HEADER_BYTES];
    header[0] = job.kind as u8;
    header[1] = job.urgency as u8;
    header[4..12].copy_from_slice(&job.part.to_le_bytes());
    header[12..].copy_from_slice(&(job.body.len() as u64).to_le_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let rights = SendAncillaryMessage::ScmRights(job.descriptors);
    if !job.descriptors.is_empty() && !control.push(rights) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent =
        retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&header)], &mut control, SendFlags::NOSIGNAL))?;
    if sent != HEADER_BYTES {
        return Err(io::ErrorKind::WriteZero.into());
    }
    let mut rest = job.body;
    while !rest.is_empty() {
        let sent = retry_on_intr(|| send(socket, rest, SendFlags::NOSIGNAL))?;
        rest = &rest[sent..];
    }
    Ok(())
}

/// Receives a job or an answer; `None` once the other end is closed.
///
/// # Errors
///
/// As of recv(2), and for what is no such message.
pub(super) fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<WorkerMessage>> {
    let mut header = [0; HEADER_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut pieces = [IoSliceMut::new(&mut header)];
        match recvmsg(socket, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received == 0 {
        return Ok(None);
    }
    let number = |at: usize| header[at..at + 8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let (part, length) = (number(4), number(12));
    let kind = JobKind::of_byte(header[0]).filter(|_| received == HEADER_BYTES && length <= MOST_BYTES);
    let kind = kind.ok_or(io::ErrorKind::InvalidData)?;
    let mut body = Vec::new();
    while (body.len() as u64) < length {
        let begin = body.len();
        body.resize(begin.saturating_add(PIECE_BYTES).min(length as usize), 0);
        let (received, _) = retry_on_intr(|| recv(socket, &mut body[begin..], RecvFlags::empty()))?;
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        body.truncate(begin + received);
    }
    let urgency = JobUrgency::of_byte(header[1]);
    Ok(Some(WorkerMessage { kind, urgency, part, body, descriptors }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("two sockets")
    }

    #[test]
    fn a_job_comes_as_it_was_sent_with_its_descriptors() {
        let (own, theirs) = pair();
        let mut file = tempfile::tempfile().expect("a file can be made");
        file.write_all(b"text").expect("it can be written");
        let body = vec![7; 3 * PIECE_BYTES + 5];
        let wanted = body.clone();
        let sender = std::thread::spawn(move || {
            let descriptors = [file.as_fd()];
            let job = WorkerJob {
                kind: JobKind::Names,
                urgency: JobUrgency::Background,
                part: u64::MAX - 1,
                body: &body,
                descriptors: &descriptors,
            };
            send_job(own.as_fd(), &job)
        });
        let got = receive(theirs.as_fd()).expect("a job").expect("not the end");
        sender.join().expect("no panic").expect("it was sent");
        assert_eq!((got.kind, got.urgency, got.part), (JobKind::Names, JobUrgency::Background, u64::MAX - 1));
        assert!(got.body == wanted);
        let mut text = String::new();
        let mut file = std::fs::File::from(got.descriptors.into_iter().next().expect("it came along"));
        file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("it can be read");
        assert_eq!(text, "text");
        assert!(receive(theirs.as_fd()).expect("no error").is_none(), "the sender has gone");
    }

    #[test]
    fn what_claims_too_much_or_ends_early_is_no_message() {
        let send_bytes = |bytes: &[u8]| {
            let (own, theirs) = pair();
            send(&own, bytes, SendFlags::NOSIGNAL).expect("it is little");
            drop(own);
            receive(theirs.as_fd()).map(|message| message.is_some())
        };
        let mut header = [0; HEADER_BYTES];
        assert_eq!(send_bytes(&header).ok(), Some(true), "an empty one is one");
        assert!(send_bytes(&header[1..]).is_err());
        header[12..].copy_from_slice(&5u64.to_le_bytes());
        assert!(send_bytes(&header).is_err());
        header[12..].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(send_bytes(&header).is_err());
        header[12..].fill(0);
        header[0] = 99;
        assert!(send_bytes(&header).is_err());
    }
}
