//! The client with servers that answer as servers do, or as they should not.

use super::shipments::running_in;
use super::{batch, running_ns};
use crate::push::counts::PushCounts;
use crate::push::pace::PushPace;
use crate::push::pusher::courier_with;
use crate::push::reply::{PushProblem, PushReply};
use crate::push::request::body_of;
use crate::push::shipment::{PushStep, Shipment};
use crate::push::target::{PushSecrets, PushTarget, PushUrl};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub(super) struct Came {
    /// Request line and headers.
    pub(super) head: Vec<String>,
    pub(super) body: Vec<u8>,
}

/// A server that does what `answer` does with the number of a request; returns its address, and what came.
pub(super) fn serve(
    answer: impl Fn(usize, &mut TcpStream) + Send + 'static,
) -> (String, Arc<Mutex<Vec<Came>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let came = Arc::<Mutex<Vec<Came>>>::default();
    let seen = Arc::clone(&came);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            if let Some(request) = read_request(&stream) {
                seen.lock().unwrap().push(request);
            }
            answer(number, &mut stream);
        }
    });
    (address, came)
}

fn read_request(stream: &TcpStream) -> Option<Came> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut came = Came::default();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end() {
            "" => break,
            line => came.head.push(line.to_owned()),
        }
    }
    let length =
        came.head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    came.body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut came.body).ok()?;
    Some(came)
}

pub(super) fn reply(stream: &mut TcpStream, head: &str, body: &[u8]) {
    // The client may have hung up.
    let length = body.len();
    let head = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

pub(super) fn target(url: &str) -> PushTarget {
    PushTarget { timeout: Duration::from_secs(20), ..PushTarget::new(PushUrl::parse(url).unwrap()) }
}

/// What one request to a server comes to.
fn ask(target: &PushTarget) -> PushReply {
    let secrets = PushSecrets::read(target).unwrap();
    let mut courier = courier_with(target, secrets).unwrap();
    let batch = batch(9);
    let body = body_of(courier.protocol(), &batch, &batch.chunks()).unwrap();
    courier.send(&body)
}

fn problem(reply: &PushReply) -> Option<PushProblem> {
    match reply {
        PushReply::Later { problem, .. } | PushReply::Never { problem, .. } => Some(*problem),
        _ => None,
    }
}

#[test]
fn a_request_has_what_the_protocol_and_the_user_want() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "secret-token\n").unwrap();
    let (address, came) = serve(|_, stream| reply(stream, "200 OK", b""));
    let target = PushTarget {
        tenant: Some("team-a".to_owned()),
        bearer_file: Some(token),
        headers: vec![("X-Cluster".to_owned(), "c1".to_owned())],
        ..target(&format!("pyroscope+http://{address}/base/"))
    };
    assert!(matches!(ask(&target), PushReply::Taken { refused: 0, .. }));
    let request = came.lock().unwrap()[0].clone();
    assert_eq!(request.head[0], "POST /base/push.v1.PusherService/Push HTTP/1.1");
    let has = |line: &str| request.head.iter().any(|other| other.eq_ignore_ascii_case(line));
    assert!(
        has("content-type: application/proto") && has("connect-protocol-version: 1"),
        "{:?}",
        request.head
    );
    assert!(
        has("x-scope-orgid: team-a") && has("authorization: Bearer secret-token") && has("x-cluster: c1")
    );
    assert_eq!(running_in(&request.body), running_ns(9));
    let otlp = self::target(&format!("otlp+http://{address}"));
    assert!(matches!(ask(&otlp), PushReply::Taken { refused: 0, .. }));
    let request = came.lock().unwrap()[1].clone();
    assert_eq!(request.head[0], "POST /v1development/profiles HTTP/1.1");
    assert!(request.head.iter().any(|line| line.eq_ignore_ascii_case("content-encoding: gzip")));
}

#[test]
fn a_busy_server_is_asked_again_after_what_it_asks_for() {
    let (address, came) = serve(|number, stream| match number {
        0 | 1 => reply(stream, "429 Too Many Requests\r\nRetry-After: 1", b""),
        _ => reply(stream, "200 OK", b""),
    });
    let target = target(&format!("pyroscope+http://{address}"));
    let mut courier = courier_with(&target, PushSecrets::default()).unwrap();
    let (mut shipment, mut pace, counts) = (Shipment::new(batch(9)), PushPace::new(), PushCounts::default());
    let begun = Instant::now();
    loop {
        match shipment.step(courier.as_mut(), &mut pace, &counts) {
            PushStep::Wait { wait, .. } => std::thread::sleep(wait),
            PushStep::More => {}
            PushStep::Done => break,
        }
    }
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert_eq!(shipment.delivered.samples, 9);
    assert_eq!(running_in(&came.lock().unwrap()[2].body), running_ns(9));
}

#[test]
fn whatever_a_server_does_has_a_name() {
    let cases: [(&str, PushProblem); 6] = [
        ("HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n", PushProblem::Unavailable),
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", PushProblem::Refused),
        (
            "HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
            PushProblem::Answer,
        ),
        ("SSH-2.0-OpenSSH_9.2\r\n", PushProblem::Answer),
        ("", PushProblem::Connection),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", PushProblem::NotThere),
    ];
    for (answer, expected) in cases {
        let (address, _) = serve(move |_, stream| {
            let _ = stream.write_all(answer.as_bytes());
        });
        let reply = ask(&target(&format!("pyroscope+http://{address}")));
        let is_same = problem(&reply) == Some(expected)
            || (expected == PushProblem::Connection && problem(&reply) == Some(PushProblem::Answer));
        assert!(is_same, "{answer:?}: {reply:?}");
    }
    // No one listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(problem(&ask(&target(&format!("otlp+http://{gone}")))), Some(PushProblem::Connection));
    let reply = ask(&target("otlp+http://no-such-host.invalid"));
    assert!(matches!(problem(&reply), Some(PushProblem::Name | PushProblem::Connection)), "{reply:?}");
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    let (address, _) = serve(move |_, _| assert!(held.lock().unwrap().recv().is_err()));
    let url = format!("pyroscope+http://{address}");
    let reply = ask(&PushTarget { timeout: Duration::from_millis(300), ..target(&url) });
    assert_eq!(problem(&reply), Some(PushProblem::Timeout), "{reply:?}");
    drop(release);
}

#[test]
fn an_endless_answer_is_cut() {
    let (address, _) = serve(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad\r\nContent-Type: text/plain\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let reply = ask(&target(&format!("pyroscope+http://{address}")));
    let PushReply::Never { problem: PushProblem::Rejected, words } = reply else { panic!("{reply:?}") };
    assert!(words.len() < 500, "{}", words.len());
}

/// A child that ends with its test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server of TLS with a certificate of its own authority, which is in `ca.pem` of the folder; `None` without openssl.
fn serve_tls(folder: &std::path::Path) -> Option<(String, Ends)> {
    let script = "set -e
        openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority \
          -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
        openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\\n' > names
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem";
    let made = Command::new("sh").args(["-c", script]).current_dir(folder).output().unwrap();
    if !made.status.success() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: no certificate by openssl: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        return None;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Command::new("openssl");
    server.args([
        "s_server",
        "-quiet",
        "-accept",
        &format!("127.0.0.1:{port}"),
        "-cert",
        "server.pem",
        "-key",
        "server.key",
    ]);
    let server =
        server.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Ends(server.spawn().unwrap());
    let until = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < until, "the server does not come up");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (mut input, output) = (server.0.stdin.take().unwrap(), server.0.stdout.take().unwrap());
    std::thread::spawn(move || {
        // The head of a request is enough to answer it.
        let mut lines = BufReader::new(output);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if line == b"\r\n" {
                let _ = input.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                let _ = input.flush();
            }
            line.clear();
        }
    });
    Some((format!("127.0.0.1:{port}"), server))
}

#[test]
fn a_certificate_has_to_be_of_an_authority_that_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let Some((address, _server)) = serve_tls(folder.path()) else { return };
    let url = format!("pyroscope+https://{address}");
    let unknown = ask(&target(&url));
    assert_eq!(problem(&unknown), Some(PushProblem::Tls), "{unknown:?}");
    let trusted = PushTarget { ca_file: Some(folder.path().join("ca.pem")), ..target(&url) };
    assert!(matches!(ask(&trusted), PushReply::Taken { .. }), "{:?}", ask(&trusted));
    let no_certificate = PushTarget { ca_file: Some(folder.path().join("ca.key")), ..target(&url) };
    let secrets = PushSecrets::read(&no_certificate).unwrap();
    assert!(courier_with(&no_certificate, secrets).is_err_and(|why| why.message.contains("no certificate")));
}
