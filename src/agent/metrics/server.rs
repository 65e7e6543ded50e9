//! A server of the metrics: `/metrics`, `/healthz` and `/readyz` over HTTP/1.1, on a unix socket or an address of this host.
//!
//! It parses one line of what a client sends, within limits of size, time and number of clients, and runs on threads of its own: a
//! client can slow other clients, not the recorder.

use super::registry::{AgentMetrics, MetricName};
use crate::agent::config::ListenAddress;
use crate::base::failure::{Failure, io_words, status};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most bytes of a request.
const MOST_REQUEST_BYTES: usize = 8192;

/// Most clients at a time.
const MOST_CLIENTS: usize = 4;

/// Longest time of a client, from its connection to its last byte.
const LONGEST: Duration = Duration::from_secs(5);

/// Memory of the thread of a client: the page is formatted in it.
const STACK_BYTES: usize = 256 << 10;

/// A socket that is bound and not served yet.
#[derive(Debug)]
pub(super) struct MetricsServer {
    socket: ServerSocket,
}

#[derive(Debug)]
enum ServerSocket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A server that runs. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct RunningServer {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Binds the address. A socket in the file system that a server which is gone has left is replaced.
    ///
    /// # Errors
    ///
    /// When the address is in use or cannot be had.
    pub(super) fn bind(address: &ListenAddress) -> Result<Self, Failure> {
        let bound = match address {
            ListenAddress::Tcp(address) => TcpListener::bind(address).map(ServerSocket::Tcp),
            ListenAddress::Unix(path) => bind_unix(path).map(ServerSocket::Unix),
        };
        let bound = bound.and_then(|socket| socket.set_nonblocking().map(|()| socket));
        bound.map(|socket| MetricsServer { socket }).map_err(|error| {
            let why = io_words(&error);
            Failure::new(status::FAILED, format!("cannot serve metrics at `{address}`: {why}"))
                .hint("another agent may run; `listen` in [metrics] names another address")
        })
    }

    /// The port of TCP, which the kernel chose if the address had port 0.
    #[cfg(test)]
    pub(super) fn port(&self) -> Option<u16> {
        match &self.socket {
            ServerSocket::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
            ServerSocket::Unix(_) => None,
        }
    }

    /// Serves until the result is dropped.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub(super) fn serve(self, metrics: Arc<AgentMetrics>) -> io::Result<RunningServer> {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let thread = std::thread::Builder::new()
            .name("prof-metrics".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || accept_all(&self.socket, &metrics, &flag))?;
        Ok(RunningServer { is_over, thread: Some(thread) })
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of that thread is not one of this.
            let _ = thread.join();
        }
    }
}

impl ServerSocket {
    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            ServerSocket::Unix(listener) => listener.set_nonblocking(true),
            ServerSocket::Tcp(listener) => listener.set_nonblocking(true),
        }
    }

    fn accept(&self) -> io::Result<Scraper> {
        match self {
            ServerSocket::Unix(listener) => listener.accept().map(|(stream, _)| Scraper::Unix(stream)),
            ServerSocket::Tcp(listener) => listener.accept().map(|(stream, _)| Scraper::Tcp(stream)),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            ServerSocket::Unix(listener) => listener.as_fd(),
            ServerSocket::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// Binds a socket in the file system; one that no one listens at is removed before.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_socket = path.symlink_metadata()?.file_type().is_socket();
            if !is_socket || !is_left(path)? {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        other => other,
    }
}

/// Whether no one listens at a socket any more. One with too many clients that wait makes no one wait here.
fn is_left(path: &Path) -> io::Result<bool> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let client = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(connect(&client, &SocketAddrUnix::new(path)?) == Err(rustix::io::Errno::CONNREFUSED))
}

fn accept_all(socket: &ServerSocket, metrics: &Arc<AgentMetrics>, is_over: &AtomicBool) {
    let clients = Arc::new(AtomicUsize::new(0));
    while !is_over.load(Ordering::Relaxed) {
        if !is_readable(socket.descriptor()) {
            continue;
        }
        match socket.accept() {
            Ok(client) => start_client(client, metrics, &clients),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // No descriptors, or a client that is gone: the next attempt is not made at once.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Waits for a client, for half a second.
fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let wait = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
    poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&wait)).is_ok_and(|ready| ready > 0)
}

/// One of the clients that there may be, until it is dropped.
struct ClientPlace(Arc<AtomicUsize>);

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn start_client(mut client: Scraper, metrics: &Arc<AgentMetrics>, clients: &Arc<AtomicUsize>) {
    // Only this thread adds, so there are never more.
    if clients.load(Ordering::Relaxed) >= MOST_CLIENTS {
        metrics.add(MetricName::ScrapesRefused, "busy", 1);
        // What a new socket's buffer takes; it is not waited for.
        let _ = client.set_timeouts(Duration::from_millis(1));
        let _ = client.write_all(&answer("503 Service Unavailable", "too many clients\n", true));
        return;
    }
    clients.fetch_add(1, Ordering::Relaxed);
    let place = ClientPlace(Arc::clone(clients));
    let own = Arc::clone(metrics);
    let work = move || {
        let _place = place;
        serve_client(&mut client, &own, Instant::now() + LONGEST);
    };
    let started =
        std::thread::Builder::new().name("prof-metrics".to_owned()).stack_size(STACK_BYTES).spawn(work);
    if started.is_err() {
        metrics.add(MetricName::ScrapesRefused, "no thread", 1);
    }
}

fn serve_client(client: &mut Scraper, metrics: &AgentMetrics, until: Instant) {
    let answer = match read_head(client, until) {
        Ok(Some(head)) => answer_to(&head, metrics),
        Ok(None) => {
            metrics.add(MetricName::ScrapesRefused, "too large", 1);
            answer("431 Request Header Fields Too Large", "the request is too large\n", true)
        }
        Err(_) => {
            metrics.add(MetricName::ScrapesRefused, "too slow", 1);
            return;
        }
    };
    let mut rest = answer.as_slice();
    while !rest.is_empty() {
        // Each write waits as long as there is time for all.
        let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
            return;
        };
        if client.set_timeouts(left).is_err() {
            return;
        }
        match client.write(rest) {
            Ok(0) => return,
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// What a client sends, up to the empty line; `None` if it is too large. A body is not read: none of the requests has one.
fn read_head(client: &mut Scraper, until: Instant) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        client.set_timeouts(left.ok_or(io::ErrorKind::TimedOut)?)?;
        match client.read(&mut piece) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => head.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        let has_end = |end: &[u8]| head.windows(end.len()).any(|bytes| bytes == end);
        if has_end(b"\r\n\r\n") || has_end(b"\n\n") {
            return Ok(Some(head));
        }
        if head.len() > MOST_REQUEST_BYTES {
            return Ok(None);
        }
    }
}

fn answer_to(head: &[u8], metrics: &AgentMetrics) -> Vec<u8> {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let is_http = version.is_some_and(|version| version.starts_with(b"HTTP/1.")) && words.next().is_none();
    let (Some(method), Some(target), true) = (method, target, is_http) else {
        metrics.add(MetricName::ScrapesRefused, "not HTTP", 1);
        return answer("400 Bad Request", "this is no request of HTTP/1.1\n", true);
    };
    let has_body = match method {
        b"GET" => true,
        b"HEAD" => false,
        _ => return answer("405 Method Not Allowed", "only GET and HEAD\n", true),
    };
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let state = |state: Result<(), String>| match state {
        Ok(()) => answer("200 OK", "ok\n", has_body),
        Err(why) => answer("503 Service Unavailable", &format!("{why}\n"), has_body),
    };
    match path {
        b"/metrics" => answer("200 OK", &metrics.text(), has_body),
        b"/healthz" => state(metrics.health()),
        b"/readyz" => state(metrics.readiness()),
        _ => answer("404 Not Found", "there are /metrics, /healthz and /readyz\n", has_body),
    }
}

fn answer(status: &str, body: &str, has_body: bool) -> Vec<u8> {
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         {allow}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut bytes = head.into_bytes();
    if has_body {
        bytes.extend_from_slice(body.as_bytes());
    }
    bytes
}

/// A connection.
enum Scraper {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Scraper {
    /// How long one read or write waits. It blocks from now on: a descriptor does not inherit that of its listener.
    fn set_timeouts(&self, wait: Duration) -> io::Result<()> {
        match self {
            Scraper::Unix(stream) => {
                stream.set_read_timeout(Some(wait)).and_then(|()| stream.set_write_timeout(Some(wait)))
            }
            Scraper::Tcp(stream) => {
                stream.set_read_timeout(Some(wait)).and_then(|()| stream.set_write_timeout(Some(wait)))
            }
        }
    }
}

impl Read for Scraper {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Scraper::Unix(stream) => stream.read(bytes),
            Scraper::Tcp(stream) => stream.read(bytes),
        }
    }
}

impl Write for Scraper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Scraper::Unix(stream) => stream.write(bytes),
            Scraper::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
