//! Names that come from outside of the program: debug files in folders and on servers, while it is recorded and later, here and
//! where the program is not.

use crate::harness::fixture;
use crate::harness::machine::turn;
use crate::harness::profiler::{Recording, messages, prof, text};
use crate::support::skip;
use crate::targets::rights::Rights;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A stripped program, its debug file, and its build ID.
struct Stripped {
    folder: tempfile::TempDir,
    build_id: String,
}

impl Stripped {
    /// From the fixture `shares`, built with debug information; `None`, after saying so, where a tool is missing.
    fn new() -> Option<Stripped> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let source = fixture::sources().join("shares.c");
        let script = format!(
            "set -e; gcc -O2 -g -Wl,--build-id=sha1 '{}' -o whole
             objcopy --only-keep-debug whole shares.debug; strip -o shares whole; rm whole
             mkdir debug; mv shares.debug debug/",
            source.display()
        );
        let output = Command::new("sh").args(["-c", &script]).current_dir(folder.path()).output();
        let output = output.expect("there is a shell");
        if !output.status.success() {
            return skip(&format!("a program cannot be built and stripped: {}", messages(&output)));
        }
        let notes = Command::new("readelf").arg("-n").arg(folder.path().join("shares")).output();
        let notes = text(&notes.ok()?);
        let build_id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: "))?.to_owned();
        Some(Stripped { folder, build_id })
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("shares")
    }

    fn debug_folder(&self) -> PathBuf {
        self.folder.path().join("debug")
    }

    /// The file and line of the row of a function that is static, and so has a name in debug information only.
    fn place_of_fifty(recording: &Recording) -> Option<(String, u64)> {
        let report = recording.report();
        let rows = report.0["rows"].as_array().expect("there are rows").clone();
        let row = rows
            .iter()
            .find(|row| row["function"].as_str().is_some_and(|name| name.contains("share_fifty")))?;
        Some((row["file"].as_str()?.to_owned(), row["line"].as_u64()?))
    }

    /// What `prof info --json` has of the program.
    fn module(&self, recording: &Recording) -> serde_json::Value {
        let document = recording.info_document();
        let modules = document["modules"].as_array().expect("there are modules").clone();
        let is_it = |module: &&serde_json::Value| module["build_id"] == self.build_id.as_str();
        modules.iter().find(is_it).expect("the program is among them").clone()
    }
}

#[test]
fn a_folder_of_debug_files_names_a_stripped_program_now_or_later() {
    let Some(_turn) = turn() else { return };
    let Some(stripped) = Stripped::new() else { return };
    let program = stripped.program();
    let program = program.to_str().expect("the target folder's path is text");
    let debug = stripped.debug_folder();
    let debug_option = debug.to_str().expect("text");

    let named = Recording::with(["--debug-dir", debug_option, "--", program, "1"]);
    let (file, line) = Stripped::place_of_fifty(&named).expect("it has a name");
    assert!(file.ends_with("shares.c") && line > 0, "{file}:{line}");
    let module = stripped.module(&named);
    assert_eq!(module["names"]["has_debug_info"], true);
    assert!(
        module["names"]["debug_file"].as_str().is_some_and(|file| file.ends_with("shares.debug")),
        "{module}"
    );

    // Without it there are places only, and it is said what is missing.
    let bare = Recording::with(["--", program, "1"]);
    assert_eq!(Stripped::place_of_fifty(&bare), None);
    let module = stripped.module(&bare);
    assert_eq!(module["names"]["has_debug_info"], false);
    assert!(module["names"]["missing"].as_str().is_some_and(|missing| missing.contains("lines")), "{module}");
    let output = prof().args(["info", "--modules"]).arg(bare.file()).output().expect("`timeout` can be run");
    let modules = text(&output);
    assert!(
        modules.contains(&stripped.build_id) && modules.contains("prof symbolize FILE --debuginfod"),
        "{modules}"
    );

    // Later, where the program is not.
    fs::remove_file(program).expect("it is there");
    let said = symbolize(&bare, &["--debug-dir", debug_option], &[]);
    assert!(said.contains("named") && said.contains("shares.debug"), "{said}");
    let (file, _) = Stripped::place_of_fifty(&bare).expect("it has a name now");
    assert!(file.ends_with("shares.c"), "{file}");
}

/// Runs `prof symbolize` with an environment; returns what it says.
fn symbolize(recording: &Recording, options: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = prof();
    command.arg("symbolize").args(options).arg(recording.file()).envs(environment.iter().copied());
    let output = command.output().expect("`timeout` can be run");
    assert!(output.status.success(), "{}", messages(&output));
    text(&output)
}

/// What the server has noted so far.
type Shared<T> = Arc<Mutex<Vec<T>>>;

/// A server that has one debug file, and the paths that it was asked for.
fn serve(build_id: &str, debug_file: &Path) -> (String, Shared<String>, Shared<Rights>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = format!("http://{}", listener.local_addr().expect("it has an address"));
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let clients = Arc::<Mutex<Vec<Rights>>>::default();
    let known = Arc::clone(&clients);
    let (seen, wanted) = (Arc::clone(&asked), format!("/buildid/{build_id}/debuginfo"));
    let bytes = fs::read(debug_file).expect("it was built");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut lines = BufReader::new(stream.try_clone().expect("a second handle")).lines();
            let Some(Ok(first)) = lines.next() else { continue };
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let client = stream.peer_addr().ok().and_then(|address| process_with_port(address.port()));
            let rights = client.map_or(Vec::new(), Rights::of);
            known.lock().expect("no one panicked").extend(rights.into_iter().map(|(_, rights)| rights));
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            let (status, body): (_, &[u8]) =
                if path == wanted { ("200 OK", &bytes) } else { ("404 Not Found", &[]) };
            seen.lock().expect("no one panicked").push(path);
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            // The client may have hung up.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    (address, asked, clients)
}

/// The process that has a TCP connection from this port of this machine.
fn process_with_port(port: u16) -> Option<u32> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let end = format!(":{port:04X}");
    let line =
        table.lines().find(|line| line.split_whitespace().nth(1).is_some_and(|own| own.ends_with(&end)));
    let socket = format!("socket:[{}]", line?.split_whitespace().nth(9)?);
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| link.to_str() == Some(&socket))
    })
}

/// Detail 13 of the promises: the network is used on request, and no server is waited for.
#[test]
fn a_server_names_a_stripped_program_only_when_it_is_to_be_asked() {
    let Some(_turn) = turn() else { return };
    let Some(stripped) = Stripped::new() else { return };
    let program = stripped.program();
    let program = program.to_str().expect("text");
    let (server, asked, clients) = serve(&stripped.build_id, &stripped.debug_folder().join("shares.debug"));
    let cache = stripped.folder.path().join("cache");
    let environment = [
        ("DEBUGINFOD_URLS", server.as_str()),
        ("DEBUGINFOD_CACHE_PATH", cache.to_str().expect("text")),
        ("no_proxy", "127.0.0.1"),
    ];

    let bare = Recording::made_by(0, |file| {
        let mut command = prof();
        command.args(["record", "-o"]).arg(file).args(["--", program, "1"]).envs(environment);
        command
    });
    symbolize(&bare, &[], &environment);
    assert_eq!((Stripped::place_of_fifty(&bare), asked.lock().expect("no one panicked").len()), (None, 0));

    let said = symbolize(&bare, &["--debuginfod"], &environment);
    assert!(said.contains("named"), "{said}");
    assert!(Stripped::place_of_fifty(&bare).is_some_and(|(file, _)| file.ends_with("shares.c")));
    assert!(cache.join(&stripped.build_id).join("debuginfo").is_file(), "it is kept for all clients");
    let own = |asked: &Arc<Mutex<Vec<String>>>| {
        let asked = asked.lock().expect("no one panicked");
        asked.iter().filter(|path| path.contains(&stripped.build_id)).count()
    };
    assert_eq!(own(&asked), 1);
    // Also after a recording, where the cache has nothing.
    fs::remove_dir_all(&cache).expect("own folder");
    Recording::made_by(0, |file| {
        let mut command = prof();
        command.args(["record", "--debuginfod", "-o"]).arg(file).args(["--", program, "1"]).envs(environment);
        command
    });
    assert_eq!(own(&asked), 2);
    let clients = clients.lock().expect("no one panicked");
    assert!(clients.len() >= 2, "{clients:?}");
    for rights in clients.iter() {
        rights.assert_none("who asks a server and reads what it sends");
        assert_ne!(rights.user, 0);
    }

    // At the end of a recording, out of the cache by now.
    let named = Recording::made_by(0, |file| {
        let mut command = prof();
        command.args(["record", "--debuginfod", "-o"]).arg(file).args(["--", program, "1"]).envs(environment);
        command
    });
    assert!(Stripped::place_of_fifty(&named).is_some_and(|(file, _)| file.ends_with("shares.c")));
    assert_eq!(own(&asked), 2);
}

/// Serves a folder over HTTPS, with a certificate of an authority that only `ca.pem` knows, until it is dropped.
struct SecureServer {
    child: Child,
    folder: tempfile::TempDir,
    address: String,
}

impl SecureServer {
    /// `None`, after saying so, where a tool is missing.
    fn new(content: &Path) -> Option<SecureServer> {
        const CERTIFICATES: &str = "set -e
            openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority
            openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=127.0.0.1
            echo subjectAltName=IP:127.0.0.1 >extensions
            openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
                -extfile extensions -out server.pem";
        const SERVER: &str = "import http.server, os, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('server.pem', 'server.key')
os.chdir(sys.argv[1])
server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()";
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let made = Command::new("sh").args(["-c", CERTIFICATES]).current_dir(folder.path()).output();
        let made = made.expect("there is a shell");
        if !made.status.success() {
            return skip(&format!("no certificate can be made: {}", messages(&made)));
        }
        let mut command = Command::new("python3");
        command.args(["-c", SERVER]).arg(content).current_dir(folder.path());
        let Ok(mut child) = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
            return skip("there is no python3");
        };
        let mut port = String::new();
        let stdout = child.stdout.take().expect("it is a pipe");
        BufReader::new(stdout).read_line(&mut port).expect("it says its port");
        let address = format!("https://127.0.0.1:{}", port.trim());
        let server = SecureServer { child, folder, address };
        if port.is_empty() { skip("this python3 cannot serve over TLS") } else { Some(server) }
    }
}

impl Drop for SecureServer {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_is_asked_over_tls_and_believed_only_with_a_certificate_of_a_known_authority() {
    let Some(_turn) = turn() else { return };
    let Some(stripped) = Stripped::new() else { return };
    let content = stripped.folder.path().join("served");
    let of_build = content.join("buildid").join(&stripped.build_id);
    fs::create_dir_all(&of_build).expect("folders can be made");
    fs::copy(stripped.debug_folder().join("shares.debug"), of_build.join("debuginfo")).expect("a copy");
    let Some(server) = SecureServer::new(&content) else { return };
    let program = stripped.program();
    let bare = Recording::with(["--", program.to_str().expect("text"), "1"]);

    let cache = stripped.folder.path().join("cache");
    let authorities = server.folder.path().join("ca.pem");
    let mut environment = vec![
        ("DEBUGINFOD_URLS", server.address.as_str()),
        ("DEBUGINFOD_CACHE_PATH", cache.to_str().expect("text")),
        ("no_proxy", "127.0.0.1"),
    ];
    let said = symbolize(&bare, &["--debuginfod"], &environment);
    assert_eq!(Stripped::place_of_fifty(&bare), None, "the authority of the server is unknown: {said}");

    environment.push(("SSL_CERT_FILE", authorities.to_str().expect("text")));
    let said = symbolize(&bare, &["--debuginfod"], &environment);
    let place = Stripped::place_of_fifty(&bare);
    assert!(place.is_some_and(|(file, _)| file.ends_with("shares.c")), "{said}");
}

#[test]
fn to_ask_servers_takes_one_that_is_named() {
    let Some(_turn) = turn() else { return };
    let mut command = prof();
    command.args(["record", "--debuginfod", "--", "/bin/true"]).env_remove("DEBUGINFOD_URLS");
    let output = command.output().expect("`timeout` can be run");
    assert!(messages(&output).contains("DEBUGINFOD_URLS names none"), "{}", messages(&output));
    assert_eq!(output.status.code(), Some(125));
}
