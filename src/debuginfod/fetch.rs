//! The debug information of a build, from the cache or from the first server that has it.

use super::asked_cache;
use super::cache::Cached;
use super::settings::Settings;
use crate::base::failure::Failure;
use std::fs::File;
use std::path::PathBuf;

/// Is given what is fetched, how many bytes there are, and how many there will be, if that is known.
pub(crate) type OnProgress = Box<dyn Fn(&str, u64, Option<u64>)>;

/// Checks that a file is of the build of this build ID; says why it is not.
pub(crate) type CheckBuild = fn(&File, &[u8]) -> Result<(), String>;

/// Fetches debug information.
pub(crate) struct Fetcher {
    settings: Settings,
    check: CheckBuild,
    #[cfg(feature = "debuginfod")]
    client: super::client::Client,
    progress: OnProgress,
    /// Servers that did not answer, by number: they are not asked again.
    silent: Vec<usize>,
    /// Messages about what was wrong with servers, each once.
    pub(crate) problems: Vec<String>,
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Fetcher {
    /// Asks the servers that the environment names. What `check` refuses is neither used nor kept.
    ///
    /// # Errors
    ///
    /// When it names none, or this program was built without asking any.
    pub(crate) fn of_environment(check: CheckBuild, progress: OnProgress) -> Result<Self, Failure> {
        #[cfg(not(feature = "debuginfod"))]
        {
            use crate::base::failure::status;
            let _ = (check, progress);
            Err(Failure::new(status::FAILED, "this prof was built without --debuginfod").hint(
                "build it with the feature `debuginfod`, or put debug files into a folder: --debug-dir DIR",
            ))
        }
        #[cfg(feature = "debuginfod")]
        Ok(Self::new(Settings::of_environment()?, check, progress))
    }

    #[cfg(feature = "debuginfod")]
    pub(super) fn new(settings: Settings, check: CheckBuild, progress: OnProgress) -> Self {
        let client = super::client::Client::new(&settings);
        Fetcher { settings, check, client, progress, silent: Vec::new(), problems: Vec::new() }
    }

    /// The debug file of a build, and where it is kept. `name` is what it is called while it is fetched.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(crate) fn debug_file(&mut self, build_id: &[u8], name: &str) -> Result<(File, PathBuf), String> {
        let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        if build_id.len() < 2 {
            return Err("it has no build ID to ask for".to_owned());
        }
        let mut refused = None;
        if let Some(folder) = &self.settings.cache {
            match asked_cache::look(folder, &hex) {
                Cached::File(file, path) => match (self.check)(&file, build_id) {
                    Ok(()) => return Ok((file, path)),
                    // The servers may have the right one, which takes its place.
                    Err(why) => refused = Some(format!("{}: {why}", path.display())),
                },
                Cached::Miss => return Err("no debuginfod server has it".to_owned()),
                Cached::Unknown => {}
            }
        }
        let asked = self.ask_servers(build_id, &hex, name);
        asked.map_err(|why| refused.map_or(why.clone(), |refused| format!("{refused}; {why}")))
    }

    #[cfg(not(feature = "debuginfod"))]
    fn ask_servers(&mut self, _: &[u8], _: &str, _: &str) -> Result<(File, PathBuf), String> {
        let _ = (&self.progress, &self.silent, &self.settings.servers);
        Err("this prof asks no servers".to_owned())
    }

    #[cfg(feature = "debuginfod")]
    fn ask_servers(&mut self, build_id: &[u8], hex: &str, name: &str) -> Result<(File, PathBuf), String> {
        use super::client::Reply;
        let mut why = None;
        for (number, server) in self.settings.servers.iter().enumerate() {
            if self.silent.contains(&number) {
                why = Some(format!("{server} did not answer"));
                continue;
            }
            let cannot = |error: std::io::Error| format!("no file can be made for it: {error}");
            let mut unnamed = asked_cache::make(self.settings.cache.as_deref(), hex).map_err(cannot)?;
            let url = format!("{server}/buildid/{hex}/debuginfo");
            let progress = |bytes, total| (self.progress)(name, bytes, total);
            match self.client.get(&url, &mut unnamed.file, &progress) {
                // Without its name in the cache, a wrong file is gone when it is closed.
                Reply::Whole => match (self.check)(&unnamed.file, build_id) {
                    Ok(()) => {
                        let path = asked_cache::keep(&unnamed, hex);
                        return Ok((unnamed.file, path.unwrap_or_else(|| PathBuf::from(url))));
                    }
                    Err(refusal) => why = Some(format!("{url}: {refusal}")),
                },
                Reply::NotThere => {}
                Reply::TooLarge(bytes) => {
                    let (size, limit) = (bytes >> 20, self.settings.largest >> 20);
                    why = Some(format!("it is too large, {size} MB of at most {limit} (DEBUGINFOD_MAXSIZE)"));
                }
                Reply::Failed(error) => {
                    self.silent.push(number);
                    self.problems.push(format!("{server}: {error}"));
                    why = Some(format!("{server} did not answer"));
                }
            }
        }
        match why {
            Some(why) => Err(why),
            None => {
                if let Some(folder) = &self.settings.cache {
                    asked_cache::note_miss(folder, hex);
                }
                Err("no debuginfod server has it".to_owned())
            }
        }
    }
}

#[cfg(all(test, feature = "debuginfod"))]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Seek, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// A server that answers each question by `answer`, and the paths that it was asked for.
    fn serve(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut lines = BufReader::new(stream.try_clone().expect("a second handle")).lines();
                let first = lines.next().expect("a request").expect("text");
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let path = first.split(' ').nth(1).expect("a path").to_owned();
                seen.lock().expect("no panic").push(path.clone());
                answer(&path, &mut stream);
            }
        });
        (address, asked)
    }

    fn reply(stream: &mut TcpStream, head: &str, body: &[u8]) {
        // The client may have hung up.
        let _ = stream.write_all(format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n").as_bytes());
        let _ = stream.write_all(body);
    }

    fn settings(servers: &[&str], cache: &std::path::Path) -> Settings {
        Settings {
            servers: servers.iter().map(|server| (*server).to_owned()).collect(),
            cache: Some(cache.to_owned()),
            patience: Duration::from_secs(60),
            longest: Duration::from_secs(60),
            largest: 1 << 20,
        }
    }

    fn text_of(found: Result<(File, PathBuf), String>) -> String {
        let (mut file, _) = found.expect("it is there");
        file.rewind().expect("a file");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("text");
        text
    }

    #[test]
    fn what_a_server_has_is_had_once_and_kept_for_all_clients() {
        let cache = tempfile::tempdir().expect("a folder");
        let (empty, empty_asked) = serve(|_, stream| reply(stream, "404 Not Found", b""));
        let (full, full_asked) = serve(|path, stream| match path {
            "/buildid/abcd/debuginfo" => reply(stream, "200 OK\r\nContent-Length: 5", b"names"),
            _ => reply(stream, "404 Not Found", b""),
        });
        let steps = Arc::<Mutex<Vec<(u64, Option<u64>)>>>::default();
        let noted = Arc::clone(&steps);
        let progress: OnProgress = Box::new(move |name, bytes, total| {
            assert_eq!(name, "libx.so");
            noted.lock().expect("no panic").push((bytes, total));
        });
        let mut fetcher = Fetcher::new(settings(&[&empty, &full], cache.path()), |_, _| Ok(()), progress);
        assert_eq!(text_of(fetcher.debug_file(&[0xab, 0xcd], "libx.so")), "names");
        let kept = cache.path().join("abcd/debuginfo");
        assert_eq!(std::fs::read_to_string(&kept).expect("kept"), "names");
        assert_eq!(*steps.lock().expect("no panic"), [(0, Some(5)), (5, Some(5))]);
        let (_, path) = fetcher.debug_file(&[0xab, 0xcd], "libx.so").expect("it is in the cache");
        assert_eq!((path, full_asked.lock().expect("no panic").len()), (kept, 1), "asked once");

        for _ in 0..2 {
            let why = fetcher.debug_file(&[1, 2], "libx.so").expect_err("no one has it");
            assert_eq!(why, "no debuginfod server has it");
        }
        assert_eq!(empty_asked.lock().expect("no panic").len(), 2, "that no one has it is remembered");
        assert_eq!(std::fs::metadata(cache.path().join("0102/debuginfo")).expect("a mark").len(), 0);
    }

    /// Regression: a wrong file got its name in the cache that all clients share, and was refused for ever.
    #[test]
    fn a_file_of_another_build_is_not_kept() {
        let check: CheckBuild = |mut file, _| {
            let mut text = String::new();
            file.rewind().map_err(|error| error.to_string())?;
            file.read_to_string(&mut text).map_err(|error| error.to_string())?;
            if text == "right" { Ok(()) } else { Err("it is of another build".to_owned()) }
        };
        let cache = tempfile::tempdir().expect("a folder");
        let whole = |text: &'static str| {
            serve(move |_, stream| {
                reply(stream, &format!("200 OK\r\nContent-Length: {}", text.len()), text.as_bytes());
            })
        };
        let ((wrong, _), (right, _)) = (whole("wrong"), whole("right"));
        let kept = cache.path().join("0a0b/debuginfo");
        let mut fetcher = Fetcher::new(settings(&[&wrong], cache.path()), check, Box::new(|_, _, _| {}));
        let why = fetcher.debug_file(&[10, 11], "x").expect_err("it is refused");
        assert_eq!(why, format!("{wrong}/buildid/0a0b/debuginfo: it is of another build"));
        assert!(!kept.exists(), "neither the file nor that there is none");

        // A wrong file that another client has put there is replaced.
        std::fs::create_dir_all(cache.path().join("0a0b")).expect("a folder");
        std::fs::write(&kept, "wrong").expect("written");
        let why = fetcher.debug_file(&[10, 11], "x").expect_err("both are refused");
        assert!(why.starts_with(&format!("{}: it is of another build; ", kept.display())), "{why}");
        let servers = settings(&[&wrong, &right], cache.path());
        let mut fetcher = Fetcher::new(servers, check, Box::new(|_, _, _| {}));
        assert_eq!(text_of(fetcher.debug_file(&[10, 11], "x")), "right");
        assert_eq!(std::fs::read_to_string(&kept).expect("kept"), "right");
    }

    #[test]
    fn a_server_that_fails_is_not_asked_again_and_nothing_half_is_kept() {
        let cache = tempfile::tempdir().expect("a folder");
        let (cut, asked) = serve(|_, stream| reply(stream, "200 OK\r\nContent-Length: 50", b"names"));
        let mut fetcher =
            Fetcher::new(settings(&[&cut], cache.path()), |_, _| Ok(()), Box::new(|_, _, _| {}));
        for build_id in [[1, 2], [3, 4]] {
            let why = fetcher.debug_file(&build_id, "x").expect_err("it is cut");
            assert_eq!(why, format!("{cut} did not answer"));
        }
        assert_eq!((asked.lock().expect("no panic").len(), fetcher.problems.len()), (1, 1));
        assert!(!cache.path().join("0102/debuginfo").exists());
    }

    #[test]
    fn what_is_too_large_is_left_where_it_is() {
        let cache = tempfile::tempdir().expect("a folder");
        let (said, _) = serve(|_, stream| reply(stream, "200 OK\r\nContent-Length: 99000000", b"x"));
        let (endless, _) = serve(|_, stream| {
            reply(stream, "200 OK", b"");
            while stream.write_all(&[7; 4096]).is_ok() {}
        });
        for server in [said, endless] {
            let mut fetcher =
                Fetcher::new(settings(&[&server], cache.path()), |_, _| Ok(()), Box::new(|_, _, _| {}));
            let why = fetcher.debug_file(&[5, 6], "x").expect_err("it is too large");
            assert!(why.contains("too large") && why.contains("DEBUGINFOD_MAXSIZE"), "{why}");
            assert!(!cache.path().join("0506/debuginfo").exists());
        }
    }

    /// Detail 13 of the promises: the network is used on request, and no server is waited for.
    #[test]
    fn a_server_that_says_nothing_is_not_waited_for() {
        let cache = tempfile::tempdir().expect("a folder");
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Mutex::new(held);
        let (silent, _) = serve(move |_, _| assert!(held.lock().expect("no panic").recv().is_err()));
        let patience = Duration::from_millis(200);
        let settings = Settings { patience, ..settings(&[&silent], cache.path()) };
        let mut fetcher = Fetcher::new(settings, |_, _| Ok(()), Box::new(|_, _, _| {}));
        let why = fetcher.debug_file(&[7, 8], "x").expect_err("no answer");
        assert_eq!(why, format!("{silent} did not answer"));
        drop(release);
    }
}
