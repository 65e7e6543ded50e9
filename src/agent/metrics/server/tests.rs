//! Tests of [`super`].

use super::*;
use std::path::PathBuf;

fn metrics() -> Arc<AgentMetrics> {
    let metrics = AgentMetrics::new("0.1.0", Duration::from_secs(60));
    metrics.set_ready();
    Arc::new(metrics)
}

fn running(metrics: &Arc<AgentMetrics>) -> (RunningServer, u16) {
    let server = MetricsServer::bind(&ListenAddress::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
    let port = server.port().unwrap();
    (server.serve(Arc::clone(metrics)).unwrap(), port)
}

fn asked(port: u16, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request).unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

#[test]
fn requests_have_answers() {
    let metrics = metrics();
    let (_server, port) = running(&metrics);
    for (request, start, end) in [
        ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n", ""),
        ("GET /metrics?a=b HTTP/1.0\n\n", "HTTP/1.1 200 OK\r\n", ""),
        ("HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "Connection: close\r\n\r\n"),
        ("GET /healthz HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\nok\n"),
        ("GET /readyz HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\nok\n"),
        ("GET /../etc/passwd HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", ""),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n", ""),
        ("GET /metrics\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", ""),
        ("\x16\x03\x01\x02\n\n", "HTTP/1.1 400 Bad Request\r\n", ""),
        ("\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", ""),
    ] {
        let text = asked(port, request.as_bytes());
        assert!(text.starts_with(start) && text.ends_with(end), "{request:?}: {text}");
    }
    let page = asked(port, b"GET /metrics HTTP/1.1\r\n\r\n");
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    assert!(body.contains("prof_build_info{version=\"0.1.0\"} 1\n"));
    assert!(body.contains("prof_scrapes_refused_total{reason=\"not HTTP\"} 3\n"), "{body}");
    metrics.set_not_ready("this host is not recorded today");
    let text = asked(port, b"GET /readyz HTTP/1.1\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 503") && text.ends_with("\r\n\r\nthis host is not recorded today\n"));
}

#[test]
fn large_requests_are_refused() {
    let metrics = metrics();
    let (_server, port) = running(&metrics);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!("GET /{} HTTP/1.1\r\n", "x".repeat(MOST_REQUEST_BYTES + 1));
    let _ = stream.write_all(request.as_bytes());
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 431"), "{text}");
    assert!(asked(port, b"GET /metrics HTTP/1.1\r\n\r\n").contains("reason=\"too large\"} 1\n"));
}

#[test]
fn clients_that_say_nothing_are_few_and_end() {
    let metrics = metrics();
    let (_server, port) = running(&metrics);
    let start = Instant::now();
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    // One that sends a byte a second has no more time than the others.
    let mut slow = silent[0].try_clone().unwrap();
    let trickle = std::thread::spawn(move || {
        for _ in 0..10 {
            std::thread::sleep(Duration::from_secs(1));
            if slow.write_all(b"G").is_err() {
                break;
            }
        }
    });
    let busy = || metrics.text().contains("reason=\"busy\"} 16\n");
    while !busy() {
        assert!(start.elapsed() < Duration::from_secs(4), "{}", metrics.text());
        std::thread::sleep(Duration::from_millis(20));
    }
    while !asked(port, b"GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200") {
        assert!(start.elapsed() < LONGEST + Duration::from_secs(8), "the silent clients have not been ended");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(silent);
    let _ = trickle.join();
}

#[test]
fn the_server_ends_when_it_is_dropped() {
    let metrics = metrics();
    let (server, port) = running(&metrics);
    let start = Instant::now();
    drop(server);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_socket_that_was_left_is_replaced_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.sock");
    let address = ListenAddress::Unix(path.clone());
    drop(MetricsServer::bind(&address).unwrap());
    assert!(path.exists(), "a socket stays when its server is gone");
    let server = MetricsServer::bind(&address).unwrap();
    let why = MetricsServer::bind(&address).unwrap_err().to_string();
    assert!(why.starts_with("cannot serve metrics at `unix:") && why.contains("in use"), "{why}");
    let _server = server.serve(metrics()).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    let file: PathBuf = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    assert!(MetricsServer::bind(&ListenAddress::Unix(file.clone())).is_err());
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}

proptest::proptest! {
    #[test]
    fn any_head_has_an_answer(head in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let metrics = AgentMetrics::new("1", Duration::from_secs(1));
        proptest::prop_assert!(answer_to(&head, &metrics).starts_with(b"HTTP/1.1 "));
    }
}
